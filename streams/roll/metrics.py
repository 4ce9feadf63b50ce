"""Prometheus metrics of a rolling worker, from its own figures at the time of asking."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from trajlake.expectations import metrics
from trajlake.expectations.metrics import ROLL
from trajlake.expectations.outcomes import CLASSES
from trajlake.streams.metrics import Readings
from trajlake.transforms.rolling.sequence import streak

if TYPE_CHECKING:
    from trajlake.streams.roll.app import RollApp

WINDOW: Final = "24h"


def exposition(roll: RollApp) -> bytes:
    """The Prometheus text format."""
    book, advisor = roll.book, roll.advisor
    figures = book.figures
    readings = Readings(ROLL)
    readings.put(metrics.ROLL_READY, float(not roll.problems()))
    readings.put(metrics.ROLL_RESTARTS, roll.restarts)
    readings.put(metrics.ROLL_BATCHES, figures.batches)
    readings.put(metrics.ROLL_REPEATED, figures.repeated)
    readings.put(metrics.ROLL_RUNS, figures.runs)
    readings.put(metrics.ROLL_FOREIGN, figures.foreign)
    readings.put(metrics.ROLL_REFUSED, figures.refused)
    readings.put(metrics.ROLL_STATISTICS, figures.emitted)
    readings.put(metrics.ROLL_DECISIONS, advisor.decided)
    waiting = list(book.dirty.values())
    readings.put(metrics.ROLL_WAITING, len(waiting))
    readings.put(metrics.ROLL_WAITED, max(0.0, time.monotonic() - min(waiting)) if waiting else 0.0)
    readings.put(metrics.ROLL_BEHIND, figures.behind_s)
    readings.put(metrics.ROLL_APPLIED, figures.applied_at or None)
    readings.put(metrics.ROLL_LAG, _unread(roll.faust.consumer, roll.settings.outcomes_topic))
    for (tenant, skill), state in list(book.skills.items()):
        for name, count in zip(CLASSES, state.windows[WINDOW].classes, strict=True):
            if count:
                readings.put(metrics.SKILL_RUNS, count, tenant, skill, name)
        readings.put(metrics.SKILL_STREAK, streak(state.head.sequence)[0], tenant, skill)
    for (tenant, skill), standing in list(advisor.standings.items()):
        readings.put(metrics.SKILL_DEGRADED, float(standing.state == "degraded"), tenant, skill)
    return readings.text()


def _unread(consumer: Any, topic: str) -> int | None:
    """Messages behind the last one read, in the partitions of a topic that the consumer owns; None before it has
    any."""
    own = [place for place in consumer.assignment() if place.topic == topic]
    known = [(consumer.highwater(place), consumer._read_offset.get(place)) for place in own]
    if not own or any(end is None for end, _ in known):
        return None
    return int(sum(max(0, end - 1 - (-1 if read is None else read)) for end, read in known))
