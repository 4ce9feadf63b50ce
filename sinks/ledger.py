"""Commit order: how the rows of a batch become visible in all tables, each exactly once.

    1  payload files           content-addressed; rewriting one changes nothing
    2  Parquet data files      stored under new names, invisible
    3  gaps, quarantine, policy_decisions, consents, rewards, steps, runs
                               one Delta commit per table that has rows, with a `txn` per partition that has rows there
    4  events                  one Delta commit with a `txn` for every partition of the batch: the commit point
    5  snapshot                now and then: open runs after the committed offset
    6  Kafka group offsets     for lag tools only

    killed before   left behind                               at the next start
    1, 2            payloads or data files nobody refers to   offset unmoved: the batch is read and landed again
    3 (any of 3)    some side tables ahead of `events`        read again; rows at or below a table's offset are dropped
    4               all side tables ahead of `events`         the same
    5               snapshot older than the tables            the ledger behind it is folded again, output suppressed
    6               group offset behind the tables            never read

`events` moves last, so its offset says: everything up to here is in every table. A side table that had no rows in a
batch keeps an older offset, and that is no gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.tables import TABLES
from trajlake.sinks.datafiles import remove_data_file, write_data_file
from trajlake.sinks.deltalog import Advance, DataFile, DeltaLog, open_logs
from trajlake.sinks.errors import Fenced, SinkUnavailable
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.sinks.payloads import Content, write_payloads

SIDE_TABLES: Final = ("gaps", "quarantine", "policy_decisions", "consents", "rewards", "steps", "runs")
COMMIT_POINT: Final = "events"
CHAIN: Final = "integrity"


@dataclass(frozen=True)
class Stretch:
    """Rows of all tables for offsets `first..last` of one partition. `batches`: table name -> record batch.

    `head`: what the partition's rows up to `last` come to, noted in the commit of `events` (docs/integrity.md).
    `obeys`: number of the newest erasure that was known when the rows were made.
    """

    topic: str
    partition: int
    first: int
    last: int
    batches: Mapping[str, pa.RecordBatch]
    payloads: Sequence[Content] = field(default_factory=tuple)
    head: Mapping[str, Any] | None = None
    obeys: int = 0


class _Part(NamedTuple):
    """Rows of one table that a stretch brings, beyond offset `at`, which the table has reached."""

    stretch: Stretch
    at: int
    batch: pa.RecordBatch


class _StoredFile(NamedTuple):
    """A data file of an attempt, and what it holds: by part, the offset that it begins behind and its number of
    rows."""

    content: tuple[tuple[int, int], ...]
    file: DataFile


@dataclass
class _Attempt:
    """How far the landing of a list of stretches got, so that a store that refuses for an hour is not filled
    meanwhile."""

    stretches: list[Stretch] = field(default_factory=list)
    payloads_stored: bool = False
    files: dict[str, _StoredFile] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    """Tables that refer to their file by now."""


def _no_step(step: str) -> None:
    """Default observer of the commit order."""


class Ledger:
    """Writes batches to a lake in commit order. One per process; not for use by several threads at once.

    `on_step` is called with the name of each numbered step just before it is taken.
    """

    def __init__(self, lake: Lake, app_id: str, on_step: Callable[[str], None] = _no_step) -> None:
        self.lake = lake
        self.app_id = app_id
        self._on_step = on_step
        self._logs: dict[str, DeltaLog] = {}
        self._attempt = _Attempt()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="encode")

    def open(self) -> None:
        """Make or open all tables. Raises `SinkUnavailable` or `TableMismatch`."""
        self._logs = open_logs(self.lake, (*SIDE_TABLES, COMMIT_POINT, CHAIN))

    def close(self) -> None:
        """Release threads. Nothing is buffered here."""
        self._pool.shutdown(wait=True)

    def landed(self, topic: str, partition: int) -> int:
        """Last offset that every table holds for a partition, read anew from the tables; -1 when none."""
        self._attempt = _Attempt()
        app = transaction_app(self.app_id, topic, partition)
        for name in SIDE_TABLES:
            self._logs[name].landed(app)
        return self._logs[COMMIT_POINT].landed(app)

    def log_of(self, name: str) -> DeltaLog:
        """Commit log of a table."""
        return self._logs[name]

    def versions(self) -> dict[str, int]:
        """Newest version seen of each table."""
        return {name: log.version for name, log in self._logs.items()}

    def commit(self, stretches: Iterable[Stretch]) -> bool:
        """Land stretches of several partitions. Returns False when all of it had landed before.

        Raises `StaleWriter` when another worker has landed a part: the caller must forget its state of the partition.
        So it must after `Fenced`: an erasure came in between, and the rows may hold what was erased; their files are
        taken away again.
        Raises `SinkUnavailable` when the store refuses: the same call may be repeated, nothing lands twice. Called
        again with the same stretches it goes on where it stopped; what is stored already is not stored once more.
        """
        attempt = self._take_up(list(stretches))
        try:
            return self._commit(attempt)
        except Fenced:
            self._discard(attempt)
            raise

    def _commit(self, attempt: _Attempt) -> bool:
        stretches = attempt.stretches
        obeys = min((stretch.obeys for stretch in stretches), default=None)
        if not attempt.payloads_stored:
            self._on_step("1 payloads")
            write_payloads(self.lake, (payload for stretch in stretches for payload in stretch.payloads))
            attempt.payloads_stored = True
        self._on_step("2 data files")
        parts = {name: self._new_rows(name, stretches) for name in (*SIDE_TABLES, COMMIT_POINT)}
        self._write_files(attempt, parts)
        for name in SIDE_TABLES:
            if rows := parts[name]:
                self._on_step(f"3 {name}")
                log = self._logs[name]
                advances = [
                    Advance(app, part.at, part.stretch.last)
                    for part in rows
                    if log.at(app := self._app(part.stretch)) < part.stretch.last
                ]
                log.commit([attempt.files[name].file], advances, obeys=obeys)
                attempt.committed.add(name)
        self._on_step(f"4 {COMMIT_POINT}")
        advances = [Advance(self._app(s), s.first - 1, s.last) for s in stretches]
        files = [attempt.files[COMMIT_POINT].file] if parts[COMMIT_POINT] else []
        heads = [stretch.head for stretch in stretches if stretch.head is not None]
        landed = self._logs[COMMIT_POINT].commit(files, advances, heads, obeys=obeys)
        if any(stretch.payloads for stretch in stretches):
            # An erasure that saw no row refer to a payload may have taken it away before this commit.
            write_payloads(self.lake, (payload for stretch in stretches for payload in stretch.payloads))
        self._attempt = _Attempt()
        return landed

    def _discard(self, attempt: _Attempt) -> None:
        """Take away data files of an attempt that no table refers to. What stays is for vacuum."""
        for name in attempt.files.keys() - attempt.committed:
            with suppress(SinkUnavailable):
                remove_data_file(self.lake, name, attempt.files[name].file.path)
        self._attempt = _Attempt()

    def _take_up(self, stretches: list[Stretch]) -> _Attempt:
        """The attempt that these very stretches were left at, or a new one."""
        held = self._attempt.stretches
        if len(held) != len(stretches) or any(a is not b for a, b in zip(held, stretches, strict=True)):
            self._attempt = _Attempt(stretches)
        return self._attempt

    def _app(self, stretch: Stretch) -> str:
        return transaction_app(self.app_id, stretch.topic, stretch.partition)

    def _new_rows(self, name: str, stretches: list[Stretch]) -> list[_Part]:
        """Each stretch's rows that the table does not hold yet; stretches without any are left out."""
        rows = []
        for stretch in stretches:
            batch = stretch.batches.get(name)
            if batch is None:
                continue
            at = self._logs[name].at(self._app(stretch))
            if name != COMMIT_POINT and at >= stretch.first:
                batch = batch.filter(pc.greater(batch.column("offset"), at))
                if name == "gaps":
                    batch = _cut_ranges(batch, at + 1)
            if batch.num_rows:
                rows.append(_Part(stretch, at, batch))
        return rows

    def _write_files(self, attempt: _Attempt, parts: dict[str, list[_Part]]) -> None:
        """Store one data file per table that has rows, except where this attempt has stored the same rows before."""
        futures: dict[str, Future[DataFile]] = {}
        contents = {name: tuple((part.at, part.batch.num_rows) for part in rows) for name, rows in parts.items()}
        for name, rows in parts.items():
            if rows and (name not in attempt.files or attempt.files[name].content != contents[name]):
                batches = [part.batch for part in rows]
                futures[name] = self._pool.submit(write_data_file, self.lake, TABLES[name], batches)
        wait(futures.values())
        for name, future in futures.items():
            if future.exception() is None:
                attempt.files[name] = _StoredFile(contents[name], future.result())
        for future in futures.values():
            future.result()


def _cut_ranges(gaps: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Ranges of offsets without what lies below `first`.

    Where a hole ends depends on what the log held when it was looked at: the part that was noted then is not noted
    again.
    """
    place = gaps.schema.get_field_index("first_offset")
    return gaps.set_column(
        place, gaps.schema.field(place), pc.max_element_wise(gaps.column(place), pa.scalar(first, pa.int64()))
    )
