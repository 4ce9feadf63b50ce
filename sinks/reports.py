"""Small objects beside the tables: reports of publications, and manifests of exports. Each is written once or replaced
whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError, NotFoundError

from trajlake.sinks.deltalog import reason
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PUBLICATIONS: Final = "_publications"
MANIFESTS: Final = "_manifests"
_RESTRICTED: Final = "restricted/_publications"


def write_restricted(lake: Lake, publication: int, name: str, content: bytes) -> str:
    """Store a report that names what was kept out; for operators. Returns its path below the root."""
    return _put(lake, f"{_RESTRICTED}/{publication:010d}/{name}", content, training=False)


def report_place(lake: Lake, publication: int, name: str) -> str:
    """Where `write_restricted` stores a report: a path, or an address of the object store."""
    return f"{lake.uri.rstrip('/')}/{_RESTRICTED}/{publication:010d}/{name}"


def write_training(lake: Lake, publication: int, name: str, content: bytes) -> str:
    """Store a report beside a publication in the training zone. Returns its path below the zone's root."""
    return _put(lake, f"{PUBLICATIONS}/{publication:010d}/{name}", content, training=True)


def write_manifest(lake: Lake, name: str, content: bytes) -> str:
    """Store a manifest, or what became of one, in the training zone's register."""
    return _put(lake, f"{MANIFESTS}/{name}", content, training=True)


def read_manifest(lake: Lake, name: str) -> bytes | None:
    """A file of the register; None where there is none. Raises `SinkUnavailable`."""
    return _get(lake.training_store, f"{MANIFESTS}/{name}")


def remove_manifest(lake: Lake, name: str) -> None:
    """Take a file out of the register, if it is there. Raises `SinkUnavailable`."""
    try:
        obstore.delete(lake.training_store, f"{MANIFESTS}/{name}")
    except (FileNotFoundError, NotFoundError):
        return
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error)) from error


def manifest_names(lake: Lake) -> Iterator[str]:
    """Names of the register's files."""
    try:
        for page in obstore.list(lake.training_store, MANIFESTS):
            for meta in page:
                yield str(meta["path"]).rpartition("/")[2]
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error)) from error


def training_reports(lake: Lake) -> list[int]:
    """Numbers of the publications that have a report in the training zone, in order."""
    try:
        paths = [str(meta["path"]) for page in obstore.list(lake.training_store, PUBLICATIONS) for meta in page]
    except FileNotFoundError:
        return []
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error)) from error
    return sorted({int(path.split("/")[1]) for path in paths if path.split("/")[1].isdecimal()})


def read_training(lake: Lake, publication: int, name: str) -> bytes | None:
    """A report of a publication in the training zone; None where there is none. Raises `SinkUnavailable`."""
    return _get(lake.training_store, f"{PUBLICATIONS}/{publication:010d}/{name}")


def read_restricted(lake: Lake, publication: int, name: str) -> bytes | None:
    """A report of a publication; None where there is none. Raises `SinkUnavailable`."""
    return _get(lake.store, f"{_RESTRICTED}/{publication:010d}/{name}")


def _get(store: ObjectStore, path: str) -> bytes | None:
    try:
        return bytes(obstore.get(store, path).bytes())
    except (FileNotFoundError, NotFoundError):
        return None
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error)) from error


def _put(lake: Lake, path: str, content: bytes, *, training: bool) -> str:
    try:
        obstore.put(lake.training_store if training else lake.store, path, content)
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error)) from error
    return path
