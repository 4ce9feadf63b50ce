"""A skill's state to its statistics: windows with intervals, drops, streak, versions, pulled levers, hours of faults.

A pure function of the state; `Detectors` only remembers what it folded, so that a reading costs the hours that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from trajlake.expectations.outcomes import (
    CLASSES,
    HOUR_US,
    Cause,
    Drop,
    HourFaults,
    Interval,
    Position,
    PulledCounts,
    Quantiles,
    RecentRun,
    RunVersions,
    SkillStats,
    Standing,
    Stratum,
    VersionSeen,
    WindowStats,
)
from trajlake.transforms.rolling.bucket import Bucket, Counts, add_counts, cause_parts, stratum_parts
from trajlake.transforms.rolling.sequence import Seen, streak
from trajlake.transforms.rolling.sketch import quantiles
from trajlake.transforms.rolling.state import SIZES, SkillState, label_of
from trajlake.transforms.stats.assessment import Terms, assess
from trajlake.transforms.stats.drops import Drops, Reading, new_drops, observe, read_drops
from trajlake.transforms.stats.quality import Quality, measure_quality

MOST_CAUSES: Final = 50
MOST_RECENT: Final = 30
"""Newest runs in a message; the streak counts further back."""
FAULT_HOURS: Final = 48
TERMS: Final = Terms()
STANDING_WINDOW: Final = "24h"
_WINDOW_KIND: Final = {"1h": "m", "24h": "h", "7d": "h", "30d": "h"}


class Detectors:
    """The detectors of one skill, equal to a fold of its hours of the last thirty days, oldest first."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._folded: dict[int, dict[str, list[int]]] = {}
        self._drop = new_drops()
        self._unjudged = new_drops()

    def read(self, state: SkillState) -> tuple[Drop, Drop]:
        """Readings of the drop in quality and of the rise of runs without an answer."""
        first, _ = state.bounds("30d")
        changed, state.changed_hours = state.changed_hours, set()
        hours = state.buckets["h"]
        if self._first != first or not self._add(changed, hours):
            self._fold(first, hours)
        return _drop(self._drop), _drop(self._unjudged)

    def _fold(self, first: int, hours: dict[int, Bucket]) -> None:
        self._first = first
        self._folded = {}
        self._drop, self._unjudged = new_drops(), new_drops()
        self._add(sorted(hours), hours)

    def _add(self, changed: Iterable[int], hours: dict[int, Bucket]) -> bool:
        """Fold in what hours hold beyond what was folded. False where an hour is closed, or lost a run."""
        for hour in sorted(changed):
            bucket = hours.get(hour)
            if bucket is None:
                return False
            before = self._folded.get(hour, {})
            after = {name: values[:3] for name, values in bucket.counts.strata.items() if any(values[:3])}
            if before.keys() - after.keys():
                return False
            for name, counted in after.items():
                known = before.get(name, [0, 0, 0])
                good, bad, unjudged = (now - then for now, then in zip(counted, known, strict=True))
                if min(good, bad, unjudged) < 0:
                    return False
                if (good or bad) and not observe(self._drop, hour, name, good, bad):
                    return False
                judged = good + bad
                if (judged or unjudged) and not observe(self._unjudged, hour, name, judged, unjudged):
                    return False
            self._folded[hour] = after
        return True


def skill_stats(state: SkillState, detectors: Detectors, *, emitted_us: int, code_revision: str) -> SkillStats:
    """The statistics of a skill as of its newest run."""
    head = state.head
    length, since = streak(head.sequence)
    newest = head.sequence.runs[-1] if head.sequence.runs else None
    drop, unjudged = detectors.read(state)
    restated = {
        kind: {index: bucket.restated for index, bucket in buckets.items() if bucket.restated}
        for kind, buckets in state.buckets.items()
    }
    windows = [_window(state, name, restated[kind]) for name, kind in _WINDOW_KIND.items()]
    windows += _version_window(state, newest)
    return SkillStats(
        tenant_id=state.tenant_id,
        skill_name=state.skill_name,
        as_of_us=head.as_of_us,
        positions=[Position(head.topic, partition, offset) for partition, offset in sorted(head.applied.items())],
        windows=windows,
        streak=length,
        streak_since_us=since,
        recent=[_recent(run) for run in head.sequence.runs[-MOST_RECENT:]],
        versions=RunVersions() if newest is None else RunVersions(*newest.versions),
        model_tier=next((run.model_tier for run in reversed(head.sequence.runs) if run.model_tier), None),
        drop=drop,
        unjudged=unjudged,
        standing=_standing(windows, drop, unjudged, length),
        hours=_hours(state),
        pulled=_pulled(state),
        versions_seen=[
            VersionSeen(component, version, first_us)
            for component, versions in sorted(head.versions.items())
            for version, first_us in sorted(versions.items(), key=lambda each: (each[1], each[0]))
        ],
        restatement=head.restated,
        restated_from_us=state.restated_from_us,
        emitted_us=emitted_us,
        code_revision=code_revision,
    )


def _window(state: SkillState, name: str, restated: dict[int, int]) -> WindowStats:
    """`restated`: bucket -> its restatements, where there are any."""
    size = SIZES[_WINDOW_KIND[name]]
    first, last = state.bounds(name)
    count = sum(times for index, times in restated.items() if first <= index <= last)
    return window_stats(name, state.windows[name], first * size, (last + 1) * size, count)


def _version_window(state: SkillState, newest: Seen | None) -> list[WindowStats]:
    """The window of the versions that the newest run had."""
    bucket = None if newest is None else state.versions.get(label_of(newest))
    if bucket is None:
        return []
    return [window_stats("version", bucket.counts, bucket.first_us, state.head.as_of_us + 1, bucket.restated)]


def window_stats(name: str, counts: Counts, start_us: int, end_us: int, restatement: int = 0) -> WindowStats:
    """A window from its counts. Intervals are for an error chance of 5%."""
    by_class = {label: count for label, count in zip(CLASSES, counts.classes, strict=True) if count}
    quality = _quality(tuple(counts.classes))
    causes = sorted(counts.causes.items(), key=lambda item: (-item[1], item[0]))[:MOST_CAUSES]
    return WindowStats(
        window=name,
        start_us=start_us,
        end_us=end_us,
        runs=quality.runs,
        counts=by_class,
        attempts=counts.attempts,
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        cost_nano_usd=counts.cost_nano_usd,
        priced_runs=counts.priced,
        scorable=quality.scorable,
        successes=quality.successes,
        rate=quality.rate,
        interval=_interval(quality.interval),
        wilson=_interval(quality.fixed_n),
        open_bounds=_interval(quality.bounds),
        latency_ms=_quantiles(counts.latency, 1e3),
        cost_usd=_quantiles(counts.cost, 1e9),
        strata=strata_of(counts),
        causes=[_cause(key, count) for key, count in causes],
        restatement=restatement,
    )


@lru_cache(maxsize=4096)
def _quality(classes: tuple[int, ...]) -> Quality:
    return measure_quality(dict(zip(CLASSES, classes, strict=True)))


def strata_of(counts: Counts) -> list[Stratum]:
    """Strata in order of their names."""
    return [
        Stratum(*stratum_parts(name), good, bad, priced, cost)
        for name, (good, bad, _, priced, cost) in sorted(counts.strata.items())
    ]


def _interval(found: object) -> Interval | None:
    low, high = getattr(found, "low", None), getattr(found, "high", None)
    return None if low is None or high is None else Interval(low, high)


def _quantiles(bins: dict[int, int], unit: float) -> Quantiles | None:
    found = quantiles(bins, 0.5, 0.95, 0.99)
    return None if found is None else Quantiles(*(value / unit for value in found))


def _cause(key: str, count: int) -> Cause:
    name, kind, provider, tool, error_type = cause_parts(key)
    return Cause(name or "unknown", kind, provider, tool, error_type, count)


def _recent(run: Seen) -> RecentRun:
    return RecentRun(
        run.end_us, run.partition, run.offset, run.run_id, run.outcome_class, run.failure_kind, run.model_tier,
        run.task_family, run.versions[1],
    )  # fmt: skip


def _hours(state: SkillState) -> list[HourFaults]:
    newest = state.head.as_of_us // HOUR_US
    last = ((hour, state.buckets["h"].get(hour)) for hour in range(newest - FAULT_HOURS + 1, newest + 1))
    return [
        HourFaults(
            hour,
            sum(bucket.counts.classes),
            [_cause(key, count) for key, count in sorted(bucket.counts.causes.items())],
        )
        for hour, bucket in last
        if bucket is not None
    ]


def _pulled(state: SkillState) -> list[PulledCounts]:
    """Pulled levers with the hours between each and its neighbours summed up."""
    first, _ = state.bounds("30d")
    pulls = [pull for pull in state.head.levers if pull.at_us // HOUR_US >= first]
    hours = [pull.at_us // HOUR_US for pull in pulls]
    found = []
    for place, pull in enumerate(pulls):
        begins = hours[place - 1] if place else first
        ends = hours[place + 1] if place + 1 < len(pulls) else None
        found.append(PulledCounts(pull, _between(state, begins, hours[place]), _between(state, hours[place], ends)))
    return found


def _between(state: SkillState, first: int, end: int | None) -> list[Stratum]:
    summed = Counts()
    for hour, bucket in state.buckets["h"].items():
        if first <= hour and (end is None or hour < end):
            add_counts(summed, bucket.counts, 1)
    return strata_of(summed)


def _drop(drops: Drops) -> Drop:
    reading = read_drops(drops)
    since = None if reading.since_hour is None else reading.since_hour * HOUR_US
    return Drop(
        reading.e_value,
        since,
        reading.before,
        reading.after,
        reading.based,
        reading.e_value >= 1 / TERMS.alpha,
        reading.e_among,
    )


def reading_of(drop: Drop | None) -> Reading:
    """The detector's reading that a message carries."""
    if drop is None:
        return Reading(e_value=0.0, e_among=0.0, since_hour=None, before=(0, 0), after=(0, 0), based=False)
    since = None if drop.since_us is None else drop.since_us // HOUR_US
    return Reading(
        e_value=drop.e_value,
        e_among=drop.e_among,
        since_hour=since,
        before=drop.before,
        after=drop.after,
        based=drop.based,
    )


def _standing(windows: list[WindowStats], drop: Drop, unjudged: Drop, length: int) -> Standing:
    """How the skill stands over a day, judged by itself: a worker does not see the whole fleet."""
    counts = {window.window: window.counts for window in windows}
    reading = reading_of(drop)
    found = assess(
        counts[STANDING_WINDOW], reading, since_change=counts.get("version"), selection=reading_of(unjudged),
        streak=length, terms=TERMS,
    )  # fmt: skip
    base = sum(drop.before)
    return Standing(str(found.state), found.code, found.reason, found.e_value, drop.before[0] / base if base else None)
