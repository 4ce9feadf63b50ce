"""Ticks: the owner of a partition writes time into its log when, and only when, a time-out is due there.

Two owners at a time do no harm, nor does a tick that comes twice: a tick only carries limits, and the fold applies
them in the order of the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from trajlake.expectations.events import TICK_KEY, TICK_SOURCE
from trajlake.streams.land.membership import KAFKA_LOG
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.settings import Settings
from trajlake.transforms.assemble.fold import Assembler
from trajlake.transforms.decode.timestamps import from_micros

log = structlog.get_logger("trajlake.land")

FLUSH_S = 2.0
_SECOND_US = 1_000_000


@dataclass(frozen=True)
class Timeouts:
    """Limits in seconds of log time. `forget_s`: how long closed runs are remembered for late events."""

    run_s: int
    reorder_s: int
    forget_s: int = 86_400

    def tick_due(self, assembler: Assembler, now_us: int) -> bool:
        """Whether a tick at `now_us` would close, release or forget anything."""
        return assembler.due(
            now_us - self.run_s * _SECOND_US, now_us - self.reorder_s * _SECOND_US, now_us - self.forget_s * _SECOND_US
        )

    def tick(self, now_us: int) -> bytes:
        """A tick event, as compact JSON."""
        return orjson.dumps(
            {
                "specversion": "1.0",
                "id": f"tick-{uuid.uuid4().hex}",
                "source": TICK_SOURCE,
                "type": "trajlake.tick",
                "time": from_micros(now_us).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "data": {
                    "close_idle_after_us": self.run_s * _SECOND_US,
                    "release_held_after_us": self.reorder_s * _SECOND_US,
                    "forget_closed_after_us": self.forget_s * _SECOND_US,
                },
            }
        )


class TickWriter:
    """Writes ticks into the partitions that need one.

    A tick on its way is waited for: a worker that is behind its log by an hour would else add one every few seconds.
    """

    def __init__(self, settings: Settings, timeouts: Timeouts) -> None:
        self._topic = settings.events_topic
        self._timeouts = timeouts
        # Not idempotent: a tick that is sent twice is harmless, a producer that ends in a fatal error is not.
        self._producer = Producer(
            settings.kafka(**{"linger.ms": 0}),
            logger=KAFKA_LOG,
        )

    def write_due(self, partitions: Iterable[AssignedPartition], now_us: int) -> None:
        """Write a tick into each partition where a time-out is due at `now_us`, microseconds since the Unix epoch."""
        self._producer.poll(0)
        for owned in partitions:
            if owned.awaits_tick() or not self._timeouts.tick_due(owned.fold.assembler, now_us):
                continue
            try:
                self._write(owned, self._timeouts.tick(now_us))
            except (KafkaException, BufferError) as error:
                log.warning("tick not written; time-outs wait", partition=owned.partition, reason=str(error))
        self._producer.poll(0)

    def close(self) -> None:
        """Send what is on its way."""
        self._producer.flush(FLUSH_S)

    def _write(self, owned: AssignedPartition, tick: bytes) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            owned.tick_in_flight = False
            if error is None:
                owned.tick_offset = message.offset() or 0
            else:
                log.warning("tick not written; time-outs wait", partition=owned.partition, reason=error.str())

        self._producer.produce(self._topic, tick, TICK_KEY, partition=owned.partition, on_delivery=delivered)
        owned.tick_in_flight = True
