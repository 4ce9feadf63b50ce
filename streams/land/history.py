"""Closed runs of one partition, read back from the tables and classified again.

What they come to is found from their own events in `events` (and what `quarantine` says of them); `runs` tells where
they were closed. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.streams.land.recovery import Choice, LedgerTable, ledger_windows
from trajlake.transforms.assemble.runs import RunRow
from trajlake.transforms.assemble.state import GapNote
from trajlake.transforms.assemble.steps import StepRow
from trajlake.transforms.landing.refold import LedgerEvent, LedgerRefusal
from trajlake.transforms.landing.rejudge import Life, rejudge
from trajlake.transforms.landing.rows import Asked
from trajlake.transforms.landing.rules import LandRules

log = structlog.get_logger("trajlake.land")
T = TypeVar("T")

EVENTS_AT_ONCE: Final = 20_000
"""Events of the runs that are classified again at a time."""
NEAR: Final = 65_536
"""Offsets between two runs that are read over rather than skipped: about a row group of `events`."""
_TICK: Final = "trajlake.tick"
PLACE: Final = [
    "offset",
    "first_offset",
    "revision",
    "close_offset",
    "tenant_id",
    "run_id",
    "closed_at",
    "event_count",
]


class ClosedRow(NamedTuple):
    """A row of `runs`: where it stands, which life of which run it is of, where that was closed, and when (µs).

    `gaps`: None unless they were read.
    """

    offset: int
    first_offset: int
    revision: int
    close_offset: int
    tenant_id: str
    run_id: str
    closed_us: int
    events: int
    gaps: list[GapNote] | None = None


class History:
    """The history of one partition. Tables stay open at one version; where that does not do, they are opened anew."""

    def __init__(self, lake: Lake, topic: str, partition: int, rules: LandRules) -> None:
        self.topic = topic
        self.partition = partition
        self._lake = lake
        self._rules = rules
        self._tables: dict[str, LedgerTable] = {}
        self._holds = -1

    def table(self, name: str) -> LedgerTable:
        """A table at the version at which it was opened. Raises `SinkUnavailable`."""
        if name not in self._tables:
            self._tables[name] = LedgerTable(self._lake, name, self.topic, self.partition)
        return self._tables[name]

    def reopen(self) -> None:
        """Read the newest versions from now on."""
        self._tables.clear()

    # Answering requests

    def answer(self, asked: Sequence[Asked], landed: int) -> tuple[list[StepRow], list[RunRow]]:
        """Rows of the runs that are to be classified again, each at the offset of its request.

        `landed`: last offset that the tables hold; no request names a row behind it. What is not in the tables any more
        (erased, or older than its time) gets no row. Raises `SinkUnavailable`.
        """
        if max(one.event.data.offset for one in asked) > self._holds:
            self.reopen()
            self._holds = landed
        return self._patiently(lambda: self._answer(asked))

    def _answer(self, asked: Sequence[Asked]) -> tuple[list[StepRow], list[RunRow]]:
        steps: list[StepRow] = []
        runs: list[RunRow] = []
        known = self._rows_at([one.event.data.offset for one in asked])
        named = [(one, known.get((one.event.data.offset, one.event.data.first_offset))) for one in asked]
        found = [(one, row) for one, row in named if row is not None and _is_meant(one, row)]
        if len(found) < len(asked):
            log.info("runs to be classified again are not in the tables", runs=len(asked) - len(found))
        found.sort(key=lambda each: each[1].first_offset)
        for part in in_parts(found, lambda each: each[1].events):
            some = self._some(part)
            steps += some[0]
            runs += some[1]
        return steps, runs

    def _some(self, found: Sequence[tuple[Asked, ClosedRow]]) -> tuple[list[StepRow], list[RunRow]]:
        by_life = {(row.tenant_id, row.run_id, row.first_offset): (one, row) for one, row in found}
        wanted = {
            (*life, step.step_index): step.revision
            for life, (one, _) in by_life.items()
            for step in one.event.data.steps
        }
        steps: dict[tuple[str, str, int, int], StepRow] = {}
        runs: dict[tuple[str, str, int], RunRow] = {}
        for life, made in self.judged(self.lives([row for _, row in found])):
            key = (life.tenant_id, life.run_id, life.first_offset)
            if isinstance(made, RunRow):
                runs[key] = made
            elif (*key, made.step.index) in wanted:
                steps[*key, made.step.index] = made
        answered = []
        for key, run in runs.items():
            one, row = by_life[key]
            if run.offset != row.close_offset:
                log.warning("a run cannot be folded again as it was", offset=row.offset, folded_to=run.offset)
                continue
            answered.append(key)
            runs[key] = run._replace(
                offset=one.offset, revision=row.revision + 1, close_offset=row.close_offset,
                # Of a close for want of room the run's own events do not tell all.
                closed_us=row.closed_us, gaps=row.gaps,
            )  # fmt: skip
        whole = set(answered)
        again = [
            made._replace(offset=by_life[key[:3]][0].offset, revision=wanted[key] + 1)
            for key, made in steps.items()
            if key[:3] in whole
        ]
        return again, [runs[key] for key in answered]

    # Classifying again

    def lives(self, rows: Sequence[ClosedRow]) -> list[Life]:
        """Where the runs of rows of `runs` begin and were closed. Raises `SinkUnavailable`."""
        several = [row for row in rows if row.revision]
        closes: dict[int, list[int]] = {}
        if several:
            first_offset = pa.array(sorted(row.first_offset for row in several), pa.int64())
            closed_here = pc.field("first_offset").isin(first_offset) & pc.field("close_offset").is_null()
            first, last = min(row.first_offset for row in several), max(row.close_offset for row in several)
            for batch in self.table("runs").window(["offset", "first_offset"], first, last, closed_here):
                for offset, begin in zip(*(batch.column(i).to_pylist() for i in range(2)), strict=True):
                    closes.setdefault(begin, []).append(offset)
        return [
            Life(row.tenant_id, row.run_id, row.first_offset, _up_to(row, closes.get(row.first_offset, [])))
            for row in rows
        ]

    def judged(self, lives: Sequence[Life]) -> Iterator[tuple[Life, StepRow | RunRow]]:
        """Rows of runs as the rules of now have them, each with its life; later ones of a step or run count.

        `lives`: in the order of their first offsets. Raises `SinkUnavailable`.
        """
        by_run: dict[tuple[str, str], list[Life]] = {}
        for life in lives:
            by_run.setdefault((life.tenant_id, life.run_id), []).append(life)
        for row in rejudge(self.topic, self.partition, self._rules, lives, self._windows(lives, by_run)):
            begin = row.first_offset if isinstance(row, RunRow) else row.step.first_offset
            for life in by_run.get((row.head.tenant_id, row.head.run_id), ()):
                if life.holds(begin):
                    yield life, row

    def _windows(
        self, lives: Sequence[Life], by_run: dict[tuple[str, str], list[Life]]
    ) -> Iterator[tuple[int, list[LedgerEvent | LedgerRefusal]]]:
        """The ledger's rows of some lives, and ticks."""

        def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
            names = zip(*(batch.column(name).to_pylist() for name in ("tenant_id", "run_id", "offset")), strict=True)
            mask = [
                run is None or any(life.holds(offset) for life in by_run.get((tenant, run), ()))
                for tenant, run, offset in names
            ]
            return batch if all(mask) else batch.filter(pa.array(mask, pa.bool_()))

        of_runs = pc.field("run_id").isin(pa.array(sorted({life.run_id for life in lives}), pa.string()))
        choice = Choice((pc.field("type") == _TICK) | of_runs, of_runs, keep)
        for first, last in _stretches(lives):
            yield from ledger_windows(self.table("events"), self.table("quarantine"), first, last, choice=choice)

    # Reading

    def _rows_at(self, offsets: Sequence[int]) -> dict[tuple[int, int], ClosedRow]:
        """Rows of `runs` at some offsets; a tick may have closed several runs at one."""
        where = pc.field("offset").isin(pa.array(sorted(set(offsets)), pa.int64()))
        found = self.table("runs").window([*PLACE, "gaps"], min(offsets), max(offsets), where)
        return {(row.offset, row.first_offset): row for batch in found for row in closed_rows(batch)}

    def _patiently(self, read: Callable[[], T]) -> T:
        """Read; once more from the newest versions where those that are open have lost a file to upkeep, or are too
        old."""
        try:
            return read()
        except SinkUnavailable:
            self.reopen()
            return read()


def closed_rows(batch: pa.RecordBatch) -> list[ClosedRow]:
    """Rows of `runs` with at least the columns of `ClosedRow`."""
    columns = {name: batch.column(name).to_pylist() for name in PLACE if name != "closed_at"}
    times = batch.column("closed_at").cast(pa.int64()).to_pylist()
    closes = [
        offset if at is None else at for offset, at in zip(columns["offset"], columns["close_offset"], strict=True)
    ]
    gaps: list[list[GapNote] | None] = [None] * batch.num_rows
    if "gaps" in batch.schema.names:
        gaps = [found and [(gap["code"], gap["detail"]) for gap in found] for found in batch.column("gaps").to_pylist()]
    names = ("offset", "first_offset", "revision")
    return [
        ClosedRow(*values)
        for values in zip(
            *(columns[name] for name in names), closes, columns["tenant_id"], columns["run_id"], times,
            columns["event_count"], gaps, strict=True,
        )
    ]  # fmt: skip


def in_parts(rows: Sequence[T], weight: Callable[[T], int], most: int = EVENTS_AT_ONCE) -> Iterator[list[T]]:
    """Rows in pieces that weigh about `most`, one at least."""
    part: list[T] = []
    total = 0
    for row in rows:
        if part and total + weight(row) > most:
            yield part
            part, total = [], 0
        part.append(row)
        total += weight(row)
    if part:
        yield part


def _up_to(row: ClosedRow, closes: list[int]) -> tuple[int, ...]:
    """Closes of a run as a row of it has them."""
    return tuple(sorted({*(close for close in closes if close <= row.close_offset), row.close_offset}))


def _is_meant(one: Asked, row: ClosedRow) -> bool:
    asked = one.event.data
    return (row.first_offset, row.revision, row.tenant_id, row.run_id) == (
        asked.first_offset, asked.revision, one.event.tenantid, one.event.runid,
    )  # fmt: skip


def _stretches(lives: Sequence[Life]) -> Iterator[tuple[int, int]]:
    """Offsets that hold the lives, without what lies far from all of them."""
    first, last = -1, -1
    for life in lives:
        if first >= 0 and life.first_offset > last + NEAR:
            yield first, last
            first = -1
        if first < 0:
            first, last = life.first_offset, life.close_offset
        last = max(last, life.close_offset)
    if first >= 0:
        yield first, last
