"""Snapshots of a partition's open runs, named by the offset after which they hold.

A snapshot only saves time: the fold over the ledger gives the same state. So a broken or missing one is skipped, never
trusted in part, and the next older one is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError

from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake

KEPT = 3
_SUFFIX = ".msgpack.zst"
_DIGEST_BYTES = 32
_SIZE_BYTES = 8
State = TypeVar("State")


def write_snapshot(lake: Lake, topic: str, partition: int, offset: int, content: bytes) -> None:
    """Store a snapshot and remove all but the newest `KEPT`. Raises `SinkUnavailable` when the store refuses."""
    folder = lake.snapshot_folder(topic, partition)
    try:
        obstore.put(lake.store, _path(folder, offset), pack(content))
        # What stands above belongs to another application id or to a lake that was rolled back: not ours to count or
        # remove.
        for old in sorted(o for o in _offsets(lake, folder) if o <= offset)[:-KEPT]:
            obstore.delete(lake.store, _path(folder, old))
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"snapshot of {topic}/{partition}: {reason(error)}") from error


def read_snapshot(
    lake: Lake, topic: str, partition: int, at_most: int, decode: Callable[[bytes], State]
) -> State | None:
    """The newest readable snapshot at or below an offset, or None. `decode` raises `ValueError` on what it cannot
    read."""
    folder = lake.snapshot_folder(topic, partition)
    for offset in sorted((o for o in _offsets(lake, folder) if o <= at_most), reverse=True):
        try:
            return decode(unpack(bytes(obstore.get(lake.store, _path(folder, offset)).bytes())))
        except (ValueError, pa.ArrowException, FileNotFoundError):
            continue
        except (BaseError, OSError) as error:
            raise SinkUnavailable(f"snapshot of {topic}/{partition}: {reason(error)}") from error
    return None


def newest_snapshot(lake: Lake, topic: str, partition: int, at_most: int) -> int | None:
    """Offset of the newest snapshot at or below an offset, read or not; None without one. Raises `SinkUnavailable`."""
    try:
        return max((o for o in _offsets(lake, lake.snapshot_folder(topic, partition)) if o <= at_most), default=None)
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"snapshot of {topic}/{partition}: {reason(error)}") from error


def remove_snapshot(lake: Lake, topic: str, partition: int, offset: int) -> None:
    """Take a snapshot away. Raises `SinkUnavailable`."""
    path = _path(lake.snapshot_folder(topic, partition), offset)
    try:
        obstore.delete(lake.store, path)
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"snapshot of {topic}/{partition}: {type(error).__name__}") from error


def snapshot_paths(lake: Lake) -> list[str]:
    """Paths below the root of all snapshots of a lake. Raises `SinkUnavailable`."""
    try:
        found = [str(meta["path"]) for page in obstore.list(lake.store, "_state/land") for meta in page]
    except FileNotFoundError:
        return []
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"snapshots: {type(error).__name__}") from error
    return sorted(path for path in found if path.endswith(_SUFFIX))


def change_snapshot(lake: Lake, path: str, change: Callable[[bytes], bytes | None]) -> None:
    """Put other content in the place of a snapshot's. `change` gets what it holds and returns what it is to hold, or
    None where it cannot be told: then the snapshot goes, and what it would have saved is folded again.

    Raises `SinkUnavailable`.
    """
    try:
        stored = bytes(obstore.get(lake.store, path).bytes())
        try:
            before = unpack(stored)
            after = change(before)
        except (ValueError, pa.ArrowException):
            after = None
            before = b""
        if after is None:
            obstore.delete(lake.store, path)
        elif after != before:
            obstore.put(lake.store, path, pack(after))
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"snapshot {path}: {type(error).__name__}") from error


def pack(content: bytes) -> bytes:
    """A snapshot as it is stored: SHA-256, size, compressed content."""
    packed = len(content).to_bytes(_SIZE_BYTES, "big") + pa.Codec("zstd", 1).compress(content, asbytes=True)
    return hashlib.sha256(packed).digest() + bytes(packed)


def unpack(stored: bytes) -> bytes:
    """Content of a stored snapshot. Raises ValueError (`pa.ArrowException` at times) when it is broken."""
    digest, packed = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    if hashlib.sha256(packed).digest() != digest:
        raise ValueError("snapshot does not match its digest")
    size = int.from_bytes(packed[:_SIZE_BYTES], "big")
    return bytes(pa.Codec("zstd").decompress(packed[_SIZE_BYTES:], size, asbytes=True))


def _path(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020d}{_SUFFIX}"


def _offsets(lake: Lake, folder: str) -> list[int]:
    try:
        names = [meta["path"].rsplit("/", 1)[-1] for page in obstore.list(lake.store, folder) for meta in page]
    except FileNotFoundError:
        return []
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"snapshots: {reason(error)}") from error
    return [int(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX) and name[:20].isdigit()]
