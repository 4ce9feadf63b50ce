"""The contract as JSON Schema 2020-12: events as they are published, and one row of every table.

Everything is derived: types from the declarations, descriptions from the docstrings below the fields, units from the
columns and from the fields' names. Unknown fields are legal in events, so no schema closes its objects.

Extra keywords: `x-unit` (unit of a number or time), `x-arrow-type` (type of a column in the Delta table).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, get_args

import msgspec
import pyarrow as pa

from trajlake.expectations import events
from trajlake.expectations.examples import EVENT_EXAMPLES
from trajlake.expectations.failure_rules import rule_table
from trajlake.expectations.field_docs import field_docs
from trajlake.expectations.reasons import Cause, Exclusion, Gap, LogGap, PolicyReason, Publication, Reason, Stage
from trajlake.expectations.tables import TABLES, Column, Table
from trajlake.expectations.taxonomy import FailureKind, OutcomeClass

Schema = dict[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
CONTRACT_VERSION: Final = "1.2"
"""Major: a reader or producer that knew the one before may break. Minor: reworded, or more than before."""

_UNITS: Final = {
    "_ms": "ms",
    "_usd": "USD",
    "_us": "µs since the Unix epoch, UTC",
    "_after_us": "µs",
    "_tokens": "tokens",
    "tokens_before": "tokens",
    "tokens_after": "tokens",
}


def event_schema() -> Schema:
    """Schema of a whole event: CloudEvents attributes and `data`, told apart by `type`."""
    (root,), components = msgspec.json.schema_components([events.Event], ref_template="#/$defs/{name}")
    kinds = {name.removeprefix("#/$defs/"): kind for kind, name in root["discriminator"]["mapping"].items()}
    for name, definition in components.items():
        _describe(definition, getattr(events, name))
        if name in kinds:
            definition["properties"]["type"] = {"const": kinds[name], "description": "CloudEvents type."}
            definition["properties"]["specversion"] = {"const": "1.0", "description": "CloudEvents version."}
            definition["description"] = _data_doc(name)
            definition["examples"] = [EVENT_EXAMPLES[kinds[name]]]
    return {
        "$schema": DIALECT,
        "$id": f"urn:trajlake:contract:events:{CONTRACT_VERSION}",
        "title": "events",
        "description": "One audit event of an agent, a CloudEvents 1.0 event in JSON. Types that are not listed here "
        "are kept in the ledger and ignored by assembly.",
        "oneOf": root["anyOf"],
        "discriminator": root["discriminator"],
        "$defs": components,
    }


def _data_doc(name: str) -> str:
    """What an event type says of itself: the first docstring of its payload."""
    return _one_line(getattr(events, name.removesuffix("Event")).__doc__ or "")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _describe(definition: Schema, cls: type) -> None:
    """Put the fields' docstrings and units into a component."""
    docs = field_docs(cls)
    if "description" in definition:
        definition["description"] = _one_line(definition["description"])
    for name, prop in definition.get("properties", {}).items():
        if name in docs:
            prop["description"] = docs[name]
        for suffix, unit in _UNITS.items():
            if name.endswith(suffix):
                prop["x-unit"] = unit


def table_schema(name: str) -> Schema:
    """Schema of one row of a table as JSON: times as RFC 3339 text, lists as arrays. `KeyError` for unknown tables."""
    table = TABLES[name]
    return {
        "$schema": DIALECT,
        "$id": f"urn:trajlake:contract:{name}:{CONTRACT_VERSION}",
        "title": name,
        "description": table.doc,
        "type": "object",
        "properties": {column.name: _column_schema(table, column) for column in table.columns},
        "required": [column.name for column in table.columns if not column.nullable],
    }


def _column_schema(table: Table, column: Column) -> Schema:
    schema = _arrow_schema(column.type, f"{table.name}.{column.name}")
    if column.nullable:
        schema = _nullable(schema)
    schema["description"] = column.doc
    if column.unit is not None:
        schema["x-unit"] = column.unit
    schema["x-arrow-type"] = str(column.type)
    return schema


def _nullable(schema: Schema) -> Schema:
    if "oneOf" in schema:
        return {"oneOf": [*schema["oneOf"], {"type": "null"}]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def _arrow_schema(kind: pa.DataType, path: str) -> Schema:
    if path in CODES:
        return {"oneOf": [_code(code, meaning) for code, meaning in CODES[path]().items()]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _arrow_schema(kind.value_type, path + "[]")}
    if pa.types.is_struct(kind):
        members = [kind.field(place) for place in range(kind.num_fields)]
        return {
            "type": "object",
            "properties": {member.name: _member(member, path) for member in members},
            "required": [member.name for member in members if not member.nullable],
        }
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        return {"type": "integer", "minimum": -(2**bits), "maximum": 2**bits - 1}
    return {"type": "number"} if pa.types.is_floating(kind) else {"type": "string"}


def _member(member: pa.Field, path: str) -> Schema:
    schema = _arrow_schema(member.type, f"{path}.{member.name}")
    schema = _nullable(schema) if member.nullable else schema
    for suffix, unit in _UNITS.items():
        if member.name.endswith(suffix):
            schema["x-unit"] = unit
    schema["x-arrow-type"] = str(member.type)
    return schema


def _code(code: str, meaning: str) -> Schema:
    return {"const": code, "description": meaning} if meaning else {"const": code}


def _members(codes: type[StrEnum]) -> dict[str, str]:
    docs = field_docs(codes)
    return {member.value: docs.get(member.name, "") for member in codes}


def outcome_classes() -> dict[str, str]:
    """Outcome class -> meaning."""
    table = rule_table()
    return {name.value: table.classes[name].meaning for name in OutcomeClass}


def failure_kinds() -> dict[str, str]:
    """Failure kind -> meaning."""
    table = rule_table()
    return {name.value: table.kinds[name] for name in FailureKind}


CODES: Final[Mapping[str, Callable[[], dict[str, str]]]] = {
    "steps.outcome_class": outcome_classes,
    "steps.failure_kind": failure_kinds,
    "steps.gaps[].code": lambda: _members(Gap),
    "runs.outcome_class": outcome_classes,
    "runs.failure_kind": failure_kinds,
    "runs.gaps[].code": lambda: _members(Gap),
    "runs.end_state": lambda: dict.fromkeys(get_args(events.EndState), ""),
    "rewards.annotator_kind": lambda: dict.fromkeys(get_args(events.AnnotatorKind), ""),
    "quarantine.reason_code": lambda: _members(Reason),
    "quarantine.stage": lambda: _members(Stage),
    "gaps.code": lambda: _members(LogGap),
    "curation.verdict": lambda: _members(Publication),
    "curation.cause": lambda: _members(Cause),
    "curation.reasons[].code": lambda: _members(Exclusion) | _members(PolicyReason),
    "publications.cause": lambda: _members(Cause),
    "policy_decisions.reasons[].code": lambda: _members(PolicyReason),
}
"""Columns that hold a code of a closed set: path -> code -> meaning. Readers must allow for codes that come later."""


def outcome_schema() -> Schema:
    """Schema of an outcome: which failure kinds belong to which class."""
    table = rule_table()
    return {
        "$schema": DIALECT,
        "$id": f"urn:trajlake:contract:outcomes:{CONTRACT_VERSION}",
        "title": "outcomes",
        "description": "Outcome of a step or a run: its class, and the kind within the class.",
        "type": "object",
        "required": ["outcome_class", "failure_kind"],
        "oneOf": [
            {
                "description": entry.meaning,
                "properties": {
                    "outcome_class": {"const": name.value},
                    "failure_kind": {"oneOf": [_code(kind.value, table.kinds[kind]) for kind in entry.kinds]}
                    if entry.kinds
                    else {"type": "null"},
                },
            }
            for name, entry in table.classes.items()
        ],
    }


CONTRACTS: Final[dict[str, str]] = {
    "events": "what agents publish: one CloudEvents event",
    "events_table": TABLES["events"].doc,
    **{name: table.doc for name, table in TABLES.items() if name != "events"},
    "outcomes": "outcome classes and the failure kinds within each",
}
"""Names that `contract_schema` knows, with what each is."""


def contract_schema(name: str) -> Schema:
    """Schema by its name in `CONTRACTS`. `KeyError` for other names."""
    if name == "events":
        return event_schema()
    if name == "outcomes":
        return outcome_schema()
    return table_schema("events" if name == "events_table" else name)
