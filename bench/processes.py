"""What benchmarks ask of the processes that they measure."""

from __future__ import annotations

import time

from trajlake.streams.probing import ask_ready


def wait_until_ready(url: str, deadline_s: float = 90.0) -> None:
    """Wait until a health endpoint says ready. Raises TimeoutError where it does not in time."""
    until = time.monotonic() + deadline_s
    while not (answer := ask_ready(url, 2)).ready:
        if time.monotonic() > until:
            raise TimeoutError(f"{url} is not ready: {answer.says}")
        time.sleep(0.2)


def cpu_s(pid: int) -> float:
    """Processor time that a process and its children have used, in seconds."""
    import psutil

    own = psutil.Process(pid)
    used = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return round(sum(times.user + times.system for times in used), 1)
