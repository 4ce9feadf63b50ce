"""The ledger in log order: rows of each partition sorted by offset, whatever files they lie in, each file read once.

Files of a lake hold several partitions, small ones come in commit order, compacted ones may lie anywhere. A first pass
over the offsets alone says which offsets of which partition each row group holds; then row groups are read in the
order in which they unblock the partition that has most rows waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import obstore
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import EVENTS
from trajlake.reading.scan import SMALL_BYTES
from trajlake.reading.tables import LakeTables, PartitionId
from trajlake.sinks.actions import add_actions
from trajlake.transforms.integrity.rows import rows_in_order

_PLACE: Final = ["topic", "partition", "offset"]


@dataclass
class _Unit:
    """A row group of a file, and the lowest offset that it holds of each partition."""

    path: str
    size: int
    group: int
    lowest: dict[PartitionId, int] = field(default_factory=dict)


class LedgerWalk:
    """One walk over `events` at its pinned version. `progress` counts files of the first pass, then rows."""

    def __init__(self, lake: LakeTables, columns: Sequence[str], progress: Progress = SILENT) -> None:
        self._lake = lake
        self._columns = list(columns)
        self._progress = progress
        self._rows = 0
        self._open_file: tuple[str, pq.ParquetFile] | None = None
        self._unread: dict[PartitionId, list[tuple[int, int]]] = {}
        self._units: list[_Unit] = []
        self._waiting: dict[PartitionId, list[pa.Table]] = {}

    def stretches(self, landed: dict[PartitionId, int]) -> Iterator[tuple[PartitionId, int, pa.Table]]:
        """Rows of a partition up to an offset below which no more will come: partition, that offset, rows in order.

        Offsets never go back within a partition, each comes once, and none is above what has `landed`.
        """
        self._survey()
        self._progress.stage("hashing the ledger", self._rows, "rows")
        done: set[int] = set()
        ends = dict.fromkeys(landed, -1)
        while (number := self._next(done)) is not None:
            done.add(number)
            self._read(self._units[number])
            for key in self._units[number].lowest:
                end = min(self._ready(key, done), landed.get(key, -1))
                if end > ends.get(key, -1) and self._waiting.get(key):
                    ends[key] = end
                    yield key, end, self._take(key, end)

    def _survey(self) -> None:
        table = self._lake.delta("events")
        if table is None:
            return
        files = add_actions(table).select(["path", "size_bytes"]).to_pylist()
        self._progress.stage("finding the ledger's rows", len(files), "files")
        for item in files:
            path = f"{self._lake.lake.table_path('events')}/{unquote(item['path'])}"
            file = self._file(path, item["size_bytes"])
            for group in range(file.num_row_groups):
                unit = _Unit(path, item["size_bytes"], group)
                frame = pl.DataFrame(pl.from_arrow(file.read_row_group(group, _PLACE, use_threads=False)))
                lows = frame.group_by("topic", "partition").agg(pl.col("offset").min())
                unit.lowest = {(topic, partition): low for topic, partition, low in lows.rows()}
                self._units.append(unit)
                self._rows += len(frame)
                for key, low in unit.lowest.items():
                    self._unread.setdefault(key, []).append((low, len(self._units) - 1))
            self._progress.advance()
        for places in self._unread.values():
            places.sort(reverse=True)

    def _next(self, done: set[int]) -> int | None:
        """The row group that lets the partition with most rows waiting go on; None when all are read."""
        best, most = None, -1
        for key, places in self._unread.items():
            while places and places[-1][1] in done:
                places.pop()
            if places:
                size = sum(part.nbytes for part in self._waiting.get(key, ()))
                if size > most:
                    best, most = places[-1][1], size
        return best

    def _ready(self, key: PartitionId, done: set[int]) -> int:
        """Last offset of a partition below all that is unread."""
        places = self._unread[key]
        while places and places[-1][1] in done:
            places.pop()
        return places[-1][0] - 1 if places else 1 << 62

    def _read(self, unit: _Unit) -> None:
        file = self._file(unit.path, unit.size)
        known = set(file.schema_arrow.names)
        rows = file.read_row_group(unit.group, [name for name in self._columns if name in known], use_threads=False)
        # Columns alone: who wrote a file decides whether its fields may be null, and that must not matter.
        columns = {
            name: rows.column(name).cast(kind) if name in known else pa.nulls(rows.num_rows, kind)
            for name, kind in ((name, EVENTS.schema.field(name).type) for name in self._columns)
        }
        rows = pa.table(columns)
        self._progress.advance(rows.num_rows)
        for topic, partition in unit.lowest:
            own = (
                rows
                if len(unit.lowest) == 1
                else rows.filter((pc.field("topic") == topic) & (pc.field("partition") == partition))
            )
            self._waiting.setdefault((topic, partition), []).append(own)

    def _take(self, key: PartitionId, end: int) -> pa.Table:
        rows = pa.concat_tables(self._waiting.pop(key))
        now = rows.filter(pc.field("offset") <= end)
        if now.num_rows < rows.num_rows:
            self._waiting[key] = [rows.filter(pc.field("offset") > end)]
        return rows_in_order(now)

    def _file(self, path: str, size: int) -> pq.ParquetFile:
        if self._open_file is None or self._open_file[0] != path:
            store: Any = self._lake.lake.store
            source = (
                pa.BufferReader(pa.py_buffer(obstore.get(store, path).bytes()))
                if size <= SMALL_BYTES
                else obstore.open_reader(store, path)
            )
            self._open_file = path, pq.ParquetFile(source)
        return self._open_file[1]
