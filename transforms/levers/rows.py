"""Decisions as rows of the `decisions` table, and back. Position columns are the log's, and not part of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from trajlake.expectations.outcomes import Decision, Evidence, Position, Rejection

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES: Final[Mapping[str, str]] = {"as_of_us": "as_of", "expires_us": "expires_at", "made_us": "made_at"}
"""Field -> column, where they differ."""
_LISTS: Final[Mapping[str, type[Any]]] = {"rejected": Rejection, "evidence": Evidence, "positions": Position}


def decision_row(decision: Decision) -> dict[str, Any]:
    """The columns of a decision, without `topic`, `partition` and `offset`. Times are datetimes, UTC."""
    row: dict[str, Any] = {}
    for name in Decision.__struct_fields__:
        value = getattr(decision, name)
        if name in _TIMES:
            row[_TIMES[name]] = _EPOCH + timedelta(microseconds=value)
        elif name in _LISTS:
            row[name] = [msgspec.structs.asdict(each) for each in value]
        elif name == "inputs":
            row[name] = bytes(value).decode()
        elif name == "table_versions":
            row[name] = [{"name": table, "version": version} for table, version in sorted(value.items())]
        else:
            row[name] = value
    return row


def decision_of_row(row: Mapping[str, Any]) -> Decision:
    """The decision that a row holds. Raises ValueError naming the column that does not fit."""
    given: dict[str, Any] = {}
    for name in Decision.__struct_fields__:
        value = row.get(_TIMES.get(name, name))
        if value is None:
            continue
        if name in _TIMES:
            given[name] = (value - _EPOCH) // timedelta(microseconds=1)
        elif name == "inputs":
            given[name] = msgspec.Raw(value.encode())
        elif name == "table_versions":
            given[name] = {each["name"]: each["version"] for each in value}
        elif name in _LISTS:
            given[name] = [msgspec.convert(each, _LISTS[name]) for each in value]
        else:
            given[name] = value
    inputs = given.pop("inputs", msgspec.Raw(b"null"))
    decision = msgspec.convert(given, Decision)
    decision.inputs = inputs
    return decision
