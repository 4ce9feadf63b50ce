"""Verification: proves from the tables alone that nothing is lost or doubled, and that steps, runs and rewards agree.

What counts is what has landed: the offset that each partition has in the transactions of `events`, the table that every
batch commits last. Rows of other tables above it belong to a batch on its way and are left out, so that a lake can
be verified while workers land.

Memory: 8 bytes an event (hashes of ids), 80 an open or closed run, 40 a step; tables stream through in small frames.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from trajlake.expectations.events import ERASED_TYPE, OWN_TYPES
from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.reasons import LogGap
from trajlake.expectations.tables import TABLES
from trajlake.reading.scan import Leaves
from trajlake.reading.tables import LakeTables, PartitionId
from trajlake.sinks.integrity import RecordedHead
from trajlake.transforms.reconcile import accounting
from trajlake.transforms.reconcile.consents import CONSENT_TYPE, PLACE, check_consents
from trajlake.transforms.reconcile.faults import MAX_LISTED, Fault, FaultCode, Faults, gather
from trajlake.transforms.reconcile.lives import Ledger, Lives, event_key, repeated, run_key
from trajlake.transforms.reconcile.runs import check_rewards, check_runs, check_steps, orphan_observations
from trajlake.verification.books import Book, close_books
from trajlake.verification.integrity import check_integrity
from trajlake.verification.payloads import PayloadRefs, check_payloads
from trajlake.verification.report import PartitionReport, Report, problem_of

_PLACE: Final = ("topic", "partition", "offset")
_NAMES: Final = ("topic", "partition", "tenant_id", "run_id")
_STEP_LEAVES: Final = {
    "calls": ("tool_calls", "tool_call_id"),
    "answered": ("observations", "source_call_id"),
    "refs": ("observations", "payload_ref"),
}
FIRST_BATCH_S: Final = 10.0
"""How long the very first batch may take from its first table to `events`."""


_READ: Final = ("quarantine", "gaps", "erasure_marks", "runs", "events", "steps", "rewards", "consents")
"""Tables whose rows are read, all of them once."""


def verify(
    lake: LakeTables,
    app_id: str,
    *,
    deep: bool = False,
    integrity: bool = False,
    heads: Iterable[RecordedHead] = (),
    progress: Progress = SILENT,
) -> Report:
    """Check a lake at its pinned versions.

    app_id: names the flow in the tables' transactions (setting `app_id`). deep: also look for payload references in the
    events themselves, and hash every payload that is referred to. integrity: also hash the ledger's rows and compare
    with what was noted when they landed, and with `heads` that were kept outside the lake. progress: counts rows.
    """
    began = time.monotonic()
    report = _Verification(lake, app_id, deep, progress).run(began)
    if integrity:
        landed = {(part.topic, part.partition): part.landed_offset for part in report.partitions}
        report.integrity, found = check_integrity(lake, landed, app_id, heads, progress)
        report.add(gather(found))
        report.seconds = round(time.monotonic() - began, 3)
    return report


@dataclass
class _Verification:
    lake: LakeTables
    app_id: str
    deep: bool
    progress: Progress
    found: list[Faults] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    _statements: list[pl.DataFrame] = field(default_factory=list)
    _tombstones: list[pl.DataFrame] = field(default_factory=list)

    def run(self, began: float) -> Report:
        _await_first_batch(self.lake)
        versions = self.lake.versions()
        self.landed = self.lake.landed(self.app_id)
        self._limit = _landed_frame(self.landed)
        refs = PayloadRefs()
        self.progress.stage("reading the tables", sum(self.lake.describe(name).rows or 0 for name in _READ), "rows")
        self.books = {key: Book(PartitionReport(*key, last)) for key, last in self.landed.items()}
        self._read_side_tables(refs)
        runs = self._read_runs()
        self.lives = Lives(runs)
        ledger = self._read_events(refs)
        self.progress.name("accounting for every offset")
        accounts, wrong = close_books(self.books)
        self.found += wrong
        totals = ledger.runs()
        self.found += check_runs(runs, self.lives, totals)
        self.found += check_steps(self._read_steps(refs), runs, self.lives, totals)
        self.found += check_rewards(self._read_rewards(), ledger.rewards(), self.lives)
        self.found += check_consents(
            self._read_consents(), self._placed(self._statements), self._placed(self._tombstones)
        )
        self.progress.stage("looking for stored content", len(refs), "payloads")
        self.found += check_payloads(self.lake.lake, refs, deep=self.deep, progress=self.progress)
        self.progress.stage("comparing")
        self.checked["payloads"] = len(refs)
        faults = gather(self.found)
        self._name([fault for group in faults.values() for fault in group.listed])
        return Report(
            root=self.lake.root,
            ok=not faults,
            versions=versions,
            checked=self.checked,
            partitions=[book.report for book in self.books.values()],
            **accounts,
            problems=[problem_of(fault) for group in faults.values() for fault in group.listed],
            problem_counts={code.value: group.count for code, group in faults.items()},
            deep=self.deep,
            seconds=round(time.monotonic() - began, 3),
        )

    # Reading

    def _scan(self, name: str, columns: Iterable[str], leaves: Leaves | None = None) -> Iterator[pl.DataFrame]:
        self.progress.name(f"reading {name}")
        for frame in self.lake.scan(name, [*columns], leaves):
            yield frame
            self.progress.advance(len(frame))

    def _landed_rows(self, name: str, columns: Iterable[str]) -> Iterator[pl.DataFrame]:
        """Rows of a side table at or below what has landed; those above are on their way."""
        self.checked[name] = 0
        for frame in self._scan(name, [*_PLACE, *columns]):
            kept = self._below_landed(frame)
            self.checked[name] += len(kept)
            yield kept

    def _below_landed(self, frame: pl.DataFrame) -> pl.DataFrame:
        joined = frame.join(self._limit, on=["topic", "partition"], how="left")
        return joined.filter(pl.col("offset") <= pl.col("landed")).drop("landed")

    def _read_side_tables(self, refs: PayloadRefs) -> None:
        self.checked["quarantine"] = self.checked["gaps"] = 0
        for frame in self._scan("quarantine", [*_PLACE, "tenant_id", "payload_ref"]):
            for key, part in _by_partition(frame):
                book = self.books[key]
                ranges = accounting.compress(part["offset"].to_numpy())
                book.quarantine.append(ranges)
                self.checked["quarantine"] += ranges.up_to(book.report.landed_offset).count
            referring = frame.filter(pl.col("payload_ref").is_not_null())
            if len(referring):
                refs.add_rows("quarantine", self._below_landed(referring))
        for frame in self._scan("gaps", [*_PLACE, "first_offset", "code"]):
            for key, part in _by_partition(frame):
                for code, rows in part.partition_by("code", as_dict=True).items():
                    ranges = accounting.spans(rows["first_offset"].to_numpy(), rows["offset"].to_numpy())
                    book = self.books[key]
                    (book.holes if code[0] == LogGap.HOLE else book.lost).append(ranges)
                    self.checked["gaps"] += len(ranges)

        for frame in self._scan("erasure_marks", _PLACE):
            for key, part in _by_partition(frame):
                if key in self.books:
                    self.books[key].erased.append(accounting.compress(part["offset"].unique().to_numpy()))

    def _read_runs(self) -> pl.DataFrame:
        own = ["first_offset", "close_offset", "revision", "step_count", "event_count"]
        parts = [
            frame.select(run_key(), "offset", *own)
            for frame in self._landed_rows("runs", ["tenant_id", "run_id", *own])
        ]
        schema = {
            "key": pl.UInt64, "offset": pl.Int64, "first_offset": pl.Int64, "close_offset": pl.Int64,
            "revision": pl.Int32, "step_count": pl.Int32, "event_count": pl.Int32,
        }  # fmt: skip
        return pl.concat(parts) if parts else pl.DataFrame(schema=schema)

    def _read_events(self, refs: PayloadRefs) -> Ledger:
        """One pass over the ledger: offsets, ids, and what it says of each run."""
        ledger = Ledger()
        ids: list[np.ndarray[Any, np.dtype[np.uint64]]] = []
        columns = ["tenant_id", "run_id", "id", "sequence", "type", *(["event"] if self.deep else [])]
        self.checked["events"] = 0
        for frame in self._scan("events", [*_PLACE, *columns]):
            self.checked["events"] += len(frame)
            for key, part in _by_partition(frame):
                self.books[key].events.append(accounting.compress(part["offset"].to_numpy()))
            if self.deep:
                refs.add_texts("events", frame)
            self._statements.append(frame.filter(pl.col("type") == CONSENT_TYPE).select(_PLACE))
            self._tombstones.append(frame.filter(pl.col("type") == ERASED_TYPE).select(_PLACE))
            of_runs = frame.filter(pl.col("run_id").is_not_null() & ~pl.col("type").is_in(sorted(OWN_TYPES)))
            if not len(of_runs):
                continue
            hashed = of_runs.select(run_key(), event_key(), "offset", "sequence", "type")
            ids.append(hashed["event_key"].to_numpy())
            self.lives.count(hashed["key"].to_numpy(), hashed["offset"].to_numpy())
            ledger.add(hashed)
        twice = repeated(np.concatenate(ids)) if ids else np.empty(0, np.uint64)
        if len(twice):
            self.found.append(self._doubled_events(twice))
        return ledger

    def _doubled_events(self, hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> Faults:
        """Events whose run, sequence and id are found twice, with both places."""
        suspects = pl.Series(hashes[: 10 * MAX_LISTED])
        parts = []
        for frame in self.lake.scan("events", [*_PLACE, "tenant_id", "run_id", "id", "sequence"]):
            hit = frame.with_columns(event_key()).filter(pl.col("event_key").is_in(suspects.implode()))
            if len(hit):
                parts.append(hit)
        groups = (
            pl.concat(parts)
            .sort(_PLACE)
            .group_by("tenant_id", "run_id", "id", "sequence", maintain_order=True)
            .agg("topic", "partition", "offset")
            .filter(pl.col("offset").list.len() > 1)
        )
        listed = []
        for row in groups.head(MAX_LISTED).iter_rows(named=True):
            places = [
                f"{t}/{p} offset {o}" for t, p, o in zip(row["topic"], row["partition"], row["offset"], strict=True)
            ]
            place = {
                "topic": row["topic"][-1], "partition": row["partition"][-1], "offset": row["offset"][-1],
                "tenant_id": row["tenant_id"], "run_id": row["run_id"], "event_id": row["id"],
            }  # fmt: skip
            detail = f"the event stands in the ledger at {' and at '.join(places[:5])}"
            listed.append(Fault(FaultCode.DUPLICATE_EVENT, detail, "events", place))
        more = max(0, len(hashes) - len(suspects))
        return Faults(FaultCode.DUPLICATE_EVENT, len(groups) + more, listed)

    def _read_steps(self, refs: PayloadRefs) -> pl.DataFrame:
        columns = ["first_offset", "step_index", "revision", "is_last"]
        parts = []
        orphans = []
        self.checked["steps"] = 0
        for frame in self._scan("steps", [*_NAMES, "offset", *columns, "source"], _STEP_LEAVES):
            kept = self._below_landed(frame).with_columns(run_key())
            self.checked["steps"] += len(kept)
            parts.append(kept.select("key", "offset", *columns))
            orphans.append(orphan_observations(kept.drop("refs")))
            referring = kept.filter(pl.col("refs").list.drop_nulls().list.len() > 0)
            if len(referring):
                refs.add_rows(
                    "steps", referring.explode("refs").rename({"refs": "payload_ref"}).drop_nulls("payload_ref")
                )
        if not parts:
            schema = {
                "key": pl.UInt64, "offset": pl.Int64, "first_offset": pl.Int64,
                "step_index": pl.Int32, "revision": pl.Int32, "is_last": pl.Boolean,
            }  # fmt: skip
            return pl.DataFrame(schema=schema)
        self.found.append(_orphaned(pl.concat(orphans)))
        return pl.concat(parts)

    def _read_rewards(self) -> pl.DataFrame:
        rows = self._landed_rows("rewards", ["tenant_id", "run_id", "reward_id"])
        parts = [frame.select(run_key(), "offset", "reward_id") for frame in rows]
        schema = {"key": pl.UInt64, "offset": pl.Int64, "reward_id": pl.String}
        return pl.concat(parts) if parts else pl.DataFrame(schema=schema)

    def _read_consents(self) -> pl.DataFrame:
        parts = [frame.select(_PLACE) for frame in self._landed_rows("consents", ["purpose"])]
        return pl.concat(parts) if parts else pl.DataFrame(schema=PLACE)

    def _placed(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        """Places in the ledger, of what has landed."""
        return self._below_landed(pl.concat([pl.DataFrame(schema=PLACE), *parts]))

    # Names

    def _name(self, faults: list[Fault]) -> None:
        """Give faults the names of their runs; only what is wrong is looked up, in one scan a table."""
        wanted = {fault.key for fault in faults if fault.key is not None}
        names: dict[int, dict[str, Any]] = {}
        for table in ("runs", "steps", "rewards", "events"):
            if wanted <= names.keys():
                break
            keys = pl.Series(sorted(wanted - names.keys()), dtype=pl.UInt64)
            for frame in self.lake.scan(table, _NAMES):
                hit = frame.with_columns(run_key()).filter(pl.col("key").is_in(keys.implode())).unique("key")
                names.update({row.pop("key"): row for row in hit.iter_rows(named=True)})
        for fault in faults:
            if fault.key is not None:
                fault.place = {**names.get(fault.key, {}), **fault.place}


def _await_first_batch(lake: LakeTables) -> None:
    """Wait for `events` where other tables have rows and it is not there yet: the first batch is on its way.

    Raises LookupError when it does not come: without its ledger nothing can be said of a lake.
    """
    deadline = time.monotonic() + FIRST_BATCH_S
    while lake.at is None and not lake.lake.exists("events"):
        if all(lake.describe(name).rows in (None, 0) for name in TABLES if name != "events"):
            return
        if time.monotonic() > deadline:
            raise LookupError(f"{lake.lake.table_uri('events')} is no table, but others have rows: the ledger is gone")
        time.sleep(0.05)
        lake.reopen()


def _by_partition(frame: pl.DataFrame) -> Iterator[tuple[PartitionId, pl.DataFrame]]:
    for (topic, partition), part in frame.partition_by("topic", "partition", as_dict=True).items():
        yield (str(topic), int(partition)), part


def _landed_frame(landed: dict[PartitionId, int]) -> pl.DataFrame:
    rows = [(topic, partition, last) for (topic, partition), last in landed.items()]
    return pl.DataFrame(rows, {"topic": pl.String, "partition": pl.Int32, "landed": pl.Int64}, orient="row")


def _orphaned(rows: pl.DataFrame) -> Faults:
    listed = [
        Fault(
            FaultCode.ORPHAN_OBSERVATION,
            f"{row['orphans']} of its observations answer calls that the step does not hold",
            "steps",
            {name: row[name] for name in (*_NAMES, "offset", "step_index", "revision")},
        )
        for row in rows.head(MAX_LISTED).iter_rows(named=True)
    ]
    return Faults(FaultCode.ORPHAN_OBSERVATION, len(rows), listed)
