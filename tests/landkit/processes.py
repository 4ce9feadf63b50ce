"""Land workers in processes of their own, and whatever else a test's commands started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import psutil

from tests.landkit.tree import REPO


def processes_of(folder: Path) -> list[psutil.Process]:
    """Everything that runs and has to do with a folder: Kafka, workers and their children, scripts."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            found.append(process)
    return found


class WorkerProcess:
    """A land worker in a process (`tests.landkit.worker`). Leaving the block kills it.

    `told`: what it said on standard output, in order. `log`: the lines of its log.
    """

    def __init__(self, settings: dict[str, Any], **faults: Any) -> None:
        self.told: list[dict[str, Any]] = []
        self.log: list[str] = []
        self._heard = threading.Condition()
        self._given = 0
        plan = json.dumps({"settings": settings, **faults})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.landkit.worker", plan],
            cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._hear, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._keep, args=(self.process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.end()

    def end(self, timeout: float = 60) -> int:
        """Its exit code, once it has ended and all that it said is here; the negative number of a signal."""
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    def terminate(self, timeout: float = 20) -> float:
        """Ask it to stop, and return how many seconds that took."""
        asked = time.monotonic()
        self.process.terminate()
        self.end(timeout)
        return time.monotonic() - asked

    def wait_for(self, key: str, timeout: float = 60) -> dict[str, Any]:
        """The newest message with that key which no call has returned; waits for one."""
        deadline = time.monotonic() + timeout
        with self._heard:
            while True:
                for place in range(len(self.told) - 1, self._given - 1, -1):
                    if key in self.told[place]:
                        self._given = place + 1
                        return self.told[place]
                left = deadline - time.monotonic()
                assert left > 0, f"it told nothing of {key!r} in {timeout} s: {self.tail()}"
                assert self._readers[0].is_alive(), f"it ended, and told nothing of {key!r}: {self.tail()}"
                self._heard.wait(min(left, 1))

    def tail(self) -> str:
        """The end of its log, for the message of a failed test."""
        return "\n".join(self.log[-40:])

    def _hear(self, stream: IO[str]) -> None:
        for line in stream:
            with self._heard:
                self.told.append(json.loads(line))
                self._heard.notify_all()

    def _keep(self, stream: IO[str]) -> None:
        for line in stream:
            self.log.append(line.rstrip("\n"))


def land(settings: dict[str, Any]) -> WorkerProcess:
    """Land everything that the topic holds, in a process that has ended well."""
    with WorkerProcess(settings, until_end=True) as worker:
        assert worker.end(120) == 0, worker.tail()
    return worker
