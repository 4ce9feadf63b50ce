"""A lake that does not take writes for a while: nothing moves, the reason is told, and all of it lands afterwards."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.conftest import Eventually, MakeTopic
from tests.landkit.checker import assert_exactly_once, read
from tests.landkit.events import mixture
from tests.landkit.faults import blocked, faulty_store
from tests.landkit.kafka import end_of, members, produce
from tests.landkit.running import Running, land_all, settings
from trajlake.sinks.errors import SinkUnavailable

pytestmark = pytest.mark.integration


def test_L13_a_quarantine_that_cannot_be_written_holds_the_offset_and_the_worker_says_why(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    # Longer than the group's patience: the worker has to stay a member although it lands nothing.
    patience = {"max.poll.interval.ms": "6000", "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
    config = settings(broker, topic, tmp_path, kafka_options=patience)
    produce(broker, topic, mixture(2, name="a"))
    with Running(config) as running:
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 20)
        before = running.landed()
        with blocked(tmp_path / "quarantine" / "quarantine"):
            produce(broker, topic, mixture(4, name="b"))
            eventually(lambda: running.problem, 20)
            assert "cannot write: table quarantine" in running.problem
            files = len(list(tmp_path.rglob("*.parquet")))
            told = len(running.problems)
            eventually(lambda: len(running.problems) >= told + 7, 30, "seven seconds of trying")
            produce(broker, topic, mixture(1, name="c"))
            assert running.landed() == before
            assert max(row["offset"] for row in read(tmp_path, "events")) <= before
            assert len(list(tmp_path.rglob("*.parquet"))) == files, "each attempt left files behind"
            assert members(broker, config.group_id) == 1
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 20)
        eventually(lambda: not running.problem, 10)
        assert running.alive
    assert_exactly_once(tmp_path, broker, topic)


def test_L13_tables_that_cannot_be_opened_at_the_start_are_tried_again(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(2, name="a"))
    land_all(broker, topic, tmp_path)
    produce(broker, topic, mixture(2, name="b"))
    with blocked(tmp_path / "restricted" / "events"):
        running = Running(settings(broker, topic, tmp_path))
        running.__enter__()
        eventually(lambda: "cannot open tables" in running.problem, 20)
    eventually(lambda: running.landed() == end_of(broker, topic) - 1, 30)
    running.__exit__(None, None, None)
    assert_exactly_once(tmp_path, broker, topic)


def test_L13_a_worker_that_is_stopped_while_the_store_refuses_ends_and_loses_nothing(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(2, name="a"))
    land_all(broker, topic, tmp_path)
    with Running(settings(broker, topic, tmp_path)) as running:
        eventually(lambda: running.worker.status.partitions, 20)
        with blocked(tmp_path / "restricted" / "events"):
            produce(broker, topic, mixture(2, name="b"))
            eventually(lambda: running.problem, 20)
            assert running.stop() < 10
            assert isinstance(running.end(), SinkUnavailable)
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)


def test_L13_partitions_change_hands_while_the_store_refuses(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(2)
    faults = faulty_store(monkeypatch)

    def refuse(path: str) -> None:
        if path.startswith("quarantine/"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    config = settings(broker, topic, tmp_path)
    with Running(config) as running:
        eventually(lambda: len(running.worker.status.partitions) == 2, 20)
        faults.before = refuse
        for partition in range(2):
            produce(broker, topic, mixture(3, name=f"p{partition}"), partition)
        eventually(lambda: running.problem, 20)
        with Running(config) as other:
            eventually(lambda: len(running.worker.status.partitions) == 1, 30, "one partition goes")
            eventually(lambda: "cannot write" in other.problem, 30, "and meets the same store")
            other.stop()
            assert isinstance(other.end(), SinkUnavailable)
        eventually(lambda: members(broker, config.group_id) == 1, 20)
        faults.heal()
        for partition in range(2):
            end = end_of(broker, topic, partition)
            eventually(lambda p=partition, e=end: running.landed(p) == e - 1, 20)  # type: ignore[misc]
    assert_exactly_once(tmp_path, broker, topic, 2)


@pytest.mark.parametrize("where", ["restricted/steps/part", "restricted/runs/_delta_log", "_state"])
def test_L25_a_disk_that_is_full_for_a_while(
    broker: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    topic = make_topic()
    store_faults = faulty_store(monkeypatch)
    produce(broker, topic, mixture(2, name="a"))

    def full(path: str) -> None:
        if path.startswith(where):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Running(settings(broker, topic, tmp_path, snapshot_interval_s=1)) as running:
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 20)
        store_faults.before = full
        produce(broker, topic, mixture(3, name="b"))
        if where == "_state":
            # A snapshot is a convenience: rows go on landing without it.
            eventually(lambda: running.landed() == end_of(broker, topic) - 1, 20)
        else:
            eventually(lambda: "No space left" in running.problem, 20)
        store_faults.heal()
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 20)
    assert_exactly_once(tmp_path, broker, topic)
