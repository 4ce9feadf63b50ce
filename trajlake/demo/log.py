"""A look at topics of the demo's Kafka: where they end, and single records of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trajlake.demo.errors import DemoError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ANSWER_S: Final = 15.0
"""How long a broker may take, one that has just begun to lead a partition included."""

_AGAIN_S: Final = 0.1
_T = TypeVar("_T")


class LogView:
    """Reads a log without being a consumer of it. Use as a context manager.

    Each method raises DemoError when Kafka gives no answer within `ANSWER_S`.
    """

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        from confluent_kafka import Consumer

        self._consumer: Consumer = Consumer(
            {
                **kafka,
                "log_level": 0,
                "group.id": f"trajlake-demo-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

    def __enter__(self) -> LogView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def ends(self, topic: str) -> dict[int, int]:
        """End offset by partition; empty when there is no such topic."""
        from confluent_kafka import TopicPartition

        def ask() -> dict[int, int]:
            found = self._consumer.list_topics(timeout=ANSWER_S).topics.get(topic)
            ends: dict[int, int] = {}
            for partition in found.partitions if found else ():
                _, ends[partition] = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)
            return ends

        return _patiently(ask)

    def records(self, topic: str, since: Mapping[int, int], count: int) -> list[Message]:
        """So many records from these offsets on, by partition; fewer when the log has no more in time."""
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in since.items()])
        deadline = time.monotonic() + ANSWER_S
        found: list[Message] = []
        while len(found) < count and time.monotonic() < deadline:
            messages = self._consumer.consume(count - len(found), timeout=0.5)
            found += [message for message in messages if message.error() is None]
        self._consumer.unassign()
        return found


def _patiently(ask: Callable[[], _T]) -> _T:
    """Ask until there is an answer: a partition that was just made or taken up has no leader for a moment."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise DemoError(f"the demo's Kafka does not answer: {error.args[0].str()}") from error
        time.sleep(_AGAIN_S)
