"""What is counted of runs: sums of whole numbers only, so that they add up in any order and can be taken back."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from trajlake.expectations.outcomes import CLASSES, OPEN_CLASSES, RunOutcome
from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass
from trajlake.transforms.rolling.sketch import bin_of
from trajlake.transforms.stats.drops import stratum_of

_PLACE: Final = {name: place for place, name in enumerate(CLASSES)}
_UNKNOWN: Final = _PLACE[OutcomeClass.UNKNOWN.value]
SUCCESS: Final = OutcomeClass.SUCCESS.value
SCORED: Final = frozenset(member.value for member in SCORABLE)
_OPEN: Final = frozenset(member.value for member in OPEN_CLASSES)
_SEPARATOR: Final = "\x1f"
_NAME_CHARS: Final = 120
"""Longest part of a cause's name: producers choose these texts."""


class Counts(Struct, array_like=True, gc=False):
    """Sums over runs.

    classes: runs by place in `CLASSES`. strata: `tier|family` -> [successes, failures, open, priced, nano-dollars].
    causes: class, kind, provider, tool and error type of runs without success -> runs. latency, cost: sketches in µs
    and nano-dollars.
    """

    classes: list[int] = field(default_factory=lambda: [0] * len(CLASSES))
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    priced: int = 0
    strata: dict[str, list[int]] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    latency: dict[int, int] = field(default_factory=dict)
    cost: dict[int, int] = field(default_factory=dict)


class Bucket(Struct, array_like=True, gc=False):
    """A stored value: counts of a stretch of event time (or of a version), and what it holds of each partition.

    applied: partition -> last closing offset that changed it. restated: how often late runs did. first_us, last_us:
    ends of the first and last run that were ever counted here. forgotten_us: runs that ended before may have been
    counted in a bucket of the same version that was forgotten, and are not in this one; 0 where there was none.
    """

    applied: dict[int, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    restated: int = 0
    first_us: int = 0
    last_us: int = 0
    forgotten_us: int = 0


def count_run(counts: Counts, run: RunOutcome, sign: int) -> None:
    """Count a run (`sign` 1), or take it back (-1)."""
    name = run.outcome_class
    counts.classes[_PLACE.get(name, _UNKNOWN)] += sign
    counts.attempts += sign * run.attempts
    counts.input_tokens += sign * (run.input_tokens or 0)
    counts.output_tokens += sign * (run.output_tokens or 0)
    price = run.cost_nano_usd
    key = stratum_of(run.model_tier, run.task_family)
    stratum = counts.strata.setdefault(key, [0, 0, 0, 0, 0])
    if name in SCORED:
        stratum[0 if name == SUCCESS else 1] += sign
    elif name in _OPEN:
        stratum[2] += sign
    if price is not None:
        counts.priced += sign
        counts.cost_nano_usd += sign * price
        stratum[3] += sign
        stratum[4] += sign * price
        _bump(counts.cost, bin_of(price), sign)
    if not any(stratum):
        del counts.strata[key]
    if run.latency_us is not None:
        _bump(counts.latency, bin_of(run.latency_us), sign)
    if name != SUCCESS:
        _bump(counts.causes, cause_key(run), sign)


def add_counts(counts: Counts, other: Counts, sign: int) -> None:
    """Add the counts of another bucket, or take them away."""
    counts.classes = [ours + sign * theirs for ours, theirs in zip(counts.classes, other.classes, strict=True)]
    counts.attempts += sign * other.attempts
    counts.input_tokens += sign * other.input_tokens
    counts.output_tokens += sign * other.output_tokens
    counts.cost_nano_usd += sign * other.cost_nano_usd
    counts.priced += sign * other.priced
    for key, values in other.strata.items():
        summed = [ours + sign * theirs for ours, theirs in zip(counts.strata.get(key, [0] * 5), values, strict=True)]
        if any(summed):
            counts.strata[key] = summed
        else:
            counts.strata.pop(key, None)
    for name, theirs in other.causes.items():
        _bump(counts.causes, name, sign * theirs)
    for index, theirs in other.latency.items():
        _bump(counts.latency, index, sign * theirs)
    for index, theirs in other.cost.items():
        _bump(counts.cost, index, sign * theirs)


def cause_key(run: RunOutcome) -> str:
    """Name under which a run that did not succeed is counted."""
    parts = (run.outcome_class, run.failure_kind, run.model_provider, run.failing_tool, run.error_type)
    return _SEPARATOR.join((part or "").replace(_SEPARATOR, " ")[:_NAME_CHARS] for part in parts)


def cause_parts(key: str) -> list[str | None]:
    """Outcome class, failure kind, provider, tool and error type of a `cause_key`."""
    return [part or None for part in key.split(_SEPARATOR)]


def stratum_parts(key: str) -> tuple[str | None, str | None]:
    """Model tier and task family of a stratum."""
    tier, _, family = key.partition("|")
    return tier or None, family or None


def _bump(counted: dict[str, int] | dict[int, int], key: str | int, by: int) -> None:
    # One body for both kinds of key; a count of zero leaves no trace.
    held: dict[str | int, int] = counted  # type: ignore[assignment]
    count = held.get(key, 0) + by
    if count:
        held[key] = count
    else:
        held.pop(key, None)
