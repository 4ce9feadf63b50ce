"""The facts that a lever's conditions ask for, worked out from a snapshot. `expectations.levers.FACTS` says what
they mean."""

from __future__ import annotations

from typing import Final, TypeAlias

from trajlake.expectations.decisions import Snapshot
from trajlake.expectations.levers import Condition, Lever
from trajlake.expectations.taxonomy import SCORABLE, FailureKind, OutcomeClass
from trajlake.transforms.levers.effects import Effect, by_family, entry_for, on_tier
from trajlake.transforms.levers.tiers import current_tier, tier_index, tier_order
from trajlake.transforms.stats.comparison import Verdict, compare, e_as_good

Fact: TypeAlias = bool | str | float | frozenset[str] | None
Facts: TypeAlias = dict[str, Fact]

_CONTEXT: Final = (FailureKind.CONTEXT_OVERFLOW, FailureKind.TOKEN_LIMIT)
_NEAR_US: Final = 2 * 86_400_000_000
"""A version that changed at most so long before a drop may be its cause."""


def work_out(snapshot: Snapshot, effects: list[Effect]) -> Facts:
    """Every fact of a snapshot. `open` is left empty: it asks what all levers say, see `advice`."""
    cause = snapshot.cause
    order = tier_order(snapshot)
    here = tier_index(order, current_tier(snapshot))
    above = order[here + 1] if here is not None and here + 1 < len(order) else None
    below = order[here - 1] if here else None
    return {
        "state": snapshot.standing.state if snapshot.standing is not None else None,
        "pinned": snapshot.tier_entry is not None and snapshot.tier_entry.pinned,
        "tier_above": above is not None,
        "tier_below": below is not None,
        "above_no_better": above is not None and _above_no_better(snapshot, order[here or 0], above),
        "below_as_good": below is not None and _below_as_good(snapshot, order[here or 0], below),
        "share_agent_action": failure_share(snapshot, outcome_class=OutcomeClass.AGENT_ACTION),
        "memory_in_play": failure_share(snapshot, kinds=_CONTEXT) > 0 or "memory" in changed_near_drop(snapshot),
        "trajectories": float(snapshot.trajectories),
        "spent": frozenset(str(each.lever) for each in effects if each.spent),
        "open": frozenset[str](),
        "cause_class": cause.classes[0] if cause is not None else None,
        "cause_kind": cause.kind if cause is not None else None,
        "cause_dimension": cause.dimension if cause is not None else None,
    }


def holds(condition: Condition, facts: Facts) -> bool:
    """Whether a condition of the table is met."""
    fact = facts[condition.fact]
    if condition.equals is not None:
        return fact == condition.equals
    if condition.one_of is not None:
        return fact in condition.one_of
    if condition.at_least is not None:
        return isinstance(fact, float) and fact >= condition.at_least
    if not isinstance(fact, frozenset):
        return False
    return fact.isdisjoint(condition.lacks) if condition.lacks is not None else fact.issuperset(condition.holds or ())


def failure_share(
    snapshot: Snapshot, *, outcome_class: str | None = None, kinds: tuple[FailureKind, ...] | None = None
) -> float:
    """Share among the failures that speak of quality; 0 without any."""
    failures = [each for each in snapshot.failures if each.outcome_class in SCORABLE]
    total = sum(each.runs for each in failures)
    fitting = sum(
        each.runs
        for each in failures
        if (outcome_class is None or each.outcome_class == outcome_class)
        and (kinds is None or each.failure_kind in kinds)
    )
    return fitting / total if total else 0.0


def changed_near_drop(snapshot: Snapshot) -> frozenset[str]:
    """Components whose version changed shortly before the drop began."""
    standing = snapshot.standing
    if standing is None or standing.since_us is None:
        return frozenset()
    since = standing.since_us
    return frozenset(each.component for each in snapshot.changes if -_NEAR_US <= each.at_us - since <= _NEAR_US // 8)


def _above_no_better(snapshot: Snapshot, here: str, above: str) -> bool:
    entry = entry_for(snapshot.table, Lever.MODEL_UP, "skill")
    if entry is None:
        return False
    found = compare(
        by_family(on_tier(snapshot.tiers, here)),
        by_family(on_tier(snapshot.tiers, above)),
        alpha=snapshot.table.terms.alpha,
        after_runs=entry.spent.after_runs,
        least_gain=entry.spent.least_gain,
    )
    return found.verdict in (Verdict.NO_EFFECT, Verdict.WORSE)


def _below_as_good(snapshot: Snapshot, here: str, below: str) -> bool:
    evidence = e_as_good(
        by_family(on_tier(snapshot.tiers, here)), by_family(on_tier(snapshot.tiers, below)), snapshot.table.terms.margin
    )
    return evidence >= 1 / snapshot.table.terms.alpha
