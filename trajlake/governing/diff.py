"""What other policies would change on the stored runs: how many, whose, for which purposes, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from trajlake.expectations.policies import PURPOSES, PolicySet, Purpose
from trajlake.expectations.progress import SILENT, Progress
from trajlake.governing import evidence
from trajlake.reading.tables import LakeTables
from trajlake.transforms.policy.consents import Consents
from trajlake.transforms.policy.facts import RewardFacts, RunFacts
from trajlake.transforms.policy.judge import Verdict, judge_run
from trajlake.transforms.policy.place import NOWHERE, WritePlace

EXAMPLES: Final = 3
_JUDGED_KEPT: Final = 100_000


class Scope(NamedTuple):
    """Where something changes."""

    tenant_id: str
    skill_name: str | None
    purpose: Purpose


@dataclass
class Change:
    """Runs of one scope on which the two sets differ. `examples`: run id and the codes of the set that denies."""

    newly_allowed: int = 0
    newly_denied: int = 0
    other_terms: int = 0
    """Allowed by both, with other field actions, other rewards left out, or another deep scan."""
    examples: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Difference:
    """Two sets compared. `judged`: runs, each for every purpose."""

    revision_a: str
    revision_b: str
    judged: int = 0
    allowed_a: dict[Purpose, int] = field(default_factory=dict)
    allowed_b: dict[Purpose, int] = field(default_factory=dict)
    changes: dict[Scope, Change] = field(default_factory=dict)


def compare(
    lake: LakeTables,
    a: PolicySet,
    b: PolicySet,
    at_us: int,
    purposes: tuple[Purpose, ...] = PURPOSES,
    place: WritePlace = NOWHERE,
    progress: Progress = SILENT,
) -> Difference:
    """Judge every current run under both sets, as of one time, with the consents that have landed.

    place: where the training zone lies; runs are written for no other purpose. progress: counts runs, once they are
    read.
    """
    progress.stage("reading runs, rewards and consents")
    said, graded = evidence.consents(lake), evidence.rewards(lake)
    found = Difference(a.revision, b.revision, 0, dict.fromkeys(purposes, 0), dict.fromkeys(purposes, 0))
    judges = [_remembering(policies, said, at_us, place) for policies in (a, b)]
    for facts in evidence.runs(lake, progress=progress):
        found.judged += 1
        progress.advance()
        rewards = graded.get((facts.tenant_id, facts.run_id), [])
        for purpose in purposes:
            before, after = (judge(facts, rewards, purpose) for judge in judges)
            found.allowed_a[purpose] += before.allowed
            found.allowed_b[purpose] += after.allowed
            if _terms(before) != _terms(after):
                _note(found, facts, purpose, before, after)
    return found


def _terms(verdict: Verdict) -> object:
    if not verdict.allowed:
        return False
    return verdict.field_actions, verdict.left_out_rewards, verdict.deep_scan


def _note(found: Difference, facts: RunFacts, purpose: Purpose, before: Verdict, after: Verdict) -> None:
    change = found.changes.setdefault(Scope(facts.tenant_id, facts.skill_name, purpose), Change())
    if before.allowed and after.allowed:
        change.other_terms += 1
    elif after.allowed:
        change.newly_allowed += 1
    else:
        change.newly_denied += 1
    if len(change.examples) < EXAMPLES:
        denying = before if after.allowed else after
        change.examples.append((facts.run_id, ", ".join(finding.code for finding in denying.reasons)))


def _remembering(
    policies: PolicySet, said: Consents, at_us: int, place: WritePlace
) -> Callable[[RunFacts, list[RewardFacts], Purpose], Verdict]:
    """A judge that judges runs alike in all that policy looks at once."""
    known: dict[object, Verdict] = {}

    def judge(facts: RunFacts, rewards: list[RewardFacts], purpose: Purpose) -> Verdict:
        times = (facts.started_us, facts.ended_us) if facts.subject_id is not None else (None, None)
        alike = msgspec.structs.replace(
            facts, run_id="", topic="", partition=0, offset=0, revision=0, started_us=times[0], ended_us=times[1]
        )
        key = (alike, _graders(rewards), purpose)
        verdict = known.get(key)
        if verdict is None:
            if len(known) >= _JUDGED_KEPT:
                known.clear()
            where = place if purpose == "train" else NOWHERE
            verdict = known[key] = judge_run(policies, alike, rewards, said, purpose, at_us, where)
        return verdict

    return judge


def _graders(rewards: Iterable[RewardFacts]) -> tuple[RewardFacts, ...]:
    # Their ids are kept: a verdict lists those that are left out.
    return tuple(sorted(rewards, key=lambda reward: reward.reward_id))
