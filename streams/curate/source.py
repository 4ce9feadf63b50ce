"""Rows of the restricted tables by the runs that they belong to, read from as few files and columns as that takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote

import obstore
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import BaseError, NotFoundError

from trajlake.expectations.tables import TABLES
from trajlake.sinks.deltalog import reason
from trajlake.sinks.errors import FileGone, SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.streams.curate.files import HIGHEST, LOWEST, FileIndex, StoredFile
from trajlake.transforms.curate.steps import RUN_KEY

WHOLE_BYTES: Final = 32 << 20
"""Files up to this size are fetched by one request."""


class TooMuch(Exception):
    """The rows of some runs are larger than what may be held at once."""


class Source:
    """One table of the lake: its files, and reading them."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.lake = lake
        self.name = name
        self.files = FileIndex(lake, name)

    @property
    def version(self) -> int:
        return self.files.version

    def rows_since(self, since: int) -> int:
        """Rows of the files that `new_keys` reads."""
        return sum(file.rows for file in self.files.since(since))

    def new_keys(self, since: int, columns: Sequence[str], least_rows: int) -> Iterator[pl.DataFrame]:
        """Some columns of the rows that were added after a version, in frames of about so many rows.

        A frame holds all of the rows whose offsets lie in a window, and the windows follow each other: so what is in a
        frame comes before what is in the next, in every partition. Older rows may be among them.
        """
        files = sorted(self.files.since(since), key=lambda file: file.offsets[1])
        below = LOWEST
        for top in _windows(files, least_rows):
            inside = (pl.col("offset") > below) & (pl.col("offset") <= top)
            found = [
                _frame([self._read(file, columns)]).filter(inside)
                for file in files
                if file.offsets[0] <= top and file.offsets[1] > below
            ]
            yield pl.concat(found)
            below = top

    def rows_of(
        self, wanted: pl.DataFrame, columns: Sequence[str], where: pl.Expr, max_bytes: int = HIGHEST
    ) -> pa.Table:
        """Rows that belong to runs.

        wanted: `RUN_KEY`, `low` and `high` (offsets that the rows lie between), and what else `where` asks for; with
        `since_us`, `until_us` files are left out whose steps started at other times. where: on the columns of both.
        Raises `TooMuch` when they take more than `max_bytes`, `SinkUnavailable`.
        """
        keys = [*RUN_KEY, "offset", *(name for name in where.meta.root_names() if name in TABLES[self.name].names)]
        keys = list(dict.fromkeys(keys))
        kept: list[pa.Table] = []
        size = 0
        for file in self._touching(wanted):
            for part in self._read_hits(file, wanted, keys, columns, where):
                kept.append(part)
                size += part.nbytes
                if size > max_bytes:
                    raise TooMuch
        schema = pa.schema([TABLES[self.name].schema.field(name) for name in columns])
        return pa.concat_tables(kept) if kept else schema.empty_table()

    def rows_matching(
        self, wanted: pl.DataFrame, on: Sequence[str], columns: Sequence[str], files: Sequence[StoredFile]
    ) -> pa.Table:
        """Rows of some files whose `on` columns are among `wanted`."""
        kept = []
        for file in files:
            opened = self._open(file)
            for group in range(opened.num_row_groups):
                keys = _frame([self._in_contract(opened.read_row_group(group, list(on), use_threads=False), on)])
                hits = keys.with_row_index("row").join(wanted, on=list(on), how="semi")["row"].sort()
                if len(hits):
                    rows = opened.read_row_group(group, list(columns), use_threads=False)
                    kept.append(self._in_contract(rows, columns).take(hits.to_arrow()))
        schema = pa.schema([TABLES[self.name].schema.field(name) for name in columns])
        return pa.concat_tables(kept) if kept else schema.empty_table()

    def rows_where(
        self, columns: Sequence[str], where: pl.Expr, files: Sequence[StoredFile] | None = None
    ) -> pl.DataFrame:
        """Rows for which an expression over `columns` holds, file by file; of all files unless some are given."""
        chosen = self.files.all() if files is None else files
        found = [_frame([self._read(file, columns)]).filter(where) for file in chosen]
        schema = pa.schema([TABLES[self.name].schema.field(name) for name in columns])
        return pl.concat([_frame([schema.empty_table()]), *found])

    def _touching(self, wanted: pl.DataFrame) -> list[StoredFile]:
        """Files that may hold rows of the runs, each once."""
        timed = "since_us" in wanted.columns
        nulls = pl.col("since_us", "until_us").null_count().name.suffix("_nulls")
        times = [pl.col("since_us").min(), pl.col("until_us").max(), nulls] if timed else []
        spans = wanted.group_by("partition").agg(pl.col("low").min(), pl.col("high").max(), *times).sort("partition")
        found: dict[str, StoredFile] = {}
        for span in spans.iter_rows(named=True):
            open_time = not timed or span["since_us_nulls"] or span["until_us_nulls"]
            since, until = (LOWEST, HIGHEST) if open_time else (span["since_us"], span["until_us"])
            for file in self.files.touching(span["partition"], span["low"], span["high"], since, until):
                found[file.path] = file
        return list(found.values())

    def _open(self, file: StoredFile) -> pq.ParquetFile:
        path = f"{self.lake.table_path(self.name)}/{unquote(file.path)}"
        store = self.lake.store_of(self.name)
        try:
            if file.size <= WHOLE_BYTES:
                return pq.ParquetFile(pa.BufferReader(pa.py_buffer(obstore.get(store, path).bytes())))
            return pq.ParquetFile(obstore.open_reader(store, path))
        except (FileNotFoundError, NotFoundError) as error:
            raise FileGone(reason(error), self.name) from error
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self.name) from error

    def _read(self, file: StoredFile, columns: Sequence[str]) -> pa.Table:
        return self._in_contract(self._open(file).read(columns=list(columns), use_threads=False), columns)

    def _read_hits(
        self, file: StoredFile, wanted: pl.DataFrame, keys: list[str], columns: Sequence[str], where: pl.Expr
    ) -> Iterator[pa.Table]:
        """Rows of a file that belong to the runs, row group by row group: keys first, the rest where any is hit."""
        opened = self._open(file)
        for group in range(opened.num_row_groups):
            found = _frame([self._in_contract(opened.read_row_group(group, keys, use_threads=False), keys)])
            hits = (
                found.with_row_index("row").join(wanted, on=RUN_KEY, how="inner").filter(where)["row"].unique().sort()
            )
            if not len(hits):
                continue
            rows = self._in_contract(opened.read_row_group(group, list(columns), use_threads=False), columns)
            yield rows if len(hits) == rows.num_rows else rows.take(hits.to_arrow())

    def _in_contract(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Columns in the order asked for and the contract's types; what an older file lacks is null."""
        schema = TABLES[self.name].schema
        present = dict(zip(rows.column_names, rows.columns, strict=True))
        arrays = []
        for name in columns:
            kind = schema.field(name).type
            column = present.get(name)
            if column is None:
                column = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
            arrays.append(column if column.type == kind else column.cast(kind))
        return pa.table(arrays, schema=pa.schema([pa.field(name, schema.field(name).type) for name in columns]))


def _windows(files: Sequence[StoredFile], least_rows: int) -> list[int]:
    """Highest offsets of windows that hold about so many rows each. `files`: in the order of their highest offsets."""
    tops: list[int] = []
    rows = 0
    for file in files:
        rows += file.rows
        if rows >= least_rows:
            tops.append(file.offsets[1])
            rows = 0
    if files and (not tops or tops[-1] < files[-1].offsets[1]):
        tops.append(files[-1].offsets[1])
    return list(dict.fromkeys(tops))


def _frame(parts: list[pa.Table]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.concat_tables(parts)))
