"""Producing to, reading from, and changing a real topic."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.landkit.events import Sent


def produce(broker: str, topic: str, records: Iterable[Sent], partition: int = 0, *, per_batch: int = 100_000) -> int:
    """Write records to one partition in order. `per_batch`: most records of one Kafka batch. Returns how many."""
    producer = Producer(
        {
            "bootstrap.servers": broker,
            "linger.ms": 20,
            "batch.num.messages": per_batch,
            "message.max.bytes": 40 << 20,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    failed: list[KafkaError] = []
    count = 0
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=partition,
            on_delivery=lambda error, _: failed.append(error) if error is not None else None,
        )
        producer.poll(0)
        count += 1
    assert producer.flush(30) == 0
    assert not failed, failed
    return count


class Transactions:
    """A transactional producer: every `write` is one transaction, and leaves a marker behind its records."""

    def __init__(self, broker: str, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": broker, "transactional.id": f"test-{uuid.uuid4().hex}", "linger.ms": 5}
        )
        self._producer.init_transactions(30)

    def write(self, records: Iterable[Sent], partition: int = 0, *, commit: bool = True, settle: bool = True) -> None:
        """Write records in a transaction of their own, and commit or abort it."""
        self.begin(records, partition)
        self.end(partition, commit=commit, settle=settle)

    def begin(self, records: Iterable[Sent], partition: int = 0) -> None:
        """Write records in a transaction and leave it open."""
        self._producer.begin_transaction()
        for record in records:
            self._producer.produce(self._topic, record.value, record.key, partition=partition)
        self._producer.flush(30)

    def end(self, partition: int = 0, *, commit: bool = True, settle: bool = True) -> None:
        """Commit or abort the open transaction.

        The broker writes the marker after it has answered: `settle` waits for it, and must be off while another
        transaction holds the partition back.
        """
        if commit:
            self._producer.commit_transaction(30)
        else:
            self._producer.abort_transaction(30)
        deadline = time.monotonic() + 20
        while settle and end_of(self._broker, self._topic, partition) < high_of(self._broker, self._topic, partition):
            assert time.monotonic() < deadline, f"{self._topic}/{partition} has an open transaction"


def log_of(broker: str, topic: str, partition: int = 0) -> tuple[dict[int, bytes | None], int, int]:
    """Committed records by offset, and the log's first and end offset, as a plain consumer sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": f"look-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 8 << 20,
        }
    )
    place = TopicPartition(topic, partition)
    bounds = consumer.get_watermark_offsets(place, 10)
    assert bounds is not None
    low, high = bounds
    consumer.assign([TopicPartition(topic, partition, low)])
    found: dict[int, bytes | None] = {}
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=0.05):
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found[offset] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found, low, high
                else:
                    raise AssertionError(error)
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic}/{partition} was not reached")


def delete_below(broker: str, topic: str, offset: int, partition: int = 0) -> None:
    """Delete the records below an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result(timeout=15)


def end_of(broker: str, topic: str, partition: int = 0) -> int:
    """The end of what is decided: the last stable offset."""
    return _end(broker, topic, partition, "read_committed")


def high_of(broker: str, topic: str, partition: int = 0) -> int:
    """The next offset that a record will get, records of open transactions counted."""
    return _end(broker, topic, partition, "read_uncommitted")


def _end(broker: str, topic: str, partition: int, isolation: str) -> int:
    consumer = Consumer(
        {"bootstrap.servers": broker, "group.id": f"look-{uuid.uuid4().hex}", "isolation.level": isolation}
    )
    try:
        bounds = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
        assert bounds is not None
        return bounds[1]
    finally:
        consumer.close()


def members(broker: str, group: str) -> int:
    """How many members a consumer group has, while it is stable; -1 while it is not."""
    admin = AdminClient({"bootstrap.servers": broker})
    described = admin.describe_consumer_groups([group])[group].result(timeout=10)
    return len(described.members) if described.state.name == "STABLE" else -1


def delete_topic(broker: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_topics([topic], operation_timeout=15)[topic].result(timeout=15)
