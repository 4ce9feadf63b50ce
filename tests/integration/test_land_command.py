"""`trajlake land` as its users run it: processes, health, restart of a dead worker, clean stop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from tests.conftest import Eventually, MakeTopic
from tests.landkit.events import Sent, run_events
from tests.landkit.kafka import produce
from tests.metrics.reading import samples

pytestmark = pytest.mark.integration


class LandCommand:
    """A running `trajlake land`. `address`: its health endpoint, read from its log."""

    def __init__(self, broker: str, topic: str, root: Path, *options: str) -> None:
        self.root = root
        self.log = root.with_name(f"{root.name}.log")
        environment = {
            **os.environ,
            "TRAJLAKE_EVENTS_TOPIC": topic,
            "TRAJLAKE_GROUP_ID": f"group-{topic}",
            "TRAJLAKE_LOG_FORMAT": "json",
        }
        command = [sys.executable, "-m", "trajlake", "land", "--root", str(root), "--bootstrap-servers", broker]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, "--health-port", "0", *options], env=environment, stderr=log)

    @property
    def address(self) -> str | None:
        found = re.search(r'"address": "(http://[^"]+)"', self.log.read_text())
        return found[1] if found else None

    def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status code and body of a health question; 0 while nothing answers."""
        if self.address is None:
            return 0, {}
        try:
            with urllib.request.urlopen(f"{self.address}{path}", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)
        except OSError:
            return 0, {}

    def is_ready(self) -> bool:
        return self.ask("/ready")[0] == 200

    def events(self) -> int:
        uri = str(self.root / "restricted" / "events")
        return DeltaTable(uri).count() if DeltaTable.is_deltatable(uri) else 0

    def workers(self) -> list[int]:
        return [worker["pid"] for worker in self.ask("/status")[1].get("workers", {}).values()]

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Exit code, and seconds that the stop took."""
        started = time.monotonic()
        self.process.send_signal(sign)
        return self.process.wait(30), time.monotonic() - started


@pytest.fixture
def land(broker: str, tmp_path: Path) -> Iterator[Any]:
    started: list[LandCommand] = []

    def start(topic: str, *options: str, root: str = "lake") -> LandCommand:
        command = LandCommand(broker, topic, tmp_path / root, *options)
        started.append(command)
        return command

    yield start
    for command in started:
        if command.process.poll() is None:
            for child in psutil.Process(command.process.pid).children(recursive=True):
                child.kill()
            command.process.kill()
            command.process.wait(10)


def test_L24_until_end_lands_everything_and_exits_by_itself(land: Any, broker: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    sent = sum(produce(broker, topic, [e for run in range(5) for e in run_events(f"r{p}-{run}")], p) for p in range(2))
    command = land(topic, "--until-end")
    assert command.process.wait(60) == 0
    assert command.events() == sent


def test_two_workers_are_ready_share_the_partitions_and_stop_cleanly(
    land: Any, broker: str, make_topic: MakeTopic, eventually: Eventually
) -> None:
    topic = make_topic(2)
    command = land(topic, "--workers", "2")
    eventually(lambda: len(set(_owners(command))) == 2, 60, "both workers hold a partition")
    eventually(command.is_ready, 30, "ready")
    sent = sum(produce(broker, topic, run_events(f"run-{p}", steps=20), p) for p in range(2))
    eventually(lambda: command.events() == sent, 30, "all landed")
    status = eventually(lambda: _landed_status(command, sent), 20, "lag is zero by the tables")
    assert status is not None
    assert status["lag_seconds"] == 0
    code, seconds = command.stop()
    assert (code, seconds < 10) == (0, True)


def test_a_killed_worker_is_started_again_and_nothing_lands_twice(
    land: Any, broker: str, make_topic: MakeTopic, eventually: Eventually
) -> None:
    topic = make_topic(1)
    command = land(topic)
    eventually(command.is_ready, 60, "ready")
    first = produce(broker, topic, run_events("before", steps=5))
    eventually(lambda: command.events() == first, 30, "landed before the kill")
    (victim,) = command.workers()
    os.kill(victim, signal.SIGKILL)
    second = produce(broker, topic, run_events("after", steps=5))
    eventually(lambda: command.workers() not in ([], [victim]), 60, "another worker")
    eventually(lambda: command.events() == first + second, 60, "landed after the kill")
    assert DeltaTable(str(command.root / "restricted" / "runs")).count() == 2
    assert command.stop()[0] == 0


def test_workers_of_a_killed_supervisor_end_by_themselves(
    land: Any, make_topic: MakeTopic, eventually: Eventually
) -> None:
    command = land(make_topic(1))
    eventually(command.is_ready, 60, "ready")
    (worker,) = command.workers()
    command.process.kill()
    command.process.wait(10)
    eventually(lambda: not psutil.pid_exists(worker) or _is_zombie(worker), 30, "the worker has ended")


def test_L9_a_loss_stops_the_command_with_a_sentence_that_says_what_to_do(
    land: Any, broker: str, make_topic: MakeTopic
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = make_topic(1)
    produce(broker, topic, run_events("kept"))
    assert land(topic, "--until-end").process.wait(60) == 0
    count = produce(broker, topic, run_events("lost"))
    # Held in a name: the answer never comes when the client is gone before it.
    admin = AdminClient({"bootstrap.servers": broker})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 2 * count)]).values()
    deleted.result(30)
    command = land(topic, "--until-end")
    assert command.process.wait(60) == 1
    last = command.log.read_text().strip().splitlines()[-1]
    assert last.startswith("trajlake: ")
    assert "offset_reset_policy=declare" in last


def test_without_a_broker_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    from trajlake.streams.broker import free_port

    command = LandCommand(f"127.0.0.1:{free_port()}", "anything", tmp_path / "lake")
    assert command.process.wait(60) == 1
    last = command.log.read_text().strip().splitlines()[-1]
    assert last.startswith("trajlake: Kafka at 127.0.0.1:")
    assert "trajlake broker start" in last


def _owners(command: LandCommand) -> list[int]:
    return [figures["worker"] for figures in command.ask("/status")[1].get("partitions", {}).values()]


def _landed_status(command: LandCommand, sent: int) -> dict[str, Any] | None:
    _, status = command.ask("/status")
    landed = sum(figures["landed_offset"] + 1 for figures in status["partitions"].values())
    return status if landed == sent and status["lag_records"] == 0 else None


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_topic_of_the_same_name_on_another_log_is_refused_and_lands_nothing(
    land: Any, broker: str, make_topic: MakeTopic, eventually: Eventually
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = make_topic(1)
    count = produce(broker, topic, run_events("first"))
    assert land(topic, "--until-end").process.wait(60) == 0
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, 30, "the topic is gone")
    eventually(lambda: _made(admin.create_topics([NewTopic(topic, 1, 1)])[topic]), 30, "the topic is made anew")
    # Longer than the one before: only its id tells that it is another.
    produce(broker, topic, run_events("second", steps=30))
    command = land(topic, "--until-end")
    assert command.process.wait(60) == 1
    assert "was landed from another topic" in command.log.read_text().strip().splitlines()[-1]
    assert command.events() == count


def _made(future: Any) -> bool:
    from confluent_kafka import KafkaException

    try:
        future.result(10)
    except KafkaException:
        return False
    return True


def test_metrics_tell_what_landed_what_was_refused_and_outlive_a_worker(
    land: Any, broker: str, make_topic: MakeTopic, eventually: Eventually
) -> None:
    topic = make_topic(1)
    command = land(topic)
    eventually(command.is_ready, 150, "ready")
    good = run_events("before", steps=2)
    sent = produce(broker, topic, [*good, good[-1], Sent(b"acme/x", b"not json")])
    eventually(lambda: _metric(command, "trajlake_land_records_total") == sent, 30, "counted")
    (victim,) = command.workers()
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: _metric(command, "trajlake_land_worker_restarts_total", worker="0") == 1, 60, "restart counted")
    sent += produce(broker, topic, run_events("after", steps=1))
    eventually(lambda: _metric(command, "trajlake_land_records_total") == sent, 120, "counters go on")
    assert _metric(command, "trajlake_land_quarantined_total", reason="duplicate") == 1
    assert _metric(command, "trajlake_land_quarantined_total", reason="malformed_json") == 1
    assert _metric(command, "trajlake_land_quarantined_total", reason="redaction_failed") == 0
    text = urllib.request.urlopen(f"{command.address}/metrics", timeout=5).read()
    assert sum(count for (name, _), count in samples(text).items() if name == "trajlake_land_runs_total") == 2
    place = {"topic": topic, "partition": "0"}
    eventually(lambda: _metric(command, "trajlake_land_lag_records", **place) == 0, 30, "no lag")
    assert _metric(command, "trajlake_land_offset", **place) == sent - 1
    assert abs(_metric(command, "trajlake_land_commit_timestamp_seconds", **place) - time.time()) < 600
    assert _metric(command, "trajlake_land_delay_seconds_count") == _metric(command, "trajlake_land_commits_total")
    eventually(lambda: _metric(command, "trajlake_land_ready") == 1, 30, "ready again")
    assert _metric(command, "trajlake_land_problems", concern="sink") == 0


def _metric(command: LandCommand, name: str, **labels: str) -> float:
    """Value of a sample; NaN while there is none."""
    text = urllib.request.urlopen(f"{command.address}/metrics", timeout=5).read()
    return samples(text).get((name, tuple(sorted(labels.items()))), float("nan"))
