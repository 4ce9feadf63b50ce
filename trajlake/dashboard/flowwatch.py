"""How far the tables are behind Kafka, and how the workers are: asked every ten seconds in a thread of its own.

The tables alone tell what has landed, and not what waits. Where no broker or worker answers, that is what is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog

from trajlake.reading.lag import QUIET, Lag, measure_lag
from trajlake.streams.importing.published import landed_offsets
from trajlake.streams.probing import ask_ready

if TYPE_CHECKING:
    from trajlake.reading.tables import PartitionId
    from trajlake.sinks.lake import Lake
    from trajlake.streams.settings import Settings

log = structlog.get_logger("trajlake.dashboard")

EVERY_S: Final = 10.0
ASK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One kind of worker. state: ready, not ready, or no answer; `says`: what it said, or why nothing did."""

    name: str
    state: str
    says: str
    asked: str


@dataclass(frozen=True)
class FlowState:
    """The flow at one moment. lags: by topic and partition, None where no broker answered."""

    read_at: datetime
    broker: str
    lags: Mapping[PartitionId, Lag] | None = None
    workers: list[WorkerState] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The lag of the partition that is furthest behind."""
        if self.lags is None:
            return "unknown"
        behind = [lag for lag in self.lags.values() if lag.records]
        if not behind:
            return "0 s"
        if any(lag.seconds is None for lag in behind):
            return f"{sum(lag.records for lag in behind):,} records"
        return f"{max(lag.seconds or 0.0 for lag in behind):,.0f} s"


class FlowWatch:
    """Keeps the newest state. `state` may be read from any thread; None before the first look."""

    def __init__(self, lake: Lake, settings: Settings, every_s: float = EVERY_S) -> None:
        self._lake = lake
        self._settings = settings
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="flow", daemon=True)
        self.state: FlowState | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End without waiting for an answer that may be on its way."""
        self._stop.set()

    def refresh(self) -> None:
        """Look anew."""
        servers = self._settings.bootstrap_servers
        self.state = FlowState(datetime.now(UTC), servers, self._lags(), self._workers())

    def _lags(self) -> Mapping[PartitionId, Lag] | None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings, topic = self._settings, self._settings.events_topic
        kafka = settings.kafka()
        try:
            if (none := measure_lag(kafka, {}, set(), ASK_S)) is None:
                return none
            found = AdminClient({**kafka, **QUIET}).list_topics(topic, timeout=ASK_S).topics[topic].partitions
            landed = landed_offsets(self._lake, settings.app_id, topic, found)
            known = {(topic, partition): landed.get(partition, -1) for partition in found}
            return measure_lag(kafka, known, {topic}, ASK_S)
        except KafkaException:
            return None

    def _workers(self) -> list[WorkerState]:
        settings = self._settings
        places = (
            ("land", settings.health_host, settings.health_port),
            ("roll", settings.roll_host, settings.roll_port),
            ("curate", settings.health_host, settings.curate_port),
            ("maintain", settings.health_host, settings.maintain_port),
        )
        found = []
        for name, host, port in places:
            if not port:
                found.append(WorkerState(name, "no answer", "its port is 0: its log says where it answers", ""))
                continue
            url = f"http://{host}:{port}/ready"
            answer = ask_ready(url, ASK_S)
            state = "ready" if answer.ready else "not ready" if answer.answered else "no answer"
            found.append(WorkerState(name, state, answer.says, url))
        return found

    def _keep(self) -> None:
        while not self._stop.is_set():
            try:
                self.refresh()
            except Exception as error:
                log.warning("the flow cannot be looked at", reason=f"{type(error).__name__}: {error}"[:300])
                # What was seen last is not what is.
                self.state = FlowState(datetime.now(UTC), self._settings.bootstrap_servers)
            self._stop.wait(self._every_s)
