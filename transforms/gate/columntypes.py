"""Columns as rules see them: kind by Arrow type, and the values of a suite that fit it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite
from typing import Any

import polars as pl
import pyarrow as pa


class Kind(StrEnum):
    """What a column holds, as far as rules care."""

    TEXT = "text"
    INTEGER = "whole numbers"
    FLOAT = "numbers"
    BOOL = "true or false"
    TIME = "times"
    NESTED = "nested values"


NUMERIC = (Kind.INTEGER, Kind.FLOAT)
Kinds = Mapping[str, Kind]


def kinds_of(schema: pa.Schema) -> dict[str, Kind]:
    """Kind of each column of a schema."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(kind: pa.DataType) -> Kind:
    for holds, found in (
        (pa.types.is_string, Kind.TEXT),
        (pa.types.is_large_string, Kind.TEXT),
        (pa.types.is_integer, Kind.INTEGER),
        (pa.types.is_floating, Kind.FLOAT),
        (pa.types.is_boolean, Kind.BOOL),
        (pa.types.is_timestamp, Kind.TIME),
    ):
        if holds(kind):
            return found
    return Kind.NESTED


def column(name: str, kinds: Kinds) -> pl.Expr:
    """A column whose NaN are null, as Great Expectations takes them. Raises ValueError for one that is not there."""
    found = pl.col(name)
    return found.fill_nan(None) if kind_of(name, kinds) is Kind.FLOAT else found


def kind_of(name: Any, kinds: Kinds) -> Kind:
    """Kind of a column. Raises ValueError for one that is not there."""
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"there is no column {name!r}")
    return kinds[name]


def literal(value: Any, kind: Kind) -> Any:
    """A value of a suite as the column's values are. Raises ValueError where it cannot be one of them."""
    if kind is Kind.TEXT and isinstance(value, str):
        return value
    if kind is Kind.BOOL and isinstance(value, bool):
        return value
    if kind in NUMERIC and isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return _number(value, kind)
    if kind is Kind.TIME and isinstance(value, str):
        return _time(value)
    raise ValueError(f"{value!r} is not what the column holds ({kind})")


def _number(value: float, kind: Kind) -> float:
    if kind is Kind.INTEGER:
        if value != int(value) or not -(2**63) <= value < 2**63:
            raise ValueError(f"{value!r} is no whole number of 64 bits, as the column has them")
        return int(value)
    if isinstance(value, int) and int(float(value)) != value:
        raise ValueError(f"{value!r} is no number of 64 bits with a floating point")
    return float(value)


def _time(value: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is no time; write it as 2026-01-31T00:00:00+00:00") from None
    if time.tzinfo is None:
        raise ValueError(f"{value!r} has no zone; write it as 2026-01-31T00:00:00+00:00")
    return time.astimezone(UTC)
