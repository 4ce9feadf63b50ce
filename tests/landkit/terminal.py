"""A terminal to run a command in."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any

_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Terminal:
    """A command that runs in a terminal of so many columns. `stdin`, `stdout`: other files in the terminal's place.

    Use as a context manager; what still runs at its end is killed.
    """

    def __init__(
        self, command: Sequence[str], width: int = 80, *, stdin: IO[Any] | None = None, stdout: IO[Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._parent, child = pty.openpty()
        settings = {**os.environ, "COLUMNS": str(width), "TERM": "xterm", **(environment or {})}
        self.process = subprocess.Popen(
            command, stdin=stdin or child, stdout=stdout or child, stderr=child, env=settings
        )
        os.close(child)
        self._written = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._parent)

    @property
    def written(self) -> str:
        """All that came so far, control codes included."""
        return self._written.decode(errors="replace")

    def wait_for(self, pattern: str, timeout_s: float = 30.0) -> None:
        """Wait until a pattern has been written."""
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, self.written):
            assert time.monotonic() < deadline, (
                f"{pattern!r} was not shown within {timeout_s} s: {self.written[-500:]!r}"
            )
            assert self._read(0.1), f"{pattern!r} was never shown: {self.written[-2000:]!r}"

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(number)

    def finish(self, timeout_s: float = 60.0) -> int:
        """Wait for the end, and return the exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read(0.2):
            assert time.monotonic() < deadline, f"it goes on after {timeout_s} s: {self.written[-500:]!r}"
        return self.process.wait(timeout_s)

    def _read(self, patience_s: float) -> bool:
        """Take in what there is; False at the end."""
        if not select.select([self._parent], [], [], patience_s)[0]:
            return True
        # Linux answers a read of a closed terminal with an error, not with an empty read.
        try:
            part = os.read(self._parent, 65536)
        except OSError:
            return False
        self._written += part
        return bool(part)


def shown_in_terminal(command: Sequence[str], width: int, **environment: str) -> str:
    """All that a command writes to a terminal of so many columns, control codes included."""
    with Terminal(command, width, environment=environment) as terminal:
        terminal.finish()
        return terminal.written


def seen_at_last(written: str) -> str:
    """What is left to be seen of all that was written to a terminal: lines that were erased or overwritten are gone."""
    lines, row, column = [""], 0, 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", written):
        if part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif found := _CODE.fullmatch(part):
            count, code = int(found[1] or 1) if found[1].isdigit() or not found[1] else 1, found[2]
            if code == "K":
                lines[row] = "" if found[1] == "2" else lines[row][:column]
            elif code == "A":
                row = max(0, row - count)
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return "\n".join(line.rstrip() for line in lines).strip("\n")
