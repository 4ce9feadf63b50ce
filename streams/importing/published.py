"""What has been published of imported runs: what the lake holds, and what still waits in Kafka to land.

Both are needed. An import that runs again before its events have landed would number new events as the waiting ones are
numbered, and the two would collide. So the tail of the topic, from the last landed offset to its end, is read too.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import orjson

from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.streams.errors import BrokerUnavailable, StreamError
from trajlake.transforms.importers.origin import SOURCE_PREFIX
from trajlake.transforms.importers.plan import Known

TAIL_TIMEOUT_S: Final = 60.0
"""Longest silence of a broker while the tail is read."""

METADATA_TIMEOUT_S: Final = 15.0
_QUIET: Final = {"log_level": 0}
_MARK = f'"{SOURCE_PREFIX}'.encode()


class Published:
    """Ids and sequences of published events of one tenant's imported runs.

    Call `read_tail` first where Kafka is there.
    """

    def __init__(self, lake: Lake, tenant: str) -> None:
        self._lake = lake
        self._tenant = tenant
        self._tail: dict[str, dict[str, int]] = {}
        self.tail_records = 0

    def known(self, run_ids: Collection[str]) -> Known:
        """What is published of these runs: run id -> event id -> sequence."""
        found: dict[str, dict[str, int]] = {run_id: dict(self._tail.get(run_id, ())) for run_id in run_ids}
        for run_id, event_id, sequence in self._landed_events(run_ids):
            found[run_id].setdefault(event_id, sequence)
        return {run_id: events for run_id, events in found.items() if events}

    def read_tail(self, kafka: Mapping[str, Any], topic: str, app_id: str, progress: Progress = SILENT) -> int:
        """Read what waits in the topic; returns how many records that were. `progress` counts offsets.

        Raises BrokerUnavailable when no broker answers or one falls silent.
        """
        from confluent_kafka import Consumer, KafkaException

        consumer: Consumer = Consumer(
            {
                **kafka,
                **_QUIET,
                "group.id": "trajlake-import",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic].partitions
            self._read(
                consumer,
                topic,
                dict.fromkeys(partitions, -1) | landed_offsets(self._lake, app_id, topic, partitions),
                progress,
            )
        except KafkaException as error:
            raise BrokerUnavailable(f"topic {topic} cannot be read: {error.args[0].str()}") from None
        finally:
            consumer.close()
        return self.tail_records

    def _landed_events(self, run_ids: Collection[str]) -> list[tuple[str, str, int]]:
        if not self._lake.exists("events"):
            return []
        import pyarrow.compute as pc

        wanted = (pc.field("tenant_id") == self._tenant) & pc.field("run_id").isin(list(run_ids))
        table = self._lake.open("events").to_pyarrow_dataset()
        rows = table.to_table(columns=["run_id", "id", "sequence"], filter=wanted)
        columns = (rows.column(name).to_pylist() for name in ("run_id", "id", "sequence"))
        return [(run_id, event_id, sequence or 0) for run_id, event_id, sequence in zip(*columns, strict=True)]

    def _read(self, consumer: Any, topic: str, landed: Mapping[int, int], progress: Progress) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        starts, waiting_offsets = {}, 0
        for number, offset in landed.items():
            low, high = _watermarks(consumer, TopicPartition(topic, number))
            if max(low, offset + 1) < high:
                starts[number] = max(low, offset + 1)
                waiting_offsets += high - starts[number]
        progress.stage("reading what waits to land", waiting_offsets, "offsets")
        waiting = set(starts)
        consumer.assign([TopicPartition(topic, number, offset) for number, offset in starts.items()])
        heard_at = time.monotonic()
        while waiting:
            for message in consumer.consume(10_000, timeout=0.5):
                heard_at = time.monotonic()
                error = message.error()
                if error is None:
                    self._note(message.value())
                    progress.advance()
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                else:
                    raise StreamError(f"topic {topic}/{message.partition()}: {error.str()}")
            if time.monotonic() - heard_at > TAIL_TIMEOUT_S:
                raise BrokerUnavailable(f"topic {topic}: no answer for {TAIL_TIMEOUT_S:.0f} s")

    def _note(self, value: bytes | None) -> None:
        self.tail_records += 1
        if value is None or _MARK not in value[:4096]:
            return
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError:
            return
        if not isinstance(event, dict) or event.get("tenantid") != self._tenant:
            return
        run_id, event_id, sequence = event.get("runid"), event.get("id"), event.get("sequence")
        if isinstance(run_id, str) and isinstance(event_id, str) and isinstance(sequence, int):
            self._tail.setdefault(run_id, {})[event_id] = sequence


def _watermarks(consumer: Any, partition: Any) -> tuple[int, int]:
    """First and next offset of a partition. One that was only just made has no leader yet; that passes."""
    from confluent_kafka import KafkaError, KafkaException

    passing = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
    deadline = time.monotonic() + METADATA_TIMEOUT_S
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=METADATA_TIMEOUT_S)
            return low, high
        except KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def landed_offsets(lake: Lake, app_id: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Last landed offset by partition, as the `events` table says; partitions of which nothing has landed are left
    out.
    """
    if not lake.exists("events"):
        return {}
    table = lake.open("events")
    versions = {number: table.transaction_version(transaction_app(app_id, topic, number)) for number in partitions}
    return {number: version for number, version in versions.items() if version is not None}
