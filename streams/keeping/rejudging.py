"""What closed runs come to under the failure rules of now, and which of them that changes. Nothing is written here.

Each run is folded again from the ledger, apart from all others (`transforms/landing/rejudge.py`), some thousand at a
time; what comes out is compared with its newest rows in `runs` and `steps`. A run is read from its first event to its
last close: rewards and events behind that change it when it closes again, not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.tables import TIME
from trajlake.streams.land.history import PLACE, ClosedRow, History, closed_rows
from trajlake.streams.land.recovery import LedgerTable
from trajlake.transforms.assemble.runs import RunRow
from trajlake.transforms.assemble.state import StepFinding
from trajlake.transforms.classify.evidence import RunFinding

MOST_RUNS: Final = 2_000
MOST_EVENTS: Final = 100_000
MOST_OFFSETS: Final = 200_000
"""Bounds of what is judged at a time: runs, their events, and the stretch of the log that they lie in."""

Finding = tuple[str, str | None, str, str | None, int | None, str | None, bool | None]
"""Outcome class, failure kind, rule, error type, HTTP status, provider code, retryable."""
_FINDING: Final = (
    "outcome_class", "failure_kind", "failure_basis", "error_type", "http_status", "provider_code", "retryable",
)  # fmt: skip
_RUN: Final = [*PLACE, "skill_name", *_FINDING, "attributed_step_id", "failing_tool"]
_STEP: Final = ["tenant_id", "run_id", "offset", "first_offset", "step_index", "revision", *_FINDING]


@dataclass(frozen=True)
class Wanted:
    """Which runs. `since`, `until`: time of the last close, UTC, the first included. None means all."""

    tenant: str | None = None
    skill: str | None = None
    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def condition(self) -> pc.Expression:
        """The same on rows of `runs`."""
        found = pc.scalar(True)
        for column, value in (("tenant_id", self.tenant), ("skill_name", self.skill), ("run_id", self.run)):
            if value is not None:
                found &= pc.field(column) == value
        if self.since is not None:
            found &= pc.field("closed_at") >= pa.scalar(self.since, TIME)
        if self.until is not None:
            found &= pc.field("closed_at") < pa.scalar(self.until, TIME)
        return found


class Candidate(NamedTuple):
    """A closed run by its newest row. `rest`: the step and the tool that its failure is laid to."""

    row: ClosedRow
    skill_name: str
    finding: Finding
    rest: tuple[str | None, str | None]


class StepChange(NamedTuple):
    """A step that comes to something else, with the revision of its newest row."""

    step_index: int
    revision: int


@dataclass
class Judged:
    """What a run comes to now. `steps`: those that come to something else. `finding`: None where the ledger does not
    hold the run any more as it was closed."""

    candidate: Candidate
    finding: Finding | None = None
    rest: tuple[str | None, str | None] = (None, None)
    steps: list[StepChange] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        """Whether any of its rows would say something else."""
        if self.finding is None:
            return False
        return bool(self.steps) or (self.finding, self.rest) != (self.candidate.finding, self.candidate.rest)


class Newest:
    """Highest revision of each run of a partition, in twelve bytes for a run that has more than one."""

    def __init__(self) -> None:
        self._begins = np.empty(0, np.int64)
        self._revisions = np.empty(0, np.int32)

    def read(self, table: LedgerTable, first: int, last: int) -> None:
        """Take in rows at offsets `first..last` that are not the first of their run. Raises `SinkUnavailable`."""
        parts = [
            pl.DataFrame({"begin": batch.column(0).to_numpy(), "revision": batch.column(1).to_numpy()})
            for batch in table.window(["first_offset", "revision"], first, last, pc.field("revision") > 0)
        ]
        if not parts:
            return
        new = pl.concat(parts)
        known = pl.DataFrame({"begin": self._begins, "revision": self._revisions})
        highest = (
            pl.concat([known, new.cast(known.schema)]).group_by("begin").agg(pl.col("revision").max()).sort("begin")
        )
        self._begins, self._revisions = highest["begin"].to_numpy(), highest["revision"].to_numpy()

    def of(self, begins: Sequence[int]) -> list[int]:
        """Highest revision of runs by their first offsets."""
        if not len(self._begins):
            return [0] * len(begins)
        asked = np.asarray(begins, np.int64)
        place = np.minimum(np.searchsorted(self._begins, asked), len(self._begins) - 1)
        found: list[int] = np.where(self._begins[place] == asked, self._revisions[place], 0).tolist()
        return found


def candidates(history: History, wanted: Wanted, newest: Newest, last: int) -> Iterator[list[Candidate]]:
    """Closed runs that are wanted, by rows at offsets up to `last`, as many at a time as may be judged together.

    Raises `SinkUnavailable`.
    """
    part = _Part()
    for batch in history.table("runs").window(_RUN, 0, last, wanted.condition()):
        rows = closed_rows(batch)
        highest = newest.of([row.first_offset for row in rows])
        others = zip(
            batch.column("skill_name").to_pylist(), _findings(batch), batch.column("attributed_step_id").to_pylist(),
            batch.column("failing_tool").to_pylist(), strict=True,
        )  # fmt: skip
        for row, revision, (skill, finding, *rest) in zip(rows, highest, others, strict=True):
            if row.revision != revision or row.first_offset in part.runs:
                continue
            if part.is_full_with(row):
                yield list(part.runs.values())
                part = _Part()
            part.add(Candidate(row, skill or "", finding, (rest[0], rest[1])))
    if part.runs:
        yield list(part.runs.values())


@dataclass
class _Part:
    """Runs that are judged together, by their first offsets; the stretch that they lie in, and their events."""

    runs: dict[int, Candidate] = field(default_factory=dict)
    first: int = 1 << 62
    last: int = -1
    events: int = 0

    def is_full_with(self, row: ClosedRow) -> bool:
        if not self.runs:
            return False
        span = max(self.last, row.close_offset) - min(self.first, row.first_offset)
        return len(self.runs) >= MOST_RUNS or self.events + row.events > MOST_EVENTS or span > MOST_OFFSETS

    def add(self, one: Candidate) -> None:
        self.runs[one.row.first_offset] = one
        self.first = min(self.first, one.row.first_offset)
        self.last = max(self.last, one.row.close_offset)
        self.events += one.row.events


def judge(history: History, part: Sequence[Candidate]) -> list[Judged]:
    """What runs come to now, in the order of their first events. Raises `SinkUnavailable`."""
    ordered = sorted(part, key=lambda one: one.row.first_offset)
    runs = {one.row.first_offset: Judged(one) for one in ordered}
    closed_at: dict[int, int] = {}
    steps: dict[int, dict[int, Finding]] = {begin: {} for begin in runs}
    for life, made in history.judged(history.lives([one.row for one in ordered])):
        if isinstance(made, RunRow):
            run = runs[life.first_offset]
            run.finding, run.rest = _of(made.finding), (made.finding.attributed_step_id, made.failing_tool)
            closed_at[life.first_offset] = made.offset
        else:
            steps[life.first_offset][made.step.first_offset] = _of(made.finding)
    stored = _stored_steps(history, ordered)
    for begin, run in runs.items():
        now, then = steps[begin], stored[begin]
        if closed_at.get(begin) != run.candidate.row.close_offset or now.keys() != then.keys():
            run.finding = None
            continue
        run.steps = [
            StepChange(index, revision) for place, (index, revision, finding) in then.items() if finding != now[place]
        ]
    return list(runs.values())


def _stored_steps(history: History, ordered: Sequence[Candidate]) -> dict[int, dict[int, tuple[int, int, Finding]]]:
    """Newest rows of `steps` of each run, by the offset that opened the step: index, revision, finding."""
    by_run: dict[tuple[str, str], list[ClosedRow]] = {}
    for one in ordered:
        by_run.setdefault((one.row.tenant_id, one.row.run_id), []).append(one.row)
    found: dict[int, dict[int, tuple[int, int, Finding]]] = {one.row.first_offset: {} for one in ordered}
    for names, first, last in _step_places([one.row for one in ordered]):
        of_runs = pc.field("run_id").isin(pa.array(sorted(names), pa.string()))
        for batch in history.table("steps").window(_STEP, first, last, of_runs):
            columns = (batch.column(name).to_pylist() for name in _STEP[:6])
            for (tenant, run, offset, begin, index, revision), finding in zip(
                zip(*columns, strict=True), _findings(batch), strict=True
            ):
                for row in by_run.get((tenant, run), ()):
                    if row.first_offset <= begin <= row.close_offset and offset <= row.offset:
                        known = found[row.first_offset].get(begin)
                        if known is None or revision > known[1]:
                            found[row.first_offset][begin] = (index, revision, finding)
    return found


def _step_places(rows: Sequence[ClosedRow]) -> Iterator[tuple[set[str], int, int]]:
    """Where rows of `steps` may stand: up to the close, and of runs that were classified again before, up to then."""
    yield {row.run_id for row in rows}, rows[0].first_offset, max(row.close_offset for row in rows)
    again = [row for row in rows if row.offset > row.close_offset]
    if again:
        names = {row.run_id for row in again}
        yield names, min(row.close_offset for row in again) + 1, max(row.offset for row in again)


def _findings(batch: pa.RecordBatch) -> list[Finding]:
    found: list[Any] = list(zip(*(batch.column(name).to_pylist() for name in _FINDING), strict=True))
    return found


def _of(finding: StepFinding | RunFinding) -> Finding:
    kind = finding.failure_kind
    return (
        str(finding.outcome_class), None if kind is None else str(kind), finding.basis, finding.error_type,
        finding.http_status, finding.provider_code, finding.retryable,
    )  # fmt: skip
