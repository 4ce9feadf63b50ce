"""Faults: what may be wrong with a lake, by code and place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import polars as pl

MAX_LISTED: Final = 100
"""Faults of one code that are listed with their place; all are counted."""


class FaultCode(StrEnum):
    """What `verify` may find. A code, once published, keeps its meaning."""

    MISSING_OFFSETS = "missing_offsets"
    """Offsets at or below the landed one that are in no table."""
    DUPLICATE_OFFSETS = "duplicate_offsets"
    """Offsets that more than one row accounts for."""
    BEYOND_LANDED = "beyond_landed"
    """Rows of `events` above the offset that the table itself says has landed."""
    AHEAD_OF_LOG = "ahead_of_log"
    """The tables hold offsets that Kafka has not: the topic was made anew."""
    TABLE_MISSING = "table_missing"
    DUPLICATE_EVENT = "duplicate_event"
    """One event of a run (same id, same sequence) at two offsets."""
    EVENT_COUNT = "event_count"
    STEP_COUNT = "step_count"
    STEP_ORDER = "step_order"
    """Step indices of a closed run are not 1..n."""
    LAST_STEP = "last_step"
    """Of a closed run, another step than the last says that it is the last one, or none does."""
    MISSING_RUN = "missing_run"
    """The ledger or the steps say that the run was closed, and `runs` has no row of it."""
    DUPLICATE_RUN = "duplicate_run"
    MISSING_RUN_REVISION = "missing_run_revision"
    RUN_WITHOUT_EVENTS = "run_without_events"
    DUPLICATE_STEP = "duplicate_step"
    MISSING_STEP_REVISION = "missing_step_revision"
    STEP_WITHOUT_EVENTS = "step_without_events"
    ORPHAN_OBSERVATION = "orphan_observation"
    """An observation of an agent's step answers a call that the step does not hold."""
    MISSING_REWARD = "missing_reward"
    EXTRA_REWARD = "extra_reward"
    DUPLICATE_REWARD = "duplicate_reward"
    PAYLOAD_MISSING = "payload_missing"
    PAYLOAD_SIZE = "payload_size"
    PAYLOAD_HASH = "payload_hash"
    PAYLOAD_REFERENCE = "payload_reference"
    """A reference that does not read as one."""
    CHANGED_ROWS = "changed_rows"
    """Rows of the ledger are not those that landed: changed, removed, added or in another place."""
    TRUNCATED_ROWS = "truncated_rows"
    """A head or block knows offsets above those that the ledger says have landed: its newest commits are gone."""
    UNCHAINED_ROWS = "unchained_rows"
    """Offsets landed by a commit that carries no head: not by trajlake, or by one from before there were heads."""
    COLUMN_MISMATCH = "column_mismatch"
    """A column of the ledger does not say what the event's text beside it says."""
    MISSING_CONSENT = "missing_consent"
    EXTRA_CONSENT = "extra_consent"
    DUPLICATE_CONSENT = "duplicate_consent"


@dataclass(slots=True)
class Fault:
    """One thing that is wrong, with its place. `key` stands for the run's names until they are looked up."""

    code: FaultCode
    detail: str
    table: str
    place: dict[str, Any]
    key: int | None = None


@dataclass(slots=True)
class Faults:
    """Faults of one code: how many there are, and the first `MAX_LISTED` of them."""

    code: FaultCode
    count: int
    listed: list[Fault]


def list_faults(
    code: FaultCode,
    table: str,
    rows: pl.DataFrame,
    detail: Callable[[dict[str, Any]], str],
    columns: Sequence[str] = (),
) -> Faults:
    """Faults of the rows of a frame with columns key and offset; `columns` join the place."""
    order = [name for name in ("offset", "key", *columns) if name in rows.columns]
    listed = [
        Fault(code, detail(row), table, {"offset": row["offset"], **{name: row[name] for name in columns}}, row["key"])
        for row in rows.sort(order).head(MAX_LISTED).iter_rows(named=True)
    ]
    return Faults(code, len(rows), listed)


def gather(found: Iterable[Faults]) -> dict[FaultCode, Faults]:
    """Faults by code, without codes that nothing was found for."""
    together: dict[FaultCode, Faults] = {}
    for faults in found:
        if not faults.count:
            continue
        known = together.setdefault(faults.code, Faults(faults.code, 0, []))
        known.count += faults.count
        known.listed = [*known.listed, *faults.listed][:MAX_LISTED]
    return together
