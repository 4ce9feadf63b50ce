"""Envelopes: canonical, decodable, and never in the way, whatever the agent's values are."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.events import EVENT_TYPES, Event, Usage
from trajlake.streams.publish.envelope import (
    MAX_TEXT_CHARS,
    UNFIT,
    Stamp,
    finish,
    fit_data,
    format_ns,
    format_time,
    new_id,
    to_json,
)


class Colour(enum.Enum):
    RED = "red"


class Refusing:
    """An object that raises at every question."""

    def __repr__(self) -> str:
        raise RuntimeError("secret in a message")

    def model_dump(self, **options: Any) -> None:
        raise RuntimeError("secret in a message")


@dataclasses.dataclass
class Point:
    x: int
    y: Any


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()))
    | st.binary()
    | st.datetimes()
    | st.uuids()
    | st.decimals()
    | st.complex_numbers()
    | st.sampled_from([Colour.RED, object(), threading.Lock(), Path("/a"), ValueError("x"), Usage(1, 2), ...])
    | st.builds(Refusing),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.text(), max_size=3)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.binary(), inner, max_size=4)
        | st.builds(Point, st.integers(), inner)
    ),
    max_leaves=12,
)


def is_canonical(encoded: bytes) -> bool:
    return orjson.dumps(orjson.loads(encoded)) == encoded


@given(JSON)
def test_json_values_stay_as_they_are(value: Any) -> None:
    encoded, _ = to_json(value)
    assert is_canonical(encoded)
    assert orjson.loads(encoded) == orjson.loads(json.dumps(_without_nan(value)))


@given(ANYTHING)
@settings(max_examples=300)
def test_any_value_becomes_canonical_json(value: Any) -> None:
    encoded, _ = to_json({"value": value})
    assert is_canonical(encoded)


FIELDS = sorted(
    {
        field.name
        for event in EVENT_TYPES.values()
        for data in msgspec.structs.fields(event)
        if data.name == "data"
        for field in msgspec.structs.fields(data.type)
    }
)


REQUIRED: dict[str, dict[str, Any]] = {
    "agent.tool.called": {"tool_call_id": "c"},
    "agent.tool.returned": {"tool_call_id": "c"},
    "agent.policy.decided": {"policy_id": "p", "verdict": "allow"},
    "agent.reward.assigned": {"annotator_kind": "code"},
    "agent.run.ended": {"end_state": "failed"},
    "agent.consent.changed": {"subject_id": "s", "purpose": "p", "state": "granted"},
    "agent.lever.applied": {"lever": "prompt"},
    "trajlake.reclassify": {"classifier_revision": "r", "first_offset": 0, "offset": 1, "revision": 0, "seen": 1},
    "trajlake.tick": {"close_idle_after_us": 0, "release_held_after_us": 0, "forget_closed_after_us": 0},
}


@given(st.sampled_from(sorted(EVENT_TYPES)), st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=5))
@settings(max_examples=300, deadline=None)
def test_what_does_not_fit_the_contract_does_not_keep_the_rest_from_landing(kind: str, data: dict[str, Any]) -> None:
    encoded, _ = to_json({**data, **REQUIRED.get(kind, {})})
    stamp = Stamp(source="urn:test", tenant_id="acme", run_id="r", nonce="n")
    event, _ = finish((stamp, kind, 1, None, 0), encoded)
    assert is_canonical(event)
    msgspec.json.decode(event, type=Event)


def test_an_unfit_value_is_set_apart_and_kept() -> None:
    encoded, notes = fit_data("agent.model.responded", to_json({"message": "hi", "logprobs": [0.5, math.nan]})[0])
    assert orjson.loads(encoded) == {"message": "hi", UNFIT: {"logprobs": [0.5, None]}}
    assert notes == ["logprobs"]


@pytest.mark.parametrize(
    ("field", "given_value", "landed"),
    [
        ("http_status", "429", 429),
        ("error_type", 17, "17"),
        ("cost_usd", "0.25", 0.25),
        ("retry_count", 2.0, 2),
        ("error_message", 2.0**64, "1.8446744073709552e+19"),
        ("model", "large", {"name": "large"}),
        ("is_copied_context", "true", None),
        ("error_type", "x" * 2000, "x" * 1023 + "…"),
    ],
)
def test_a_value_of_the_wrong_json_type_is_repaired_where_its_meaning_is_plain(
    field: str, given_value: Any, landed: Any
) -> None:
    data = orjson.loads(fit_data("agent.model.responded", to_json({field: given_value})[0])[0])
    if landed is None:
        assert data == {UNFIT: {field: given_value}}
    else:
        assert data[field] == landed


@pytest.mark.parametrize(
    "value",
    [b"\xff" * 100_000, [object()], {1, 2}, [Refusing()], Refusing(), 10**10_000, {10**400: 1}],
    ids=["bytes", "object", "set", "inside", "refusing", "huge number", "huge key"],
)
def test_text_for_what_json_cannot_hold_is_bounded(value: Any) -> None:
    encoded, _ = to_json(value)
    assert len(encoded) < 3 * MAX_TEXT_CHARS
    assert b"secret" not in encoded


def test_a_cycle_ends() -> None:
    loop: dict[str, Any] = {"name": "loop"}
    loop["self"] = [loop, loop]
    encoded, clean = to_json(loop)
    assert not clean
    assert orjson.loads(encoded)["name"] == "loop"


def test_depth_is_cut_and_the_rest_stays() -> None:
    deep: Any = "bottom"
    for _ in range(5_000):
        deep = [deep]
    assert orjson.loads(to_json({"deep": deep, "other": 1})[0])["other"] == 1


def test_keys_that_become_the_same_text_are_all_kept() -> None:
    encoded, _ = to_json({1: "int", "1": "text", None: 0})
    assert sorted(map(str, orjson.loads(encoded).values())) == ["0", "int", "text"]


def test_known_objects_keep_their_content() -> None:
    value = {
        "bytes": b"plain",
        "set": {2, 1},
        "path": Path("a/b"),
        "decimal": decimal.Decimal("1.50"),
        "uuid": uuid.UUID(int=7),
        "enum": Colour.RED,
        "point": Point(1, (2, 3)),
        "error": ValueError("bad"),
        "struct": Usage(input_tokens=3),
        "time": dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
    }
    assert orjson.loads(to_json(value)[0]) == {
        "bytes": "plain",
        "set": [1, 2],
        "path": "a/b",
        "decimal": "1.50",
        "uuid": "00000000-0000-0000-0000-000000000007",
        "enum": "red",
        "point": {"x": 1, "y": [2, 3]},
        "error": "ValueError: bad",
        "struct": {"input_tokens": 3},
        "time": "2026-01-02T03:04:05.000006+00:00",
    }


def test_a_pydantic_model_is_recorded_as_its_fields() -> None:
    import pydantic

    class Answer(pydantic.BaseModel):
        text: str
        at: dt.date

    encoded, _ = to_json({"answer": Answer(text="yes", at=dt.date(2026, 1, 2))})
    assert orjson.loads(encoded) == {"answer": {"text": "yes", "at": "2026-01-02"}}


def test_the_time_is_rfc_3339_in_utc_with_microseconds() -> None:
    text = format_ns(time.time_ns()).decode()
    moment = dt.datetime.fromisoformat(text)
    assert text.endswith("Z")
    assert len(text) == 27
    assert abs((dt.datetime.now(dt.UTC) - moment).total_seconds()) < 5


@given(st.datetimes(timezones=st.one_of(st.none(), st.timezones())).filter(lambda moment: 1 < moment.year < 9999))
def test_a_given_time_keeps_its_instant(moment: dt.datetime) -> None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    assert dt.datetime.fromisoformat(format_time(moment).decode()) == aware.astimezone(dt.UTC)


def test_ids_are_version_7_unique_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert {uuid.UUID(each).version for each in ids} == {7}
    assert {uuid.UUID(each).variant for each in ids} == {uuid.RFC_4122}
    assert [each[:13] for each in ids] == sorted(each[:13] for each in ids)


def test_the_cloudevents_package_reads_an_event() -> None:
    from cloudevents.core.bindings.kafka import KafkaMessage, from_structured_event

    stamp = Stamp(
        source="urn:agent:billing", tenant_id="acme", run_id="r-1", nonce="n", parent_run_id="r-0",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )  # fmt: skip
    value, _ = finish((stamp, "agent.run.ended", 3, None, 0), b'{"end_state":"completed"}')
    message = KafkaMessage({"content-type": b"application/cloudevents+json"}, b"acme/r-1", value)
    event = from_structured_event(message)
    assert event.get_type() == "agent.run.ended"
    assert event.get_id() == "n:3"
    assert event.get_source() == "urn:agent:billing"
    assert event.get_extension("parentrunid") == "r-0"
    assert event.get_data() == {"end_state": "completed"}


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return value
