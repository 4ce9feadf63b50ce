"""What benchmarks ask of the processes that they measure."""

from __future__ import annotations

import json
import time
from urllib.request import urlopen


def wait_until_ready(url: str, deadline_s: float = 90.0) -> None:
    """Wait until a health endpoint says ready. Raises OSError where it does not answer in time."""
    until = time.monotonic() + deadline_s
    while True:
        try:
            with urlopen(url, timeout=2) as answer:
                if json.load(answer)["ready"]:
                    return
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.2)


def cpu_s(pid: int) -> float:
    """Processor time that a process and its children have used, in seconds."""
    import psutil

    own = psutil.Process(pid)
    used = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return round(sum(times.user + times.system for times in used), 1)
