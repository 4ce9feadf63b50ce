"""Upkeep of one table while others write to it: fewer files, a fresh checkpoint, no old files, a short log.

    1  compact      small files become one; readers of older versions still find theirs
    2  checkpoint   readers load it and the few commits behind it
    3  vacuum       files that no version within the retention refers to, and files that nobody ever committed and
                    that are older than it: a writer that pauses before its commit keeps what it has just written
    4  clean log    commits that no version within the retention needs

    killed in       left behind                               next time
    1               a file that no commit refers to           vacuum takes it when it is old enough
    2               no checkpoint, or one without its pointer readers take the one before it
    3, 4            some of the files                         the others go

Each step looks at the table anew; none depends on the one before it. `txn` actions, which writers resume from, are in
every checkpoint and in no commit that goes before one is there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from deltalake.exceptions import DeltaError, TableNotFoundError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import TABLES
from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake
from trajlake.sinks.rewriting import (
    CommitFiles,
    LiveFile,
    Replacement,
    RowWriter,
    commit_replacement,
    live_files,
    read_file,
    stored_schema,
)

COMPACT_ATTEMPTS: Final = 5
CHECKPOINT_FILE: Final = re.compile(r"(\d{20})\.checkpoint\..*parquet$")
COMMIT_FILE: Final = re.compile(r"(\d{20})\.json$")


@dataclass(frozen=True)
class UpkeepRules:
    """What upkeep aims at. Retentions in hours; `target_bytes` is the size of a compacted file.

    `least_files`: neighbouring small files that are worth a rewrite. `checkpoint_every`: versions behind the newest
    checkpoint from which on a new one is written. `log_versions_kept`: commits that stay whatever their age, so that
    a writer that lags a little never finds its own version gone.
    """

    target_bytes: int = 128 << 20
    least_files: int = 8
    checkpoint_every: int = 20
    vacuum_retention_h: float = 168.0
    log_retention_h: float = 168.0
    log_versions_kept: int = 200


@dataclass
class Upkeep:
    """What was done to a table, or would be (`dry_run`). Sizes in bytes; versions are None where nothing was done."""

    table: str
    dry_run: bool
    files: int = 0
    compacted_files: int = 0
    compacted_into: int = 0
    compacted_bytes: int = 0
    given_way: int = 0
    """Compactions that another commit stood against; they are tried again next time."""
    checkpoint: int | None = None
    vacuumed_files: int = 0
    log_entries: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def maintain_table(
    lake: Lake,
    name: str,
    rules: UpkeepRules,
    *,
    dry_run: bool = False,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Upkeep | None:
    """Do all upkeep of one table. Returns None for a table that is not there yet.

    A step that the store refuses is noted in `problems`; the others are done all the same. `progress` counts the files
    that are joined; what the other steps have to do only they know.
    """
    began = time.monotonic()
    done = Upkeep(name, dry_run)
    steps: tuple[tuple[str, Callable[[Lake, UpkeepRules, Upkeep, Callable[[str], None]], None]], ...] = (
        ("compact", partial(_compact, progress=progress)),
        ("checkpoint", _checkpoint),
        ("vacuum", _vacuum),
        ("clean log", _clean_log),
    )
    for label, step in steps:
        on_step(f"{name}: {label}")
        progress.stage(f"{name}: {label}")
        try:
            step(lake, rules, done, on_step)
        except TableNotFoundError:
            return None
        except (SinkUnavailable, DeltaError, OSError) as error:
            done.problems.append(f"{label}: {reason(error)}")
    done.seconds = round(time.monotonic() - began, 3)
    return done


# Compaction


def groups(files: list[LiveFile], rules: UpkeepRules) -> Iterator[list[LiveFile]]:
    """Small files that are neighbours in the order of their lowest offset, as many as make one file of target size."""
    held: list[LiveFile] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.first_place, file.modified_ms, file.path)):
        if file.size >= rules.target_bytes // 2:
            continue
        if held and size + file.size > rules.target_bytes:
            if len(held) >= rules.least_files:
                yield held
            held, size = [], 0
        held.append(file)
        size += file.size
    if len(held) >= rules.least_files:
        yield held


def _compact(lake: Lake, rules: UpkeepRules, done: Upkeep, on_step: Callable[[str], None], progress: Progress) -> None:
    stored = lake.open(done.table)
    schema = stored_schema(stored)
    version = stored.version()
    files = live_files(stored)
    done.files = len(files)
    planned = list(groups(files, rules))
    progress.stage(f"{done.table}: compact", sum(map(len, planned)), "files")
    for group in planned:
        if not done.dry_run:
            writer = RowWriter(lake, TABLES[done.table], schema)
            try:
                for file in group:
                    writer.write(read_file(lake, done.table, file.path, schema))
                    progress.advance()
            except FileNotFoundError:
                # Somebody else compacted or erased it and took the old file away.
                done.given_way += 1
                continue
            plan = Replacement(done.table, version, group, [writer.finish()])
            on_step(f"{done.table}: compact, commit")
            committed = commit_replacement(lake, plan, operation="OPTIMIZE", data_change=False)
            if committed is None:
                done.given_way += 1
                continue
            version = committed
        done.compacted_files += len(group)
        done.compacted_into += 1
        done.compacted_bytes += sum(file.size for file in group)


# Checkpoint


def newest_checkpoint(names: list[str]) -> int:
    """Version of the newest checkpoint among the files of a log; -1 where there is none."""
    return max((int(found[1]) for name in names if (found := CHECKPOINT_FILE.match(name))), default=-1)


def _checkpoint(lake: Lake, rules: UpkeepRules, done: Upkeep, on_step: Callable[[str], None]) -> None:
    stored = lake.open(done.table)
    version = stored.version()
    newest = newest_checkpoint([name for name, _ in CommitFiles(lake, done.table).listed()])
    if version - newest < rules.checkpoint_every:
        return
    if not done.dry_run:
        stored.create_checkpoint()
    done.checkpoint = version


# Files and log


def _vacuum(lake: Lake, rules: UpkeepRules, done: Upkeep, on_step: Callable[[str], None]) -> None:
    stored = lake.open(done.table)
    done.vacuumed_files = len(
        stored.vacuum(
            retention_hours=int(rules.vacuum_retention_h),
            dry_run=True,
            enforce_retention_duration=False,
            full=True,
        )
    )
    if done.vacuumed_files and not done.dry_run:
        on_step(f"{done.table}: vacuum, delete")
        stored.vacuum(
            retention_hours=int(rules.vacuum_retention_h),
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
        )


def superfluous(listed: list[tuple[str, float]], rules: UpkeepRules, now: float) -> list[str]:
    """Files of a log that no version within the retention needs, oldest first.

    `listed`: names with modification times in seconds; `now` likewise. A version needs the newest checkpoint at or
    below it and the commits behind that one; so all goes that lies below the newest checkpoint that is not above any
    version to be kept.
    """
    commits = {int(found[1]): at for name, at in listed if (found := COMMIT_FILE.match(name))}
    if not commits:
        return []
    newest = max(commits)
    since = now - rules.log_retention_h * 3600
    kept = min((version for version, at in commits.items() if at >= since), default=newest)
    kept = min(kept, newest - rules.log_versions_kept)
    names = [name for name, _ in listed]
    base = max(
        (int(found[1]) for name in names if (found := CHECKPOINT_FILE.match(name)) and int(found[1]) <= kept),
        default=-1,
    )
    return [
        name
        for name in names
        if (found := COMMIT_FILE.match(name) or CHECKPOINT_FILE.match(name)) is not None and int(found[1]) < base
    ]


def _clean_log(lake: Lake, rules: UpkeepRules, done: Upkeep, on_step: Callable[[str], None]) -> None:
    log = CommitFiles(lake, done.table)
    names = superfluous(log.listed(), rules, time.time())
    done.log_entries = len(names)
    if names and not done.dry_run:
        on_step(f"{done.table}: clean log, delete")
        log.delete(names)
