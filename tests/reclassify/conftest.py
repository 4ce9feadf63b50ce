"""Lakes that landed from a real Kafka by older failure rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Eventually, MakeTopic
from tests.keeping.conftest import RunCommand, run_command
from tests.landkit.checker import assert_exactly_once, read
from tests.landkit.events import Sent
from tests.landkit.kafka import end_of, produce
from tests.landkit.running import Running, land_all, plan
from tests.reclassify.rules import classified_by, without_quota
from trajlake.reading.tables import LakeTables
from trajlake.sinks.lake import Lake
from trajlake.streams.settings import Settings, load_settings
from trajlake.verification.verify import verify

__all__ = ["RunCommand", "run_command"]


@dataclass
class Kafka:
    """A topic with its lake. `options`: settings of its workers."""

    broker: str
    topic: str
    root: Path
    options: dict[str, Any]
    eventually: Eventually
    partitions: int

    @property
    def settings(self) -> Settings:
        return load_settings(**self.options)

    @property
    def lake(self) -> Lake:
        return Lake(str(self.root))

    def land_by_older_rules(self, sent: Sequence[Sent], partition: int = 0) -> None:
        """Land as a version did that had no rules for quotas."""
        produce(self.broker, self.topic, sent, partition)
        with classified_by(without_quota()):
            land_all(self.broker, self.topic, self.root, **self.own)

    @property
    def own(self) -> dict[str, Any]:
        """Settings beside those that every worker of a test gets."""
        return {name: self.options[name] for name in ("group_id", "outcomes_topic")}

    def landed(self, running: Running) -> Callable[[], bool]:
        """Whether a worker has landed all."""
        return lambda: all(
            running.landed(partition) == end_of(self.broker, self.topic, partition) - 1
            for partition in range(self.partitions)
        )

    def rows(self, name: str = "runs", run: str | None = None) -> list[dict[str, Any]]:
        """Rows of a table in the order of their offsets."""
        found = [row for row in read(self.root, name) if run is None or row["run_id"] == run]
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))

    def revisions(self) -> dict[str, list[tuple[int, str]]]:
        """Revision and class of each run's rows."""
        found: dict[str, list[tuple[int, str]]] = {}
        for row in self.rows():
            found.setdefault(row["run_id"], []).append((row["revision"], row["outcome_class"]))
        return {run: sorted(rows) for run, rows in found.items()}

    def assert_proved(self) -> None:
        report = verify(LakeTables(self.lake), self.settings.app_id, integrity=True)
        assert report.ok, report.problems
        assert_exactly_once(self.root, self.broker, self.topic, self.partitions)


@pytest.fixture
def kafka(broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually) -> Kafka:
    """A topic of two partitions and an empty lake."""
    topic = make_topic(2)
    options = plan(broker, topic, tmp_path / "lake", outcomes_topic=make_topic(1))
    return Kafka(broker, topic, tmp_path / "lake", options, eventually, 2)
