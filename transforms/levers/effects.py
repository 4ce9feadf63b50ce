"""What came of levers that were pulled: which worked, which are spent, which are too young to say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from trajlake.expectations.decisions import CommonCause, PulledLever, Snapshot, TierCounts
from trajlake.expectations.levers import Lever, LeverEntry, LeverTable
from trajlake.transforms.levers.tiers import tier_index, tier_order
from trajlake.transforms.stats.assessment import percent
from trajlake.transforms.stats.comparison import Comparison, Counts, Verdict, compare

_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_CAUSE_HOURS: Final = 3
"""A lever on a common cause has had its chance after so many hours of further faults."""

_NAMES: Final[Mapping[str, Lever]] = {
    "wait": Lever.WAIT, "quota": Lever.CAPACITY, "infra": Lever.PLATFORM, "infrastructure": Lever.PLATFORM,
    "tools": Lever.TOOL, "skill_version": Lever.SKILL, "prompt_version": Lever.PROMPT, "memory_version": Lever.MEMORY,
    "context": Lever.MEMORY, "weights": Lever.RETRAIN, "train": Lever.RETRAIN, "training": Lever.RETRAIN,
    "finetune": Lever.RETRAIN, "fine_tune": Lever.RETRAIN, "promote": Lever.MODEL_UP, "tier_up": Lever.MODEL_UP,
    "model_tier_up": Lever.MODEL_UP, "demote": Lever.MODEL_DOWN, "tier_down": Lever.MODEL_DOWN,
    "model_tier_down": Lever.MODEL_DOWN,
}  # fmt: skip
_TIER_NAMES: Final = frozenset({"model", "tier", "model_tier"})


class Effect(Struct, frozen=True, kw_only=True):
    """What came of one pull. `spent`: it may not be advised again before `until_us`."""

    lever: Lever
    at_us: int | None
    """When it was pulled; null where it is only seen in runs on another tier."""
    verdict: Verdict
    spent: bool
    until_us: int | None
    needed_runs: int
    comparison: Comparison | None
    """Null for a lever pulled on a common cause."""
    told: str


def lever_of(name: str, change_from: str | None, change_to: str | None, tiers: Sequence[str]) -> Lever | None:
    """The lever that an `agent.lever.applied` event means; None for one that is none of ours.

    `model`, `tier` and `model_tier` are up or down by their tiers (`tiers`, cheapest first).
    """
    plain = _plain(name)
    if names_tier(name):
        before, after = tier_index(tiers, change_from), tier_index(tiers, change_to)
        if change_from is None and after is not None and len(tiers) > 1 and after in (0, len(tiers) - 1):
            # To the cheapest it can only be down, to the dearest only up.
            return Lever.MODEL_UP if after else Lever.MODEL_DOWN
        if before is None or after is None or before == after:
            return None
        return Lever.MODEL_UP if after > before else Lever.MODEL_DOWN
    if plain in _NAMES:
        return _NAMES[plain]
    return next((each for each in Lever if each == plain and each is not Lever.NONE), None)


def names_tier(name: str) -> bool:
    """Whether an event's lever is the model's tier, up or down."""
    return _plain(name) in _TIER_NAMES


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def effects(snapshot: Snapshot) -> list[Effect]:
    """The effect of the latest pull of each lever, in order of time, and of the tier as runs on other tiers show it."""
    if snapshot.cause is not None:
        return _effects_on_cause(snapshot, snapshot.cause)
    table = snapshot.table
    order = tier_order(snapshot)
    found: dict[Lever, Effect] = {}
    for pulled in sorted(snapshot.pulled, key=lambda each: each.at_us):
        lever = lever_of(pulled.lever, pulled.change_from, pulled.change_to, order)
        entry = entry_for(table, lever, "skill") if lever is not None else None
        if entry is not None:
            found[entry.lever] = _effect_of_pull(snapshot, pulled, entry)
    seen = _effect_of_tier(snapshot, order)
    noted = found.get(Lever.MODEL_UP)
    if seen is not None and (noted is None or not (noted.spent or is_awaited(noted, snapshot.as_of_us))):
        found[Lever.MODEL_UP] = seen
    return list(found.values())


def is_awaited(effect: Effect, now_us: int) -> bool:
    """Whether the runs that will tell what came of a pull have yet to come."""
    found = effect.comparison
    young = effect.until_us is None or now_us < effect.until_us
    return effect.verdict is Verdict.TOO_EARLY and young and found is not None and found.runs_b < effect.needed_runs


def entry_for(table: LeverTable, lever: Lever, subject: str) -> LeverEntry | None:
    """The row of a lever for skills or for causes."""
    return next((each for each in table.levers if each.lever == lever and each.subject == subject), None)


def by_family(counts: Iterable[TierCounts]) -> dict[str, Counts]:
    """Successes and failures by task family, tiers added up."""
    summed: dict[str, Counts] = {}
    for each in counts:
        s, f = summed.get(each.task_family or "", (0, 0))
        summed[each.task_family or ""] = (s + each.successes, f + each.failures)
    return summed


def on_tier(counts: Iterable[TierCounts], tier: str) -> list[TierCounts]:
    """Counts of one model tier."""
    return [each for each in counts if each.model_tier == tier]


def _effects_on_cause(snapshot: Snapshot, cause: CommonCause) -> list[Effect]:
    """A lever that was pulled while a cause went on, and hours later still had not ended it, is spent for that
    cause."""
    found = []
    for pulled in snapshot.pulled:
        lever = lever_of(pulled.lever, pulled.change_from, pulled.change_to, ())
        entry = entry_for(snapshot.table, lever, "cause") if lever is not None else None
        if entry is None or not cause.since_us <= pulled.at_us <= cause.last_us:
            continue
        hours = (cause.last_us - pulled.at_us) / _HOUR_US
        spent = hours >= _CAUSE_HOURS
        found.append(
            Effect(
                lever=entry.lever, at_us=pulled.at_us, verdict=Verdict.NO_EFFECT if spent else Verdict.TOO_EARLY,
                spent=spent, until_us=None, needed_runs=entry.spent.after_runs, comparison=None,
                told=f"faults went on for {hours:.0f} hours after it",
            )
        )  # fmt: skip
    return found


def _effect_of_pull(snapshot: Snapshot, pulled: PulledLever, entry: LeverEntry) -> Effect:
    until = pulled.at_us + entry.spent.for_days * _DAY_US
    found = _compare(snapshot, pulled.before, pulled.after, entry)
    # A tier that was lowered has worked where it is not worse: it was lowered for its price.
    failed = found.verdict in (Verdict.NO_EFFECT, Verdict.WORSE)
    return Effect(
        lever=entry.lever,
        at_us=pulled.at_us,
        verdict=found.verdict,
        spent=failed and snapshot.as_of_us < until,
        until_us=until,
        needed_runs=entry.spent.after_runs,
        comparison=found,
        told=_told(found, "before"),
    )


def _effect_of_tier(snapshot: Snapshot, order: Sequence[str]) -> Effect | None:
    """A skill that runs on a tier above one where it ran too has had its promotion, whoever noted it down."""
    entry = entry_for(snapshot.table, Lever.MODEL_UP, "skill")
    here = tier_index(order, snapshot.current_tier)
    if entry is None or not here:
        return None
    below = [
        each for each in snapshot.tiers if (index := tier_index(order, each.model_tier)) is not None and index < here
    ]
    found = _compare(snapshot, below, on_tier(snapshot.tiers, order[here]), entry)
    if not found.runs_a or found.verdict not in (Verdict.NO_EFFECT, Verdict.WORSE):
        return None
    return Effect(
        lever=Lever.MODEL_UP, at_us=None, verdict=found.verdict, spent=True, until_us=None,
        needed_runs=entry.spent.after_runs, comparison=found, told=_told(found, "on the tier below"),
    )  # fmt: skip


def _compare(
    snapshot: Snapshot, before: Iterable[TierCounts], after: Iterable[TierCounts], entry: LeverEntry
) -> Comparison:
    return compare(
        by_family(before),
        by_family(after),
        alpha=snapshot.table.terms.alpha,
        after_runs=entry.spent.after_runs,
        least_gain=entry.spent.least_gain,
    )


def _told(found: Comparison, before: str) -> str:
    if found.rate_b is None:
        return "no scorable run since"
    known = "nothing is known of it" if found.rate_a is None else f"{percent(found.rate_a)} of {found.runs_a}"
    return f"{percent(found.rate_b)} of {found.runs_b} runs since, against {known} {before}"
