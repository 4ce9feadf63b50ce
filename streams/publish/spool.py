"""The spool: events on disk between the agent and Kafka, so that neither a dead broker nor a dead process loses them.

Layout, below the folder that the settings or the caller name:

    <topic>/<digest of the bootstrap servers>/
        adopt.lock                  held for an instant by whoever makes or adopts a log
        <start>-<pid>-<random>/     the log of one process
            lock                    flock held as long as that process lives
            00000001.log …          segments, append only
            acked                   how far Kafka has acknowledged
        parked/<log>.jsonl          events that Kafka will not take, with the reason (`trajlake.streams.publish.parked`)

A segment is a magic number and frames (`trajlake.streams.publish.frames`). Each log has one writer and one reader,
both in its process; a log whose lock is free belongs to a dead process, and the next one that starts adopts it
(`trajlake.streams.publish.spoolfolder`).

What survives: `append` returns once the bytes are in the kernel's page cache, so they outlive kill -9, OOM kills and
crashes of the process. `sync` forces them to the disk, for power failures; the publisher calls it once a second while
Kafka does not answer, and not at all while it does.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trajlake.streams.publish.frames import HEAD, parse_frames

MAGIC = b"TRAJSPL1"
SEGMENT_BYTES = 8 * 2**20
DEFAULT_LIMIT_BYTES = 8 * 2**30

_CURSOR = struct.Struct("<QQI")
_READ_BYTES = 2**20


class Position(NamedTuple):
    """A place in a log: segment number (from 1) and byte offset in it. Positions order as the events do."""

    segment: int
    offset: int


class Entry(NamedTuple):
    """One event as it lies in a log. `end` is the position right after it."""

    end: Position
    key: bytes
    value: bytes


class SpoolLog:
    """The log of one process: appended at its end, read from its front, deleted as far as it is acknowledged.

    Not safe for several threads: the publisher's own thread is the only one that touches it.
    `on_damage(path, bytes)`: called when a frame's crc is wrong; the rest of the segment has been copied to `path`.
    """

    def __init__(
        self,
        folder: Path,
        lock: int,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        on_damage: Callable[[Path, int], None] | None = None,
    ) -> None:
        self.folder = folder
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._limit_bytes = limit_bytes
        self._on_damage = on_damage
        self._sizes = {int(path.stem): path.stat().st_size for path in folder.glob("*.log")}
        self._writing: int | None = None
        self._write_fd = -1
        self._read_fd = -1
        self._read_segment = 0
        self._dirty = False
        self._renamed = False
        self.acked = self._load_cursor()
        self.read_at = max(self.acked, Position(min(self._sizes, default=0), 0))
        self._handed_out = self.acked
        for number in [number for number in self._sizes if number < self.acked.segment]:
            self._delete(number)

    @property
    def end(self) -> Position:
        """The position after the newest event."""
        newest = max(self._sizes, default=0)
        return Position(newest, self._sizes.get(newest, 0))

    @property
    def is_read(self) -> bool:
        """Whether everything that was appended has been read or skipped."""
        return self._remaining() == 0

    @property
    def is_done(self) -> bool:
        """Whether Kafka has everything that could be read, so that nothing here is needed any more."""
        return self.acked >= self._handed_out and self.is_read

    @property
    def size_bytes(self) -> int:
        return sum(self._sizes.values())

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, frames: Sequence[bytes]) -> list[Position]:
        """Add frames, all or none, and return the position after each.

        Raises OSError when the disk or the limit does not have the room (ENOSPC), or the folder cannot be written.
        """
        if self.size_bytes + sum(map(len, frames)) > self._limit_bytes:
            raise OSError(errno.ENOSPC, f"the spool's limit of {self._limit_bytes} bytes is reached")
        segment = self._open_for_writing()
        start = self._sizes[segment]
        try:
            _write_all(self._write_fd, frames)
        except OSError:
            self._cut_back(start)
            raise
        ends = []
        for part in frames:
            start += len(part)
            ends.append(Position(segment, start))
        self._sizes[segment] = start
        self._dirty = True
        return ends

    def sync(self) -> None:
        """Force what was appended to the disk, the segment's name included. Raises OSError."""
        if not self._dirty or self._write_fd < 0:
            return
        os.fdatasync(self._write_fd)
        if self._renamed:
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._dirty = self._renamed = False

    def _open_for_writing(self) -> int:
        if self._writing is not None and self._sizes[self._writing] < self._segment_bytes:
            return self._writing
        number = max(self.end.segment, self.acked.segment) + 1
        fd = os.open(self._path(number), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write_all(fd, [MAGIC])
        except OSError:
            os.close(fd)
            self._path(number).unlink(missing_ok=True)
            raise
        self._close_writer()
        self._writing, self._write_fd, self._renamed = number, fd, True
        self._sizes[number] = len(MAGIC)
        return number

    def _cut_back(self, size: int) -> None:
        """After a failed write: take the torn frame off again, and start another segment next time."""
        with suppress(OSError):
            os.ftruncate(self._write_fd, size)
        self._close_writer()

    def _close_writer(self) -> None:
        # A fork in the middle must not leave the number of a closed file behind: it may be another's by then.
        fd, self._write_fd = self._write_fd, -1
        self._writing, self._dirty = None, False
        _close(fd)

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, max_bytes: int = _READ_BYTES) -> list[Entry]:
        """The next events, about `max_bytes` of them but at least one; empty when all is read. Raises OSError."""
        while not self.is_read:
            try:
                entries = self._read_segment_at(max_bytes)
            except FileNotFoundError:
                # Somebody removed the segment: the publisher sees that its events are missing.
                self._give_up(self._next_segment(), None)
                continue
            if entries:
                self.read_at = self._handed_out = entries[-1].end
                return entries
        return []

    def skip_to(self, position: Position) -> None:
        """Take events up to `position` as read: the caller has them in memory."""
        self.read_at = self._handed_out = position

    def count_unread(self) -> int:
        """How many events lie unread. Looks at headers only."""
        count = 0
        for number in sorted(n for n in self._sizes if n >= self.read_at.segment):
            offset = max(len(MAGIC), self.read_at.offset if number == self.read_at.segment else 0)
            with suppress(OSError), self._path(number).open("rb") as file:
                while True:
                    file.seek(offset)
                    head = file.read(HEAD.size)
                    if len(head) < HEAD.size:
                        break
                    value_bytes, key_bytes, _ = HEAD.unpack(head)
                    offset += HEAD.size + key_bytes + value_bytes
                    if offset > self._sizes[number]:
                        break
                    count += 1
        return count

    def _read_segment_at(self, max_bytes: int) -> list[Entry]:
        """Events of the segment at `read_at`; empty when it is used up, and then `read_at` is in the next one."""
        number = self._next_segment()
        offset = self.read_at.offset if number == self.read_at.segment else 0
        size = self._sizes[number]
        if offset == 0 and os.pread(self._reader(number), len(MAGIC), 0) != MAGIC:
            self._give_up(number, 0)
            return []
        offset = max(offset, len(MAGIC))
        found, wanted = parse_frames(os.pread(self._reader(number), min(max_bytes, size - offset), offset), offset)
        if not found and wanted > 0 and offset + wanted <= size:
            # The whole frame may still be longer: its header was cut. Two rounds reach any frame.
            head = os.pread(self._reader(number), HEAD.size, offset)
            wanted = HEAD.size + sum(HEAD.unpack(head)[:2])
            if offset + wanted <= size:
                found, wanted = parse_frames(os.pread(self._reader(number), wanted, offset), offset)
        if not found:
            self._give_up(number, offset if wanted == -1 else None)
        return [Entry(Position(number, end), key, value) for end, key, value in found]

    def _next_segment(self) -> int:
        return min(number for number in self._sizes if number >= self.read_at.segment)

    def _give_up(self, number: int, damaged_at: int | None) -> None:
        """Leave a segment. A torn tail is what a crash leaves; after a wrong crc the rest is kept for a person."""
        if damaged_at is not None and (rest := self._sizes[number] - damaged_at) > 0:
            kept = self.folder.parent / "parked" / f"{self.folder.name}-{number:08d}.damaged"
            with suppress(OSError):
                kept.parent.mkdir(mode=0o700, exist_ok=True)
                kept.write_bytes(os.pread(self._reader(number), rest, damaged_at))
                kept.chmod(0o600)
            if self._on_damage is not None:
                self._on_damage(kept, rest)
        if number == self._writing:
            self._close_writer()
        self.read_at = Position(number + 1, 0)

    def _reader(self, number: int) -> int:
        if self._read_segment != number:
            self._close_reader()
            self._read_fd = os.open(self._path(number), os.O_RDONLY)
            self._read_segment = number
        return self._read_fd

    def _close_reader(self) -> None:
        fd, self._read_fd = self._read_fd, -1
        self._read_segment = 0
        _close(fd)

    def _remaining(self) -> int:
        at = self.read_at
        return sum(
            max(0, size - (max(at.offset, len(MAGIC)) if number == at.segment else len(MAGIC)))
            for number, size in self._sizes.items()
            if number >= at.segment
        )

    # -- acknowledging -------------------------------------------------------------------------------------------

    def acknowledge(self, position: Position) -> None:
        """Kafka has everything before `position`: remember that and delete the segments that are done with."""
        if position <= self.acked:
            return
        self.acked = position
        packed = struct.pack("<QQ", *position)
        with suppress(OSError):
            # Losing the cursor means sending events again that Kafka has; their ids make that harmless.
            fd = os.open(self.folder / "acked", os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(fd, packed + struct.pack("<I", zlib.crc32(packed)), 0)
            finally:
                os.close(fd)
        for number in [number for number in self._sizes if number < position.segment]:
            self._delete(number)

    def _load_cursor(self) -> Position:
        try:
            segment, offset, checksum = _CURSOR.unpack((self.folder / "acked").read_bytes())
        except (OSError, struct.error):
            return Position(0, 0)
        if checksum != zlib.crc32(struct.pack("<QQ", segment, offset)):
            return Position(0, 0)
        return Position(segment, offset)

    def _delete(self, number: int) -> None:
        if number == self._writing:
            self._close_writer()
        if number == self._read_segment:
            self._close_reader()
        self._path(number).unlink(missing_ok=True)
        del self._sizes[number]

    # -- ending --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the log; its folder goes too when Kafka has everything in it."""
        if self.is_done:
            shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            # Closing alone is not enough where a child process has a copy of the descriptor.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close the files and touch nothing else: what a forked child does with its parent's log."""
        self._close_writer()
        self._close_reader()
        lock, self._lock = self._lock, -1
        _close(lock)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.log"


def _close(fd: int) -> None:
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)


def _write_all(fd: int, parts: Sequence[bytes]) -> None:
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    written = os.write(fd, data)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.write(fd, view[written:])
