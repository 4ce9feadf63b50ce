"""Membership of the consumer group: which partitions the group gives to this worker, and from where each is read.

The group's callbacks only take notes. A partition that was given waits until the worker's loop takes it up, since
that reads tables, may fail and may take long; only then it is assigned to the client, at the offset that the tables
name.

A partition is never sought or paused. To read it from another place, or not for a while, it is let go and later taken
up: the client then drops everything that it had fetched of it, so no record of the old place can follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from trajlake.streams.settings import Settings

log = structlog.get_logger("trajlake.land")

POLL_S: Final = 0.05
CLOSE_S: Final = 2.0
"""Time for a goodbye to the group. Nothing depends on it: offsets are in the tables."""
ANSWER_S: Final = 0.5
"""Time that a broker gets to prove that it is back."""
BOUNDS_S: Final = 3.0
"""Time for one question about a partition's offsets; the loop stands still meanwhile."""


class Membership:
    """This worker's place in the consumer group.

    `leave(partitions)`: called before partitions go to another worker; what waits can still be landed.
    `lost(partitions)`: called when they are gone already. `joined`: the group has answered at least once.
    """

    def __init__(
        self, settings: Settings, leave: Callable[[list[int]], None], lost: Callable[[list[int]], None]
    ) -> None:
        self.topic = settings.events_topic
        self.joined = False
        self.broker_error: KafkaError | None = None
        """The last error of the client that concerns no partition; the loop takes it from here."""
        self.waiting: dict[int, float] = {}
        """Partitions that were given and not taken up yet -> monotonic time from which to try."""
        self._leave = leave
        self._lost = lost
        self._consumer = Consumer(
            {
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 2_000,
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 65_536,
                "fetch.message.max.bytes": 8 << 20,
                # New partitions are met in half a minute, not in five.
                "topic.metadata.refresh.interval.ms": 30_000,
                "bootstrap.servers": settings.bootstrap_servers,
                **settings.kafka_options,
                "group.id": settings.group_id,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "partition.assignment.strategy": "cooperative-sticky",
                "error_cb": self._on_error,
            },
            logger=KAFKA_LOG,
        )
        self._consumer.subscribe(
            [self.topic], on_assign=self._on_assigned, on_revoke=self._on_revoked, on_lost=self._on_lost
        )

    def consume(self, limit: int) -> list[Message]:
        """Records, ends and errors that are there, at most `limit`. The callbacks of the group run in here."""
        return self._consumer.consume(limit, timeout=POLL_S)

    def due(self, now: float) -> list[int]:
        """Partitions to take up now."""
        return [partition for partition, at in self.waiting.items() if at <= now]

    def read(self, partition: int, offset: int) -> None:
        """Read a partition from an offset on."""
        self.waiting.pop(partition, None)
        self._consumer.incremental_assign([TopicPartition(self.topic, partition, offset)])

    def unread(self, partitions: Iterable[int]) -> None:
        """Stop reading partitions and drop what was fetched of them; they stay given to this worker."""
        read = {assigned.partition for assigned in self._consumer.assignment()}
        self._consumer.incremental_unassign([TopicPartition(self.topic, p) for p in partitions if p in read])

    def again(self, partitions: Iterable[int], at: float) -> None:
        """Let partitions wait to be taken up at the monotonic time `at`."""
        partitions = list(partitions)
        self.unread(partitions)
        self.waiting.update(dict.fromkeys(partitions, at))

    def bounds(self, partition: int) -> tuple[int, int]:
        """First offset that the log holds, and the end of what is committed in it. Raises `KafkaException`."""
        return self._consumer.get_watermark_offsets(TopicPartition(self.topic, partition), BOUNDS_S)

    def seen_end(self, partition: int) -> int:
        """End of the log as the last fetch told; -1 where none did. Asks nobody."""
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self.topic, partition), cached=True)
        except (KafkaException, RuntimeError):
            return -1
        return max(-1, end)

    def answers(self) -> bool:
        """Whether a broker answers now."""
        try:
            self._consumer.list_topics(self.topic, timeout=ANSWER_S)
        except KafkaException:
            return False
        return True

    def note_offset(self, partition: int, next_offset: int) -> None:
        """Tell the group how far a partition is. For lag tools only: a failure changes nothing."""
        try:
            self._consumer.commit(offsets=[TopicPartition(self.topic, partition, next_offset)], asynchronous=True)
        except KafkaException as error:
            log.warning("group offsets not stored; lag tools will be behind", reason=str(error))

    def close(self) -> None:
        """Leave the group. `leave` is called for what is still held.

        While the group forms anew the client waits with its goodbye, for longer than a stop may take; then the group
        finds out by itself, after the session's time-out.
        """
        goodbye = Thread(target=self._consumer.close, name="leave-group", daemon=True)
        goodbye.start()
        goodbye.join(CLOSE_S)
        if goodbye.is_alive():
            log.warning("the group is busy forming; left it without a goodbye", waited_s=CLOSE_S)

    # The client's callbacks, inside `consume` and `close`

    def _on_error(self, error: KafkaError) -> None:
        # One broker of several that is away is the client's business; that none is left is told as an error of its own.
        if error.code() != KafkaError._TRANSPORT:
            self.broker_error = error

    def _on_assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.joined = True
        self.waiting.update({assigned.partition: 0.0 for assigned in partitions})
        consumer.incremental_assign([])

    def _on_revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go(partitions, self._leave)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go(partitions, self._lost)

    def _let_go(self, partitions: list[TopicPartition], tell: Callable[[list[int]], None]) -> None:
        numbers = [gone.partition for gone in partitions]
        for number in numbers:
            self.waiting.pop(number, None)
        try:
            tell(numbers)
        finally:
            # Without this call the group waits for us for ever.
            self.unread(numbers)


class _KafkaLog:
    """Receives the client library's own log lines (a `logging.Logger` as far as it asks)."""

    @staticmethod
    def log(level: int, template: str, *args: object) -> None:
        log.debug("kafka client", line=(template % args) if args else template)


KAFKA_LOG: Any = _KafkaLog()
