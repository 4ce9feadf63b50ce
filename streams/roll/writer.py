"""Writes to Kafka from the event loop: changes of tables, statistics, decisions.

The client of Faust costs a hundred times as much a message, which is most of what a busy worker did.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Final

import structlog
from confluent_kafka import KafkaError, Message, Producer

from trajlake.streams.errors import StreamError
from trajlake.streams.land.membership import KAFKA_LOG
from trajlake.streams.settings import Settings

log = structlog.get_logger("trajlake.roll")

LOOK_S: Final = 0.005
"""How often a flush looks for acknowledgements; the loop turns meanwhile."""
FULL_S: Final = 0.5
"""How long a message waits for room in the client's queue before it looks again."""
CROWDED: Final = 20_000
"""With so many messages on their way, Kafka is away or slow: what may wait should."""

BY_KEY: Final = -1
"""librdkafka's word for "let the partitioner choose"."""


class WriteError(StreamError):
    """Kafka refused a message for good."""


class Writer:
    """A client whose messages of one partition never pass each other. Used by one thread."""

    def __init__(self, settings: Settings) -> None:
        properties = {
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            # What the broker takes is its own matter: a topic's limit may be lower, and then it says so.
            "message.max.bytes": 64 << 20,
            "queue.buffering.max.messages": 2_000_000,
            "compression.type": "lz4",
            # As Faust and Kafka's own clients place keys.
            "partitioner": "murmur2_random",
            "linger.ms": 5,
        }
        self._producer = Producer(settings.kafka(**properties), logger=KAFKA_LOG)
        self._refused: str | None = None
        self._round = 0
        """How many flushes were asked for."""
        self._open: Counter[int] = Counter()
        """Flushes before a message -> such messages that Kafka has not acknowledged."""

    def send(self, topic: str, key: bytes, value: bytes | None, partition: int = BY_KEY) -> None:
        """Hand a message over, to the partition of its key where none is given.

        Raises `WriteError` where this one or an earlier one was refused.
        """
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=partial(self._delivered, self._round))
                break
            except BufferError:
                self._producer.poll(FULL_S)
        self._open[self._round] += 1
        self._producer.poll(0)
        self._check()

    @property
    def crowded(self) -> bool:
        """Whether much is on its way."""
        return len(self._producer) > CROWDED

    async def flush(self) -> None:
        """Wait until Kafka has all that was handed over before, however long it takes. Raises `WriteError`."""
        last = self._round
        self._round += 1
        while True:
            self._producer.poll(0)
            self._check()
            if not self._open or min(self._open) > last:
                return
            await asyncio.sleep(LOOK_S)

    def flush_within(self, timeout_s: float) -> None:
        """The same for a caller without a loop. Raises `WriteError` when it takes longer."""
        left = self._producer.flush(timeout_s)
        self._check()
        if left:
            raise WriteError(f"{left} messages were not taken within {timeout_s:g} s")

    def _delivered(self, round_: int, error: KafkaError | None, message: Message) -> None:
        self._open[round_] -= 1
        if not self._open[round_]:
            del self._open[round_]
        if error is not None and self._refused is None:
            self._refused = f"topic {message.topic()} partition {message.partition()}: {error.str()}"

    def _check(self) -> None:
        if self._refused is not None:
            raise WriteError(f"Kafka refused a message: {self._refused}")
