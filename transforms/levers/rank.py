"""Orders levers that fit by the chance that they help, for what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from trajlake.expectations.decisions import Snapshot
from trajlake.expectations.levers import Lever, LeverEntry
from trajlake.transforms.levers.effects import by_family, on_tier
from trajlake.transforms.levers.facts import changed_near_drop, failure_share
from trajlake.transforms.levers.tiers import current_tier, mean_price, tier_index, tier_order
from trajlake.transforms.stats.comparison import Comparison, Verdict, compare

REVERT_CHANCE: Final = 0.8
"""Chance that going back helps, where a version changed just before the drop."""
PROVEN_CHANCE: Final = 0.95
"""Chance that another tier helps, where the skill's own runs on it are proven to be better."""
REVERT_HOURS: Final = 0.5
LEAST_HOURS: Final = 0.1
"""Even what costs nothing takes somebody's attention."""


class Choice(Struct, frozen=True, kw_only=True):
    """A lever that fits. `told`: chance, cost and rank in words."""

    entry: LeverEntry
    title: str
    chance: float
    cost_usd: float
    gain: float | None
    gain_unit: str
    score: float
    told: str


def rank(entries: Sequence[LeverEntry], snapshot: Snapshot) -> list[Choice]:
    """Choices, best first. score = chance x (1/2 + fit) / cost in hours; equal scores keep the table's order.

    chance: how often the lever worked of how often it was judged, the table's own counts included. fit: share of the
    failures of a kind that it speaks to, 1/2 for a lever that names none. cost: hours, and dollars at `usd_per_hour`;
    what runs on another tier cost more counts over `runs_ahead` runs.
    """
    choices = [_choice(entry, snapshot) for entry in entries]
    return sorted(choices, key=lambda each: -each.score)


def _choice(entry: LeverEntry, snapshot: Snapshot) -> Choice:
    terms = snapshot.table.terms
    worked, tried = snapshot.record.get(entry.lever, (0, 0))
    chance = (entry.chance[0] + worked) / (entry.chance[1] + tried)
    fit = failure_share(snapshot, kinds=entry.fits) if entry.fits else 0.5
    hours, title = entry.cost.hours, entry.title
    reverts = entry.revises is not None and entry.revises in changed_near_drop(snapshot)
    if reverts:
        chance, fit, hours = max(chance, REVERT_CHANCE), 1.0, min(hours, REVERT_HOURS)
        title = f"Go back to the former {entry.revises}{_former(entry, snapshot)}, or revise it"
    seen = _seen_beside(entry, snapshot)
    if seen is not None and seen.verdict is Verdict.BETTER:
        chance = max(chance, PROVEN_CHANCE)
    per_run = _price_step(entry.lever, snapshot)
    cost_usd = entry.cost.usd + hours * terms.usd_per_hour + max(0.0, per_run or 0.0) * terms.runs_ahead
    score = chance * (0.5 + fit) / (LEAST_HOURS + cost_usd / max(terms.usd_per_hour, 1e-9))
    gain, unit = _gain(entry, snapshot, chance, per_run, seen)
    return Choice(
        entry=entry, title=title, chance=chance, cost_usd=cost_usd, gain=gain, gain_unit=unit, score=score,
        told=f"chance {chance:.2f}, fit {fit:.2f}, cost {cost_usd:,.0f} USD: score {score:.2f}",
    )  # fmt: skip


def _former(entry: LeverEntry, snapshot: Snapshot) -> str:
    former = [each.change_from for each in snapshot.changes if each.component == entry.revises and each.change_from]
    return f" version {former[-1]}" if former else ""


def _neighbour(lever: Lever, snapshot: Snapshot) -> tuple[str, str] | None:
    """The skill's tier and the one that a tier lever leads to."""
    step = {Lever.MODEL_UP: 1, Lever.MODEL_DOWN: -1}.get(lever)
    order = tier_order(snapshot)
    here = tier_index(order, current_tier(snapshot))
    if step is None or here is None or not 0 <= here + step < len(order):
        return None
    return order[here], order[here + step]


def _price_step(lever: Lever, snapshot: Snapshot) -> float | None:
    """What a run costs more on the lever's tier than on the skill's; None where it is not known."""
    tiers = _neighbour(lever, snapshot)
    if tiers is None:
        return None
    before, after = mean_price(snapshot, tiers[0]), mean_price(snapshot, tiers[1])
    return None if before is None or after is None else after - before


def _seen_beside(entry: LeverEntry, snapshot: Snapshot) -> Comparison | None:
    """The skill's runs on the tier that a lever leads to, against those on its own; None without enough of them."""
    tiers = _neighbour(entry.lever, snapshot)
    if tiers is None:
        return None
    here, there = (by_family(on_tier(snapshot.tiers, tier)) for tier in tiers)
    seen = compare(here, there, alpha=snapshot.table.terms.alpha, after_runs=entry.spent.after_runs)
    return seen if seen.gain is not None and seen.runs_b >= entry.spent.after_runs else None


def _gain(
    entry: LeverEntry, snapshot: Snapshot, chance: float, per_run: float | None, seen: Comparison | None
) -> tuple[float | None, str]:
    cause, standing = snapshot.cause, snapshot.standing
    if cause is not None:
        hours = max(1.0, (cause.last_us - cause.since_us) / 3_600_000_000 + 1)
        return chance * cause.faults * 24 / hours, "runs a day"
    if entry.lever is Lever.MODEL_DOWN:
        return (None if per_run is None else -per_run), "USD a run"
    if seen is not None:
        return seen.gain, "success rate"
    if standing is None:
        return None, "success rate"
    after = standing.after if sum(standing.after) else (0, 0)
    rate = after[0] / sum(after) if sum(after) else 0.0
    was = standing.before[0] / sum(standing.before) if sum(standing.before) else snapshot.table.terms.target_rate
    return chance * max(0.0, was - rate), "success rate"
