"""A terminal to run a command in."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Sequence


def shown_in_terminal(command: Sequence[str], width: int, **environment: str) -> str:
    """All that a command writes to a terminal of so many columns, control codes included."""
    parent, child = pty.openpty()
    settings = {**os.environ, "COLUMNS": str(width), "TERM": "xterm", **environment}
    shown = b""
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=settings):
        os.close(child)
        # Linux answers a read of a closed terminal with an error, not with an empty read.
        try:
            while part := os.read(parent, 4096):
                shown += part
        except OSError:
            pass
    os.close(parent)
    return shown.decode()
