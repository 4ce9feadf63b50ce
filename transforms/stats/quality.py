"""The quality of a skill over a window: a rate over the runs that speak of quality, and everything else beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass
from trajlake.transforms.stats.intervals import Interval, confidence_sequence, wilson

OPEN_READING: Final = frozenset({OutcomeClass.ABANDONED, OutcomeClass.TIMEOUT})
"""Runs that ended without an answer: nobody knows what it would have been, so both readings are shown."""

_SCORABLE: Final = frozenset(str(each) for each in SCORABLE)
_OPEN: Final = frozenset(str(each) for each in OPEN_READING)


class Quality(Struct, frozen=True, kw_only=True):
    """What counts say of a skill's quality. Rates and intervals are null where no run speaks of quality, never 100%."""

    runs: int
    """All closed runs of the window."""
    scorable: int
    """Runs that speak of quality: successes, quality failures and the model's own malformed acts."""
    successes: int
    failures: int
    open_reading: int
    """Abandoned and timed-out runs."""
    rate: float | None
    """Successes among scorable runs."""
    interval: Interval | None
    """Holds however often it is looked at, see `confidence_sequence`."""
    fixed_n: Interval | None
    """Wilson's interval: holds for one look at a number of runs fixed beforehand."""
    bounds: Interval | None
    """The rate if all runs of open reading had failed, and if all had succeeded."""
    alpha: float
    """Chance of error that both intervals allow."""


def measure_quality(counts: Mapping[str, int], alpha: float = 0.05) -> Quality:
    """Measure quality from the number of runs by outcome class."""
    successes = counts.get(OutcomeClass.SUCCESS, 0)
    scorable = sum(n for name, n in counts.items() if name in _SCORABLE)
    unjudged = sum(n for name, n in counts.items() if name in _OPEN)
    failures = scorable - successes
    judged = scorable + unjudged
    return Quality(
        runs=sum(counts.values()),
        scorable=scorable,
        successes=successes,
        failures=failures,
        open_reading=unjudged,
        rate=successes / scorable if scorable else None,
        interval=confidence_sequence(successes, failures, alpha),
        fixed_n=wilson(successes, failures, alpha),
        bounds=Interval(successes / judged, (successes + unjudged) / judged) if judged else None,
        alpha=alpha,
    )


def failure_streak(classes: Iterable[str]) -> int:
    """Quality failures in a row up to the last scorable run, from outcome classes in order of end time.

    Runs that say nothing of quality neither count nor break it: fail, cancelled, fail is a streak of 2.
    """
    streak = 0
    for name in classes:
        if name in _SCORABLE:
            streak = 0 if name == OutcomeClass.SUCCESS else streak + 1
    return streak
