"""Commits to one Delta table, so that the offsets of a batch and its rows become visible in one atomic step.

A commit is one JSON file of the Delta log (Delta protocol, "Delta Log Entries"): `add` actions for data files that
are already stored, and one `txn` action per Kafka partition, whose version is the last offset landed. The file is put
under the next version number if and only if no file is there yet; that is the whole of the concurrency control.

When another writer took the number, its actions are read and the next number is tried. If one of them moved an
application id of ours, the batch is either already in the table (our own commit whose reply was lost, or an equal
one) or the writer is stale. Cost does not grow with the number of versions: nothing but the new commits is ever read.

"No file is there" only means "not taken" while the log still holds the number before it. A writer that paused for
longer than the log's retention would else write below a checkpoint, where nobody looks; so the predecessor is looked
at first, and where it is gone the table is opened anew.

Tables are made, evolved, checkpointed and read with the `deltalake` package.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import obstore
import orjson
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

from trajlake.expectations.tables import TABLES, Table
from trajlake.sinks.errors import Fenced, SinkUnavailable, StaleWriter, TableMismatch
from trajlake.sinks.errors import reason as reason
from trajlake.sinks.lake import Lake

CHECKPOINT_INTERVAL: Final = 100
"""Versions between checkpoints: readers load the last checkpoint and at most so many commits."""

WRITER_VERSION: Final = 2
"""Highest Delta writer version whose rules an append by this module keeps (appends, invariants unused)."""

COMMIT_ATTEMPTS: Final = 200
RELOAD_INTERVAL: Final = 20
"""Lost races after which the table is opened anew: a writer that is thousands of commits behind does not read them
all."""

FENCE_APP: Final = "trajlake/fence"
"""Application id under which a table carries the number of the newest erasure: writers that do not know it yet are
refused, see `commit`."""

_ENGINE: Final = "trajlake"


LONGEST_WAIT_S: Final = 0.25


def wait_after(lost: int) -> float:
    """Seconds to wait after so many races lost: none after the first ones, then twice as long each time.

    Without chance: of two writers in step one has won, and begins its next commit a whole batch later.
    """
    return 0.0 if lost < 4 else min(LONGEST_WAIT_S, 0.001 * 2.0 ** (lost - 4))


@dataclass(frozen=True)
class DataFile:
    """A Parquet file that is stored and not yet visible. `path` is relative to the table, `stats` is Delta's JSON."""

    path: str
    size: int
    stats: str


@dataclass(frozen=True)
class Advance:
    """One partition's step in a commit: its application id, the offset it must stand at, the offset it moves to."""

    app: str
    expected: int
    new: int


def add_action(file: DataFile, now_ms: int, *, data_change: bool = True) -> dict[str, Any]:
    """The log's line that makes a stored file part of the table. `data_change`: it holds rows that were not there."""
    return {
        "add": {
            "path": file.path,
            "partitionValues": {},
            "size": file.size,
            "modificationTime": now_ms,
            "dataChange": data_change,
            "stats": file.stats,
        }
    }


class DeltaLog:
    """The commit log of one table, as one writer sees it.

    `version`: the newest version seen. `transactions`: application id -> last offset, -1 where none has landed.
    """

    def __init__(self, lake: Lake, table: Table) -> None:
        self.lake = lake
        self.table = table
        self._store = lake.store_of(table.name)
        self.version = -1
        self.transactions: dict[str, int] = {}
        self._checkpoint_owed = False

    def open(self) -> None:
        """Make the table if it is not there, add columns that the contract gained, and read where it stands.

        Raises `TableMismatch` when a stored column contradicts the contract or the protocol is too new,
        `SinkUnavailable` when the store does not answer.
        """
        try:
            stored = self._open_or_make()
            missing = missing_columns(stored, self.table)
            if missing:
                stored.alter.add_columns(missing)
        except (DeltaError, OSError, BaseError) as error:
            raise SinkUnavailable(reason(error), self.table.name) from error
        self.version = stored.version()
        fence = stored.transaction_version(FENCE_APP)
        self.transactions = {FENCE_APP: -1 if fence is None else fence}

    def landed(self, app: str) -> int:
        """Last offset that the table holds for an application id, read anew from the table; -1 when none."""
        self.transactions.setdefault(app, -1)
        self._reload()
        return self.transactions[app]

    def at(self, app: str) -> int:
        """Last offset known for an application id; -1 when none. What `landed` read, and all commits seen since."""
        return self.transactions.get(app, -1)

    def commit(
        self,
        files: list[DataFile],
        advances: list[Advance],
        heads: Sequence[Mapping[str, Any]] = (),
        *,
        obeys: int | None = None,
    ) -> bool:
        """Make files visible and move the offsets, in one version. `heads`: noted in its `commitInfo` as `integrity`.

        `obeys`: number of the newest erasure that the rows obey; None where they are none that can be erased.

        Returns False when every partition already stands at or past its new offset: the batch had landed before.
        Raises `StaleWriter` when a partition stands anywhere else than expected, `Fenced` when a newer erasure has
        put its fence into the table; `SinkUnavailable` when the store refuses.
        """
        for advance in advances:
            if advance.app not in self.transactions:
                self.landed(advance.app)
        if self._settled(advances, obeys):
            return False
        body = self._entry(files, advances, heads)
        for attempt in range(1, COMMIT_ATTEMPTS + 1):
            if attempt % RELOAD_INTERVAL == 0 or not self._is_newest_known():
                self._reload()
                if self._settled(advances, obeys):
                    return False
            version = self.version + 1
            try:
                obstore.put(self._store, self._path(version), body, mode="create")
            except AlreadyExistsError:
                self._absorb(version)
                if self._settled(advances, obeys):
                    return False
                time.sleep(wait_after(attempt))
                continue
            except (BaseError, OSError) as error:
                if self._arrived(version, advances):
                    return True
                raise SinkUnavailable(reason(error), self.table.name) from error
            self.version = version
            for advance in advances:
                self.transactions[advance.app] = advance.new
            self._checkpoint_when_due()
            return True
        raise SinkUnavailable(f"lost the race for a version {COMMIT_ATTEMPTS} times", self.table.name)

    def _settled(self, advances: list[Advance], obeys: int | None) -> bool:
        """Whether all offsets are reached already; raises when one is neither where it should start nor end, or
        when what is to be committed knows nothing of the newest erasure."""
        behind = [a for a in advances if self.transactions.get(a.app, -1) < a.new]
        if advances and not behind:
            return True
        fence = self.transactions.get(FENCE_APP, -1)
        if obeys is not None and fence > obeys:
            raise Fenced(self.table.name, FENCE_APP, obeys, fence)
        for advance in advances:
            found = self.transactions.get(advance.app, -1)
            if found != advance.expected:
                raise StaleWriter(self.table.name, advance.app, advance.expected, found)
        return False

    def _path(self, version: int) -> str:
        return self.lake.log_entry_path(self.table.name, version)

    def _is_newest_known(self) -> bool:
        """Whether the log still holds the version that this writer builds on. Raises `SinkUnavailable`."""
        try:
            obstore.head(self._store, self._path(self.version))
        except (FileNotFoundError, NotFoundError):
            return False
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self.table.name) from error
        return True

    def _reload(self) -> None:
        """Read version, offsets and rules anew from the table. Raises `SinkUnavailable` or `TableMismatch`."""
        try:
            stored = self.lake.open(self.table.name)
            found = {app: stored.transaction_version(app) for app in self.transactions}
            missing_columns(stored, self.table)
        except (DeltaError, OSError) as error:
            raise SinkUnavailable(reason(error), self.table.name) from error
        if stored.version() < self.version:
            raise SinkUnavailable(
                f"stands at version {stored.version()} after version {self.version}: it was replaced or rolled back; "
                "restart the workers once that was meant to be",
                self.table.name,
            )
        self.version = stored.version()
        self.transactions = {app: -1 if offset is None else offset for app, offset in found.items()}

    def _arrived(self, version: int, advances: list[Advance]) -> bool:
        """After a failed put: whether our commit is there after all (the reply was lost)."""
        try:
            self._absorb(version)
        except SinkUnavailable:
            return False
        return all(self.transactions.get(advance.app) == advance.new for advance in advances)

    def _absorb(self, version: int) -> None:
        """Take in another writer's commit: learn its offsets, refuse what changes the table's rules."""
        try:
            content = obstore.get(self._store, self._path(version)).bytes()
        except (FileNotFoundError, NotFoundError) as error:
            raise SinkUnavailable(f"version {version} is not in the log", self.table.name) from error
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self.table.name) from error
        actions: list[Mapping[str, Any]] = [orjson.loads(line) for line in bytes(content).splitlines() if line.strip()]
        if any("protocol" in action or "metaData" in action for action in actions):
            self._reload()
            return
        for action in actions:
            if "txn" in action and (app := action["txn"]["appId"]) in self.transactions:
                self.transactions[app] = int(action["txn"]["version"])
        self.version = version

    def _entry(self, files: list[DataFile], advances: list[Advance], heads: Sequence[Mapping[str, Any]]) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        lines: list[dict[str, Any]] = [
            {
                "commitInfo": {
                    "timestamp": now_ms,
                    "operation": "WRITE",
                    "operationParameters": {"mode": "Append", "partitionBy": "[]"},
                    "isBlindAppend": True,
                    "engineInfo": _ENGINE,
                    **({"integrity": [*heads]} if heads else {}),
                }
            }
        ]
        lines += [{"txn": {"appId": a.app, "version": a.new, "lastUpdated": now_ms}} for a in advances]
        lines += [add_action(file, now_ms) for file in files]
        return b"\n".join(orjson.dumps(line) for line in lines)

    def _open_or_make(self) -> DeltaTable:
        try:
            return self.lake.open(self.table.name)
        except TableNotFoundError:
            if self.lake.holds_locally(self.table.name):
                Path(self.lake.table_uri(self.table.name)).mkdir(parents=True, exist_ok=True)
            try:
                return DeltaTable.create(
                    self.lake.table_uri(self.table.name),
                    schema=self.table.schema,
                    mode="error",
                    name=self.table.name,
                    description=self.table.doc,
                    configuration={
                        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                        # Exactly the columns whose bounds are written: where a reader expects bounds that are not
                        # there, it takes the file for one without a match (Arrow datasets made by deltalake do).
                        "delta.dataSkippingStatsColumns": ",".join(self.table.keys),
                    },
                    storage_options=self.lake.options_of(self.table.name),
                )
            except DeltaError:
                # Another worker made it in the meantime.
                return self.lake.open(self.table.name)

    def _checkpoint_when_due(self) -> None:
        """Write a checkpoint so that readers stay fast. A failure costs speed only, so it is left to the next commit.

        Whoever commits the hundredth version writes it, so workers that come and go write neither none nor one each.
        """
        if self.version % CHECKPOINT_INTERVAL and not self._checkpoint_owed:
            return
        self._checkpoint_owed = True
        try:
            self.lake.open(self.table.name).create_checkpoint()
        except (DeltaError, OSError):
            return
        self._checkpoint_owed = False


def missing_columns(stored: DeltaTable, table: Table) -> list[Field]:
    """Columns of the contract that the table lacks. Raises `TableMismatch` when the two contradict each other."""
    needed = stored.protocol().min_writer_version
    if needed > WRITER_VERSION:
        raise TableMismatch(
            f"needs Delta writer version {needed}; this program writes version {WRITER_VERSION}", table.name
        )
    wanted = Schema.from_arrow(table.schema)
    have = {field.name: field for field in stored.schema().fields}
    new: list[Field] = []
    for field in wanted.fields:
        known = have.pop(field.name, None)
        if known is None:
            if not field.nullable:
                raise TableMismatch(f"lacks required column {field.name}; it was made by an older contract", table.name)
            new.append(field)
        elif known.type != field.type:
            raise TableMismatch(
                f"column {field.name} is stored as {known.type}, contract says {field.type}", table.name
            )
    for unknown in have.values():
        if not unknown.nullable:
            raise TableMismatch(f"requires column {unknown.name}, which this version does not write", table.name)
    return new


def open_logs(lake: Lake, names: Iterable[str]) -> dict[str, DeltaLog]:
    """A commit log per table, all opened."""
    logs = {name: DeltaLog(lake, TABLES[name]) for name in names}
    for log in logs.values():
        log.open()
    return logs
