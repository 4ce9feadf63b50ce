"""A small lake for tests of what reads tables: rows as mappings, the columns that a test does not name filled in."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import write_deltalake

from trajlake.expectations.outcomes import Decision
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake
from trajlake.transforms.levers.rows import decision_row

TENANT = "acme"
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
"""First day of 2026-W48."""


def write(root: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows to a table of the lake."""
    schema = TABLES[name].schema
    filled = [{field.name: row.get(field.name, _filler(field)) for field in schema} for row in rows]
    write_deltalake(Lake(str(root)).table_uri(name), pa.Table.from_pylist(filled, schema=schema), mode="append")


def run(number: int, skill: str, outcome: str, ended: datetime, **more: Any) -> dict[str, Any]:
    """One closed run."""
    return {
        "tenant_id": TENANT, "run_id": f"run-{number}", "topic": "t", "partition": 0, "offset": number,
        "first_offset": number, "skill_name": skill, "outcome_class": outcome, "ended_at": ended, "closed_at": ended,
        "has_start": True, "model_tier": "cheap", **more,
    }  # fmt: skip


def lever_applied(offset: int, at: datetime, skill: str, lever: str, **data: Any) -> dict[str, Any]:
    """One row of the ledger that says that a lever was pulled."""
    event = {"type": "agent.lever.applied", "data": {"lever": lever, "skill": {"name": skill}, **data}}
    return {
        "topic": "t", "partition": 0, "offset": offset, "append_time": at, "time": at, "id": f"e{offset}",
        "source": "s",
        "type": "agent.lever.applied", "tenant_id": TENANT, "event": orjson.dumps(event).decode(),
    }  # fmt: skip


def decision(offset: int, made: Decision) -> dict[str, Any]:
    """A decision as it is landed."""
    return {**decision_row(made), "topic": "d", "partition": 0, "offset": offset}


def hours(count: int, start: datetime) -> list[datetime]:
    """So many moments, an hour apart."""
    return [start + timedelta(hours=n) for n in range(count)]


def _filler(field: pa.Field) -> Any:
    if field.nullable:
        return None
    kind = field.type
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_boolean(kind):
        return False
    return MONDAY if pa.types.is_timestamp(kind) else 0
