"""A broker that goes away and comes back, and one that compacts a topic under the worker's feet."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Eventually
from tests.landkit.checker import assert_exactly_once, assert_same_rows, offsets_of_gaps, read
from tests.landkit.events import Sent, event, mixture, run_events
from tests.landkit.kafka import end_of, log_of, produce
from tests.landkit.processes import WorkerProcess
from tests.landkit.running import Running, land_all, plan, settings
from trajlake.streams.broker import EmbeddedBroker
from trajlake.streams.topics import ensure_topics

pytestmark = pytest.mark.integration

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "delete.retention.ms": "100",
    "max.compaction.lag.ms": "100",
}


@pytest.fixture(scope="module")
def _broker_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedBroker(folder, heap_mb=256, properties={"log.cleaner.backoff.ms": "100"}) as broker:
        yield broker


@pytest.fixture
def own_broker(_broker_of_module: EmbeddedBroker) -> EmbeddedBroker:
    """A broker that tests may stop; it looks for something to compact several times a second."""
    _broker_of_module.start()
    return _broker_of_module


def topic_of(broker: EmbeddedBroker, **config: str) -> str:
    name = f"test-{uuid.uuid4().hex[:12]}"
    ensure_topics(broker.bootstrap_servers, {name: 1}, config=config)
    return name


def open_run() -> list[Sent]:
    return run_events("long", 3, ended=False, rewarded=False)


def compact(broker: EmbeddedBroker, topic: str, eventually: Eventually, keep: int) -> None:
    """Produce until the log has lost all but `keep` of what is in it now: its active segment is never compacted."""
    servers = broker.bootstrap_servers
    before = set(log_of(servers, topic)[0])

    def cleaned() -> bool:
        produce(servers, topic, [event("custom", "filler", None, id=uuid.uuid4().hex)])
        return len(before & set(log_of(servers, topic)[0])) <= keep

    eventually(cleaned, 30, "compaction")


def test_L8_a_log_that_was_compacted_before_it_landed_has_holes_and_no_gaps(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    topic = topic_of(own_broker, **COMPACTED)
    servers = own_broker.bootstrap_servers
    produce(servers, topic, mixture(6))
    compact(own_broker, topic, eventually, keep=12)
    land_all(servers, topic, tmp_path)
    assert_exactly_once(tmp_path, servers, topic)
    records, _, end = log_of(servers, topic)
    # The cleaner may have taken more since.
    assert 0 < len(offsets_of_gaps(tmp_path)) <= end - len(records)


def test_L8_a_log_that_was_compacted_after_it_landed_does_not_change_what_follows(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    topic = topic_of(own_broker, **COMPACTED)
    servers = own_broker.bootstrap_servers
    compacted, steady = tmp_path / "compacted", tmp_path / "steady"
    run = open_run()
    with Running(settings(servers, topic, steady)) as running:
        produce(servers, topic, run)
        land_all(servers, topic, compacted)
        eventually(lambda: running.landed() == end_of(servers, topic) - 1, 20)
        compact(own_broker, topic, eventually, keep=1)
        # Nothing is left to replay from but the ledger: the log has one record of the run.
        shutil.rmtree(compacted / "_state")
        end = run_events("long", 3)[len(run) :]
        produce(servers, topic, end)
        land_all(servers, topic, compacted)
        eventually(lambda: running.landed() == end_of(servers, topic) - 1, 20)
    (row,) = read(compacted, "runs")
    assert (row["event_count"], row["step_count"], row["gaps"]) == (len(run) + len(end), 3, None)
    # Fillers that the one has seen and the other found compacted are not compared.
    for name in ("steps", "runs", "rewards"):
        assert sorted(map(repr, read(compacted, name))) == sorted(map(repr, read(steady, name)))
    land_all(servers, topic, compacted)
    assert_exactly_once(compacted, servers, topic)


def test_L25_a_broker_that_dies_and_comes_back_loses_nothing_and_the_worker_is_unready_meanwhile(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers = own_broker.bootstrap_servers
    topic = topic_of(own_broker)
    lake, whole = tmp_path / "lake", tmp_path / "whole"
    produce(servers, topic, mixture(5, name="before"))
    with Running(settings(servers, topic, lake)) as running:
        eventually(lambda: running.landed() == end_of(servers, topic) - 1, 20)
        own_broker.kill()
        eventually(lambda: running.problem.startswith("broker"), 30, "it says that the broker is away")
        own_broker.start()
        assert own_broker.bootstrap_servers == servers
        eventually(lambda: not running.problem, 30, "ready again, although nothing has been produced")
        produce(servers, topic, mixture(5, name="after"))
        eventually(lambda: running.landed() == end_of(servers, topic) - 1, 40)
        assert running.alive
    assert_exactly_once(lake, servers, topic)
    land_all(servers, topic, whole)
    assert_same_rows(lake, whole)


def test_L25_a_worker_that_is_stopped_while_the_broker_is_away_lands_what_it_holds_and_ends_in_time(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers = own_broker.bootstrap_servers
    topic = topic_of(own_broker)
    with WorkerProcess(plan(servers, topic, tmp_path, batch_max_age_ms=3_600_000)) as worker:
        eventually(lambda: worker.wait_for("status")["status"]["partitions"], 60)
        produce(servers, topic, mixture(3))
        end = end_of(servers, topic)
        eventually(lambda: worker.wait_for("status")["status"]["partitions"]["0"]["high_watermark"] == end, 20)
        own_broker.kill()
        try:
            assert worker.terminate(30) < 10, worker.tail()
            assert worker.process.returncode == 0, worker.tail()
        finally:
            own_broker.start()
    assert_exactly_once(tmp_path, servers, topic)


def test_L25_a_worker_that_starts_before_its_broker_waits_for_it(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers = own_broker.bootstrap_servers
    topic = topic_of(own_broker)
    produce(servers, topic, mixture(3))
    own_broker.stop()
    try:
        with Running(settings(servers, topic, tmp_path)) as running:
            eventually(lambda: running.problem.startswith("broker"), 20)
            assert own_broker.start() == servers
            eventually(lambda: running.landed() == end_of(servers, topic) - 1, 40)
    finally:
        own_broker.start()
    assert_exactly_once(tmp_path, servers, topic)
