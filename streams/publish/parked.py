"""Parked events: what Kafka will not take (too large, refused by the broker), kept with the reason until somebody
decides.

One JSON object a line: `reason` (librdkafka's name of the error), `parked_at`, `key`, and `event` as it would have been
published. A half line at the end of a file is what a crash leaves behind, and is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import orjson


class ParkedEvent(NamedTuple):
    """One parked event. `key` and `event` are the bytes of the Kafka record."""

    reason: str
    parked_at: str
    key: bytes
    event: bytes


class _Line(msgspec.Struct):
    reason: str
    parked_at: str
    key: str
    event: msgspec.Raw


def park(path: Path, parked: ParkedEvent) -> None:
    """Append one event to a file of parked events and force it to the disk. Raises OSError."""
    head = orjson.dumps(
        {"reason": parked.reason, "parked_at": parked.parked_at, "key": parked.key.decode(errors="replace")}
    )
    line = b"".join((head[:-1], b',"event":', parked.event, b"}\n"))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        start = os.fstat(fd).st_size
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, start)
            raise
    finally:
        os.close(fd)


def read_parked(path: Path) -> Iterator[ParkedEvent]:
    """The events of one file, oldest first. Raises OSError."""
    with path.open("rb") as lines:
        for line in lines:
            with suppress(msgspec.DecodeError):
                found = msgspec.json.decode(line, type=_Line)
                yield ParkedEvent(found.reason, found.parked_at, found.key.encode(), bytes(found.event))
