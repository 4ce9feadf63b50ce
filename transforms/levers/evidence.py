"""The facts that a decision shows: what was measured, what was tried, and what the old rule would have done."""

from __future__ import annotations

from trajlake.expectations.decisions import Snapshot
from trajlake.expectations.outcomes import Evidence
from trajlake.transforms.levers.effects import Effect, by_family, on_tier
from trajlake.transforms.levers.oldrule import OldRule
from trajlake.transforms.levers.rank import Choice
from trajlake.transforms.levers.tiers import mean_price, tier_order
from trajlake.transforms.stats.assessment import percent
from trajlake.transforms.stats.quality import measure_quality


def list_evidence(
    snapshot: Snapshot, known: list[Effect], rule: OldRule | None, chosen: Choice | None
) -> list[Evidence]:
    """Evidence of a decision, the most telling first."""
    shown = [] if chosen is None else [Evidence("choice", str(chosen.entry.lever), chosen.told)]
    cause, standing = snapshot.cause, snapshot.standing
    if cause is not None:
        shown.append(Evidence("cause", cause.cause_id, cause.reason))
        shown.append(Evidence("e_value", f"{cause.e_value:.3g}", "against no rise in the share of such faults"))
        return [*shown, *_pulled(known)]
    if standing is not None:
        shown.append(Evidence("state", standing.state, standing.reason))
        shown.append(Evidence("e_value", f"{standing.e_value:.3g}", "against nothing being wrong"))
    quality = measure_quality(snapshot.counts, snapshot.table.terms.alpha)
    if quality.rate is not None and quality.interval is not None:
        low, high = percent(quality.interval.low), percent(quality.interval.high)
        detail = f"{quality.successes} of {quality.scorable} in {snapshot.window}, {low} to {high} whenever looked at"
        shown.append(Evidence("rate", f"{quality.rate:.4f}", detail))
    if snapshot.streak:
        shown.append(Evidence("streak", str(snapshot.streak), "quality failures in a row"))
    order = tier_order(snapshot)
    for tier in [each for each in order if on_tier(snapshot.tiers, each)]:
        s, f = (sum(part) for part in zip(*by_family(on_tier(snapshot.tiers, tier)).values(), strict=True))
        price = mean_price(snapshot, tier)
        cost = "" if price is None else f", {price:.4f} USD a run"
        if s + f:
            shown.append(Evidence(f"tier {tier}", f"{s / (s + f):.4f}", f"{s} of {s + f} succeeded{cost}"))
    entry = snapshot.tier_entry
    if entry is not None and entry.pinned:
        shown.append(Evidence("pinned", entry.tier or "", entry.reason or "the tier was decided by hand"))
    shown += _pulled(known)
    if snapshot.causes:
        detail = "common causes that reach the skill, not counted against it"
        shown.append(Evidence("causes", ", ".join(snapshot.causes), detail))
    if rule is not None:
        shown.append(Evidence("old_rule", rule.would, rule.reason))
    return shown


def _pulled(known: list[Effect]) -> list[Evidence]:
    return [Evidence(f"pulled {each.lever}", str(each.verdict), each.told) for each in known]
