"""What an erasure leaves to be cleaned in a table's folder: old data files, and bounds of rows in old log entries.

Statistics of a data file name the lowest and highest run of it. So the log of an erased run's file still holds its id
until the entry is scrubbed: the same entry without those bounds is put in its place. Older checkpoints go, once a
newer one is there. Versions that held what was erased can not be opened any more, which is what erasure means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import obstore
import orjson
import pyarrow as pa
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.datafiles import remove_data_file
from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake
from trajlake.sinks.maintenance import CHECKPOINT_FILE, COMMIT_FILE
from trajlake.sinks.rewriting import CommitFiles, live_files, read_file, stored_schema

_BOUNDS: Final = ("minValues", "maxValues")


def remove_dead_files(
    lake: Lake, name: str, holds: Callable[[pa.Table], bool], progress: Progress = SILENT
) -> list[str]:
    """Take away files that no row of the newest version is in and that hold what was erased; returns their paths.

    Behind a table's fence no writer can commit such a file any more, so none of them is waited for. `progress` counts
    files.
    """
    stored = lake.open(name)
    schema = stored_schema(stored)
    live = {unquote(file.path) for file in live_files(stored)}
    gone = []
    paths = [path for path in _data_files(lake, name) if path not in live]
    progress.stage(f"looking into old files of {name}", len(paths), "files")
    for path in paths:
        progress.advance()
        try:
            rows = read_file(lake, name, path, schema)
        except FileNotFoundError:
            continue
        except (pa.ArrowException, OSError):
            # Half a file, of a writer that was killed: nobody can read it, so what it holds is not known.
            rows = None
        if (rows is None or holds(rows)) and remove_data_file(lake, name, path):
            gone.append(path)
    return gone


def _data_files(lake: Lake, name: str) -> list[str]:
    folder = lake.table_path(name)
    try:
        found = [str(meta["path"]) for page in obstore.list(lake.store_of(name), folder) for meta in page]
    except FileNotFoundError:
        return []
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error), name) from error
    paths = [path.removeprefix(f"{folder}/") for path in found]
    return sorted(path for path in paths if path.endswith(".parquet") and not path.startswith("_"))


def scrub_log(
    lake: Lake, name: str, holds: Callable[[str, str], bool], *, absent: bool = False, progress: Progress = SILENT
) -> int:
    """Write a checkpoint, remove older ones, and take bounds of erased rows out of older commits.

    `holds`: whether a column's bound, given by the column's name and its value, is of what was erased. `absent`: all
    bounds of files that are not stored any more go too. `progress` counts commits. Returns how many files of the log
    were changed or removed. Raises `SinkUnavailable`.
    """
    log = CommitFiles(lake, name)
    names = [listed for listed, _ in log.listed()]
    stored_files = set(_data_files(lake, name)) if absent else None

    def is_due(path: str, bounds: list[tuple[str, Any]]) -> bool:
        if stored_files is not None and bounds and unquote(path) not in stored_files:
            return True
        return any(isinstance(value, str) and holds(column, value) for column, value in bounds)

    commits = [listed for listed in names if COMMIT_FILE.match(listed)]
    progress.stage(f"looking into the log of {name}", len(commits), "commits")
    touched = []
    for listed in commits:
        progress.advance()
        if _scrub(lake, name, log, listed, is_due):
            touched.append(listed)
    if not touched:
        return 0
    try:
        stored = lake.open(name)
        stored.create_checkpoint()
    except (DeltaError, OSError) as error:
        raise SinkUnavailable(reason(error), name) from error
    newest = stored.version()
    old = [
        listed for listed in names if (found := CHECKPOINT_FILE.match(listed)) is not None and int(found[1]) < newest
    ]
    return len(touched) + log.delete(old)


def _scrub(
    lake: Lake, name: str, log: CommitFiles, listed: str, is_due: Callable[[str, list[tuple[str, Any]]], bool]
) -> bool:
    version = int(listed[:20])
    content = log.content(version)
    if content is None:
        return False
    lines = []
    changed = False
    for line in content.splitlines():
        if not line.strip():
            continue
        action: dict[str, Any] = orjson.loads(line)
        add: dict[str, Any] = action.get("add") or {}
        stats = orjson.loads(add["stats"]) if add.get("stats") else {}
        bounds = [(column, value) for kind in _BOUNDS for column, value in stats.get(kind, {}).items()]
        if bounds and is_due(add["path"], bounds):
            add["stats"] = orjson.dumps({"numRecords": stats["numRecords"]}).decode()
            line = orjson.dumps(action)
            changed = True
        lines.append(line)
    if changed:
        try:
            obstore.put(lake.store_of(name), log.path(version), b"\n".join(lines))
        except (BaseError, OSError) as error:
            raise SinkUnavailable(reason(error), name) from error
    return changed
