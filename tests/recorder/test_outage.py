"""Kafka goes away and comes back: everything arrives, once, in order."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trajlake import Recorder
from trajlake.streams.broker import EmbeddedBroker
from trajlake.streams.topics import ensure_topics

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that these tests may stop and kill."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def topic(own_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    own_broker.start()
    name = request.node.name[:60].replace("[", "-").replace("]", "")
    ensure_topics(own_broker.bootstrap_servers, {name: 3})
    return str(name)


def record_runs(recorder: Recorder, count: int, text: str = "hello") -> list[str]:
    ids = []
    for _ in range(count):
        with recorder.run() as run:
            run.step(message=text).respond()
            run.step(message=text).respond()
        ids.append(run.id)
    return ids


def check(landed: list[Any], runs: list[str], *, may_repeat: bool = False) -> None:
    """All events of all runs, in order, each once; with `may_repeat`, once after repeated ids are dropped."""
    by_run: dict[str, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for record in landed:
        if record.event.id in seen:
            assert may_repeat, f"event {record.event.sequence} of a run came twice"
            continue
        seen.add(record.event.id)
        by_run[record.event.runid].append(record.event.sequence)
    assert set(by_run) == set(runs)
    assert all(sequences == [1, 2, 3, 4] for sequences in by_run.values())


def test_L25_events_of_an_outage_arrive_in_order_and_once(
    own_broker: EmbeddedBroker, topic: str, make_recorder: Any, read_topic: Any
) -> None:
    servers = own_broker.bootstrap_servers
    recorder = make_recorder(topic, bootstrap_servers=servers)
    runs = record_runs(recorder, 50)
    assert recorder.flush(30) == 0
    half_open = recorder.run().start()
    own_broker.stop()
    runs += record_runs(recorder, 1000, "x" * 5_000)
    half_open.step(message="while away").respond()
    assert recorder.flush(3) > 3_900
    own_broker.start()
    half_open.step(message="back").respond()
    half_open.end()
    runs += [*record_runs(recorder, 50), half_open.id]
    assert recorder.flush(60) == 0
    check(read_topic(topic, servers), runs)
    assert recorder.counts.dropped == recorder.counts.errors == 0


def test_a_broker_that_is_killed_while_events_flow_costs_nothing(
    own_broker: EmbeddedBroker, topic: str, make_recorder: Any, read_topic: Any
) -> None:
    servers = own_broker.bootstrap_servers
    recorder = make_recorder(topic, bootstrap_servers=servers)
    runs: list[str] = []
    killed = threading.Event()

    def record() -> None:
        while not killed.wait(0.01):
            runs.extend(record_runs(recorder, 5, "x" * 1_000))

    thread = threading.Thread(target=record)
    thread.start()
    for _ in range(2):
        own_broker.kill()
        own_broker.start()
    killed.set()
    thread.join()
    assert recorder.flush(120) == 0
    # The broker may have forgotten what it had from whom: repeated ids are legal then, gaps and disorder are not.
    check(read_topic(topic, servers), runs, may_repeat=True)
    assert recorder.counts.dropped == recorder.counts.errors == 0


def test_a_broker_that_stops_answering_without_closing_costs_nothing(
    own_broker: EmbeddedBroker, topic: str, make_recorder: Any, read_topic: Any
) -> None:
    servers = own_broker.bootstrap_servers
    recorder = make_recorder(topic, bootstrap_servers=servers)
    runs = record_runs(recorder, 10)
    assert recorder.flush(30) == 0
    pid = own_broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        runs += record_runs(recorder, 500)
        assert recorder.flush(1) == 2_000
    finally:
        os.kill(pid, signal.SIGCONT)
    assert recorder.flush(60) == 0
    check(read_topic(topic, servers), runs, may_repeat=True)


def test_what_one_recorder_left_another_sends_before_its_own(
    own_broker: EmbeddedBroker, topic: str, make_recorder: Any, read_topic: Any, spool: Path
) -> None:
    servers = own_broker.bootstrap_servers
    own_broker.stop()
    first = make_recorder(topic, bootstrap_servers=servers)
    run = first.run(run_id="handed-over").start()
    run.step(message="one").respond()
    assert first.close(0) == 2
    second = make_recorder(topic, bootstrap_servers=servers)
    for sequence in (3, 4):
        second.emit("agent.model.responded", {"message": "later"}, run_id="handed-over", sequence=sequence)
    assert second.flush(2) == 4
    own_broker.start()
    assert second.flush(60) == 0
    check(read_topic(topic, servers), ["handed-over"])
    second.close(5)
    assert not list(spool.rglob("*.log"))


def test_a_full_disk_during_the_outage_is_survived_once_there_is_room(
    own_broker: EmbeddedBroker, topic: str, make_recorder: Any, read_topic: Any, caplog: pytest.LogCaptureFixture
) -> None:
    servers = own_broker.bootstrap_servers
    own_broker.stop()
    recorder = make_recorder(topic, bootstrap_servers=servers, spool_limit_bytes=2**20, queue_bytes=16 * 2**20)
    runs = record_runs(recorder, 500, "x" * 5_000)
    assert recorder.flush(1) == 2_000
    assert "takes no events" in caplog.text
    own_broker.start()
    assert recorder.flush(60) == 0
    check(read_topic(topic, servers), runs)
    assert recorder.counts.dropped == 0
