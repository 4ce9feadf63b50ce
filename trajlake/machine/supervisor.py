"""Starts the broker and the services in order, starts again what ends, and stops all of it in order.

Stopping: workers first, since they flush to the broker and the tables; then the dashboard and the broker.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from trajlake.machine.process import end_group, last_words, run_command
from trajlake.machine.services import Service
from trajlake.streams.broker import BrokerError, EmbeddedBroker
from trajlake.streams.children import next_start, stop_all
from trajlake.streams.probing import Answer, ask_ready

BROKER: Final = "kafka"
LAST: Final = frozenset({"dashboard"})
"""Stopped with the broker, after all others."""
USAGE: Final = 2
"""Exit code of a command that is used or set wrongly: starting it again does not help."""
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_WORKERS_STOP_S: Final = 5.5
_LAST_STOP_S: Final = 1.5
_BROKER_STOP_S: Final = 2.5
"""Together less than the 10 s that init systems and orchestrators give."""
_TURN_S: Final = 0.2
_ASK_EVERY_S: Final = 1.0
_ASK_S: Final = 1.0


class ServiceRefused(Exception):
    """A service cannot run as it is set; `name` is the service, the text what it said."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(f"{name}: {said.removeprefix('trajlake: ')}")
        self.name = name


@dataclass(frozen=True)
class State:
    """One service as it is now. `since`: seconds of the monotonic clock since when `state` holds.

    state: starting, ready, not ready, ended (and will be started again), stopping, stopped.
    """

    name: str
    state: str
    since: float
    pid: int | None = None
    restarts: int = 0
    detail: str = ""


@dataclass
class _Child:
    service: Service
    process: BaseProcess | None = None
    started: float = 0.0
    failures: int = 0
    due: float = 0.0
    health: Answer | None = None
    """Last answer of the health endpoint."""


class Supervisor:
    """`run()` blocks until `stop()`. `broker`: None where another Kafka is used.

    tell: told each change of a service's state. environment: variables that services get on top of this process's.
    """

    def __init__(
        self,
        services: list[Service],
        broker: EmbeddedBroker | None,
        folder: Path,
        environment: Mapping[str, str],
        tell: Callable[[State], None],
    ) -> None:
        self.folder = folder
        self._broker = broker
        self._owns_broker = False
        self._environment = dict(environment)
        self._tell = tell
        self._children = {service.name: _Child(service) for service in services}
        self._states: dict[str, State] = {}
        self._stop = threading.Event()
        self._context = multiprocessing.get_context("spawn")
        self._broker_start: threading.Thread | None = None
        self._broker_problem = ""

    def stop(self, *_: object) -> None:
        """Ask for a clean stop; safe in signal handlers."""
        self._stop.set()

    def states(self) -> list[State]:
        """All services, the broker first."""
        return list(self._states.values())

    def log_path(self, name: str) -> Path:
        return self._broker.log_path if name == BROKER and self._broker else self.folder / f"{name}.log"

    def run(self) -> None:
        """Supervise. Raises `BrokerError` when the broker does not start at first, `ServiceRefused` when a service says
        that it is set wrongly."""
        refused: ServiceRefused | None = None
        try:
            if self._broker is not None and not self._first_broker(self._broker):
                return
            for child in self._children.values():
                self._start(child)
            threading.Thread(target=self._ask, name="health", daemon=True).start()
            while not self._stop.wait(_TURN_S):
                self._turn()
        except ServiceRefused as error:
            refused = error
        finally:
            self._stop.set()
            self._stop_all()
        if refused is not None:
            raise refused

    # The broker

    def _first_broker(self, broker: EmbeddedBroker) -> bool:
        """Start the broker, or find it running. False when a stop was asked for meanwhile."""
        # One that runs already is somebody else's: it is used, and left running. That of a killed `up` is ours.
        self._owns_broker = broker.pid is None or str(broker.pid) == self._noted_broker()
        self._start_broker(broker)
        while self._broker_start is not None and self._broker_start.is_alive():
            if self._stop.is_set() and self._owns_broker:
                broker.kill()
            self._broker_start.join(_TURN_S)
        if self._stop.is_set():
            return False
        if self._broker_problem:
            raise BrokerError(self._broker_problem, broker.log_tail(3))
        self._note_broker(broker)
        self._environment["TRAJLAKE_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
        self._note(BROKER, "ready", broker.pid, broker.bootstrap_servers)
        return True

    def _noted_broker(self) -> str:
        try:
            return (self.folder / BROKER).read_text(encoding="utf-8")
        except OSError:
            return ""

    def _note_broker(self, broker: EmbeddedBroker) -> None:
        """Remember the pid of a broker of ours, so that a successor knows it."""
        if self._owns_broker:
            (self.folder / BROKER).write_text(str(broker.pid), encoding="utf-8")

    def _start_broker(self, broker: EmbeddedBroker) -> None:
        self._note(BROKER, "starting", None, str(broker.folder))
        self._broker_problem = ""

        def start() -> None:
            try:
                broker.start()
            except Exception as error:
                self._broker_problem = str(error)

        # In a thread: it may take long, and a stop has to be heard.
        self._broker_start = threading.Thread(target=start, name="broker-start", daemon=True)
        self._broker_start.start()

    def _look_after_broker(self, broker: EmbeddedBroker) -> None:
        if self._broker_start is not None and self._broker_start.is_alive():
            return
        if broker.pid is not None:
            if self._states[BROKER].state != "ready":
                self._note_broker(broker)
            self._note(BROKER, "ready", broker.pid, broker.bootstrap_servers)
            return
        known = self._states[BROKER]
        if known.state != "ended":
            self._owns_broker = True
            self._note(BROKER, "ended", None, self._broker_problem or " ".join(broker.log_tail(1)))
        elif time.monotonic() - known.since > _BACKOFF_S[-2]:
            self._states[BROKER] = replace(known, restarts=known.restarts + 1)
            self._start_broker(broker)

    # The services

    def _start(self, child: _Child) -> None:
        service = child.service
        child.process = self._context.Process(
            target=run_command,
            args=(
                [service.name, *service.arguments],
                {**self._environment, **dict(service.variables)},
                str(self.log_path(service.name)),
                os.getpid(),
            ),
            name=service.name,
        )
        child.process.start()
        child.started, child.health = time.monotonic(), None
        self._note(service.name, "starting", child.process.pid, "")

    def _turn(self) -> None:
        if self._broker is not None:
            self._look_after_broker(self._broker)
        for child in self._children.values():
            if child.process is None:
                if time.monotonic() >= child.due:
                    name = child.service.name
                    self._states[name] = replace(self._states[name], restarts=self._states[name].restarts + 1)
                    self._start(child)
            elif not child.process.is_alive():
                self._ended(child)
            else:
                self._look(child, child.process)

    def _look(self, child: _Child, process: BaseProcess) -> None:
        name = child.service.name
        if not child.service.ready_url:
            self._note(name, "ready", process.pid, last_words(self.log_path(name)))
        elif child.health is not None:
            was_ready = self._states[name].state in ("ready", "not ready")
            state = "ready" if child.health.ready else "not ready" if was_ready else "starting"
            self._note(name, state, process.pid, child.health.says or last_words(self.log_path(name)))

    def _ended(self, child: _Child) -> None:
        process, name = child.process, child.service.name
        assert process is not None
        end_group(process)
        child.process = None
        said = last_words(self.log_path(name))
        if process.exitcode == USAGE:
            raise ServiceRefused(name, said)
        lived_s = time.monotonic() - child.started
        child.failures, delay_s = next_start(lived_s, child.failures, _BACKOFF_S)
        child.due = time.monotonic() + delay_s
        self._note(name, "ended", None, f"exit code {process.exitcode}; again in {delay_s:g} s; {said}")

    def _ask(self) -> None:
        """Ask the health endpoints, round by round."""
        while not self._stop.wait(_ASK_EVERY_S):
            for child in self._children.values():
                if child.service.ready_url and child.process is not None:
                    child.health = ask_ready(child.service.ready_url, _ASK_S)

    # The end

    def _stop_all(self) -> None:
        first = {name: child for name, child in self._children.items() if name not in LAST}
        last = {name: child for name, child in self._children.items() if name in LAST}
        self._stop_services(first, _WORKERS_STOP_S)
        self._stop_services(last, _LAST_STOP_S)
        if self._broker is not None and self._owns_broker:
            self._note(BROKER, "stopping", self._broker.pid, "")
            with suppress(BrokerError):
                self._broker.stop(_BROKER_STOP_S)
            self._note(BROKER, "stopped", None, "")

    def _stop_services(self, children: Mapping[str, _Child], within_s: float) -> None:
        running = {name: child.process for name, child in children.items() if child.process is not None}
        for name, process in running.items():
            self._note(name, "stopping", process.pid, "")
        for name, in_time in stop_all(running, within_s):
            end_group(running[name])
            self._note(name, "stopped", None, "" if in_time else "did not stop in time; killed")

    def _note(self, name: str, state: str, pid: int | None, detail: str) -> None:
        known = self._states.get(name)
        if known is not None and (known.state, known.pid) == (state, pid):
            self._states[name] = replace(known, detail=detail)
            return
        restarts = known.restarts if known else 0
        self._states[name] = told = State(name, state, time.monotonic(), pid, restarts, detail)
        self._tell(told)
