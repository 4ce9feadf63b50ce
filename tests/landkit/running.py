"""Workers inside the test's own process, for tests that watch or disturb them; and settings that all workers get."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from trajlake.streams.land.worker import LandWorker
from trajlake.streams.settings import Settings, load_settings


def plan(broker: str, topic: str, root: Path | str, **options: Any) -> dict[str, Any]:
    """Settings of a worker: small batches, a group of its own unless one is given."""
    return {
        "bootstrap_servers": broker,
        "events_topic": topic,
        "root": str(root),
        "group_id": f"land-{uuid.uuid4().hex[:8]}",
        "batch_max_rows": 50_000,
        "batch_max_age_ms": 50,
        "kafka_options": {
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            "reconnect.backoff.max.ms": "500",
        },
        **options,
    }


def settings(broker: str, topic: str, root: Path | str, **options: Any) -> Settings:
    """The same as an object."""
    return load_settings(**plan(broker, topic, root, **options))


def land_all(broker: str, topic: str, root: Path | str, **options: Any) -> LandWorker:
    """Land everything that the topic holds, and return the worker that did."""
    worker = LandWorker(settings(broker, topic, root, **options), until_end=True)
    worker.run()
    return worker


class Running:
    """A worker in a thread. Leaving the block stops it; `error` is what its `run` raised."""

    def __init__(
        self, settings: Settings, on_step: Callable[[str], None] | None = None, until_end: bool = False
    ) -> None:
        self.problems: list[str | None] = []
        self.error: BaseException | None = None
        self.worker = LandWorker(settings, until_end=until_end, on_step=on_step, report=self._report)
        self._thread = threading.Thread(target=self._run, name="worker")

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and self.error is not None:
            raise self.error

    @property
    def problem(self) -> str:
        """What it says is wrong now; empty when all is well."""
        return self.worker.status.problem or ""

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def landed(self, partition: int = 0) -> int:
        """Last landed offset that the worker reports; -1 before it owns the partition."""
        return int(self.worker.status.partitions.get(partition, {}).get("landed_offset", -1))

    def stop(self) -> float:
        """Stop and wait; returns the seconds it took."""
        started = time.monotonic()
        self.worker.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return time.monotonic() - started

    def end(self, timeout: float = 60.0) -> BaseException | None:
        """Wait until it ends by itself; returns what it raised, which then counts as expected."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), self.problem
        error, self.error = self.error, None
        return error

    def _report(self, status: object) -> None:
        self.problems.append(self.worker.status.problem)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error
