"""Model tiers in order of price, and where a skill stands among them."""

from __future__ import annotations

from collections.abc import Sequence

from trajlake.expectations.decisions import Snapshot


def tier_order(snapshot: Snapshot) -> list[str]:
    """Tiers, cheapest first: as the lever table lists them; others join by what the skill's runs on them cost.

    A tier that is neither listed nor priced has no place: nothing is advised about it.
    """
    listed = list(snapshot.table.terms.tiers)
    names = {each.model_tier for each in snapshot.tiers if each.model_tier}
    prices = {name: price for name in sorted(names) if (price := mean_price(snapshot, name)) is not None}
    unlisted = sorted((name for name in prices if name not in listed), key=lambda name: (prices[name], name))
    if not unlisted:
        return listed
    if not names & set(listed):
        return unlisted
    order = list(listed)
    for name in unlisted:
        # Behind the last listed tier that costs less.
        place = max(
            (i + 1 for i, other in enumerate(order) if prices.get(other, float("inf")) < prices[name]), default=0
        )
        order.insert(place, name)
    return order


def tier_index(order: Sequence[str], tier: str | None) -> int | None:
    """Place of a tier, 0 the cheapest; None where it has none."""
    return order.index(tier) if tier in order else None


def current_tier(snapshot: Snapshot) -> str | None:
    """The tier that the newest run was on, else the tier file's."""
    if snapshot.current_tier is not None:
        return snapshot.current_tier
    return snapshot.tier_entry.tier if snapshot.tier_entry is not None else None


def mean_price(snapshot: Snapshot, tier: str) -> float | None:
    """US dollars a run of the skill on a tier; None where no run reported a price."""
    runs = sum(each.priced_runs for each in snapshot.tiers if each.model_tier == tier)
    return sum(each.cost_usd for each in snapshot.tiers if each.model_tier == tier) / runs if runs else None
