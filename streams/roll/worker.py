"""One rolling worker process: Faust's own worker around the application, and a watchdog beside its loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import Any, Final

import faust
import structlog

from trajlake.streams.logs import configure_logs
from trajlake.streams.roll.app import RollApp
from trajlake.streams.roll.guard import end_process
from trajlake.streams.roll.views import serve_views
from trajlake.streams.settings import Settings

log = structlog.get_logger("trajlake.roll")

DEAD_S: Final = 120.0
"""A loop that has not turned for so long will not: the process ends, and its partitions go to others."""


def run_worker(values: dict[str, Any], port: int, restarts: int = 0) -> None:
    """Run a worker until SIGTERM. `values`: the settings. `restarts`: how often it was started before. Ends the
    process."""
    settings = Settings(**values)
    configure_logs(settings)
    logging.getLogger("faust").setLevel(logging.WARNING)
    logging.getLogger("mode").setLevel(logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    # Ctrl-C reaches the whole process group; the supervisor passes it on in order.
    parent = os.getppid()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    roll = RollApp(settings, port, restarts)
    serve_views(roll)
    threading.Thread(target=_watch, args=(roll, parent), name="watchdog", daemon=True).start()
    worker = faust.Worker(
        roll.faust, loop=loop, loglevel="warn", quiet=True, redirect_stdouts=False, override_logging=False
    )
    try:
        worker.execute_from_commandline()
    finally:
        roll.tracing.close()


def _watch(roll: RollApp, parent: int) -> None:
    """End the process where its loop is stuck for good, or its supervisor is gone."""
    while True:
        time.sleep(1.0)
        if os.getppid() != parent:
            log.error("the supervisor is gone; stopping")
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10.0)
            os._exit(1)
        still = time.monotonic() - roll.turned_at
        if still > DEAD_S:
            end_process("the loop", f"has not turned for {still:.0f} s")
