"""Publishes a finite stream of events to Kafka and says for each whether it arrived.

For imports; agents use the Recorder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from trajlake.expectations.events import CONTENT_TYPE
from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.lake import Lake
from trajlake.streams.errors import BrokerUnavailable, StreamError
from trajlake.streams.importing.published import landed_offsets
from trajlake.streams.topics import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

DELIVERY_TIMEOUT_S: Final = 120
QUEUE_KBYTES: Final = 128 * 1024
"""Events that wait in the client, at most, in KiB; `publish` waits for room."""

_HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("content-type", CONTENT_TYPE.encode())]
_QUIET = logging.getLogger("trajlake.import.client")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class DeliveryFailed(StreamError):
    """Events were refused by Kafka. `failed` counts them; the message has the first reason."""

    def __init__(self, failed: int, reason: str) -> None:
        super().__init__(f"{failed} events were not delivered; the first because: {reason}")
        self.failed = failed


class Delivery:
    """An idempotent producer for one topic. Use as a context manager; leaving it waits until all is delivered.

    kafka: client properties with `bootstrap.servers`. Raises BrokerUnavailable when nothing can be delivered for
    `DELIVERY_TIMEOUT_S`, DeliveryFailed at the end when single events were refused.
    """

    def __init__(self, kafka: Mapping[str, Any], topic: str) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.delivered = 0
        self.failed = 0
        self.positions: dict[int, int] = {}
        """Partition -> highest offset that an event of ours got."""
        self._reason = ""
        self._producer = Producer(
            {
                "client.id": "trajlake-import",
                "linger.ms": 20,
                # Images in base64 shrink by a quarter, and so fit where they otherwise would not.
                "compression.type": "zstd",
                # The partitioner of Kafka's own Java client: all publishers of a run agree on its partition.
                "partitioner": "murmur2_random",
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "queue.buffering.max.kbytes": QUEUE_KBYTES,
                **kafka,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": DELIVERY_TIMEOUT_S * 1000,
                "log_level": 0,
                "logger": _QUIET,
            }
        )

    def publish(self, key: bytes, value: bytes) -> None:
        """Hand over one event; waits while the client's queue is full."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(self.topic, value, key, headers=_HEADERS, on_delivery=self._reported)
            except BufferError:
                self._producer.poll(0.1)
                self._stop_if_dead()
                continue
            except KafkaException as error:
                self._refused(error.args[0])
            self._producer.poll(0)
            self._stop_if_dead()
            return

    def close(self) -> None:
        """Wait until every event is delivered or has failed."""
        left = self._producer.flush(DELIVERY_TIMEOUT_S + 10)
        if left:
            raise BrokerUnavailable(
                f"{left} events are not delivered: no broker answered within {DELIVERY_TIMEOUT_S} s"
            )
        if self.failed:
            raise DeliveryFailed(self.failed, self._reason)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            # What was read before the error is in order and may go out; it is known when the import runs again.
            self._producer.flush(10)

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused(error)
            return
        self.delivered += 1
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            self.positions[partition] = max(offset, self.positions.get(partition, -1))

    def _refused(self, error: KafkaError) -> None:
        self.failed += 1
        self._reason = self._reason or error.str()

    def _stop_if_dead(self) -> None:
        if self.failed > 100 and not self.delivered:
            raise DeliveryFailed(self.failed, self._reason)


def wait_until_landed(
    lake: Lake,
    app_id: str,
    topic: str,
    positions: Mapping[int, int],
    timeout_s: float,
    progress: Progress = SILENT,
) -> bool:
    """Wait until the lake holds every offset of `positions`. Returns whether it does before the time is over.

    `progress` counts the offsets that had not landed at first.
    """
    deadline = time.monotonic() + timeout_s
    pause = 0.05
    at_first = None
    while True:
        landed = landed_offsets(lake, app_id, topic, positions)
        behind = sum(max(0, offset - landed.get(partition, -1)) for partition, offset in positions.items())
        if at_first is None:
            at_first = behind
            progress.stage("waiting for the events to land", at_first, "offsets")
        progress.reach(at_first - behind)
        if not behind:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
