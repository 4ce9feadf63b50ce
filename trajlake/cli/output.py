"""What commands print: JSON for programs, tables for people, one line for an error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from trajlake.reading.text import clean

_FOLD_CHARS = 24
"""Longer words are folded in a table."""
_GAP_CHARS = 2
USAGE = 2
"""Exit code where a command could not begin: a wrong option, setting, path or format."""
MAX_ERROR_CHARS = 600
"""An error line longer than this is cut: the rest is shown by --debug."""


def print_json(value: Any, *, indent: bool = False) -> None:
    """Print a value as one JSON document and a newline.

    Dataclasses, datetimes (RFC 3339), UUIDs and numpy scalars are written as JSON has them; anything else that JSON has
    no form for is written as its text. `indent` is for people; without it a document is one line.
    """
    import orjson

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    if indent:
        options |= orjson.OPT_INDENT_2
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(value, default=_as_json, option=options))
    sys.stdout.buffer.flush()


def _as_json(value: Any) -> Any:
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    return str(value)


def print_table(
    rows: Iterable[Mapping[str, Any] | Sequence[Any]], columns: Sequence[str], *, title: str | None = None
) -> None:
    """Print rows under named columns: ruled and fitted to the width in a terminal, tab-separated in a pipe.

    Where the terminal is too narrow for all columns beside each other, each row is a block of lines. A row is a mapping
    by column name or a sequence in column order. Numbers are set to the right; None is shown as `-` in a terminal and
    as an empty field in a pipe.
    """
    cells = [[row.get(name) for name in columns] if isinstance(row, Mapping) else list(row) for row in rows]
    if not sys.stdout.isatty():
        print("\t".join(columns))
        for row in cells:
            print("\t".join("" if cell is None else one_line(cell, limit=None) for cell in row))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    if _least_width(cells, columns) > console.width:
        _print_blocks(console, cells, columns, title)
        return
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], (int, float)) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(_shown(cell)) for cell in row))
    console.print(table)


def _least_width(cells: Sequence[Sequence[Any]], columns: Sequence[str]) -> int:
    """Columns of a terminal that a table needs to be readable: each its longest word, long ones folded."""
    total = 0
    for index, name in enumerate(columns):
        words = [name, *(word for row in cells for word in _shown(row[index]).split())]
        total += min(_FOLD_CHARS, max(map(len, words))) + _GAP_CHARS
    return total


def _print_blocks(console: Any, cells: Sequence[Sequence[Any]], columns: Sequence[str], title: str | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    if title is not None:
        console.print(escape(title), highlight=False)
    for number, row in enumerate(cells):
        if number:
            console.print()
        block = Table.grid(padding=(0, _GAP_CHARS, 0, 0))
        block.add_column(style="dim", overflow="fold", max_width=_FOLD_CHARS)
        block.add_column(overflow="fold")
        for name, cell in zip(columns, row, strict=True):
            block.add_row(escape(name), escape(_shown(cell)))
        console.print(block)


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else clean(cell)


def note(message: str) -> None:
    """Tell the person something that is not data: on stderr, so that pipes get data only."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one line on stderr and this exit code."""
    sys.stderr.write(f"trajlake: {one_line(message)}\n")
    raise SystemExit(code)


def one_line(value: object, limit: int | None = MAX_ERROR_CHARS) -> str:
    """The text of a value or error in one line: white space collapsed, cut at `limit` characters.

    What a terminal would obey or not show is made visible, in a pipe as well: it may end in one. JSON has it exactly.
    An error without a message, or one whose message is only a key, is shown with its type.
    """
    text = clean(" ".join(str(value).split()))
    if isinstance(value, BaseException) and (not text or isinstance(value, KeyError)):
        text = f"{type(value).__name__}: {text}" if text else type(value).__name__
    if limit is not None and len(text) > limit:
        return text[: limit - 1] + "…"
    return text
