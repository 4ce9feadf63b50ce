"""Lands what the rolling workers tell: statistics and decisions, each message once, in `skill_stats` and `decisions`.

The same rule as for events: the offsets of a batch are committed with its rows, one `txn` per topic and partition, and
the tables say where to go on. A consumer group divides the partitions; its own offsets are never read.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from trajlake.expectations.tables import TABLES
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.deltalog import Advance, DeltaLog
from trajlake.sinks.errors import SinkUnavailable, StaleWriter
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.streams.land.membership import KAFKA_LOG
from trajlake.streams.settings import Settings
from trajlake.transforms.rolling.rows import Place, decision_batch, read_decision, read_stats, stats_batch

log = structlog.get_logger("trajlake.land")

POLL_S: Final = 0.2
BATCH_AGE_S: Final = 1.0
BATCH_MESSAGES: Final = 5_000
RETRY_S: Final = 1.0
BOUNDS_S: Final = 3.0


@dataclass
class _Waiting:
    """Messages of one partition that wait for the commit. `last`: offset up to which the log has been read."""

    landed: int
    last: int
    messages: list[tuple[Place, Any]] = field(default_factory=list)


class ToldLander:
    """Lands statistics and decisions until `close`.

    `note(problem)`: told what is wrong, None when all is well again.
    """

    def __init__(self, settings: Settings, lake: Lake, note: Callable[[str | None], None]) -> None:
        self.settings = settings
        self.lake = lake
        self.landed = 0
        """Messages landed so far."""
        self._note = note
        self._stop = threading.Event()
        self._tables: dict[str, tuple[str, Callable[[bytes], Any], Callable[[Sequence[Any]], Any]]] = {
            settings.stats_topic: ("skill_stats", read_stats, stats_batch),
            settings.decisions_topic: ("decisions", read_decision, decision_batch),
        }
        self._logs: dict[str, DeltaLog] = {}
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self._since = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="told", daemon=True)
        self._thread.start()

    def close(self, wait_s: float) -> None:
        """End the thread, if there is one; what waits is committed first."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(wait_s)

    def run(self) -> None:
        """Land until closed; whatever goes wrong is noted and tried again from where the tables end."""
        while not self._stop.is_set():
            try:
                self._consume(until_end=False)
            except (SinkUnavailable, StaleWriter, KafkaException) as error:
                self._note(f"statistics and decisions: {error}")
                log.warning("statistics and decisions wait; trying again", reason=str(error)[:300], retry_s=RETRY_S)
                self._stop.wait(RETRY_S)

    def land_all(self) -> None:
        """Land what the topics hold now, and return. Raises what `run` would try again."""
        self._consume(until_end=True)

    def _consume(self, *, until_end: bool) -> None:
        settings = self.settings
        self._waiting.clear()
        for name, _, _ in self._tables.values():
            self._logs[name] = DeltaLog(self.lake, TABLES[name])
            self._logs[name].open()
        consumer = Consumer(
            settings.kafka(
                **{
                    # A drain takes all partitions for itself; beside a group it would wait for its turn.
                    "group.id": f"{settings.group_id}-told" + (f"-{uuid.uuid4().hex}" if until_end else ""),
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "fetch.message.max.bytes": 8 << 20,
                    "topic.metadata.refresh.interval.ms": 5_000,
                }
            ),
            logger=KAFKA_LOG,
        )
        try:
            if until_end:
                self._drain(consumer)
                return
            consumer.subscribe(list(self._tables), on_assign=self._assigned, on_revoke=self._revoked)
            self._note(None)
            while not self._stop.is_set():
                self._take(consumer.consume(BATCH_MESSAGES, timeout=POLL_S))
                if self._is_due():
                    self._commit()
            self._commit()
        finally:
            consumer.close()

    def _drain(self, consumer: Consumer) -> None:
        ends: dict[tuple[str, int], int] = {}
        known = consumer.list_topics(timeout=BOUNDS_S).topics
        for topic in self._tables:
            for partition in known[topic].partitions if topic in known else ():
                ends[topic, partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), BOUNDS_S)[1]
        self._assigned(consumer, [TopicPartition(*place) for place in ends])
        while not self._stop.is_set() and any(end > self._waiting[place].last + 1 for place, end in ends.items()):
            self._take(consumer.consume(BATCH_MESSAGES, timeout=POLL_S))
        self._commit()

    # Messages

    def _take(self, messages: list[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                if error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise KafkaException(error)
                continue
            place = Place(message.topic(), message.partition(), message.offset())
            waiting = self._waiting.get(place[:2])
            if waiting is None or place.offset <= waiting.last:
                continue
            waiting.last = place.offset
            if not self._since:
                self._since = time.monotonic()
            try:
                found = self._tables[place.topic][1](message.value() or b"")
            except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
                log.error("message is none of ours; left out", topic=place.topic, partition=place.partition,
                          offset=place.offset, reason=str(wrong)[:200])  # fmt: skip
                continue
            if found is not None:
                waiting.messages.append((place, found))

    def _is_due(self) -> bool:
        if not self._since:
            return False
        count = sum(len(waiting.messages) for waiting in self._waiting.values())
        return count >= BATCH_MESSAGES or time.monotonic() - self._since >= BATCH_AGE_S

    def _commit(self) -> None:
        """Land what waits: one commit per table, with the offsets of all its partitions that have rows."""
        for topic, (name, _, build) in self._tables.items():
            parts = {
                place: waiting for place, waiting in self._waiting.items() if place[0] == topic and waiting.messages
            }
            if not parts:
                continue
            rows = [message for waiting in parts.values() for message in waiting.messages]
            file = write_data_file(self.lake, TABLES[name], [build(rows)])
            advances = [Advance(self._app(place), waiting.landed, waiting.last) for place, waiting in parts.items()]
            self._logs[name].commit([file], advances)
            self.landed += len(rows)
            for waiting in parts.values():
                waiting.landed = waiting.last
                waiting.messages.clear()
        self._since = 0.0

    def _app(self, place: tuple[str, int]) -> str:
        return transaction_app(f"{self.settings.app_id}-told", *place)

    # The group's callbacks

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for given in partitions:
            name = self._tables[given.topic][0]
            place = (given.topic, given.partition)
            landed = self._logs[name].landed(self._app(place))
            self._waiting[place] = _Waiting(landed, landed)
            given.offset = landed + 1
            start = consumer.get_watermark_offsets(given, BOUNDS_S)[0]
            if start > given.offset:
                if landed >= 0:
                    log.warning("the log no longer holds messages that had not landed", topic=given.topic,
                                partition=given.partition, first=given.offset, log_start=start)  # fmt: skip
                given.offset = start
                self._waiting[place].last = start - 1
        consumer.assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            self._commit()
        except (SinkUnavailable, StaleWriter) as error:
            log.warning("statistics and decisions are left to the next owner", reason=str(error)[:300])
        for gone in partitions:
            self._waiting.pop((gone.topic, gone.partition), None)
