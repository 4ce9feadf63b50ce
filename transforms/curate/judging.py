"""The verdict on each run before its batch is looked at: is it whole, do its own marks and the policies let it pass?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from trajlake.expectations.policies import PolicySet
from trajlake.transforms.curate.marks import CRITICAL, marks_of
from trajlake.transforms.curate.scores import Scores
from trajlake.transforms.curate.soundness import Reason, unsound
from trajlake.transforms.curate.steps import Membership
from trajlake.transforms.curate.verdicts import Judgement
from trajlake.transforms.policy.consents import Consents
from trajlake.transforms.policy.facts import RewardFacts, RunFacts
from trajlake.transforms.policy.judge import judge_run
from trajlake.transforms.policy.place import NOWHERE, WritePlace

PURPOSE: Final = "train"
FACTS: Final = (
    "tenant_id", "run_id", "topic", "partition", "offset", "revision", "skill_name", "skill_version", "agent_name",
    "model_name", "model_provider", "purpose", "residency", "classification", "license", "consent_revision",
    "subject_id", "outcome_class", "started_at", "ended_at",
)  # fmt: skip
_TIMES: Final = ("started_at", "ended_at")
_GRADERS: Final = ("reward_id", "annotator_kind", "annotator_id", "annotator_version")


def judge(
    runs: pa.Table,
    steps: pa.Table,
    rewards: pa.Table,
    members: Membership,
    scores: Scores,
    policies: PolicySet,
    consents: Consents,
    at_us: int,
    place: WritePlace = NOWHERE,
) -> list[Judgement]:
    """A judgement on each row of `runs`, in order.

    `members`, `scores`: which rows of `steps` and `rewards` are whose. `at_us`: as of when consent is asked for, µs
    since the Unix epoch. `place`: where the training zone lies.
    """
    judged = [Judgement(reasons) for reasons in unsound(runs, members.counts)]
    graders = _graders(rewards, scores)
    for one, facts, given in zip(judged, _facts(runs), graders, strict=True):
        verdict = judge_run(policies, facts, given, consents, PURPOSE, at_us, place)
        one.reasons += [Reason(str(found.code), found.rule_id, found.detail) for found in verdict.reasons]
        one.left_out_rewards = verdict.left_out_rewards
        one.field_actions = verdict.field_actions
        one.evidence_digest = verdict.evidence_digest
        one.deep_scan, one.deep_scan_rule = verdict.deep_scan, verdict.deep_scan_rule
        one.holds_until_us = verdict.holds_until_us
        if verdict.consent is not None:
            record = verdict.consent
            one.consent_basis = record.consent_revision or f"{record.topic}/{record.partition}/{record.offset}"
    for run, marks in marks_of(runs, steps, members).items():
        one = judged[run]
        one.quality = [reason for severity, reason in marks if severity != CRITICAL]
        grave = [reason for severity, reason in marks if severity == CRITICAL]
        one.held = bool(grave) and not one.reasons
        one.reasons += grave
    return judged


def _facts(runs: pa.Table) -> list[RunFacts]:
    starts, ends = (runs.column(name).cast(pa.int64()).to_pylist() for name in _TIMES)
    columns: Mapping[str, Sequence[Any]] = {
        name: runs.column(name).to_pylist() for name in FACTS if name not in (*_TIMES, "purpose")
    }
    purposes = [None if value is None else tuple(value) for value in runs.column("purpose").to_pylist()]
    names = list(columns)
    return [
        RunFacts(**dict(zip(names, row, strict=True)), purpose=purpose, started_us=started, ended_us=ended)
        for row, purpose, started, ended in zip(
            zip(*columns.values(), strict=True), purposes, starts, ends, strict=True
        )
    ]


def _graders(rewards: pa.Table, scores: Scores) -> list[list[RewardFacts]]:
    """Graders of each run's rewards, superseded ones included: they are published as history too."""
    taken = rewards.select(list(_GRADERS)).take(pa.array(scores.members.rows))
    facts = [
        RewardFacts(reward_id=reward, annotator_kind=kind, annotator_id=name, annotator_version=version)
        for reward, kind, name, version in zip(*(taken.column(name).to_pylist() for name in _GRADERS), strict=True)
    ]
    found = []
    first = 0
    for count in scores.members.counts.tolist():
        found.append(facts[first : first + count])
        first += count
    return found
