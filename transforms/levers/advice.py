"""The decision: which lever to pull, on what, why this one and not the others. A pure function of a snapshot.

1. What is spent, and what was pulled too recently to judge, by the runs since (`effects`).
2. Each lever of the table for this kind of subject is asked for its conditions (`facts`). One that is spent, or whose
condition
   does not hold, is rejected with that reason.
3. Those left are ranked by the chance that they help, for what they cost (`rank`); the first is advised.

A skill that is not degraded gets no lever, save a cheaper tier where that is proven to be as good. While the effect
of a pulled lever is still unknown nothing else is advised: two changes at a time teach nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from trajlake.expectations.decisions import Snapshot, decision_id, decode_snapshot, encode_snapshot
from trajlake.expectations.levers import Condition, Lever, LeverEntry
from trajlake.expectations.outcomes import Decision, Rejection
from trajlake.transforms.levers.effects import Effect, effects, is_awaited
from trajlake.transforms.levers.evidence import list_evidence
from trajlake.transforms.levers.facts import Facts, holds, work_out
from trajlake.transforms.levers.oldrule import OldRule, old_rule
from trajlake.transforms.levers.rank import Choice, rank
from trajlake.transforms.levers.tiers import current_tier, tier_index, tier_order
from trajlake.transforms.stats.assessment import ENGINE as STATISTICS_ENGINE
from trajlake.transforms.stats.assessment import State

ENGINE: Final = f"levers-3/{STATISTICS_ENGINE}"
"""Raised when the same snapshot would be decided differently; `code_revision` of decisions."""

_DAY_US: Final = 86_400_000_000
_NEEDED_TIER: Final = {Lever.MODEL_UP: "tier_above", Lever.MODEL_DOWN: "tier_below"}
"""What has to be there whatever the table asks for."""


class Agreement(Struct, frozen=True):
    """Whether a decision, made again from its stored inputs, comes out the same; `differences` names fields that
    do not."""

    agrees: bool
    differences: tuple[str, ...]


def decide(snapshot: Snapshot) -> Decision:
    """Advise on the subject of a snapshot. Raises ValueError for a snapshot of neither a skill nor a cause."""
    if (snapshot.standing is None) == (snapshot.cause is None):
        raise ValueError("a snapshot is about one skill (standing) or one common cause (cause), and not both")
    known = effects(snapshot)
    facts = work_out(snapshot, known)
    rule = _old_rule(snapshot, facts)
    subject = "skill" if snapshot.cause is None else "cause"
    facts["open"] = _open(snapshot, subject, facts, known)
    fitting: list[LeverEntry] = []
    rejected: list[Rejection] = []
    for entry in snapshot.table.levers:
        if entry.subject == subject:
            reason = _against(entry, facts, known)
            if reason is None:
                fitting.append(entry)
            else:
                rejected.append(reason)
    pending = _pending(snapshot, known)
    if pending is not None:
        rejected += [Rejection(str(entry.lever), "one_at_a_time", pending) for entry in fitting]
        fitting = []
    choices = rank(fitting, snapshot)
    rejected += [Rejection(str(each.entry.lever), "ranked_lower", each.told) for each in choices[1:]]
    chosen = choices[0] if choices else None
    return _decision(snapshot, chosen, rejected, known, rule, pending)


def replay(decision: Decision) -> Agreement:
    """Decide again from a decision's stored inputs and compare. Raises ValueError where the inputs cannot be read.

    What is not a function of the inputs is left out: when it was made, and flags that were raised on it later.
    """
    again = decide(decode_snapshot(bytes(decision.inputs)))
    ignored = {"made_us", "flag", "flag_detail", "revision", "inputs"}
    differences = [
        name
        for name in Decision.__struct_fields__
        if name not in ignored and getattr(again, name) != getattr(decision, name)
    ]
    if bytes(again.inputs) != bytes(decision.inputs):
        differences.append("inputs")
    return Agreement(not differences, tuple(differences))


def _open(snapshot: Snapshot, subject: str, facts: Facts, known: list[Effect]) -> frozenset[str]:
    """Levers that fit and are not spent, save those whose conditions ask for just that."""
    asked = [
        entry
        for entry in snapshot.table.levers
        if entry.subject == subject and all(condition.fact != "open" for condition in entry.when)
    ]
    return frozenset(str(entry.lever) for entry in asked if _against(entry, facts, known) is None)


def _against(entry: LeverEntry, facts: Facts, known: list[Effect]) -> Rejection | None:
    """Why a lever is out of the question; None where it is not."""
    name = str(entry.lever)
    for effect in known:
        if effect.lever == entry.lever and effect.spent:
            return Rejection(name, "spent", effect.told)
    for condition in entry.when:
        if not holds(condition, facts):
            return Rejection(name, "condition", _unmet(condition, facts))
    needed = _NEEDED_TIER.get(entry.lever) if entry.subject == "skill" else None
    if needed is not None and facts[needed] is not True:
        return Rejection(name, "condition", f"{needed} is false, not true")
    return None


def _unmet(condition: Condition, facts: Facts) -> str:
    fact = facts[condition.fact]
    if isinstance(fact, frozenset) and condition.lacks is not None:
        return f"still open: {', '.join(name for name in condition.lacks if name in fact)}"
    if isinstance(fact, frozenset):
        missing = [name for name in condition.holds or () if name not in fact]
        return f"not yet spent: {', '.join(missing)}"
    shown = f"{fact:g}" if isinstance(fact, float) and not isinstance(fact, bool) else str(fact).lower()
    if condition.at_least is not None:
        return f"{condition.fact} is {shown}, at least {condition.at_least:g} is needed"
    wanted = condition.one_of if condition.one_of is not None else (str(condition.equals).lower(),)
    return f"{condition.fact} is {shown}, not {' or '.join(wanted)}"


def _pending(snapshot: Snapshot, known: list[Effect]) -> str | None:
    """The lever whose effect has to be awaited, in words; None where there is none."""
    for effect in known:
        if effect.comparison is not None and is_awaited(effect, snapshot.as_of_us):
            seen = effect.comparison.runs_b
            return f"{effect.lever} was pulled, and {seen} of {effect.needed_runs} runs have come since"
    return None


def _old_rule(snapshot: Snapshot, facts: Facts) -> OldRule | None:
    if snapshot.cause is not None:
        return None
    entry = snapshot.tier_entry
    return old_rule(
        snapshot.recent,
        tier_above=facts["tier_above"] is True,
        pinned=facts["pinned"] is True,
        known_failures=entry.consecutive_failures if entry is not None else None,
    )


def _decision(
    snapshot: Snapshot,
    chosen: Choice | None,
    rejected: list[Rejection],
    known: list[Effect],
    rule: OldRule | None,
    pending: str | None,
) -> Decision:
    encoded = encode_snapshot(snapshot)
    terms, cause, standing = snapshot.table.terms, snapshot.cause, snapshot.standing
    lever = chosen.entry.lever if chosen is not None else Lever.NONE
    kind, target = _target(snapshot, lever)
    e_value = cause.e_value if cause is not None else standing.e_value if standing is not None else 0.0
    days = terms.expires_days if cause is None else terms.cause_expires_days
    return Decision(
        decision_id=decision_id(encoded, ENGINE),
        tenant_id=snapshot.tenant_id,
        lever=str(lever),
        target_kind=kind,
        target=target,
        as_of_us=snapshot.as_of_us,
        expires_us=snapshot.as_of_us + round(days * _DAY_US),
        policy_revision=snapshot.table.revision,
        code_revision=ENGINE,
        skill_name=snapshot.skill_name if cause is None else None,
        skills=list(cause.skills) if cause is not None else [],
        summary=_summary(snapshot, chosen, rejected, pending, target),
        confidence=None if chosen is None else _confidence(e_value, lever, terms.alpha),
        expected_gain=None if chosen is None else chosen.gain,
        expected_gain_unit=None if chosen is None or chosen.gain is None else chosen.gain_unit,
        expected_cost_usd=None if chosen is None else chosen.cost_usd,
        rejected=rejected,
        evidence=list_evidence(snapshot, known, rule, chosen),
        inputs=msgspec.Raw(encoded),
        table_versions=snapshot.table_versions,
        positions=list(snapshot.positions),
        supersedes=snapshot.supersedes,
        old_rule=None if rule is None else rule.would,
    )


def _confidence(e_value: float, lever: Lever, alpha: float) -> float:
    """That something is wrong (or, of a cheaper tier, that it is as good): 1 less the anytime-valid p-value 1 / e."""
    if lever is Lever.MODEL_DOWN:
        return 1 - alpha
    return max(0.0, 1 - 1 / e_value) if e_value > 0 else 0.0


def _target(snapshot: Snapshot, lever: Lever) -> tuple[str, str]:
    """Kind and name of what the lever is to be pulled on."""
    cause = snapshot.cause
    if cause is not None:
        return {"tool": "tool", "provider": "provider"}.get(cause.dimension, "tenant"), (
            cause.value if cause.dimension in ("tool", "provider") else snapshot.tenant_id
        )
    if lever in (Lever.MODEL_UP, Lever.MODEL_DOWN):
        order = tier_order(snapshot)
        here = tier_index(order, current_tier(snapshot))
        if here is not None:
            return "model", order[here + (1 if lever is Lever.MODEL_UP else -1)]
    return "skill", snapshot.skill_name or ""


def _summary(
    snapshot: Snapshot, chosen: Choice | None, rejected: list[Rejection], pending: str | None, target: str
) -> str:
    standing, cause = snapshot.standing, snapshot.cause
    if chosen is None:
        what = snapshot.skill_name if cause is None else cause.reason
        if pending is not None:
            return f"No further lever for {what} yet: {pending}."
        if standing is not None and standing.state != State.DEGRADED:
            return f"No lever for {what}: {standing.reason}"
        spent = [each.lever for each in rejected if each.reason == "spent"]
        told = f" ({', '.join(spent)} {'is' if len(spent) == 1 else 'are'} spent)" if spent else ""
        return f"No lever is left for {what}{told}: a person has to look."
    spent = [f"{each.lever} is spent: {each.detail}" for each in rejected if each.reason == "spent"]
    after = f" ({'; '.join(spent)})" if spent else ""
    if cause is not None:
        return f"{chosen.entry.title}: {cause.reason}{after}."
    to = f" (to {target})" if chosen.entry.lever in (Lever.MODEL_UP, Lever.MODEL_DOWN) else ""
    reason = standing.reason.rstrip(".") if standing is not None else ""
    return f"{chosen.title}{to} for {snapshot.skill_name}: {reason}{after}."
