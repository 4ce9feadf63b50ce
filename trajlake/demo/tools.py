"""Tools of the demo's agents. Each does what its name says: files, SQLite, processes, text. None is simulated.

A tool takes the agent's folder and its arguments, and returns content, or raises what Python, SQLite or the system
raise.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

READ_CHARS: Final = 4_000
"""What `read_file` returns at once; agents page through longer files."""

SQL_ROWS: Final = 20
LOCK_WAIT_S: Final = 0.05
"""How long SQLite waits for a lock of somebody else."""

VERSION: Final = "2"


class PolicyDenied(Exception):
    """The guard refused a call."""


class ToolNotFoundError(Exception):
    """The agent called a tool that it was not offered."""


@dataclass(frozen=True)
class Result:
    """What a tool gives back; with the exit code where it ran a process."""

    content: Any
    exit_code: int | None = None


def list_files(folder: Path, path: str = ".") -> list[str]:
    """Names of all files below a folder, sorted."""
    place = folder / path
    return sorted(str(found.relative_to(place)) for found in place.rglob("*") if found.is_file())


def read_file(folder: Path, path: str, start: int = 0) -> str:
    """Text of a file from a character on, at most `READ_CHARS`."""
    return (folder / path).read_text(encoding="utf-8")[start : start + READ_CHARS]


def write_file(folder: Path, path: str, text: str) -> str:
    """Write a text file, and the folders above it."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    return f"{(folder / path).write_text(text, encoding='utf-8')} characters written"


def move_file(folder: Path, path: str, to: str) -> str:
    """Move a file, and make the folders above its new place."""
    (folder / to).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).rename(folder / to)
    return f"moved to {to}"


def remove_file(folder: Path, path: str) -> str:
    """Remove a file."""
    (folder / path).unlink()
    return "removed"


def read_settings(folder: Path, path: str) -> dict[str, Any]:
    """Settings of a service, as it keeps them."""
    settings: dict[str, Any] = json.loads((folder / path).read_text(encoding="utf-8"))
    return settings


def run_sql(folder: Path, database: str, sql: str) -> list[list[Any]]:
    """Rows of one statement on a SQLite file that exists."""
    place = f"{(folder / database).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(place, timeout=LOCK_WAIT_S, uri=True)) as connection:
        return [list(row) for row in connection.execute(sql).fetchmany(SQL_ROWS)]


def run_python(folder: Path, path: str, timeout_s: float = 10.0) -> Result:
    """Run a Python script in a process of its own, which is killed when its time is over."""
    done = subprocess.run(
        # Isolated and without site-packages: starts in a few milliseconds, and sees nothing of ours.
        [sys.executable, "-I", "-S", path],
        cwd=folder,
        env={"PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    content = {"stdout": done.stdout[-READ_CHARS:], "stderr": done.stderr[-READ_CHARS:]}
    return Result(content, done.returncode)


def search_lines(folder: Path, pattern: str, path: str) -> dict[str, Any]:
    """Count the lines of a file, compressed or not, in which a regular expression is found; and the last of them."""
    place = folder / path
    raw = place.read_bytes()
    text = (gzip.decompress(raw) if place.suffix == ".gz" else raw).decode()
    found = [line for line in text.splitlines() if re.search(pattern, line)]
    return {"lines": len(found), "last": found[-1] if found else None}


def parse_json(folder: Path, path: str) -> dict[str, Any]:
    """Parse a JSON file, and say what it holds."""
    value = json.loads((folder / path).read_text(encoding="utf-8"))
    return {"type": type(value).__name__, "length": len(value) if isinstance(value, (list, dict)) else None}


TOOLS: Final[Mapping[str, Callable[..., Any]]] = {
    tool.__name__: tool
    for tool in (
        list_files,
        read_file,
        write_file,
        move_file,
        remove_file,
        read_settings,
        run_sql,
        run_python,
        search_lines,
        parse_json,
    )
}

PATHS: Final = ("path", "to", "database")
"""Arguments that name a place."""


def outside(folder: Path, arguments: Mapping[str, Any]) -> str | None:
    """The first argument that names a place outside the agent's folder, or None."""
    for name in PATHS:
        place = arguments.get(name)
        if isinstance(place, str) and not (folder / place).resolve().is_relative_to(folder.resolve()):
            return name
    return None
