"""Versions: which state of a table is meant, by number or by moment, and how it is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

At: TypeAlias = int | datetime | Mapping[str, int]
"""A version for each table that is asked for, a moment, or a version by table name (the others at their newest)."""


class VersionError(ValueError):
    """A table has no such version; the message names the table and what it has."""


def parse_at(text: str) -> At:
    """Read `12`, `steps=12,runs=9`, or a moment such as `2026-01-31T12:00:00Z` (UTC where it names no zone)."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    if "=" in text:
        parts = [part.partition("=") for part in text.split(",")]
        chosen = {name.strip(): number.strip() for name, _, number in parts}
        for name, number in chosen.items():
            if name not in TABLES:
                raise ValueError(f"no table named {name!r}; tables: {', '.join(TABLES)}")
            if not number.isdecimal():
                raise ValueError(f"version of {name} is {number!r}, which is no whole number")
        return {name: int(number) for name, number in chosen.items()}
    try:
        moment = datetime.fromisoformat(re.sub(r"\s+", "T", text, count=1))
    except ValueError:
        raise ValueError(
            f"{text!r} is no version: write 12, steps=12,runs=9 or a moment such as 2026-01-31T12:00:00Z"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def committed_at(lake: Lake, name: str, version: int) -> datetime | None:
    """When a version of a table was committed, by the clock of its writer; UTC. None when its log entry is no longer
    kept.

    Read from the entry itself: `DeltaTable.history` of an older version shows the times of newer ones.
    """
    import orjson
    from obstore.exceptions import NotFoundError

    path = lake.log_entry_path(name, version)
    try:
        lines = bytes(lake.store_of(name).get(path).bytes()).splitlines()
    except (FileNotFoundError, NotFoundError):
        return None
    stamps = [
        info["timestamp"] for line in lines if b"commitInfo" in line and (info := orjson.loads(line).get("commitInfo"))
    ]
    return datetime.fromtimestamp(stamps[0] / 1000, UTC) if stamps else None


def open_table(lake: Lake, name: str, at: At | None) -> DeltaTable | None:
    from deltalake.exceptions import TableNotFoundError

    version = at.get(name) if isinstance(at, Mapping) else at
    try:
        if version is None:
            return lake.open(name)
        if isinstance(version, datetime):
            table = lake.open(name)
            table.load_as_version(version)
            # A moment before the first version loads the first version; at that time the table was not there.
            moment = committed_at(lake, name, table.version())
            return table if moment is None or moment <= version else None
        return _open_version(lake, name, version)
    except TableNotFoundError:
        if isinstance(version, int):
            raise VersionError(f"{name} has no version {version}: nothing has landed in it yet") from None
        return None


def _open_version(lake: Lake, name: str, version: int) -> DeltaTable:
    from deltalake.exceptions import DeltaError, TableNotFoundError

    newest = lake.open(name).version()
    if version > newest:
        raise VersionError(f"{name} has no version {version}; it has 0 to {newest}")
    try:
        return lake.open(name, version)
    except TableNotFoundError:
        raise
    except DeltaError:
        raise VersionError(f"version {version} of {name} is no longer kept; its newest is {newest}") from None
