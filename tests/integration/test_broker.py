"""The embedded broker is a real Kafka that starts, stops, crashes and comes back with its data."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from trajlake.streams.broker import BrokerError, EmbeddedBroker
from trajlake.streams.broker.record import new_cluster_id
from trajlake.streams.topics import ensure_topics

pytestmark = pytest.mark.integration


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of this test's own, not started yet."""
    embedded = EmbeddedBroker(tmp_path / "broker")
    yield embedded
    embedded.stop()


def produce(servers: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 2**26})
    failed: list[object] = []
    for value in values:
        producer.produce(topic, value=value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(30) == 0
    assert not failed


def consume(servers: str, topic: str, count: int, **options: object) -> list[bytes]:
    """The first `count` values, or fewer when the topic's end comes first."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "none",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 2**26,
            **options,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(30)
            assert message is not None, f"{len(values)} of {count} after 30 s"
            if message.error():
                break
            values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def test_a_crash_loses_nothing_and_the_restart_answers_at_the_same_address(own: EmbeddedBroker) -> None:
    servers = own.start()
    ensure_topics(servers, {"kept": 1})
    produce(servers, "kept", [b"1", b"2", b"3"])

    assert own.kill()
    assert own.pid is None

    assert own.start() == servers
    assert consume(servers, "kept", 3) == [b"1", b"2", b"3"]


def test_a_clean_stop_and_start_keeps_data_and_leaves_no_process(own: EmbeddedBroker) -> None:
    servers = own.start()
    pid = own.pid
    ensure_topics(servers, {"kept": 1})
    produce(servers, "kept", [b"1"])

    assert own.stop()
    assert not psutil.pid_exists(pid or 0)
    assert not own.status().running
    assert own.stop() is False

    assert own.start() == servers
    assert consume(servers, "kept", 1) == [b"1"]


def test_it_listens_on_loopback_only(own: EmbeddedBroker) -> None:
    own.start()
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(own.pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert set(listening) == {"127.0.0.1"}


def test_starting_twice_at_once_gives_one_broker_that_either_can_stop(tmp_path: Path) -> None:
    first, second = EmbeddedBroker(tmp_path / "b"), EmbeddedBroker(tmp_path / "b")
    try:
        with ThreadPoolExecutor(2) as pool:
            servers = set(pool.map(lambda broker: broker.start(), [first, second]))
        assert len(servers) == 1
        assert first.pid == second.pid is not None
    finally:
        assert EmbeddedBroker(tmp_path / "b").stop()
    assert first.pid is None


def test_a_pid_that_another_process_got_since_is_not_taken_for_the_broker(own: EmbeddedBroker) -> None:
    own.folder.mkdir()
    record = {"pid": os.getpid(), "port": 0, "controller_port": 0, "cluster_id": ""}
    (own.folder / "broker.json").write_text(json.dumps(record))

    assert not own.status().running
    assert own.stop() is False  # and this process lives on
    (own.folder / "broker.json").write_text(json.dumps(record))
    own.start()
    assert own.pid not in (None, os.getpid())


def test_a_torn_record_of_the_last_start_is_as_none(own: EmbeddedBroker) -> None:
    own.folder.mkdir()
    (own.folder / "broker.json").write_text('{"pid": 1')
    assert not own.status().running
    own.start()
    assert own.status().running


def test_a_failed_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    broken = EmbeddedBroker(tmp_path / "b", properties={"num.io.threads": "none"})
    with pytest.raises(BrokerError) as caught:
        broken.start()
    assert any("num.io.threads" in line for line in caught.value.log_tail)
    assert not broken.status().running


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} is taken"):
            EmbeddedBroker(tmp_path / "b", port=port).start()


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = [new_cluster_id() for _ in range(2_000)]
    assert {len(text) for text in ids} == {22}
    assert not any(text.startswith("-") for text in ids)


def test_a_temporary_folder_goes_with_the_broker() -> None:
    with EmbeddedBroker() as embedded:
        folder = embedded.folder
        assert folder.is_dir()
    assert not folder.exists()


def test_aborted_records_are_hidden_from_read_committed(broker: str, make_topic: Callable[[], str]) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(30)
    for value, keep in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value=value)
        producer.flush(30)
        producer.commit_transaction(30) if keep else producer.abort_transaction(30)
    assert consume(broker, topic, 1, **{"isolation.level": "read_committed"}) == [b"committed"]
    assert consume(broker, topic, 2, **{"isolation.level": "read_uncommitted"}) == [b"aborted", b"committed"]


def test_an_event_of_30_mb_passes(broker: str, make_topic: Callable[[], str]) -> None:
    topic = make_topic()
    value = os.urandom(1024) * 30_000
    produce(broker, topic, [value])
    assert consume(broker, topic, 1) == [value]


def test_nothing_expires_and_no_topic_appears_by_a_slip(broker: str) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": broker})
    config = admin.describe_configs([resource])[resource].result()
    assert config["log.retention.ms"].value == "-1"
    assert config["log.retention.bytes"].value == "-1"
    assert config["auto.create.topics.enable"].value == "false"


def test_it_is_found_without_a_network_once_fetched() -> None:
    # With the fetcher out of reach nothing but what is on disk can answer.
    code = (
        "import sys; sys.modules['jgo'] = None\n"
        "from trajlake.streams.broker.runtime import fetch_runtime; fetch_runtime()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_command_starts_finds_and_stops_a_broker_that_outlives_it(tmp_path: Path) -> None:
    def run(*args: str) -> tuple[int, dict[str, object]]:
        done = subprocess.run(
            [sys.executable, "-m", "trajlake", "broker", *args, "--data", str(tmp_path / "b"), "--json"],
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr.decode()
        return done.returncode, json.loads(done.stdout)

    assert run("status")[0] == 3
    try:
        code, started = run("start", "--port", "auto")
        assert (code, started["already_running"]) == (0, False)
        pid = started["pid"]
        assert isinstance(pid, int)
        assert os.getsid(pid) == pid, "Ctrl-C in the terminal must not reach the broker"
        admin = AdminClient({"bootstrap.servers": str(started["bootstrap_servers"])})
        topics = admin.list_topics(timeout=10).topics
        assert len(topics["agent.audit.v1"].partitions) == 4

        code, again = run("start")
        assert (code, again["already_running"], again["pid"]) == (0, True, pid)
        assert run("status") == (
            0,
            {key: again[key] for key in ("running", "pid", "bootstrap_servers", "folder", "log")},
        )
    finally:
        code, stopped = run("stop")
    assert (code, stopped["stopped"]) == (0, True)
    assert run("stop") == (0, {"stopped": False, "pid": None})
