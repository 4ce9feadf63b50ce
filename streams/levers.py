"""The lever table in use: the operator's own file, or the one that comes with trajlake."""

from __future__ import annotations

from pathlib import Path

from trajlake.expectations.levers import LeverError, LeverTable, read_levers, shipped_levers


def read_lever_file(path: str) -> LeverTable:
    """Read a lever table; the shipped one where `path` is empty. Raises `LeverError` naming the file and what is
    wrong."""
    if not path:
        return shipped_levers()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise LeverError(f"{path}: {reason}") from None
    return read_levers(path, text)
