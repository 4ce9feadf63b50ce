"""One word and one sentence on a skill: degraded, watch, not enough data or ok, and why.

`assess` is what every page, table and alarm about a skill goes by. Only runs that speak of quality count against a
skill: a spent quota or a broken tool makes it neither degraded nor watched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from math import log
from typing import Final

from msgspec import Struct

from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.transforms.stats.causes import FAULTS, Cause
from trajlake.transforms.stats.drops import ODDS, ODDS_WEIGHTS, Reading
from trajlake.transforms.stats.intervals import bounded_exp
from trajlake.transforms.stats.quality import Quality, measure_quality

ENGINE: Final = "stats-2"
"""Raised when the same counts would be assessed differently; part of a decision's code revision."""

DROP_SHARE: Final = 0.9
"""Share of the false-alarm budget that is for drops; the rest is for skills that never reached the target."""
UNEXPLAINED_SHARE: Final = 0.2
_LEAST_UNEXPLAINED: Final = 10


class State(StrEnum):
    """Standing of a skill."""

    DEGRADED = "degraded"
    WATCH = "watch"
    NOT_ENOUGH_DATA = "not_enough_data"
    OK = "ok"


class Terms(Struct, frozen=True, kw_only=True):
    """What a skill is held to."""

    alpha: float = 0.05
    """Budget of false accusations: of a skill in a month, and of all those named in a fleet."""
    target_rate: float = 0.5
    """A skill whose rate is below it is degraded even if it was never better."""
    least_runs: int = 20
    """Scorable runs below which nothing is said."""


class Assessment(Struct, frozen=True, kw_only=True):
    """Standing with its reason. `code` is a stable name for the reason, `e_value` the evidence against the skill."""

    state: State
    code: str
    reason: str
    e_value: float


def evidence_against(drop: Reading, quality: Quality, terms: Terms) -> float:
    """The e-value of "nothing is wrong here" for one skill by itself: an alarm at 1 / alpha.

    A weighted mean of the drop's e-value and that of a rate below the target; quality: since the last change of version
    or lever. A mean of e-values is one.
    """
    return _evidence(drop.e_value, quality, terms)


def evidence_among(drop: Reading, quality: Quality, terms: Terms) -> float:
    """The same to be compared with that of other skills: what `control.discoveries` takes."""
    return _evidence(drop.e_among, quality, terms)


def _evidence(of_drop: float, quality: Quality, terms: Terms) -> float:
    below = below_target(quality.successes, quality.failures, terms.target_rate)
    return DROP_SHARE * of_drop + (1 - DROP_SHARE) * below


def below_target(successes: int, failures: int, target: float) -> float:
    """e-value against a rate of at least `target`: likelihood ratios of failure odds `drops.ODDS` times as high, mixed.

    Each ratio is a supermartingale wherever the rate is at least the target, so it may be looked at after every run.
    """
    q = 1 - target
    return sum(
        weight * bounded_exp(successes * log(1 / (1 - q + odds * q)) + failures * log(odds / (1 - q + odds * q)))
        for odds, weight in zip(ODDS, ODDS_WEIGHTS, strict=True)
    )


def assess(
    counts: Mapping[str, int],
    drop: Reading,
    *,
    since_change: Mapping[str, int] | None = None,
    selection: Reading | None = None,
    causes: Sequence[Cause] = (),
    named: bool | None = None,
    streak: int = 0,
    terms: Terms = Terms(),
) -> Assessment:
    """Assess a skill.

    counts: runs by outcome class in the window shown. since_change: the same since the last change of version or lever;
    the window's where None. drop: reading of the detector fed with scorable runs. selection: of one fed with (judged,
    abandoned or timed out) in place of (success, failure). causes: common causes that reach the skill. named: whether
    `control.discoveries` names it among its fleet by `evidence_among`; None judges it by itself. streak: quality
    failures in a row.
    """
    quality = measure_quality(counts, terms.alpha)
    changed = quality if since_change is None else measure_quality(since_change, terms.alpha)
    e_value = evidence_against(drop, changed, terms)
    alarmed = e_value >= 1 / terms.alpha
    outside = _outside(counts, causes)
    if alarmed:
        confirmed = named is None or named
        code, reason = _against(drop, changed, terms, streak)
        if not confirmed:
            reason += "; not yet sure enough among as many skills"
        state = State.DEGRADED if confirmed else State.WATCH
        return Assessment(state=state, code=code, reason=_sentence(reason, outside), e_value=e_value)
    if selection is not None and selection.e_value >= 1 / terms.alpha:
        return Assessment(
            state=State.WATCH, code="unjudged_rose", reason=_sentence(_unjudged(selection), outside), e_value=e_value
        )
    unexplained = counts.get(OutcomeClass.UNKNOWN, 0)
    if unexplained >= max(_LEAST_UNEXPLAINED, UNEXPLAINED_SHARE * quality.runs):
        reason = f"{unexplained} of {quality.runs} runs failed without evidence of why"
        return Assessment(state=State.WATCH, code="unexplained", reason=_sentence(reason, outside), e_value=e_value)
    if quality.scorable < terms.least_runs:
        reason = f"{_runs(quality.scorable)} of {quality.runs} speak of quality, {terms.least_runs} are needed"
        return Assessment(
            state=State.NOT_ENOUGH_DATA, code="few_runs", reason=_sentence(reason, outside), e_value=e_value
        )
    if quality.interval is not None and quality.interval.high < terms.target_rate:
        # Of several versions side by side one may fail while the newest run, of another, clears the skill.
        reason = (
            f"{quality.successes} of {_runs(quality.scorable)} in this window succeeded, at most "
            f"{percent(quality.interval.high)}, and {percent(terms.target_rate)} is the target"
        )
        return Assessment(
            state=State.WATCH, code="window_below_target", reason=_sentence(reason, outside), e_value=e_value
        )
    return Assessment(state=State.OK, code="steady", reason=_sentence(_steady(quality, drop), outside), e_value=e_value)


def hour_text(hour: int) -> str:
    """An hour since the Unix epoch as people read it."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%d %H:%M UTC")


def percent(rate: float) -> str:
    """A rate in percent, with a decimal where it is near 0 or 1, and never rounded to a certainty that it is not."""
    shown = f"{100 * rate:.0f}" if 0.1 <= rate <= 0.9 else f"{100 * rate:.1f}"
    if shown in ("100.0", "0.0") and 0 < rate < 1:
        return ">99.9%" if rate > 0.5 else "<0.1%"
    return f"{shown.removesuffix('.0')}%"


def percent_range(low: float, high: float) -> str:
    """Bounds of a rate in percent, as `percent` has them."""
    return f"{percent(low).rstrip('%')}–{percent(high)}"


def _against(drop: Reading, changed: Quality, terms: Terms, streak: int) -> tuple[str, str]:
    in_a_row = f", {streak} failures in a row" if streak > 2 else ""
    if drop.e_value >= below_target(changed.successes, changed.failures, terms.target_rate):
        before, after = drop.before, drop.after
        since = "" if drop.since_hour is None else f" since {hour_text(drop.since_hour)}"
        return "dropped", (
            f"success fell from {percent(before[0] / sum(before))} ({before[0]} of {_runs(sum(before))} before) to "
            f"{percent(after[0] / max(sum(after), 1))} ({after[0]} of {sum(after)}{since}{in_a_row}); "
            f"chance alone shows so much in at most {percent(min(1.0, 1 / drop.e_value))} of months"
        )
    most = changed.interval.high if changed.interval is not None else 1.0
    return "below_target", (
        f"{changed.successes} of {_runs(changed.scorable)} succeeded{in_a_row}; the rate is at most {percent(most)} "
        f"whenever looked at, and {percent(terms.target_rate)} is the target"
    )


def _unjudged(selection: Reading) -> str:
    before, after = selection.before, selection.after
    since = "" if selection.since_hour is None else f" since {hour_text(selection.since_hour)}"
    return (
        f"runs without an answer (timed out, abandoned) rose from {percent(before[1] / max(sum(before), 1))} to "
        f"{percent(after[1] / max(sum(after), 1))} ({after[1]} of {sum(after)}{since}); the others are a selection"
    )


def _steady(quality: Quality, drop: Reading) -> str:
    rate, interval = quality.rate, quality.interval
    if rate is None or interval is None:
        return "no run speaks of quality"
    shown = f"{percent(interval.low)} to {percent(interval.high)} whenever looked at"
    base = sum(drop.before)
    against = f"; no drop against {percent(drop.before[0] / base)} of {_runs(base)} before" if drop.based else ""
    return f"{percent(rate)} of {_runs(quality.scorable)} succeeded, {shown}{against}"


def _outside(counts: Mapping[str, int], causes: Sequence[Cause]) -> str:
    """What else befell the skill, which does not count against it."""
    if causes:
        return "beside it, and not counted against it: " + "; ".join(cause.reason for cause in causes)
    faults = {name: counts.get(name, 0) for name in FAULTS if counts.get(name, 0)}
    if not faults:
        return ""
    told = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(faults.items(), key=lambda item: -item[1]))
    return f"not counted: {told}"


def _sentence(reason: str, outside: str) -> str:
    return f"{reason} ({outside})." if outside else f"{reason}."


def _runs(n: int) -> str:
    return f"{n} run" if n == 1 else f"{n:,} runs"
