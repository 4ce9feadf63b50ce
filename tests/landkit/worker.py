"""A land worker in a process of its own that can be killed or stopped at a numbered step of the commit order.

    python -m tests.landkit.worker '{"settings": {...}, "until_end": true, "kill_at": "4 events"}'

kill_at: SIGKILL to itself when it reaches the step. halt_at: SIGSTOP instead, so that only SIGCONT lets it go on.
kill_after: SIGKILL when the step is over. times: at the n-th time. Each is told on standard output, one JSON line each.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from dataclasses import asdict
from typing import Any

import structlog

from trajlake.streams.land.status import WorkerStatus
from trajlake.streams.land.worker import LandWorker
from trajlake.streams.settings import load_settings


def tell(**facts: Any) -> None:
    """One line on standard output."""
    sys.stdout.write(json.dumps(_plain(facts), default=str) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """A value whose keys are texts: labels of metrics are tuples."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): _plain(each) for key, each in value.items()}
    return value


def main(plan: dict[str, Any]) -> None:
    """Run the worker as planned."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    seen = 0
    previous = ""

    def on_step(step: str) -> None:
        nonlocal seen, previous
        if plan.get("tell_steps"):
            tell(step=step)
        if previous == plan.get("kill_after"):
            tell(killed=f"after {previous}")
            os.kill(os.getpid(), signal.SIGKILL)
        if step in (plan.get("kill_at"), plan.get("halt_at")):
            seen += 1
            if seen == plan.get("times", 1):
                if step == plan.get("kill_at"):
                    tell(killed=step)
                    os.kill(os.getpid(), signal.SIGKILL)
                tell(halted=step)
                os.kill(os.getpid(), signal.SIGSTOP)
        previous = step

    def report(status: WorkerStatus) -> None:
        tell(status=asdict(status))

    worker = LandWorker(
        load_settings(**plan["settings"]), until_end=plan.get("until_end", False), on_step=on_step, report=report
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    started = time.monotonic()
    worker.run()
    tell(ended=time.monotonic() - started, status=asdict(worker.status))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
