"""What networks and restarts do to a log: records that come twice, and one that arrives in pieces.

Both are made from records that the agents really published: read from the topic, and written to it once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajlake.demo.errors import DemoError
from trajlake.demo.log import LogView

SECOND_COPIES: Final = 3
_FLUSH_S: Final = 15.0


def disturb(kafka: Mapping[str, Any], topic: str, since: Mapping[int, int]) -> None:
    """Redeliver `SECOND_COPIES` records of the topic, and write the first half of another one.

    since: partition -> first offset to choose from. Raises DemoError when the topic cannot be read or written.
    """
    from confluent_kafka import Producer

    with LogView(kafka) as log:
        records = log.records(topic, since, SECOND_COPIES + 1)
    producer = Producer({**kafka, "log_level": 0})
    for place, record in enumerate(records):
        value = record.value() or b""
        arrived = value if place < SECOND_COPIES else value[: len(value) // 2]
        producer.produce(topic, arrived, record.key(), partition=record.partition() or 0, headers=record.headers())
    if producer.flush(_FLUSH_S):
        raise DemoError("the demo's Kafka takes no records any more")
