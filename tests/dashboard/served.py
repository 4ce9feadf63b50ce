"""A dashboard in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx


class Served:
    """A dashboard process. `url` ends with a slash."""

    def __init__(self, root: Path, *words: str, port: int = 0) -> None:
        self.root = root
        self.port = port or free_port()
        self._words = words
        self.url = f"http://127.0.0.1:{self.port}/"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = ["dashboard", "--root", str(self.root), "--port", str(self.port), *self._words]
        self.process = subprocess.Popen([sys.executable, "-m", "trajlake", *words], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 150
        while True:
            try:
                if httpx.get(self.url + "live").status_code == 200:
                    return
            except httpx.TransportError:
                assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
                assert time.monotonic() < deadline

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        self.process.communicate(timeout=20)
        return self.process.returncode


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
