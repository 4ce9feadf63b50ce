"""Rewriting of a table's data files: files out, files with other rows (or the same rows, joined) in, in one version.

A replacement is a commit like any other: one JSON object put under the next version number if and only if none is
there. Appends of others in between do no harm, whatever they hold. Another replacement of one of the same files, or a
change of the table's rules, does: then nothing is committed, and the caller plans anew from the newest version.

No `txn` action is ever written or dropped here, so the offsets that writers resume from stay as they are.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import obstore
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import TABLES, Table
from trajlake.sinks.actions import add_actions
from trajlake.sinks.datafiles import ROW_GROUP_ROWS, parquet_writer, statistics
from trajlake.sinks.deltalog import DataFile, add_action
from trajlake.sinks.errors import SinkUnavailable, TableMismatch, reason
from trajlake.sinks.lake import Lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

PUT_ATTEMPTS: Final = 1_000
GROUP_BYTES: Final = 64 << 20
"""Rows held before they become a row group."""
_ENGINE: Final = "trajlake"


@dataclass(frozen=True)
class LiveFile:
    """A data file of one version of a table. `path` as the log has it, relative to the table; `modified_ms` since the
    Unix epoch; `first_place`: lowest (partition, offset), for tables that have them."""

    path: str
    size: int
    rows: int
    modified_ms: int
    first_place: tuple[int, int] = (0, 0)


def live_files(stored: DeltaTable) -> list[LiveFile]:
    """Files of a table's version, in no order."""
    actions = add_actions(stored)
    count = actions.num_rows

    def column(name: str) -> list[Any]:
        return actions[name].to_pylist() if name in actions.column_names else [None] * count

    return [
        LiveFile(path, size, rows or 0, _millis(modified), (partition or 0, offset or 0))
        for path, size, rows, modified, partition, offset in zip(
            *map(column, ("path", "size_bytes", "num_records", "modification_time", "min.partition", "min.offset")),
            strict=True,
        )
    ]


def stored_schema(stored: DeltaTable) -> pa.Schema:
    """Arrow schema of a table's version: what every rewritten file gets, so that columns of a newer contract stay."""
    return pa.schema(stored.schema().to_arrow())


def read_file(lake: Lake, name: str, path: str, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a data file under a schema; columns that it lacks are null. `columns`: only these.

    Raises `FileNotFoundError` when it is gone, `TableMismatch` when its types are not those of the schema,
    `SinkUnavailable` when the store does not answer.
    """
    try:
        content = obstore.get(lake.store_of(name), f"{lake.table_path(name)}/{path}").bytes()
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)))
        # A thread of Arrow's may still hold the content, which is Python's, when the program has ended: that aborts it.
        rows = file.read(columns=None if columns is None else [*columns], use_threads=False)
    except (FileNotFoundError, NotFoundError) as error:
        raise FileNotFoundError(f"{lake.table_uri(name)}/{path} is gone") from error
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error), name) from error
    if columns is not None:
        schema = pa.schema([schema.field(column) for column in columns])
    return under_schema(name, path, rows, schema)


def under_schema(name: str, path: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with a schema's columns in its order. Raises `TableMismatch`."""
    unknown = set(rows.column_names) - set(schema.names)
    if unknown:
        raise TableMismatch(f"file {path} has column {sorted(unknown)[0]}, which the table lacks", name)
    columns = [
        rows.column(column.name) if column.name in rows.column_names else pa.nulls(rows.num_rows, column.type)
        for column in schema
    ]
    try:
        return pa.Table.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TableMismatch(f"file {path} does not fit the table's columns: {error}", name) from error


class RowWriter:
    """Writes rows of a table to one new data file, in row groups of useful size; invisible until a commit adds it."""

    def __init__(self, lake: Lake, table: Table, schema: pa.Schema) -> None:
        self._lake = lake
        self._table = table
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        self._writer = parquet_writer(self._sink, table, schema)
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0
        self._keys: list[pa.Table] = []
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._held.append(rows)
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        self.rows += rows.num_rows
        self._keys.append(rows.select(list(self._table.keys)))
        if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=ROW_GROUP_ROWS)
        self._held, self._held_rows, self._held_bytes = [], 0, 0

    def finish(self) -> DataFile:
        """Store the file. Raises `SinkUnavailable` when the store does not take it."""
        self._write_group()
        self._writer.close()
        content = self._sink.getvalue()
        path = f"part-{uuid.uuid4().hex}.parquet"
        try:
            obstore.put(
                self._lake.store_of(self._table.name),
                f"{self._lake.table_path(self._table.name)}/{path}",
                memoryview(content).cast("B"),
            )
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self._table.name) from error
        keys = pa.concat_tables(self._keys) if self._keys else self._schema.empty_table()
        return DataFile(path, content.size, statistics(self._table, keys))


@dataclass
class Replacement:
    """Files that go and files that come, planned on `version` of a table."""

    name: str
    version: int
    removed: list[LiveFile] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)


def commit_replacement(lake: Lake, plan: Replacement, *, operation: str, data_change: bool) -> int | None:
    """Put a replacement into the table's log. Returns its version; None when another commit stands against it.

    operation: as it stands in the table's history. data_change: False where the rows are the same as before.
    Raises `SinkUnavailable` when the store refuses.
    """
    body = _entry(plan, operation, data_change)
    going = {file.path for file in plan.removed}
    log = CommitFiles(lake, plan.name)
    version = plan.version
    for _ in range(PUT_ATTEMPTS):
        if not log.holds(version):
            # Cleaned away meanwhile: what is put under the next number now might lie below a checkpoint.
            return None
        try:
            obstore.put(lake.store_of(plan.name), log.path(version + 1), body, mode="create")
            return version + 1
        except AlreadyExistsError:
            if (content := log.content(version + 1)) is None or _stands_against(content, going):
                return None
        except (BaseError, OSError) as error:
            # The reply may have been lost behind a commit that is there.
            if log.content(version + 1) != body:
                raise SinkUnavailable(reason(error), plan.name) from error
            return version + 1
        version += 1
    return None


class CommitFiles:
    """The JSON commits of a table's log, by version."""

    def __init__(self, lake: Lake, name: str) -> None:
        self._store = lake.store_of(name)
        self._name = name
        self._lake = lake
        self.folder = lake.log_folder(name)

    def path(self, version: int) -> str:
        return self._lake.log_entry_path(self._name, version)

    def holds(self, version: int) -> bool:
        """Whether a version's commit is in the log. Raises `SinkUnavailable`."""
        try:
            obstore.head(self._store, self.path(version))
        except (FileNotFoundError, NotFoundError):
            return False
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self._name) from error
        return True

    def content(self, version: int) -> bytes | None:
        """A version's commit; None where there is none. Raises `SinkUnavailable`."""
        try:
            return bytes(obstore.get(self._store, self.path(version)).bytes())
        except (FileNotFoundError, NotFoundError):
            return None
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self._name) from error

    def listed(self) -> list[tuple[str, float]]:
        """Names of all files of the log, with their modification times in seconds since the Unix epoch."""
        try:
            return sorted(
                (str(meta["path"]).rpartition("/")[2], meta["last_modified"].timestamp())
                for page in obstore.list(self._store, self.folder)
                for meta in page
            )
        except FileNotFoundError:
            return []
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), self._name) from error

    def delete(self, names: Iterable[str]) -> int:
        """Remove files of the log. Returns how many there were."""
        gone = 0
        for name in names:
            try:
                obstore.delete(self._store, f"{self.folder}/{name}")
                gone += 1
            except (FileNotFoundError, NotFoundError):
                continue
            except (BaseError, OSError) as error:
                raise SinkUnavailable(reason(error), self._name) from error
        return gone


def rewrite_files(
    lake: Lake,
    name: str,
    change: Callable[[pa.Table], pa.Table | None],
    *,
    operation: str,
    maybe: Callable[[LiveFile], bool] = lambda file: True,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Iterator[LiveFile]:
    """Change the rows of a table file by file, and yield the files that went.

    `change` gets a file's rows and returns those that are to be in their place, or None where nothing changes. Every
    file is committed by itself, so what was done stays done when the process ends in between. Files that others add
    meanwhile are looked at too, as long as they come before the last pass ends. `progress` counts files of a pass.
    """
    seen: set[str] = set()
    while True:
        stored = lake.open(name)
        schema = stored_schema(stored)
        todo = [file for file in live_files(stored) if file.path not in seen]
        if not todo:
            return
        version = stored.version()
        progress.stage(f"rewriting {name}", len(todo), "files")
        for number, file in enumerate(todo):
            progress.reach(number)
            if not maybe(file):
                seen.add(file.path)
                continue
            try:
                rows = read_file(lake, name, file.path, schema)
            except FileNotFoundError:
                break
            after = change(rows)
            if after is None:
                seen.add(file.path)
                continue
            plan = Replacement(name, version, [file])
            if after.num_rows:
                on_step(f"{name}: new file")
                writer = RowWriter(lake, TABLES[name], schema)
                writer.write(after)
                plan.added.append(writer.finish())
            on_step(f"{name}: commit")
            done = commit_replacement(lake, plan, operation=operation, data_change=True)
            if done is None:
                break
            version = done
            seen.update(added.path for added in plan.added)
            seen.add(file.path)
            yield file


def _entry(plan: Replacement, operation: str, data_change: bool) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    info = {
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": {},
        "isBlindAppend": False,
        "engineInfo": _ENGINE,
        "txnId": uuid.uuid4().hex,
    }
    lines: list[dict[str, Any]] = [{"commitInfo": info}]
    lines += [
        {
            "remove": {
                "path": file.path,
                "deletionTimestamp": now_ms,
                "dataChange": data_change,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": file.size,
            }
        }
        for file in plan.removed
    ]
    lines += [add_action(file, now_ms, data_change=data_change) for file in plan.added]
    return b"\n".join(map(orjson.dumps, lines))


def _stands_against(content: bytes, going: set[str]) -> bool:
    """Whether a commit removes one of the files too, or changes the table's rules."""
    for line in content.splitlines():
        if not line.strip():
            continue
        action = json.loads(line)
        if "protocol" in action or "metaData" in action:
            return True
        if "remove" in action and action["remove"]["path"] in going:
            return True
    return False


def _millis(value: Any) -> int:
    return int(value.timestamp() * 1000) if hasattr(value, "timestamp") else int(value or 0)
