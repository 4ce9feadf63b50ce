"""Finds trouble that many runs share (a spent quota, a provider, a tool, an error) and names it once.

Kept per tenant, from the runs of all its skills: for each hour the number of runs, and of runs that ended by a fault,
under every name that the fault goes by (its provider, its tool, its error type, its class). A burst is a rise of the
share of runs that end by one class of fault: for each of the last `RECENT_HOURS` hours as its beginning, the
likelihood ratio of the faults since against the share before, added up as in `drops` and divided by
`drops.BUDGET_HOURS` and the number of classes: an e-value, with the same budget of false alarms for all classes
together.

A burst then gets the narrowest name that covers it: the tool, else the provider, else the error type, else the class
alone. Classes with the same name are one cause. Skills are listed as affected, never as guilty: these runs are in no
denominator.

Everything is counts by hour, so order and batching of runs do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from math import log
from typing import Final, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.transforms.stats.drops import BUDGET_HOURS
from trajlake.transforms.stats.intervals import bounded_exp

RECENT_HOURS: Final = 24
"""A burst is looked for in the last day; what is older makes up the share before."""
KEPT_HOURS: Final = 48
"""Hours kept apart; older ones are added up."""
NAMED_SHARE: Final = 0.8
"""A name is the cause's when so many of the burst's faults bear it."""
LEAST_FAULTS: Final = 3
USUAL_SHARE: Final = 0.01
"""Share of faults that is expected at least, and before anything is known."""
PRIOR_RUNS: Final = 50
"""Weight of `USUAL_SHARE`, in runs."""
MOST_SKILLS: Final = 200
"""Skills listed per fault name and hour; further ones are only counted."""
ODDS: Final = (3.0, 10.0, 50.0, 500.0)

FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    OutcomeClass.QUOTA: ("provider", "error_type"),
    OutcomeClass.INFRA_FAULT: ("provider", "error_type"),
    OutcomeClass.CONFIG: ("provider", "error_type"),
    OutcomeClass.TOOL_FAULT: ("tool", "error_type"),
    OutcomeClass.VERIFIER_FAULT: ("error_type",),
    OutcomeClass.POLICY_DENIED: ("error_type",),
    OutcomeClass.TIMEOUT: ("tool", "provider"),
    OutcomeClass.UNKNOWN: ("error_type",),
}
"""Classes that do not come from the skill, or not for sure, with the names that may explain each, narrowest first."""


class FaultHour(TypedDict):
    """`runs`: all closed runs. `faults`: `class|dimension|value` -> skill -> runs. The dimension `class` has all
    of them."""

    runs: int
    faults: dict[str, dict[str, int]]


class Faults(TypedDict):
    """State per tenant; plain JSON. `before_runs`, `before`: runs, and faults by class, of hours older than those
    kept."""

    before_runs: int
    before: dict[str, int]
    hours: dict[str, FaultHour]


class Cause(Struct, frozen=True, kw_only=True):
    """One common cause. `cause_id` and `since_hour` stay the same while it goes on, see `find_causes`."""

    cause_id: str
    classes: tuple[str, ...]
    """Outcome classes that it shows as."""
    dimension: str
    """tool, provider, error_type or class."""
    value: str
    kind: str | None
    """Failure kind that nearly all of the faults share; null where none does."""
    since_hour: int
    """Hour (since the Unix epoch) in which it began."""
    last_hour: int
    """Last hour with such a fault."""
    faults: int
    """Runs that ended by it since it began."""
    runs: int
    """All runs of the tenant since it began."""
    skills: tuple[str, ...]
    """Skills that it reached, sorted; names beyond `MOST_SKILLS` are left out."""
    e_value: float
    reason: str


def new_faults() -> Faults:
    """A tenant that has had no runs."""
    return Faults(before_runs=0, before={}, hours={})


def observe_run(
    faults: Faults,
    hour: int,
    skill: str,
    outcome_class: str,
    *,
    provider: str | None = None,
    tool: str | None = None,
    error_type: str | None = None,
    kind: str | None = None,
    count: int = 1,
) -> None:
    """Count runs of one skill that ended in an hour (since the Unix epoch) in the same way, in place."""
    names = {"provider": provider, "tool": tool, "error_type": error_type}
    keys = [
        f"{outcome_class}|{dimension}|{names[dimension]}"
        for dimension in FAULTS.get(outcome_class, ())
        if names[dimension]
    ]
    if outcome_class in FAULTS:
        if kind:
            keys.append(f"{outcome_class}|kind|{kind}")
        keys.append(f"{outcome_class}|class|{outcome_class}")
    add_hour(faults, hour, FaultHour(runs=count, faults={key: {skill: count} for key in keys}))


def add_hour(faults: Faults, hour: int, counted: FaultHour) -> None:
    """Add what was counted of an hour elsewhere, in place: parts of one hour add up."""
    hours = faults["hours"]
    latest = max(hours, key=int, default=str(hour))
    if hour <= int(latest) - KEPT_HOURS:
        _bury(faults, counted)
        return
    kept = hours.setdefault(str(hour), FaultHour(runs=0, faults={}))
    kept["runs"] += counted["runs"]
    for key, skills in counted["faults"].items():
        ours = kept["faults"].setdefault(key, {})
        for skill, count in skills.items():
            if skill not in ours and len(ours) >= MOST_SKILLS:
                skill = "…"
            ours[skill] = ours.get(skill, 0) + count
    if hour > int(latest):
        for old in [key for key in hours if int(key) <= hour - KEPT_HOURS]:
            _bury(faults, hours.pop(old))


def merge_faults(states: Iterable[Faults]) -> Faults:
    """One state of several, such as of the partitions of a tenant. Those given stay as they are."""
    merged = new_faults()
    parts = list(states)
    for state in parts:
        merged["before_runs"] += state["before_runs"]
        for name, count in state["before"].items():
            merged["before"][name] = merged["before"].get(name, 0) + count
    hours = [(int(hour), each) for state in parts for hour, each in state["hours"].items()]
    for hour, counted in sorted(hours, key=lambda item: item[0]):
        add_hour(merged, hour, counted)
    return merged


def find_causes(
    faults: Faults, tenant: str, now_hour: int, alpha: float = 0.05, previous: Iterable[Cause] = ()
) -> list[Cause]:
    """The common causes that show in the day up to `now_hour`, largest first. The state stays as it is.

    previous: what was found before; a cause of the same name that had faults within the last day goes on under its id.
    """
    goes_on = {(cause.dimension, cause.value): cause for cause in previous if cause.last_hour > now_hour - RECENT_HOURS}
    found = []
    for outcome_class in FAULTS:
        cause = _burst(faults, tenant, outcome_class, now_hour, alpha)
        if cause is not None:
            found.append(cause)
    named: dict[tuple[str, str], Cause] = {}
    for cause in found:
        same = named.get((cause.dimension, cause.value))
        named[cause.dimension, cause.value] = cause if same is None else _joined(tenant, same, cause)
    for key, cause in named.items():
        if key in goes_on:
            known = goes_on[key]
            named[key] = replace(cause, cause_id=known.cause_id, since_hour=known.since_hour)
    return sorted(named.values(), key=lambda each: (-each.faults, each.cause_id))


def _bury(faults: Faults, counted: FaultHour) -> None:
    faults["before_runs"] += counted["runs"]
    for key, skills in counted["faults"].items():
        name, dimension, _ = key.split("|", 2)
        if dimension == "class":
            faults["before"][name] = faults["before"].get(name, 0) + sum(skills.values())


def _burst(faults: Faults, tenant: str, outcome_class: str, now_hour: int, alpha: float) -> Cause | None:
    key = f"{outcome_class}|class|{outcome_class}"
    hours = {int(hour): each for hour, each in faults["hours"].items() if int(hour) <= now_hour}
    recent = sorted((hour for hour in hours if hour > now_hour - RECENT_HOURS), reverse=True)
    counts = {hour: sum(hours[hour]["faults"].get(key, {}).values()) for hour in hours}
    older = [hour for hour in hours if hour <= now_hour - RECENT_HOURS]
    runs_before = faults["before_runs"] + sum(hours[hour]["runs"] for hour in older)
    faults_before = faults["before"].get(outcome_class, 0) + sum(counts[hour] for hour in older)
    usual = max((faults_before + USUAL_SHARE * PRIOR_RUNS) / (runs_before + PRIOR_RUNS), USUAL_SHARE)
    evidence, best, began = 0.0, 0.0, None
    bad = runs = 0
    for hour in recent:
        bad += counts[hour]
        runs += hours[hour]["runs"]
        ratio = _rise(usual, bad, runs - bad)
        evidence += ratio
        if ratio > best and counts[hour]:
            best, began = ratio, hour
    e_value = evidence / BUDGET_HOURS / len(FAULTS)
    if began is None or e_value < 1 / alpha:
        return None
    within = [hour for hour in recent if hour >= began]
    total = sum(counts[hour] for hour in within)
    if total < LEAST_FAULTS:
        return None
    seen = [hours[hour]["faults"] for hour in within]
    dimension, value = _name(outcome_class, seen, total)
    skills = sorted({skill for hour in within for skill in hours[hour]["faults"].get(key, {})} - {"…"})
    return _cause(
        tenant, (outcome_class,), dimension, value, began, max(hour for hour in within if counts[hour]), total,
        sum(hours[hour]["runs"] for hour in within), tuple(skills), e_value,
        _covering(outcome_class, "kind", seen, total),
    )  # fmt: skip


def _rise(usual: float, bad: int, good: int) -> float:
    """Mean likelihood ratio of faults and other runs under a share with higher odds against the usual share."""
    logs = (good * log(1 / (1 - usual + odds * usual)) + bad * log(odds / (1 - usual + odds * usual)) for odds in ODDS)
    return sum(bounded_exp(each) for each in logs) / len(ODDS)


def _name(outcome_class: str, hours: list[dict[str, dict[str, int]]], total: int) -> tuple[str, str]:
    for dimension in FAULTS[outcome_class]:
        value = _covering(outcome_class, dimension, hours, total)
        if value is not None:
            return dimension, value
    return "class", outcome_class


def _covering(outcome_class: str, dimension: str, hours: list[dict[str, dict[str, int]]], total: int) -> str | None:
    """The one value of a dimension that nearly all faults share."""
    prefix = f"{outcome_class}|{dimension}|"
    by_value: dict[str, int] = {}
    for each in hours:
        for key, skills in each.items():
            if key.startswith(prefix):
                value = key.removeprefix(prefix)
                by_value[value] = by_value.get(value, 0) + sum(skills.values())
    value, count = max(sorted(by_value.items()), key=lambda item: item[1], default=("", 0))
    return value if count >= NAMED_SHARE * total else None


def _cause(
    tenant: str,
    classes: tuple[str, ...],
    dimension: str,
    value: str,
    since_hour: int,
    last_hour: int,
    faults: int,
    runs: int,
    skills: tuple[str, ...],
    e_value: float,
    kind: str | None,
) -> Cause:
    identity = f"{tenant}\n{dimension}\n{value}\n{since_hour}"
    what = " and ".join(each.replace("_", " ") for each in classes)
    name = "" if dimension == "class" else f" of {dimension.replace('_', ' ')} {value}"
    return Cause(
        cause_id=hashlib.sha256(identity.encode()).hexdigest()[:16],
        classes=classes,
        dimension=dimension,
        value=value,
        kind=kind,
        since_hour=since_hour,
        last_hour=last_hour,
        faults=faults,
        runs=runs,
        skills=skills,
        e_value=e_value,
        reason=f"{what}{name}: {faults} of {runs} runs of {len(skills)} skill{'' if len(skills) == 1 else 's'}",
    )


def _joined(tenant: str, one: Cause, other: Cause) -> Cause:
    return _cause(
        tenant, (*one.classes, *other.classes), one.dimension, one.value, min(one.since_hour, other.since_hour),
        max(one.last_hour, other.last_hour), one.faults + other.faults, max(one.runs, other.runs),
        tuple(sorted({*one.skills, *other.skills})), max(one.e_value, other.e_value),
        one.kind if one.kind == other.kind else None,
    )  # fmt: skip
