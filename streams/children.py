"""Worker processes of a supervisor: how they are stopped, and when one that ended is started again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from typing import Final, TypeVar

Key = TypeVar("Key", int, str)

STOP_S: Final = 9.0
"""Time that workers get to end cleanly before they are killed; an orchestrator gives 10 s by its default."""
HEALTHY_AFTER_S: Final = 60.0
"""A worker that lived so long had no part in the failures before it."""


def stop_all(processes: Mapping[Key, BaseProcess], within_s: float = STOP_S) -> Iterator[tuple[Key, bool]]:
    """Ask processes to end, and kill those that have not after `within_s`. Yields each one's number or name when it is
    gone, and whether it ended in time."""
    for process in processes.values():
        process.terminate()
    deadline = time.monotonic() + within_s
    for number, process in processes.items():
        process.join(max(0.0, deadline - time.monotonic()))
        in_time = not process.is_alive()
        if not in_time:
            process.kill()
            process.join(1.0)
        yield number, in_time


def next_start(lived_s: float, failures: int, backoff_s: Sequence[float]) -> tuple[int, float]:
    """Failures in a row of a worker that ended after `lived_s` seconds, and how long to wait before the next start."""
    failures = 0 if lived_s > HEALTHY_AFTER_S else failures + 1
    return failures, backoff_s[min(failures, len(backoff_s) - 1)]
