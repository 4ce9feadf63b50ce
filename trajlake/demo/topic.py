"""Which topic a demo publishes to: one whose log is the lake's own, so that offsets go on where the tables end.

The tables name the last landed offset of each partition. If the log that is here never held that offset, or holds
another record there, it is not the log that landed: the broker's folder was removed, or the lake was filled from
another Kafka. Landing from it would skip or refuse records. The demo then takes a topic with a number in its name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import polars as pl

from trajlake.demo.log import LogView
from trajlake.reading.tables import LakeTables, PartitionId


def choose_topic(lake: LakeTables, app_id: str, kafka: Mapping[str, Any], topic: str) -> str:
    """`topic`, or `topic-2`, `topic-3` and so on: the first that the lake and this Kafka agree about. A dot would make
    it a tenant's own.

    Raises DemoError when Kafka does not answer.
    """
    names = itertools.chain([topic], (f"{topic}-{number}" for number in itertools.count(2)))
    landed = lake.landed(app_id)
    with LogView(kafka) as log:
        return next(name for name in names if _agree(lake, landed, log, name))


def _agree(lake: LakeTables, landed: Mapping[PartitionId, int], log: LogView, topic: str) -> bool:
    last = {partition: offset for (name, partition), offset in landed.items() if name == topic and offset >= 0}
    if not last:
        return True
    ends = log.ends(topic)
    if any(offset >= ends.get(partition, 0) for partition, offset in last.items()):
        return False
    # The newest record of each partition that landed as an event: its time is the broker's, to the millisecond.
    newest = (
        lake.events()
        .filter(pl.col("topic") == topic)
        .group_by("partition")
        .agg(pl.col("offset", "append_time").sort_by("offset").last())
        .collect()
    )
    return all(_holds(log, topic, *row) for row in newest.iter_rows())


def _holds(log: LogView, topic: str, partition: int, offset: int, append_time: Any) -> bool:
    """Whether the log has a record of that time at that offset."""
    found = log.records(topic, {partition: offset}, 1)
    at = round(append_time.timestamp() * 1000)
    return [(message.offset(), message.timestamp()[1]) for message in found] == [(offset, at)]
