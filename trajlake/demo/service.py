"""A `trajlake` command that a demo runs in a process of its own, and remembers beside the lake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from trajlake.demo.errors import DemoError

STOP_S: Final = 12.0
"""A little more than a supervisor gives its own workers."""


@dataclass(frozen=True)
class Started:
    """A service as it is remembered in `<name>.json`. `created_s` tells a pid from a later use of it."""

    pid: int
    created_s: float
    servers: str
    topic: str

    @property
    def process(self) -> psutil.Process | None:
        """The process, if it lives."""
        try:
            process = psutil.Process(self.pid)
            alive = process.status() != psutil.STATUS_ZOMBIE
            return process if alive and abs(process.create_time() - self.created_s) < 0.01 else None
        except psutil.Error:
            return None


class Service:
    """One service of a demo's folder: `<name>.json` remembers it, `<name>.log` is what it says."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Its pid, whoever started it; None when it does not run."""
        if self._child is not None:
            return self._child.pid
        known = self.known()
        return known.pid if known else None

    def known(self) -> Started | None:
        """One that an earlier demo left running."""
        try:
            known = Started(**json.loads(self._record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return known if known.process is not None else None

    def start(self, options: Sequence[str], environment: Mapping[str, str], servers: str, topic: str) -> None:
        """Start it, or find it running for this very log."""
        known = self.known()
        if known is not None:
            if (known.servers, known.topic) == (servers, topic):
                return
            self.end_known()
        with self.log_path.open("wb") as log:
            self._child = subprocess.Popen(
                # -P: a folder named trajlake where it happens to start is not this program.
                [sys.executable, "-P", "-m", "trajlake", self.name, *options],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal reaches us; we stop it when its work is done.
                start_new_session=True,
            )
        record = Started(self._child.pid, psutil.Process(self._child.pid).create_time(), servers, topic)
        self._record.write_text(json.dumps(asdict(record)), encoding="utf-8")

    def check(self) -> None:
        """Raise DemoError with the end of its log when it has ended by itself."""
        if self._child is not None and self._child.poll() is not None:
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").split("\n")
            tail = "; ".join(line for line in lines if line.strip())[-400:]
            raise DemoError(f"`{self.name}` ended ({self._child.returncode}); its log is {self.log_path}: {tail}")

    def dismiss(self) -> None:
        """Tell it to stop, if this demo started it, and go on meanwhile."""
        if self._child is not None:
            self._child.terminate()

    def stop(self) -> None:
        """Stop it, if this demo started it, and wait until it has ended."""
        if self._child is None:
            return
        self.dismiss()
        child, self._child = self._child, None
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(5)
        self._record.unlink(missing_ok=True)

    def end_known(self) -> None:
        """Stop one that an earlier demo left."""
        known = self.known()
        if known is None or known.process is None:
            return
        process = known.process
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(STOP_S)
            except psutil.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(known.pid, signal.SIGKILL)

    @property
    def _record(self) -> Path:
        return self.folder / f"{self.name}.json"
