"""How far the closed runs of a partition have been announced: one small object beside the tables.

A mark only saves work. It is written after Kafka has acknowledged every message up to it, so what lies behind an older
mark is announced once more, and consumers skip it by its closing offset. A missing mark announces everything.
"""

from __future__ import annotations

import obstore
import orjson
from obstore.exceptions import BaseError

from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake


def write_mark(lake: Lake, app_id: str, topic: str, partition: int, outcomes_topic: str, offset: int) -> None:
    """Note that all runs closed up to `offset` have been announced on `outcomes_topic`. Raises `SinkUnavailable`."""
    path = lake.outcome_mark_path(app_id, topic, partition)
    try:
        obstore.put(lake.store, path, orjson.dumps({"outcomes_topic": outcomes_topic, "offset": offset}))
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"mark of outcomes of {topic}/{partition}: {type(error).__name__}") from error


def read_mark(lake: Lake, app_id: str, topic: str, partition: int, outcomes_topic: str) -> int:
    """Last offset up to which all closed runs were announced on `outcomes_topic`; -1 when none is known.

    Raises `SinkUnavailable`.
    """
    path = lake.outcome_mark_path(app_id, topic, partition)
    try:
        stored = orjson.loads(bytes(obstore.get(lake.store, path).bytes()))
        return int(stored["offset"]) if stored["outcomes_topic"] == outcomes_topic else -1
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"mark of outcomes of {topic}/{partition}: {type(error).__name__}") from error
