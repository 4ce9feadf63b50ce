"""Flatness: cost of an event with 1,000 and 300,000 open runs, and of a commit at table version 10 and 5,000.

Both are ratios within one process: the small case and the large one in turn, medians compared. Fold, columns, files
and commits are the real ones; Kafka is left out because it does not know of either.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable

from bench.figures import Figure, show
from bench.traffic import key, run_event, run_events, run_length
from trajlake.sinks.deltalog import Advance, DataFile
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import COMMIT_POINT, SIDE_TABLES, Ledger, Stretch
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

FEW, MANY = 1_000, 300_000
EVENTS = 60_000
YOUNG, OLD = 10, 5_000
ROUNDS = 7
LIMIT = 1.25


def main() -> None:
    gc.disable()
    open_runs()
    versions()


def open_runs() -> None:
    few, many = _Load(FEW), _Load(MANY)
    small, large = [], []
    for _ in range(ROUNDS):
        small.append(few.turn())
        large.append(many.turn())
    ratio = statistics.median(b / a for a, b in zip(small, large, strict=True))
    detail = {
        "open_runs": [FEW, MANY],
        "us_per_event": [round(statistics.median(part) / EVENTS * 1e6, 2) for part in (small, large)],
        "open_at_end": [len(load.fold.assembler.open) for load in (few, many)],
    }
    show(Figure("cost_ratio_open_runs", round(ratio, 2), "x", at_most=LIMIT, detail=detail))


class _Load:
    """A partition that always has so many runs open: each turn folds and builds rows of `EVENTS` events."""

    def __init__(self, open_count: int) -> None:
        self.fold = PartitionFold("bench", 0, LandRules(closed_runs_kept=1_000, state_max_bytes=8 << 30))
        self._offset = 0
        self._live = list(range(open_count))
        self._sequence = [1] * open_count
        self._next = open_count
        self._at = 0
        # Runs are spread over their lives, so that starts, steps and ends come in the usual mix.
        events = [(run, sequence) for run in self._live for sequence in range(1, 2 + run % (run_length() - 1))]
        for run, sequence in events:
            self._sequence[run] = sequence + 1
        for first in range(0, len(events), 50_000):
            self.fold.fold([self._record(run, sequence) for run, sequence in events[first : first + 50_000]])

    def turn(self) -> float:
        """CPU seconds of folding `EVENTS` events of the open runs in turn and building their columns."""
        records = []
        for _ in range(EVENTS):
            place = self._at % len(self._live)
            self._at += 1
            records.append(self._record(self._live[place], self._sequence[place]))
            self._sequence[place] += 1
            if self._sequence[place] > run_length():
                self._live[place], self._sequence[place] = self._next, 1
                self._next += 1
        started = time.process_time()
        for first in range(0, EVENTS, 10_000):
            landing = self.fold.fold(records[first : first + 10_000])
            batches(landing, "bench", 1 << 18)
        return time.process_time() - started

    def _record(self, run: int, sequence: int) -> Record:
        value = run_event(run, sequence)
        record = Record(self._offset, 1_700_000_000_000_000 + self._offset, key(run), value)
        self._offset += 1
        return record


def versions() -> None:
    with tempfile.TemporaryDirectory() as young_root, tempfile.TemporaryDirectory() as old_root:
        young, old = _Writer(young_root), _Writer(old_root)
        young.grow(YOUNG)
        old.grow(OLD)
        small, large = [], []
        for _ in range(ROUNDS * 3):
            small.append(young.timed())
            large.append(old.timed())
        reopened = [_cpu(writer.ledger.open) for writer in (young, old)]
    ratio = statistics.median(large) / statistics.median(small)
    detail = {
        "versions": [YOUNG, OLD],
        "commit_ms": [round(statistics.median(part) * 1e3, 2) for part in (small, large)],
        "open_ms": [round(seconds * 1e3, 1) for seconds in reopened],
        "events_per_commit": _Writer.EVENTS,
    }
    show(Figure("cost_ratio_table_versions", round(ratio, 2), "x", at_most=LIMIT, detail=detail))


class _Writer:
    """A lake that gets equal batches, one commit each."""

    EVENTS = 5_100

    def __init__(self, root: str) -> None:
        self.ledger = Ledger(Lake(root), "bench")
        self.ledger.open()
        self.ledger.landed("bench", 0)
        self._offset = 0
        records = [
            Record(n, 1_700_000_000_000_000, run_key, value)
            for n, (run_key, value) in enumerate(
                (key(run), event) for run in range(self.EVENTS // 17) for event in run_events(run)
            )
        ]
        landing = PartitionFold("bench", 0, LandRules()).fold(records)
        self._batches = batches(landing, "bench", 1 << 18)

    def grow(self, count: int) -> None:
        """Put so many versions into each table's log, each adding a file. Commits never read data files, so none is
        made."""
        for version in range(count):
            for name in (*SIDE_TABLES, COMMIT_POINT):
                log = self.ledger.log_of(name)
                log.commit(
                    [DataFile(f"grown-{version}.parquet", 1, '{"numRecords":1}')],
                    [Advance("other", version - 1, version)],
                )

    def timed(self) -> float:
        return _cpu(lambda: self._commit(self._batches))

    def _commit(self, tables: dict[str, object]) -> None:
        # Offsets only grow; the rows' own offsets do not matter to the cost.
        first = self._offset
        self._offset += 10_000
        self.ledger.commit([Stretch("bench", 0, first, self._offset - 1, _moved(tables, first), ())])


def _moved(tables: dict[str, object], first: int) -> dict[str, object]:
    import pyarrow as pa
    import pyarrow.compute as pc

    moved: dict[str, object] = {}
    for name, batch in tables.items():
        assert isinstance(batch, pa.RecordBatch)
        place = batch.schema.get_field_index("offset")
        moved[name] = batch.set_column(place, batch.schema.field(place), pc.add(batch.column(place), first))
    return moved


def _cpu(act: Callable[[], object]) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started


if __name__ == "__main__":
    main()
