"""Parquet data files of the tables: encoded in memory, stored under a name nobody has, invisible until a commit adds
them."""

from __future__ import annotations

import uuid
from typing import Any

import obstore
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import BaseError, NotFoundError

from trajlake.expectations.tables import Table
from trajlake.sinks.deltalog import DataFile
from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake

ROW_GROUP_ROWS = 131_072
_COMPRESSION_LEVEL = 1


def write_data_file(lake: Lake, table: Table, batches: list[pa.RecordBatch]) -> DataFile:
    """Encode record batches (in the contract's schema) as one Parquet file and store it. Zstandard, level 1.

    Raises `SinkUnavailable` when the store does not take it.
    """
    rows = pa.Table.from_batches(batches, schema=table.schema)
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, table) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    content = sink.getvalue()
    path = f"part-{uuid.uuid4().hex}.parquet"
    try:
        obstore.put(lake.store_of(table.name), f"{lake.table_path(table.name)}/{path}", memoryview(content).cast("B"))
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error), table.name) from error
    return DataFile(path, content.size, statistics(table, rows))


def remove_data_file(lake: Lake, name: str, path: str) -> bool:
    """Take a table's data file away. Returns whether it was there. Raises `SinkUnavailable`."""
    try:
        obstore.delete(lake.store_of(name), f"{lake.table_path(name)}/{path}")
    except (FileNotFoundError, NotFoundError):
        return False
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error), name) from error
    return True


def parquet_writer(sink: pa.NativeFile, table: Table, schema: pa.Schema | None = None) -> pq.ParquetWriter:
    """A Parquet writer as all files of a table are written. `schema`: the contract's unless given."""
    return pq.ParquetWriter(
        sink,
        table.schema if schema is None else schema,
        compression="zstd",
        compression_level=_COMPRESSION_LEVEL,
        use_dictionary=list(table.dictionary),
        write_statistics=list(table.keys),
        version="2.6",
    )


def statistics(table: Table, rows: pa.Table) -> str:
    """Delta file statistics as JSON: row count, and minimum, maximum and null count of the table's key columns."""
    import pyarrow.compute as pc

    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in table.keys:
        column = rows.column(name)
        nulls[name] = column.null_count
        bounds = pc.min_max(column)
        if bounds["min"].is_valid:
            low[name] = _stat(bounds["min"])
            high[name] = _stat(bounds["max"])
    return orjson.dumps({"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}).decode()


def _stat(value: pa.Scalar) -> Any:
    if pa.types.is_timestamp(value.type):
        # Not strftime: it writes years below 1000 without leading zeros, which no reader takes.
        return value.as_py().replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return value.as_py()
