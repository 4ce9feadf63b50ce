"""Scans: a table's rows in frames of some ten thousand, in memory that does not grow with the table.

A lake that workers land in has thousands of small files. They are fetched whole, several at a time and each by one
request, and joined to frames that are worth working on; large files are streamed one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import obstore
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from trajlake.expectations.tables import TABLES
from trajlake.sinks.actions import add_actions

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from trajlake.sinks.lake import Lake

FRAME_ROWS: Final = 65_536
FRAME_BYTES: Final = 64 << 20
SMALL_BYTES: Final = 4 << 20
"""Files up to this size are fetched whole. Times `_AT_ONCE`, it bounds what waits to be read."""
_AT_ONCE: Final = 8
_THREADS: Final = 4

Leaves = Mapping[str, tuple[str, str]]


class UnreadableTable(ValueError):
    """A table uses features of Delta that the flow never turns on and that would change what its files mean."""


@dataclass
class Scan:
    """One scan of a table. See `LakeTables.scan` for columns and leaves."""

    lake: Lake
    name: str
    columns: Sequence[str]
    leaves: Leaves = field(default_factory=dict)

    def frames(self, table: DeltaTable) -> Iterator[pl.DataFrame]:
        """Rows of the table at its version. Raises UnreadableTable, and the store's own errors."""
        if table.protocol().min_reader_version > 1:
            raise UnreadableTable(f"{self.lake.table_uri(self.name)} uses features of Delta that are not read here")
        files = add_actions(table).select(["path", "size_bytes"]).to_pylist()
        small = [self._path(file["path"]) for file in files if file["size_bytes"] <= SMALL_BYTES]
        large = [self._path(file["path"]) for file in files if file["size_bytes"] > SMALL_BYTES]
        for parts in _joined(self._read_small(small)):
            yield self._frame(parts)
        for path in large:
            file = pq.ParquetFile(obstore.open_reader(self.lake.store_of(self.name), path))
            for batch in file.iter_batches(_rows_at_once(file), columns=self._wanted(file), use_threads=False):
                yield self._frame([pa.Table.from_batches([batch])])

    def _path(self, path: str) -> str:
        return f"{self.lake.table_path(self.name)}/{unquote(path)}"

    def _read_small(self, paths: Sequence[str]) -> Iterator[pa.Table]:
        """Small files, several ahead of the reader."""
        todo = iter(paths)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="scan") as pool:
            ahead: deque[Future[pa.Table]] = deque(
                pool.submit(self._read_whole, path) for path in islice(todo, _AT_ONCE)
            )
            while ahead:
                part = ahead.popleft().result()
                ahead.extend(pool.submit(self._read_whole, path) for path in islice(todo, 1))
                if part.num_rows:
                    yield part

    def _read_whole(self, path: str) -> pa.Table:
        content = obstore.get(self.lake.store_of(self.name), path).bytes()
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)))
        return file.read(columns=self._wanted(file), use_threads=False)

    def _wanted(self, file: pq.ParquetFile) -> list[str]:
        """Parquet paths of the columns and fields that the file has; one of an older contract may lack some."""
        paths = [file.schema.column(place).path for place in range(len(file.schema))]
        inner = (_leaf_path(paths, *pair) for pair in self.leaves.values())
        return [*(column for column in self.columns if column in paths), *(path for path in inner if path is not None)]

    def _frame(self, parts: list[pa.Table]) -> pl.DataFrame:
        frame = pl.DataFrame(pl.from_arrow(pa.concat_tables(parts)))
        contract = pl.Schema(TABLES[self.name].schema)
        plain = [
            pl.col(name).cast(contract[name]) if name in frame.columns else pl.lit(None, contract[name]).alias(name)
            for name in self.columns
        ]
        return frame.select(*plain, *(_leaf(frame, *pair).alias(name) for name, pair in self.leaves.items()))


def _joined(parts: Iterator[pa.Table]) -> Iterator[list[pa.Table]]:
    """Parts of one schema, as many as make a frame."""
    held: list[pa.Table] = []
    rows = size = 0
    for part in parts:
        if held and (held[0].schema != part.schema or rows >= FRAME_ROWS or size >= FRAME_BYTES):
            yield held
            held, rows, size = [], 0, 0
        held.append(part)
        rows += part.num_rows
        size += part.nbytes
    if held:
        yield held


def _rows_at_once(file: pq.ParquetFile) -> int:
    """Rows of a file that stay within the size of a frame, judged by all its columns."""
    meta = file.metadata
    size: int = sum(meta.row_group(place).total_byte_size for place in range(meta.num_row_groups))
    rows: int = meta.num_rows
    return max(256, min(FRAME_ROWS, FRAME_BYTES * max(1, rows) // max(1, size)))


def _leaf_path(paths: list[str], column: str, leaf: str) -> str | None:
    """Parquet path of a field of a list of structs; writers name the level between differently."""
    return next((path for path in paths if path.startswith(f"{column}.list.") and path.endswith(f".{leaf}")), None)


def _leaf(frame: pl.DataFrame, column: str, leaf: str) -> pl.Expr:
    kind = frame.schema.get(column)
    item = kind.inner if isinstance(kind, pl.List) else None
    if not isinstance(item, pl.Struct) or leaf not in {part.name for part in item.fields}:
        return pl.lit([], dtype=pl.List(pl.String))
    return pl.col(column).list.eval(pl.element().struct.field(leaf)).fill_null([])
