"""The printed schemas: valid JSON Schema, true to what the decoder and the tables take, and described throughout."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import jsonschema
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations import events
from trajlake.expectations.compatibility import describe
from trajlake.expectations.examples import EVENT_EXAMPLES
from trajlake.expectations.jsonschema import CODES, CONTRACTS, contract_schema, event_schema, table_schema
from trajlake.expectations.tables import TABLES
from trajlake.expectations.taxonomy import OutcomeClass

EVENT_VALIDATOR = jsonschema.Draft202012Validator(event_schema())
DECODER = msgspec.json.Decoder(events.Event)
ROW_TABLES = [name for name in TABLES if name != "events"]


def decodes(event: Any) -> bool:
    try:
        DECODER.decode(json.dumps(event).encode())
    except msgspec.DecodeError:
        return False
    return True


def changed(event: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of an event with one value set, or taken out where `value` is `...`."""
    event = copy.deepcopy(event)
    *parents, last = path.split(".")
    place = event
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return event


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_contract_is_valid_json_schema_of_2020_12(name: str) -> None:
    schema = contract_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]


def test_there_is_an_example_of_every_event_type() -> None:
    assert set(EVENT_EXAMPLES) == set(events.EVENT_TYPES)


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
def test_the_example_of_a_type_passes_the_schema_and_the_decoder(kind: str) -> None:
    EVENT_VALIDATOR.validate(EVENT_EXAMPLES[kind])
    decoded = DECODER.decode(json.dumps(EVENT_EXAMPLES[kind]).encode())
    assert type(decoded) is events.EVENT_TYPES[kind]


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("agent.tool.returned", "data.tool_call_id", ...),
        ("agent.tool.returned", "data.exit_code", "1"),
        ("agent.tool.returned", "data.is_error", "yes"),
        ("agent.model.responded", "sequence", 0),
        ("agent.model.responded", "sequence", ...),
        ("agent.model.responded", "data.usage.input_tokens", -1),
        ("agent.model.responded", "data.tool_calls", {}),
        ("agent.model.responded", "data.http_status", 42),
        ("agent.run.ended", "data.end_state", "done"),
        ("agent.run.ended", "tenantid", ""),
        ("agent.run.ended", "id", "x" * 513),
        ("agent.run.ended", "runid", ...),
        ("agent.reward.assigned", "data.annotator_kind", "robot"),
        ("agent.reward.assigned", "data.score", "1"),
        ("agent.consent.changed", "data.state", None),
        ("agent.run.started", "specversion", "0.3"),
        ("agent.run.started", "type", "agent.run.paused"),
        ("trajlake.tick", "data.close_idle_after_us", 1.5),
    ],
)
def test_a_bad_event_fails_the_schema_and_the_decoder(kind: str, path: str, value: Any) -> None:
    bad = changed(EVENT_EXAMPLES[kind], path, value)
    assert not EVENT_VALIDATOR.is_valid(bad)
    assert not decodes(bad)


def test_unknown_fields_are_legal_at_every_level() -> None:
    event = changed(EVENT_EXAMPLES["agent.model.responded"], "data.usage.audio_tokens", 3)
    event = changed(changed(event, "data.mood", "fine"), "region", "eu-1")
    assert EVENT_VALIDATOR.is_valid(event)
    assert decodes(event)


def paths_of(value: Any, prefix: str = "") -> Iterator[str]:
    for name, member in value.items():
        yield prefix + name
        if isinstance(member, dict):
            yield from paths_of(member, f"{prefix}{name}.")


SPOTS = [
    (kind, path)
    for kind, event in EVENT_EXAMPLES.items()
    for path in paths_of(event)
    if path.rpartition(".")[2] not in ("time", "effective_at", "expires_at")  # a format, which schemas only annotate
]
VALUES = st.one_of(
    st.just(...), st.none(), st.booleans(), st.integers(-2, 3), st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4), st.text(min_size=1030, max_size=1030),
    st.just([]), st.just({}), st.just([{}]), st.just(["x"]), st.just("allow"),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SPOTS), VALUES)
def test_schema_and_decoder_agree_on_any_change_of_an_event(spot: tuple[str, str], value: Any) -> None:
    kind, path = spot
    event = changed(EVENT_EXAMPLES[kind], path, value)
    if isinstance(value, float) and value.is_integer():
        return  # 1.0 is an integer to JSON Schema and none to the decoder
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return  # integers beyond 64 bits are legal JSON, and out of range here
    assert EVENT_VALIDATOR.is_valid(event) == decodes(event), (kind, path, value)


def filled(kind: pa.DataType, path: str) -> Any:
    """Some value of an Arrow type, as JSON has it."""
    if path in CODES:
        return next(iter(CODES[path]()))
    if pa.types.is_list(kind):
        return [filled(kind.value_type, path + "[]")]
    if pa.types.is_struct(kind):
        return {f.name: filled(f.type, f"{path}.{f.name}") for f in (kind.field(i) for i in range(kind.num_fields))}
    if pa.types.is_timestamp(kind):
        return datetime(2026, 5, 4, 9, 30, tzinfo=UTC).isoformat()
    return (
        True if pa.types.is_boolean(kind) else 3 if pa.types.is_integer(kind) else 0.5 if kind == pa.float64() else "x"
    )


def row_of(table: str) -> dict[str, Any]:
    return {column.name: filled(column.type, f"{table}.{column.name}") for column in TABLES[table].columns}


@pytest.mark.parametrize("table", ROW_TABLES)
def test_a_row_of_a_table_passes_its_schema_whole_and_with_all_nullable_columns_null(table: str) -> None:
    validator = jsonschema.Draft202012Validator(table_schema(table))
    row = row_of(table)
    validator.validate(row)
    nullable = [column.name for column in TABLES[table].columns if column.nullable]
    validator.validate(row | dict.fromkeys(nullable))
    validator.validate({name: value for name, value in row.items() if name not in nullable})


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("steps", "step_id", None),
        ("steps", "step_index", 2**31),
        ("steps", "outcome_class", "broken"),
        ("steps", "tool_calls", [{"tool_call_id": 1}]),
        ("runs", "end_state", "done"),
        ("runs", "gaps", [{"code": "no_such_gap"}]),
        ("rewards", "score", "1"),
        ("quarantine", "reason_code", "disliked"),
        ("gaps", "code", None),
    ],
)
def test_a_bad_row_fails_its_schema(table: str, column: str, value: Any) -> None:
    assert not jsonschema.Draft202012Validator(table_schema(table)).is_valid(row_of(table) | {column: value})


@pytest.mark.parametrize(
    ("outcome_class", "kind", "valid"),
    [
        ("success", None, True),
        ("quota", "rate_limit", True),
        ("quota", "wrong_answer", False),
        ("quota", None, False),
        ("success", "rate_limit", False),
        ("luck", None, False),
    ],
)
def test_an_outcome_is_a_class_with_a_kind_of_its_own(outcome_class: str, kind: str | None, valid: bool) -> None:
    validator = jsonschema.Draft202012Validator(contract_schema("outcomes"))
    assert validator.is_valid({"outcome_class": outcome_class, "failure_kind": kind}) is valid
    assert len(contract_schema("outcomes")["oneOf"]) == len(OutcomeClass)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_field_says_what_it_means(name: str) -> None:
    silent = [
        path
        for path, facts in describe(name)["fields"].items()
        if not facts["meaning"] and "[]" not in path and not path.endswith(".data")
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("name", "path", "unit"),
    [
        ("events", "agent.model.responded.data.latency_ms", "ms"),
        ("events", "agent.model.responded.data.usage.input_tokens", "tokens"),
        ("events", "agent.model.responded.data.cost_usd", "USD"),
        ("steps", "steps.cost_usd", "USD"),
        ("steps", "steps.observations[].latency_ms", "ms"),
        ("runs", "runs.closed_at", "µs UTC"),
        ("quarantine", "quarantine.payload_bytes", "bytes"),
    ],
)
def test_numbers_and_times_carry_their_unit(name: str, path: str, unit: str) -> None:
    assert describe(name)["fields"][path]["unit"] == unit
