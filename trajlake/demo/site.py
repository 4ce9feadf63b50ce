"""Where a demo runs: a Kafka, land and rolling workers of its own, for one lake.

Beside the lake lies `.trajlake/demo/<name of the lake>/`. The broker's log stays there from one demo to the next, so
that offsets go on where the tables end. It is beside the lake and not in it, since it holds events before redaction.

What a demo starts it stops. What an earlier demo was told to keep running, it uses and leaves running; what one that
was killed left behind, it stops.
"""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from trajlake.beside import beside
from trajlake.demo.errors import DemoError
from trajlake.demo.service import Service
from trajlake.streams.broker import BrokerError, EmbeddedBroker
from trajlake.streams.broker.ports import free_port
from trajlake.streams.settings import Settings

RUN_TIMEOUT_S: Final = 6
REORDER_TIMEOUT_S: Final = 2
TICK_INTERVAL_S: Final = 1
_LOOK_S: Final = 0.1

WORKER_SETTINGS: Final = {
    "run_timeout_s": RUN_TIMEOUT_S,
    "reorder_timeout_s": REORDER_TIMEOUT_S,
    "tick_interval_s": TICK_INTERVAL_S,
    # Numbers of a demo are asked for at its end, not after the ten seconds that spare a large table its rows.
    "stats_interval_ms": 500,
    "stats_rows_interval_ms": 1000,
}
PASSED_ON: Final = (
    "root",
    "bootstrap_servers",
    "events_topic",
    "outcomes_topic",
    "stats_topic",
    "decisions_topic",
    "roll_id",
    "policies",
)


def site_folder(root: str) -> Path:
    """Folder of the demo of one lake."""
    return beside(root, "demo")


class Site:
    """Broker and services of one lake. Use it as a context manager; only one demo at a time has it.

    check: called while something is waited for; what it raises stops the start.
    """

    def __init__(self, root: str, heap_mb: int, check: Callable[[], None]) -> None:
        self.folder = site_folder(root)
        self.land = Service(self.folder, "land")
        self.roll = Service(self.folder, "roll")
        # The rolling workers first: what they tell on their way out, the land workers still land.
        self.services = (self.roll, self.land)
        self.broker = EmbeddedBroker(self.folder / "broker", heap_mb=heap_mb)
        self.keep = False
        """Leave everything running at the end."""
        self._check = check
        self._lock: IO[str] | None = None
        self._was_kept = False

    def __enter__(self) -> Site:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo is at work in {self.folder}; wait for it, or give another --root") from None
        except OSError as error:
            raise DemoError(f"cannot use {self.folder} ({error.strerror}); give another --root") from None
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.keep:
                self._kept.touch()
                return
            self.stop_services()
            if not self._was_kept:
                self.broker.stop()
                self._kept.unlink(missing_ok=True)
        finally:
            if self._lock is not None:
                self._lock.close()

    @property
    def goes_on(self) -> bool:
        """Whether the broker goes on after this demo."""
        return self.keep or self._was_kept

    @property
    def _kept(self) -> Path:
        """Marks that what runs here was meant to go on."""
        return self.folder / "kept"

    # The broker

    def start_broker(self) -> str:
        """Start the broker, or find it running; returns its bootstrap servers."""
        self._was_kept = self._kept.exists() and self.broker.pid is not None
        if not self._was_kept:
            # An earlier demo was killed, or only its broker was stopped.
            for service in self.services:
                service.end_known()
        failed: list[Exception] = []

        def start() -> None:
            try:
                self.broker.start()
            except Exception as error:
                failed.append(error)

        # In a thread, so that whoever stops the demo is heard at once, whatever the broker is doing.
        thread = threading.Thread(target=start, name="broker-start", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_LOOK_S)
                self._check()
        except BaseException:
            while thread.is_alive():
                EmbeddedBroker(self.broker.folder).kill()
                thread.join(_LOOK_S)
            raise
        for error in failed:
            tail = "; ".join(error.log_tail[-3:]) if isinstance(error, BrokerError) else ""
            raise DemoError(f"{error}{': ' if tail else ''}{tail}") from error
        return self.broker.bootstrap_servers

    # The services

    @property
    def pids(self) -> list[int]:
        """Of the services' supervisors, whoever started them."""
        return [service.pid for service in self.services if service.pid is not None]

    def start_services(self, settings: Settings, workers: int) -> None:
        """Start `trajlake land` and `trajlake roll`, or find them running for this very log."""
        servers, topic = settings.bootstrap_servers, settings.events_topic
        environment = _environment(settings)
        self.land.start(["--workers", str(workers), "--health-port", "0"], environment, servers, topic)
        self.roll.start(["--port", str(free_port())], environment, servers, topic)

    def check_services(self) -> None:
        """Raise DemoError with the end of its log when one has ended by itself."""
        for service in self.services:
            service.check()

    def dismiss_services(self) -> None:
        """Tell what this demo started to stop, and go on meanwhile: it flushes, and saves its state."""
        for service in self.services:
            service.dismiss()

    def stop_services(self) -> None:
        """Stop what this demo started, and wait until it has ended."""
        self.dismiss_services()
        for service in self.services:
            service.stop()

    def policies_file(self) -> Path:
        """The demo's policies, written where they can be looked at and changed."""
        path = self.folder / "policies.yaml"
        shipped = Path(__file__).with_name("policies.yaml").read_text(encoding="utf-8")
        if not path.exists():
            path.write_text(shipped, encoding="utf-8")
        return path


def _environment(settings: Settings) -> dict[str, str]:
    """The demo's settings as variables for its services."""
    chosen: dict[str, Any] = {
        **{name: getattr(settings, name) for name in PASSED_ON},
        "storage_options": json.dumps(settings.storage_options),
        "kafka_options": "{}",
        "log_format": "json",
        **WORKER_SETTINGS,
    }
    return {f"TRAJLAKE_{name.upper()}": str(value) for name, value in chosen.items()}
