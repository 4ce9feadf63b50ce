"""Which data files a table has, and which of them are new: from the Delta log's own entries.

The first look reads the table's newest snapshot. After that only the commits that came since are read, so the cost of
a look grows with what is new. Files that upkeep has joined count as old as the newest of those that they replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import BaseError

from trajlake.sinks.actions import add_actions
from trajlake.sinks.deltalog import reason
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.sinks.rewriting import CommitFiles

MAX_TAIL: Final = 2_000
"""Commits read one by one; a table that is further ahead is opened anew."""
LOWEST: Final = -(1 << 62)
HIGHEST: Final = 1 << 62
UNKNOWN: Final = -1


class StoredFile(NamedTuple):
    """A data file: path as the log has it, size in bytes, version that added it (-1: before the first look), and bounds
    of `partition`, `offset`, `started_at` and `holds_until` (µs) where it says so."""

    path: str
    size: int
    rows: int
    added: int
    partitions: tuple[int, int]
    offsets: tuple[int, int]
    times: tuple[int, int]
    until: tuple[int, int]
    publications: tuple[int, int]


class FileIndex:
    """The files of one table. `version`: the newest that was seen, -1 while there is no table."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.lake = lake
        self.name = name
        self.version = -1
        self._files: dict[str, StoredFile] = {}
        self._arrays: tuple[list[StoredFile], np.ndarray] | None = None
        self._commits = CommitFiles(lake, name)

    def refresh(self, known: int = UNKNOWN) -> int:
        """Take in what was committed since the last look, and return the version.

        `known`: for the first look, a version whose files are no news; those that came later count as added since.
        Raises `SinkUnavailable`.
        """
        try:
            if self.version < 0:
                self._load(known)
            for version, actions in self._tail():
                self._apply(version, actions)
        except (DeltaError, OSError, BaseError) as error:
            raise SinkUnavailable(reason(error), self.name) from error
        return self.version

    def load_version(self, version: int) -> None:
        """Take the files of one version, and stay there."""
        self._files.clear()
        self._take(self.lake.open(self.name, version), UNKNOWN)

    def all(self) -> list[StoredFile]:
        return list(self._files.values())

    def since(self, version: int) -> list[StoredFile]:
        """Files that hold what was added after a version, oldest first. Files of unknown age are among them."""
        found = [file for file in self._files.values() if file.added > version or file.added == UNKNOWN]
        return sorted(found, key=lambda file: (file.added, file.offsets, file.path))

    def touching(
        self, partition: int, low: int, high: int, since_us: int = LOWEST, until_us: int = HIGHEST
    ) -> list[StoredFile]:
        """Files that may hold rows of a partition with offsets `low..high` that started in a stretch of time (µs)."""
        files, bounds = self._bounds()
        if not files:
            return []
        hit = (
            (bounds[:, 0] <= partition) & (bounds[:, 1] >= partition) & (bounds[:, 2] <= high) & (bounds[:, 3] >= low)
            & (bounds[:, 4] <= until_us) & (bounds[:, 5] >= since_us)
        )  # fmt: skip
        return [files[place] for place in np.flatnonzero(hit)]

    def _bounds(self) -> tuple[list[StoredFile], np.ndarray]:
        if self._arrays is None:
            files = list(self._files.values())
            bounds = np.array([(*f.partitions, *f.offsets, *f.times) for f in files], np.int64).reshape(-1, 6)
            self._arrays = files, bounds
        return self._arrays

    def _load(self, known: int) -> None:
        """The newest snapshot, or that of a version that is known, so that the commits behind it can be told apart."""
        try:
            stored = self.lake.open(self.name)
        except TableNotFoundError:
            return
        if 0 <= known < stored.version() and stored.version() - known <= MAX_TAIL:
            try:
                stored = self.lake.open(self.name, known)
            except DeltaError:
                known = UNKNOWN
        self._take(stored, stored.version() if stored.version() == known else UNKNOWN)

    def _take(self, stored: DeltaTable, age: int) -> None:
        self.version = stored.version()
        actions = add_actions(stored)
        for row in actions.to_pylist():
            file = StoredFile(
                row["path"], row["size_bytes"], row["num_records"] or 0, age,
                _span(row, "partition"), _span(row, "offset"), _time_span(row), _until(row),
                _span(row, "publication"),
            )  # fmt: skip
            self._files[file.path] = file
        self._arrays = None

    def _tail(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Commits behind the version, in order."""
        if self.version < 0:
            return
        while True:
            version = self.version + 1
            content = self._commits.content(version)
            if content is None:
                if self._is_cleaned():
                    self._files.clear()
                    self._load(UNKNOWN)
                return
            yield version, [orjson.loads(line) for line in content.splitlines() if line.strip()]

    def _is_cleaned(self) -> bool:
        """Whether the log no longer holds the version that was seen last, and may have gone on behind it."""
        return not self._commits.holds(self.version) and self.lake.open(self.name).version() > self.version

    def _apply(self, version: int, actions: Sequence[dict[str, Any]]) -> None:
        gone = [
            file
            for action in actions
            if "remove" in action and (file := self._files.pop(action["remove"]["path"], None)) is not None
        ]
        inherited = max((file.added for file in gone), default=version)
        for action in actions:
            if "add" in action:
                add = action["add"]
                file = _of_add(add, version if add.get("dataChange", True) else inherited)
                self._files[file.path] = file
        self.version = version
        self._arrays = None


def _of_add(add: dict[str, Any], added: int) -> StoredFile:
    stats = orjson.loads(add["stats"]) if add.get("stats") else {}
    low, high, nulls = (stats.get(name) or {} for name in ("minValues", "maxValues", "nullCount"))
    flat = {f"min.{name}": value for name, value in low.items()} | {f"max.{name}": v for name, v in high.items()}
    flat |= {f"null_count.{name}": value for name, value in nulls.items()}
    return StoredFile(
        add["path"], add["size"], stats.get("numRecords") or 0, added,
        _span(flat, "partition"), _span(flat, "offset"), _time_span(flat), _until(flat),
        _span(flat, "publication"),
    )  # fmt: skip


def _span(row: dict[str, Any], name: str) -> tuple[int, int]:
    low, high = row.get(f"min.{name}"), row.get(f"max.{name}")
    return (LOWEST if low is None else int(low), HIGHEST if high is None else int(high))


def _time_span(row: dict[str, Any]) -> tuple[int, int]:
    """Bounds of `started_at`; open where rows without it are in the file."""
    low, high = row.get("min.started_at"), row.get("max.started_at")
    if low is None or high is None or row.get("null_count.started_at") != 0:
        return LOWEST, HIGHEST
    return _micros(low), _micros(high)


def _until(row: dict[str, Any]) -> tuple[int, int]:
    """Bounds of `holds_until`; none at all where no row has one."""
    low, high = row.get("min.holds_until"), row.get("max.holds_until")
    return (HIGHEST, LOWEST) if low is None or high is None else (_micros(low), _micros(high))


def _micros(value: datetime | str) -> int:
    moment = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
    return int(pa.scalar(moment, pa.timestamp("us", "UTC")).value)
