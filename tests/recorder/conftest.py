"""What the tests of publishing share: recorders that are closed, and the events that reached Kafka or the spool."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

from trajlake import Recorder
from trajlake.expectations.events import Event


class Landed(NamedTuple):
    """One Kafka record with its event."""

    partition: int
    offset: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    event: Event


class Read(Protocol):
    """`read_topic(topic)`: every record of a topic of the shared broker, in offset order, partition by partition."""

    def __call__(self, topic: str, servers: str | None = None) -> list[Landed]: ...


class MakeRecorder(Protocol):
    """`make_recorder(topic, ...)`: a recorder for the shared broker, closed at the end of the test."""

    def __call__(self, topic: str = ..., **options: Any) -> Recorder: ...


def to_bytes(content: str | bytes | None) -> bytes:
    return content.encode() if isinstance(content, str) else content or b""


def consume_all(servers: str, topic: str) -> list[Landed]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 64 * 2**20,
        }
    )
    landed = []
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        for partition in sorted(partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            consumer.assign([TopicPartition(topic, partition, low)])
            while low < high:
                for message in consumer.consume(1_000, timeout=0.1):
                    assert message.error() is None, message.error()
                    low = (message.offset() or 0) + 1
                    value = message.value() or b""
                    headers = [(name, to_bytes(content)) for name, content in dict(message.headers() or []).items()]
                    event = msgspec.json.decode(value, type=Event)
                    landed.append(Landed(partition, low - 1, to_bytes(message.key()), to_bytes(value), headers, event))
    finally:
        consumer.close()
    return landed


@pytest.fixture
def read_topic(request: pytest.FixtureRequest) -> Read:
    def read(topic: str, servers: str | None = None) -> list[Landed]:
        return consume_all(servers or request.getfixturevalue("broker"), topic)

    return read


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def make_recorder(request: pytest.FixtureRequest, spool: Path) -> Iterator[MakeRecorder]:
    made: list[Recorder] = []

    def make(topic: str = "nowhere", **options: Any) -> Recorder:
        if "bootstrap_servers" not in options:
            options["bootstrap_servers"] = request.getfixturevalue("broker")
        options.setdefault("spool", spool)
        recorder = Recorder(options.pop("tenant", "acme"), topic=topic, **options)
        made.append(recorder)
        return recorder

    yield make
    for recorder in made:
        recorder.close(0)


@pytest.fixture(scope="session")
def nobody() -> Iterator[str]:
    """Bootstrap servers at which nobody listens, for as long as the tests run."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        # Bound and not listening: connections are refused, and no other program gets the port.
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def offline(make_recorder: MakeRecorder, nobody: str) -> Recorder:
    """A recorder whose Kafka is away: what it records stays in the spool."""
    return make_recorder(bootstrap_servers=nobody)


@pytest.fixture
def read_spool(spool: Path, nobody: str) -> Callable[[Recorder], list[Event]]:
    """`read_spool(recorder)`: close an offline recorder and take the events that it left in the spool, in order."""
    from trajlake.streams.publish.spoolfolder import SpoolFolder

    def read(recorder: Recorder) -> list[Event]:
        recorder.close(0)
        own, orphans = SpoolFolder(spool, "nowhere", nobody).open()
        events = []
        for orphan in orphans:
            while entries := orphan.read():
                events += [msgspec.json.decode(entry.value, type=Event) for entry in entries]
                orphan.acknowledge(entries[-1].end)
            orphan.close()
        own.close()
        return events

    return read
