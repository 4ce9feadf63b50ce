"""`trajlake query`: SQL over the tables, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_table
from trajlake.cli.progress import aside, progress
from trajlake.cli.tables import NOTHING_THERE, nothing_landed

if TYPE_CHECKING:
    import pyarrow as pa

    from trajlake.expectations.progress import Progress
    from trajlake.reading.query import Result

TERMINAL_ROWS = 100
"""Rows that a terminal is shown when `--limit` does not say otherwise."""
CELL_CHARS = 200


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Add `query`."""
    app.command("query")(query)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, in DuckDB's SQL; - reads it from stdin.")],
    root: RootOption = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="WHEN", help="A version, steps=12,runs=9, or a moment (2026-01-31T12:00Z)."),
    ] = None,
    style: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    as_json: JsonOption = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help="Rows at most; 0 for all [default: 100 in a terminal, all elsewhere]."),
    ] = None,
) -> None:
    """Ask the tables in SQL: events, steps, runs, rewards, quarantine, gaps, current_steps and current_runs.

    current_steps and current_runs hold the latest revision of each step and run. Times are UTC. Nothing can be changed.

    Example: trajlake query "SELECT * FROM current_runs" --root ./lake
    """
    from trajlake.reading.query import QueryError, QueryResourceError, run_query
    from trajlake.reading.tables import open_lake
    from trajlake.reading.versions import VersionError

    text = sys.stdin.read() if sql == "-" else sql
    chosen = Format.JSON if as_json else style
    if limit is None:
        limit = TERMINAL_ROWS if chosen is Format.TABLE and sys.stdout.isatty() else 0
    try:
        lake = open_lake(root, at=at)
        if lake.is_empty():
            fail(nothing_landed(lake.root), NOTHING_THERE)
        # In a terminal rows of JSON and CSV are seen as they come.
        streams = chosen is not Format.TABLE and sys.stdout.isatty()
        with progress(quiet=streams) as shown, run_query(lake, text, shown) as result:
            _write(result, chosen, limit, shown)
    except (QueryError, VersionError) as error:
        fail(str(error), USAGE)
    except QueryResourceError as error:
        fail(str(error))
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        fail(str(error), USAGE)


def _write(result: Result, style: Format, limit: int, progress: Progress) -> None:
    names = unique_names(result.schema.names)
    rows = _rows(result)
    shown: Iterable[Sequence[Any]] = islice(rows, limit) if limit else rows
    if style is Format.JSON:
        _write_json(names, shown)
    elif style is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(map(_as_texts, shown))
    elif sys.stdout.isatty():
        cells = [[_short(value) for value in row] for row in shown]
        with aside(progress):
            print_table(cells, names)
        if limit and next(rows, None) is not None:
            note(f"the first {limit} rows; --limit 0 shows all")
    else:
        for line in chain([names], map(_as_texts, shown)):
            sys.stdout.write("\t".join(" ".join(cell.split()) for cell in line) + "\n")
    sys.stdout.flush()


def _write_json(names: list[str], rows: Iterable[Sequence[Any]]) -> None:
    """One JSON array, written row by row."""
    import orjson

    out = sys.stdout.buffer
    sys.stdout.flush()
    lead = b"["
    for row in rows:
        out.write(lead + orjson.dumps(dict(zip(names, row, strict=True)), default=str))
        lead = b",\n "
    out.write(b"[]\n" if lead == b"[" else b"]\n")
    out.flush()


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    """Rows as plain values: decimals as numbers, times with their zone, nested values as lists and mappings."""
    for batch in batches:
        columns = [_plain_column(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield list(row)


def _plain_column(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    values = column.to_pylist()
    flat = not (
        pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_map(kind) or pa.types.is_binary(kind)
    )
    return values if flat and not pa.types.is_interval(kind) else [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    from decimal import Decimal

    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            return float(value)
        whole = int(value)
        return whole if -(2**63) <= whole < 2**64 else str(whole)
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _as_texts(row: Sequence[Any]) -> list[str]:
    return [_as_text(value) for value in row]


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        import orjson

        return orjson.dumps(value, default=str).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _short(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = " ".join(_as_text(value).split())
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def unique_names(names: Sequence[str]) -> list[str]:
    """Column names, the second of a kind with `_2` behind it, so that no column hides another."""
    seen: set[str] = set()
    result = []
    for name in names:
        number, candidate = 1, name
        while candidate in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        result.append(candidate)
    return result
