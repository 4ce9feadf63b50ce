"""One service in a process of its own: a `trajlake` command with its output in a log file.

It leads a process group, so that nothing of it is left behind, and ends by itself when its supervisor is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

LOG_MAX_BYTES: Final = 16 * 2**20
"""A larger log is put aside as `.log.1` when its service starts."""
_TAIL_BYTES: Final = 8 * 2**10
_LOOK_S: Final = 1.0


def run_command(arguments: Sequence[str], environment: Mapping[str, str], log_path: str, parent: int) -> None:
    """Body of the process. Ends with the command's exit code. `parent`: pid of the supervisor, which may be gone by the
    time that this begins."""
    os.setsid()
    os.environ.update(environment)
    _log_to(Path(log_path))
    threading.Thread(target=_watch, args=(parent,), name="watchdog", daemon=True).start()
    sys.argv = ["trajlake", *arguments]
    from trajlake.cli import main

    main()


def end_group(process: BaseProcess) -> None:
    """Kill what is left of a service whose process has ended: its own workers, which nobody would stop any more."""
    if process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def last_words(log_path: Path) -> str:
    """The last line of a log that says something, as text; of structured lines the event and its reason."""
    try:
        with log_path.open("rb") as log:
            log.seek(max(0, log_path.stat().st_size - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        if line.strip():
            return _as_text(line.strip())
    return ""


def _as_text(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "event" not in entry:
        return line
    return " ".join(str(entry[name]) for name in ("event", "reason") if name in entry)


def _log_to(path: Path) -> None:
    if path.exists() and path.stat().st_size > LOG_MAX_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
