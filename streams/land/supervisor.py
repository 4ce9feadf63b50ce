"""Runs N land workers as processes of one consumer group, restarts those that die, and answers health questions.

A worker that ends because only a person can help (a declared loss, a table that contradicts the contract) stops all:
going on without it would leave its partitions behind unseen.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

import structlog

from trajlake.sinks.errors import TableMismatch
from trajlake.streams.children import STOP_S, next_start, stop_all
from trajlake.streams.errors import StreamError
from trajlake.streams.health import HealthServer
from trajlake.streams.land.figures import Landed
from trajlake.streams.land.health import summarise
from trajlake.streams.land.status import WorkerStatus
from trajlake.streams.land.told import ToldLander
from trajlake.streams.land.worker import LandWorker
from trajlake.streams.logs import configure_logs
from trajlake.streams.policies import governance
from trajlake.streams.settings import Settings
from trajlake.streams.tracing import OFF, Tracing

log = structlog.get_logger("trajlake.land")

EXIT_TERMINAL: Final = 3
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class WorkerFailed(StreamError):
    """A worker met a problem that a restart does not solve."""


@dataclass
class _Child:
    process: BaseProcess
    reports: Connection
    started: float
    failures: int = 0


class LandSupervisor:
    """`run()` blocks until stopped, or, with `until_end`, until every worker has landed all there was.

    `health`: serve the health endpoint at `settings.health_host:health_port`. Raises `SettingError` where the policies
    cannot be used.
    """

    def __init__(self, settings: Settings, workers: int = 1, *, until_end: bool = False, health: bool = True) -> None:
        self.settings = settings
        self._governance = governance(settings)
        self.workers = workers
        self.until_end = until_end
        self._health = health
        self._children: dict[int, _Child] = {}
        self._restarts: dict[int, tuple[float, int]] = {}
        self._reports: dict[int, dict[str, Any]] = {}
        self._figures = Landed()
        self._landed = 0
        """Records that the workers have landed so far."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._terminal: str | None = None
        self._context = multiprocessing.get_context("spawn")
        self.address: str | None = None

    def stop(self, *_: object) -> None:
        """Ask for a clean stop; safe in signal handlers."""
        self._stop.set()

    def status(self) -> dict[str, Any]:
        """What `/status` answers."""
        with self._lock:
            return summarise(self._running(), self.workers, time.time())

    def metrics(self) -> bytes:
        """What `/metrics` answers."""
        with self._lock:
            return self._figures.text(self.settings.events_topic, self._running(), self.workers)

    def _running(self) -> dict[int, dict[str, Any]]:
        return {number: report for number, report in self._reports.items() if number in self._children}

    def run(self) -> None:
        """Supervise. Raises `WorkerFailed` when a worker says that only a person can help."""
        server = None
        if self._health:
            server = HealthServer(self.settings.health_host, self.settings.health_port, self.status, self.metrics)
            server.start()
            self.address = server.address
            log.info("health endpoint", address=server.address)
        log.info(
            "landing",
            root=self.settings.root,
            topic=self.settings.events_topic,
            bootstrap_servers=self.settings.bootstrap_servers,
            workers=self.workers,
            policies=self._governance.policies.revision,
            zone=self.settings.zone or None,
        )
        try:
            for number in range(self.workers):
                self._start(number, 0)
            while not self._stop.is_set() and self._terminal is None and (self._children or self._restarts):
                self._turn()
        finally:
            self._stop_children()
            log.info("stopped", landed=self._landed)
            if server is not None:
                server.stop()
        if self._terminal is not None:
            raise WorkerFailed(self._terminal)

    def _start(self, number: int, failures: int) -> None:
        receiving, sending = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work,
            args=(self.settings.model_dump(), self.until_end, sending, number == 0),
            name=f"land-{number}",
        )
        process.start()
        sending.close()
        self._children[number] = _Child(process, receiving, time.monotonic(), failures)

    def _turn(self) -> None:
        for number, (due, failures) in list(self._restarts.items()):
            if time.monotonic() >= due:
                del self._restarts[number]
                self._start(number, failures)
        waiting = [child.reports for child in self._children.values()]
        ready = wait(waiting, timeout=0.2) if waiting else self._stop.wait(0.2) and []
        for number, child in list(self._children.items()):
            if child.reports in (ready or ()):
                self._read(number, child)
            if not child.process.is_alive():
                self._ended(number, child)

    def _read(self, number: int, child: _Child) -> None:
        try:
            while child.reports.poll():
                report = child.reports.recv()
                if "terminal" in report:
                    self._terminal = report["terminal"]
                else:
                    with self._lock:
                        before = self._reports.get(number, {})
                        self._landed += report["rows"] - (
                            before.get("rows", 0) if before.get("pid") == report["pid"] else 0
                        )
                        self._reports[number] = report
        except (EOFError, OSError):
            child.process.join(1.0)

    def _ended(self, number: int, child: _Child) -> None:
        self._read(number, child)
        child.reports.close()
        del self._children[number]
        with self._lock:
            # What it said last is not true any more; what it counted is.
            self._figures.ended(self._reports.pop(number, None))
        if self._terminal is not None:
            return
        if child.process.exitcode == 0 and self.until_end:
            self.workers -= 1
            return
        failures, delay = next_start(time.monotonic() - child.started, child.failures, _BACKOFF_S)
        log.error("worker ended; starting it again", worker=number, exit_code=child.process.exitcode, in_s=delay)
        self._restarts[number] = (time.monotonic() + delay, failures)
        with self._lock:
            self._figures.restarted(number)

    def _stop_children(self) -> None:
        for number, in_time in stop_all({number: child.process for number, child in self._children.items()}):
            if not in_time:
                log.error("worker did not stop in time; its batch is landed at the next start", worker=number)
            child = self._children[number]
            self._read(number, child)
            child.reports.close()
        self._children.clear()


def _work(values: dict[str, Any], until_end: bool, reports: Connection, lands_told: bool) -> None:
    """Body of a worker process. `lands_told`: it also lands what the rolling workers tell, in a thread of its own."""
    settings = Settings(**values)
    configure_logs(settings)
    parent = os.getppid()

    def report(status: WorkerStatus) -> None:
        if os.getppid() != parent:
            # The supervisor was killed: nobody would restart or stop this worker any more.
            worker.stop()
            return
        try:
            reports.send({**asdict(status), "at": time.time(), "pid": os.getpid()})
        except (BrokenPipeError, OSError):
            worker.stop()

    told: ToldLander | None = None
    tracing = OFF
    try:
        tracing = Tracing.of(settings, "land")
        worker = LandWorker(settings, until_end=until_end, report=report, tracing=tracing)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        # Ctrl-C reaches the whole process group; the supervisor passes it on in order.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if lands_told:
            told = ToldLander(settings, settings.lake(), partial(worker.note, "told"))
            if not until_end:
                told.start()
        worker.run()
        if told is not None and until_end:
            told.land_all()
    except (StreamError, TableMismatch, ValueError) as error:
        # A value that cannot be read back (a ledger text of another version) will not become readable by trying again.
        reports.send({"terminal": str(error)})
        sys.exit(EXIT_TERMINAL)
    finally:
        if told is not None:
            told.close(STOP_S / 2)
        tracing.close()
