"""The fast decoder builds an event from the parsed text; it has to be what a typed reading of the text gives."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest

from trajlake.expectations.events import EVENT_TYPES
from trajlake.transforms.decode.decoder import decode_fast, decode_typed

ENVELOPE = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "urn:agent:billing",
    "time": "2026-01-01T00:00:00.123456Z",
    "tenantid": "acme",
    "runid": "r-1",
    "sequence": 1,
}
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 200, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**63, 2**64 - 1,
    1.0, 200.0, 0.5, -0.0, 1e300, "", "x", "é", "1", "completed", "deny", "human", "2026-01-01T00:00:00Z",
    [], [1], [1, 2.0], ["a"], [None], {}, {"name": "n", "version": "1"}, {"name": 1}, {"input_tokens": 1.0},
    [{"tool_call_id": "c", "arguments": {"a": 1}}], [{"role": "user", "content": "c"}], [{"code": "c"}],
]  # fmt: skip


def typed(text: bytes) -> Any:
    try:
        return decode_typed(text)
    except msgspec.DecodeError:
        return None


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_any_value_of_any_field_is_read_as_a_typed_reading_would(kind: str) -> None:
    data = next((field.type for field in msgspec.structs.fields(EVENT_TYPES[kind]) if field.name == "data"), None)
    texts = [
        orjson.dumps({**ENVELOPE, "type": kind, "data": {name: value}})
        for name in getattr(data, "__struct_encode_fields__", ("name",))
        for value in VALUES
    ]
    texts += [
        orjson.dumps({**ENVELOPE, "type": kind, "data": {}, name: value})
        for name in (*ENVELOPE, "type", "data")
        for value in VALUES
        if name != "time"
    ]
    differ = [text for text in texts if repr(decode_fast(text)) != repr(typed(text))]
    assert differ == []


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"1", b"null", b'"x"', b"{}", b'{"type":[]}', b'{"type":{}}', b"[" * 2000]
)
def test_what_is_no_event_is_left_to_the_careful_path(text: bytes) -> None:
    assert decode_fast(text) is None
