"""The spool's folder: hands each process a log of its own, and the logs of processes that are dead."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trajlake.streams.publish.spool import DEFAULT_LIMIT_BYTES, SEGMENT_BYTES, SpoolLog

ADOPT_WAIT_S = 3.0


class SpoolFolder:
    """All logs of one topic on one Kafka, of living and dead processes. `open` raises OSError where it cannot."""

    def __init__(
        self,
        root: Path,
        topic: str,
        bootstrap_servers: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        on_damage: Callable[[Path, int], None] | None = None,
    ) -> None:
        servers = ",".join(sorted(part.strip() for part in bootstrap_servers.split(",")))
        self.topic_folder = root / topic
        self.folder = self.topic_folder / hashlib.sha256(servers.encode()).hexdigest()[:8]
        self._segment_bytes = segment_bytes
        self._limit_bytes = limit_bytes
        self._on_damage = on_damage

    @property
    def parked_folder(self) -> Path:
        return self.folder / "parked"

    def open(self) -> tuple[SpoolLog, list[SpoolLog]]:
        """A new log for this process, and the logs of dead processes, oldest first, now owned by this one."""
        # Events are not redacted yet: nobody but the owner may read them.
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            orphans = [log for name in sorted(os.listdir(self.folder)) if (log := self._adopt(self.folder / name))]
            own = self.folder / f"{time.time_ns() // 1000:016d}-{os.getpid()}-{secrets.token_hex(3)}"
            own.mkdir(mode=0o700)
            lock = os.open(own / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._log(own, lock), orphans

    def strangers(self) -> list[Path]:
        """Folders of the same topic on other bootstrap servers that still hold events: nobody here will send them."""
        return sorted({path.parent.parent for path in self.topic_folder.glob("*/*/*.log")} - {self.folder})

    def _adopt(self, folder: Path) -> SpoolLog | None:
        try:
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log = self._log(folder, lock)
        except OSError:
            os.close(lock)
            return None
        if log.is_done:
            log.close()
            return None
        return log

    def _log(self, folder: Path, lock: int) -> SpoolLog:
        return SpoolLog(
            folder,
            lock,
            segment_bytes=self._segment_bytes,
            limit_bytes=self._limit_bytes,
            on_damage=self._on_damage,
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # Without it a log could be adopted in the instant between its making and its locking. Whoever holds it longer
        # than a few milliseconds has been stopped, and must not stop us.
        fd = os.open(self.folder / "adopt.lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + ADOPT_WAIT_S
        try:
            while time.monotonic() < deadline:
                with suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.01)
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)
