"""Lag: how far the tables are behind the log, in records and in seconds."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from trajlake.reading.tables import PartitionId

QUIET = {"log_level": 0}
"""A broker that is away is an answer here, not something for librdkafka to write to stderr."""


@dataclass(frozen=True, slots=True)
class Lag:
    """One partition against its log. `end_offset`: the next offset that Kafka will give a committed record.

    `records`: offsets below it that have not landed. `seconds`: how long the oldest of them has waited; 0 when there is
    none, None when it could not be read in time. `ahead`: the tables know offsets that the log has not.
    """

    end_offset: int
    records: int
    seconds: float | None
    ahead: bool


def measure_lag(
    kafka: Mapping[str, Any], landed: Mapping[PartitionId, int], topics: set[str], timeout_s: float
) -> dict[PartitionId, Lag] | None:
    """Lag of every partition of `topics`, and of those in `landed` (last landed offset; -1 for none).

    kafka: client properties with `bootstrap.servers`. Returns None when no broker answers within `timeout_s` seconds.
    """
    from confluent_kafka import KafkaException

    if not _reachable(str(kafka["bootstrap.servers"]), timeout_s):
        return None
    deadline = time.monotonic() + timeout_s
    try:
        ends = _end_offsets(kafka, {*topics, *(topic for topic, _ in landed)}, timeout_s)
        behind = {key: landed.get(key, -1) + 1 for key, end in ends.items() if end > landed.get(key, -1) + 1}
        waiting = _oldest_waiting(kafka, behind, deadline)
    except KafkaException:
        return None
    now = time.time()
    lags = {}
    for key, end in sorted(ends.items()):
        records = max(0, end - landed.get(key, -1) - 1)
        since = waiting.get(key)
        seconds = 0.0 if not records else None if since is None else max(0.0, now - since)
        lags[key] = Lag(end, records, seconds, landed.get(key, -1) >= end)
    return lags


def group_lag(kafka: Mapping[str, Any], group: str, topic: str, timeout_s: float) -> int | None:
    """Records of a topic behind the offsets that a consumer group committed; all of it where it committed none.

    None when no broker answers in time, or the group may not be looked at.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        ends = {key: end for key, end in _end_offsets(kafka, {topic}, timeout_s).items() if end}
        admin = AdminClient({**kafka, **QUIET})
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=max(timeout_s, 0.1)
        )
        found = asked[group].result().topic_partitions
    except (KafkaException, TimeoutError):
        return None
    done = {(each.topic, each.partition): max(0, each.offset) for each in found}
    behind: int = sum(max(0, end - done.get(key, 0)) for key, end in ends.items())
    return behind


def newest_times(kafka: Mapping[str, Any], topic: str, timeout_s: float) -> float | None:
    """Latest time of any record of a topic, in Unix seconds; None when it holds none, or nobody answers in time."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({**kafka, **QUIET})
    try:
        partitions = admin.list_topics(topic, timeout=timeout_s).topics[topic].partitions
        wanted = {
            TopicPartition(topic, partition): OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
            for partition in partitions
        }
        answers = admin.list_offsets(wanted, request_timeout=max(timeout_s, 0.1))
        times = [answer.result().timestamp for answer in answers.values()]
    except (KafkaException, TimeoutError):
        return None
    newest = max(times, default=-1)
    return None if newest < 0 else float(newest) / 1000


def _reachable(servers: str, timeout_s: float) -> bool:
    """Whether any server takes a connection: a refusal is known at once, where the Kafka client waits out its time."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
        except (OSError, ValueError):
            continue
        return True
    return False


def _end_offsets(kafka: Mapping[str, Any], topics: set[str], timeout_s: float) -> dict[PartitionId, int]:
    """End of each partition as readers of committed records see it."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({**kafka, **QUIET})
    present = admin.list_topics(timeout=timeout_s).topics
    wanted = {
        TopicPartition(topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for topic in topics & present.keys()
        for partition in present[topic].partitions
    }
    if not wanted:
        return {}
    answers = admin.list_offsets(
        wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=max(timeout_s, 0.1)
    )
    return {(asked.topic, asked.partition): answer.result().offset for asked, answer in answers.items()}


def _oldest_waiting(
    kafka: Mapping[str, Any], behind: Mapping[PartitionId, int], deadline: float
) -> dict[PartitionId, float]:
    """Broker's time of the first record from each offset on, in Unix seconds, as far as it came in time."""
    from confluent_kafka import Consumer, TopicPartition

    if not behind:
        return {}
    consumer: Consumer = Consumer(
        {
            **kafka,
            **QUIET,
            "group.id": "trajlake-lag",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 1024,
        }
    )
    seen: dict[PartitionId, float] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in behind.items()])
        while len(seen) < len(behind) and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            topic, partition = message.topic(), message.partition()
            if topic is not None and partition is not None and (topic, partition) not in seen:
                seen[topic, partition] = message.timestamp()[1] / 1000
                consumer.pause([TopicPartition(topic, partition)])
    finally:
        consumer.close()
    return seen
