"""The root: may it be written, is a commit atomic there, is there space, do the tables fit this program."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trajlake.doctor.finding import Finding, Patient, failed, ok, warning
from trajlake.streams.settings import SettingError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

GIB: Final = 2**30
LOW_BYTES: Final = 5 * GIB
LEAST_BYTES: Final = GIB // 2
LONG_REPLAY: Final = 500_000
"""Events that a restart folds again in some ten seconds."""


def root(patient: Patient) -> Finding:
    """The root can be written."""
    from trajlake.streams.land.preflight import check_root

    settings = patient.settings
    folder = Path(settings.root)
    if settings.lake().is_local and not folder.exists():
        above = _existing(folder)
        if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
            return failed(f"{folder} cannot be made below {above}", "give another --root, or rights on that folder")
        return ok(f"{folder} is not there yet; `trajlake land` makes it")
    try:
        check_root(settings)
    except SettingError as error:
        return failed(error.problem, f"give another value of {error.name}, or the rights that are missing")
    return ok(settings.root)


def commits(patient: Patient) -> Finding:
    """A commit is atomic: what is put is read back, and what is there is not put over."""
    lake = patient.settings.lake()
    if lake.is_local and not Path(lake.uri).exists():
        return ok("nothing to try yet")
    stores = {"root": lake.store}
    # The training zone lies below the root unless it is named, and is not made before something is published.
    if patient.settings.training_root and not (
        lake.holds_locally("trajectories") and not Path(lake.training_uri).exists()
    ):
        stores["training_root"] = lake.training_store
    for name, store in stores.items():
        problem = _try_commit(store)
        if problem:
            return failed(
                f"{name}: {problem}", "the store must offer put-if-absent, and the credentials write and delete"
            )
    return ok("put-if-absent holds: two writers cannot make the same version")


def _try_commit(store: ObjectStore) -> str | None:
    """What is wrong with writing to a store; None where all is well. Leaves nothing behind."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    path = f"_state/doctor/{uuid.uuid4().hex}"
    try:
        obstore.put(store, path, b"first", mode="create")
        try:
            obstore.put(store, path, b"second", mode="create")
            return "a second writer was let over the first: commits are not safe here"
        except AlreadyExistsError:
            pass
        if bytes(obstore.get(store, path).bytes()) != b"first":
            return "what was written is not what is read back"
    except (BaseError, OSError) as error:
        return f"cannot be written: {' '.join(str(error).split())[:200]}"
    finally:
        with suppress(Exception):
            obstore.delete(store, path)
    return None


def disk(patient: Patient) -> Finding:
    """There is free space where the lake and the embedded broker lie."""
    lake = patient.settings.lake()
    places = {"root": Path(lake.uri)} if lake.is_local else {}
    if patient.embeds_broker:
        places["broker_dir"] = Path(patient.settings.broker_dir)
    said = []
    for name, place in places.items():
        total, free = patient.free_bytes(_existing(place))
        words = f"{name}: {free / GIB:,.1f} GiB free of {total / GIB:,.0f}"
        if free < LEAST_BYTES:
            return failed(words, "make room: `trajlake maintain --retention`, other files, or a larger disk")
        if free < LOW_BYTES:
            return warning(words, "make room soon: `trajlake maintain`, other files, or a larger disk")
        said.append(words)
    return ok("; ".join(said) or "everything lies in an object store")


def tables(patient: Patient) -> Finding:
    """Every table that is there fits this program: protocol, columns, properties."""
    from trajlake.expectations.tables import TABLES
    from trajlake.sinks.deltalog import missing_columns
    from trajlake.sinks.errors import TableMismatch

    there, old = 0, []
    for name, table in TABLES.items():
        try:
            stored = patient.tables.delta(name)
            if stored is None:
                continue
            there += 1
            if missing_columns(stored, table):
                old.append(name)
        except TableMismatch as error:
            return failed(
                f"{name}: {error}", "a newer trajlake made it, or another program: use that one, or another root"
            )
        except Exception as error:
            return failed(f"{name}: {' '.join(str(error).split())[:200]}", "`trajlake verify` tells what is lost")
        if stored.protocol().min_reader_version > 1:
            says = f"{name} needs Delta reader version {stored.protocol().min_reader_version}"
            return failed(says, "another program changed its features; use another root, and land anew")
        if _property(stored, "delta.appendOnly") == "true":
            says = f"{name} is append-only: compaction and erasure cannot work"
            return failed(says, "take its property delta.appendOnly away")
    if old:
        return warning(
            f"made by an older version: {', '.join(old)} lack columns", "`trajlake land` adds them when it starts"
        )
    return ok(f"{there} tables of this version" if there else "no tables yet; `trajlake land` makes them")


def _property(stored: Any, name: str) -> str | None:
    value: str | None = stored.metadata().configuration.get(name)
    return None if value is None else value.lower()


def snapshots(patient: Patient) -> Finding:
    """Snapshots of open runs are near the tables, so that a restart is quick."""
    from trajlake.sinks.errors import SinkUnavailable
    from trajlake.sinks.snapshots import newest_snapshot

    lake = patient.settings.lake()
    far = []
    try:
        landed = patient.tables.landed(patient.settings.app_id)
        for (topic, partition), offset in landed.items():
            newest = newest_snapshot(lake, topic, partition, offset)
            behind = offset - (-1 if newest is None else newest)
            if behind > LONG_REPLAY:
                far.append(f"{topic}/{partition}: {behind:,} events")
    except SinkUnavailable as error:
        return failed(str(error), "look at the root's store and its credentials")
    if far:
        says = f"a restart folds again: {'; '.join(far)}"
        return warning(says, "see whether `trajlake land` can write below _state, and lower snapshot_interval_s")
    return ok(f"{len(landed)} partitions, each with a snapshot near its end" if landed else "nothing has landed yet")


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
