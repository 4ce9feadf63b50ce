"""Runs N rolling workers as processes of one consumer group, and starts those anew that end."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Final

import structlog

from trajlake.streams.children import next_start, stop_all
from trajlake.streams.roll.security import broker_credentials
from trajlake.streams.roll.worker import run_worker
from trajlake.streams.settings import Settings
from trajlake.streams.tracing import check_tracing

log = structlog.get_logger("trajlake.roll")

_BACKOFF_S: Final = (0.2, 1.0, 2.0, 5.0, 10.0)


@dataclass
class _Child:
    process: BaseProcess
    started: float
    failures: int


class RollSupervisor:
    """`run()` blocks until `stop()`. Worker i answers at port `roll_port + i`.

    Raises `SettingError` where the workers' client cannot connect as `kafka_options` ask for, or cannot be traced.
    """

    def __init__(self, settings: Settings, workers: int = 1) -> None:
        broker_credentials(settings.kafka_options)
        check_tracing(settings)
        self.settings = settings
        self.workers = workers
        self._children: dict[int, _Child] = {}
        self._restarts: dict[int, tuple[float, int]] = {}
        self._starts: Counter[int] = Counter()
        self._stop = threading.Event()
        self._context = multiprocessing.get_context("spawn")

    def stop(self, *_: Any) -> None:
        """Ask for a clean stop; safe in signal handlers."""
        self._stop.set()

    def run(self) -> None:
        """Supervise."""
        try:
            for number in range(self.workers):
                self._start(number, 0)
            while not self._stop.wait(0.1):
                self._turn()
        finally:
            self._stop_children()

    def pids(self) -> dict[int, int]:
        """Worker number -> process id."""
        return {number: child.process.pid or 0 for number, child in self._children.items()}

    def _start(self, number: int, failures: int) -> None:
        port = self.settings.roll_port + number
        process = self._context.Process(
            target=run_worker, args=(self.settings.model_dump(), port, self._starts[number]), name=f"roll-{number}"
        )
        self._starts[number] += 1
        process.start()
        log.info(
            "worker started", worker=number, pid=process.pid, views=f"http://{self.settings.roll_host}:{port}/skills"
        )
        self._children[number] = _Child(process, time.monotonic(), failures)

    def _turn(self) -> None:
        now = time.monotonic()
        for number, (due, failures) in list(self._restarts.items()):
            if now >= due:
                del self._restarts[number]
                self._start(number, failures)
        for number, child in list(self._children.items()):
            if child.process.is_alive():
                continue
            del self._children[number]
            failures, delay = next_start(now - child.started, child.failures, _BACKOFF_S)
            log.error("worker ended; starting it again", worker=number, exit_code=child.process.exitcode, in_s=delay)
            self._restarts[number] = (now + delay, failures)

    def _stop_children(self) -> None:
        for number, in_time in stop_all({number: child.process for number, child in self._children.items()}):
            if not in_time:
                log.warning("worker did not stop in time; what it had not committed comes again", worker=number)
        self._children.clear()
