"""Rows to Arrow columns, one column at a time: flat Python lists, and nested columns as offsets plus flat children.

Nested values never become lists of dicts: building a list-of-struct column from dicts costs several times as much as
the whole fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from trajlake.expectations.tables import Table


def list_column(kind: pa.DataType, rows: Sequence[Sequence[tuple[Any, ...]] | None]) -> pa.Array:
    """A list-of-struct column. Each row is null, or a sequence of tuples in the order of the struct's fields."""
    if not any(row is not None for row in rows):
        return pa.nulls(len(rows), kind)
    flat = [item for row in rows if row for item in row]
    columns: Sequence[Sequence[Any]] = list(zip(*flat, strict=True)) or [()] * kind.value_type.num_fields
    return nested_column(kind, [None if row is None else len(row) for row in rows], columns)


def nested_column(kind: pa.DataType, counts: Sequence[int | None], columns: Sequence[Sequence[Any]]) -> pa.ListArray:
    """A list-of-struct column from the number of items of each row (None: a null row) and one flat list per struct
    field."""
    offsets: list[int | None] = []
    end = 0
    for count in counts:
        offsets.append(None if count is None else end)
        end += count or 0
    offsets.append(end)
    fields = list(kind.value_type)
    children = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    values = pa.StructArray.from_arrays(children, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def text_column(values: Sequence[bytes]) -> pa.StringArray:
    """A string column of bytes that are known to be UTF-8; they are not checked again."""
    raw = pa.array(values, pa.binary())
    return pa.StringArray.from_buffers(len(raw), raw.buffers()[1], raw.buffers()[2], raw.buffers()[0], raw.null_count)


def shared(kind: pa.DataType, values: Sequence[Any], places: pa.Array) -> pa.Array:
    """A column whose rows repeat few values: each value converted once, then taken by place."""
    return pa.array(values, kind).take(places)


def constant(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A column that holds one value `count` times."""
    return pa.repeat(pa.scalar(value, kind), count)


def to_batch(table: Table, columns: dict[str, Any], count: int) -> pa.RecordBatch:
    """A record batch in the contract's order and types. Columns may be Arrow arrays or flat lists; a missing one is
    null.

    Raises `pa.ArrowInvalid` when a value does not fit the contract, and `ValueError` for a column that it does not
    know.
    """
    unknown = columns.keys() - set(table.names)
    if unknown:
        raise ValueError(f"table {table.name} has no column {sorted(unknown)[0]}")
    arrays = []
    for column in table.columns:
        values = columns.get(column.name)
        if values is None:
            arrays.append(pa.nulls(count, column.type))
        elif isinstance(values, pa.Array):
            arrays.append(values)
        else:
            arrays.append(pa.array(values, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
