"""Binary mode: headers and value become one structured event, or an error that names the header and shows no value."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.expectations.errors import BinaryModeError, EventError, TrajlakeError
from trajlake.expectations.reasons import Reason
from trajlake.transforms.decode.binary_mode import is_binary_mode, structured_from_binary

BASE: list[tuple[str, bytes | None]] = [
    ("ce_specversion", b"1.0"), ("ce_id", b"e1"), ("ce_source", b"tests"), ("ce_type", b"agent.run.started"),
    ("ce_tenantid", b"acme"), ("ce_runid", b"r1"), ("ce_sequence", b"1"),
]  # fmt: skip


def test_attributes_and_data_become_one_compact_object() -> None:
    structured = structured_from_binary([*BASE, ("trace", b"x")], b' { "task_id" : "t" } ')
    assert structured == (
        b'{"specversion":"1.0","id":"e1","source":"tests","type":"agent.run.started","tenantid":"acme","runid":"r1",'
        b'"sequence":1,"data":{"task_id":"t"}}'
    )


def test_header_names_may_be_in_any_case() -> None:
    assert json.loads(structured_from_binary([("CE_Id", b"1"), ("Content-Type", b"application/json")], b"1")) == {
        "id": "1",
        "datacontenttype": "application/json",
        "data": 1,
    }


@pytest.mark.parametrize("value", [None, b""])
def test_an_empty_value_is_no_data(value: bytes | None) -> None:
    assert "data" not in json.loads(structured_from_binary(BASE, value))


@pytest.mark.parametrize("number", [b'{"big": 123456789012345678901234567890}', b'{"x": 1e400}', b'{"x": 0.10}'])
def test_numbers_are_kept_as_they_were_written(number: bytes) -> None:
    assert number.replace(b" ", b"") in structured_from_binary(BASE, number)


def test_a_repeated_key_in_the_data_is_left_for_the_event_decoder_to_see() -> None:
    assert structured_from_binary(BASE, b'{"a":1,"a":2}').endswith(b'"data":{"a":1,"a":2}}')


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"APPLICATION/JSON",
        b"text/json",
        b"application/vnd.acme+json",
        b"application/json; charset=UTF-8",
    ],
)
def test_json_media_types_are_known(content_type: bytes) -> None:
    event = json.loads(structured_from_binary([*BASE, ("content-type", content_type)], b'{"a":1}'))
    assert event["data"] == {"a": 1}


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/octet-stream", b"application/jsonl", b"json"])
def test_other_media_types_become_data_base64(content_type: bytes) -> None:
    event = json.loads(structured_from_binary([*BASE, ("content-type", content_type)], b'{"a":1}'))
    assert (event["data_base64"], "data" in event) == ("eyJhIjoxfQ==", False)


@pytest.mark.parametrize(
    ("headers", "value", "field", "reason"),
    [
        ([("ce_id", None)], b"{}", "ce_id", Reason.WRONG_TYPE),
        ([("ce_id", b"\xff")], b"{}", "ce_id", Reason.NOT_UTF8),
        ([("ce_id", b"a"), ("ce_id", b"b")], b"{}", "ce_id", Reason.DUPLICATE_KEY),
        ([("ce_id", b"a"), ("CE_ID", b"b")], b"{}", "CE_ID", Reason.DUPLICATE_KEY),
        ([("ce_tenant-id", b"a")], b"{}", "ce_tenant-id", Reason.NOT_AN_EVENT),
        ([("ce_", b"a")], b"{}", "ce_", Reason.NOT_AN_EVENT),
        ([("ce_data", b"{}")], b"{}", "ce_data", Reason.NOT_AN_EVENT),
        ([("ce_data_base64", b"aa")], b"{}", "ce_data_base64", Reason.NOT_AN_EVENT),
        ([("ce_datacontenttype", b"text/x"), ("content-type", b"text/y")], b"", "content-type", Reason.DUPLICATE_KEY),
        ([("ce_sequence", b"one")], b"{}", "ce_sequence", Reason.WRONG_TYPE),
        ([("ce_sequence", b"-1")], b"{}", "ce_sequence", Reason.WRONG_TYPE),
        ([("ce_sequence", b"1.0")], b"{}", "ce_sequence", Reason.WRONG_TYPE),
        ([("ce_sequence", "٣".encode())], b"{}", "ce_sequence", Reason.WRONG_TYPE),
        ([("ce_sequence", b"9" * 19)], b"{}", "ce_sequence", Reason.WRONG_TYPE),
        ([("content-type", b"application/json")], b"{}", "ce_*", Reason.NOT_AN_EVENT),
        ([], b"{}", "ce_*", Reason.NOT_AN_EVENT),
        (BASE, b"{", "data", Reason.MALFORMED_JSON),
        (BASE, b'{"a": NaN}', "data", Reason.MALFORMED_JSON),
        (BASE, b'1},"tenantid":"other","x":{"a":1', "data", Reason.MALFORMED_JSON),
        (BASE, b'{"a": "\xff"}', "data", Reason.NOT_UTF8),
        (BASE, b"[" * 20_000 + b"]" * 20_000, "data", Reason.TOO_DEEP),
        ([*BASE, ("content-type", b"application/json; charset=utf-16")], b"{}", "content-type", Reason.NOT_UTF8),
    ],
)
def test_L10_a_bad_binary_event_is_refused_with_the_header_and_a_reason(
    headers: list[tuple[str, bytes | None]], value: bytes, field: str, reason: Reason
) -> None:
    with pytest.raises(BinaryModeError) as refused:
        structured_from_binary(headers, value)
    assert (refused.value.field, refused.value.reason) == (field, reason)
    assert isinstance(refused.value, (EventError, TrajlakeError, ValueError))


def test_an_error_shows_no_value_and_no_long_name() -> None:
    secret = "tok" + "en-of-a-tenant"
    for headers in ([("ce_sequence", secret.encode())], [*BASE, ("ce_" + "x" * 500 + "-", secret.encode())]):
        with pytest.raises(BinaryModeError) as refused:
            structured_from_binary(headers, secret.encode())
        assert secret not in str(refused.value)
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("headers", "binary"),
    [
        (None, False),
        ([], False),
        ([("content-type", b"application/json")], False),
        (BASE, True),
        ([*BASE, ("content-type", b"application/cloudevents+json; charset=utf-8")], False),
        ([*BASE, ("content-type", None)], True),
    ],
)
def test_the_mode_is_told_by_the_headers(headers: list[tuple[str, bytes | None]] | None, binary: bool) -> None:
    assert is_binary_mode(headers) is binary


headers_of_any_kind = st.lists(
    st.tuples(
        st.sampled_from(["ce_id", "ce_type", "ce_sequence", "content-type", "ce_data"]) | st.text(max_size=8),
        st.none() | st.binary(max_size=8) | st.sampled_from([b"application/json", b"1", b"text/plain"]),
    ),
    max_size=6,
)


@given(headers_of_any_kind, st.none() | st.binary(max_size=30) | st.sampled_from([b"{}", b"[1]", b'"x"']))
def test_any_headers_and_value_give_one_json_object_or_a_named_error(
    headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    try:
        structured = structured_from_binary(headers, value)
    except BinaryModeError:
        return
    event = msgspec.json.decode(structured, type=dict[str, object])
    assert b"\n" not in structured
    assert len(event) == len(json.loads(structured, object_pairs_hook=list))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from([None, 1, 4]))
def test_json_data_round_trips_through_binary_mode(value: object, indent: int | None) -> None:
    written = json.dumps(value, indent=indent).encode()
    assert json.loads(structured_from_binary(BASE, written))["data"] == value
