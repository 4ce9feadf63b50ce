"""Why policy lets a run serve a purpose or not: rules with their places, and the evidence that they met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from trajlake.expectations.policies import PURPOSES, PolicySet, Purpose
from trajlake.governing import evidence
from trajlake.reading.tables import LakeTables
from trajlake.transforms.policy.facts import RewardFacts, RunFacts
from trajlake.transforms.policy.judge import Verdict, judge_run
from trajlake.transforms.policy.place import NOWHERE, WritePlace

_DECISION = (
    "at", "stage", "purpose", "verdict", "topic", "partition", "offset", "zone", "rules", "reasons", "policy_revision",
    "detector_revision", "code_version", "input_digest", "holds_until",
)  # fmt: skip


@dataclass
class Explained:
    """One run: its facts, a verdict for each purpose, and the decisions that were stored about it."""

    facts: RunFacts | None
    landed_under: str | None
    """Revision of the policies under which the run's row landed."""
    rewards: list[RewardFacts]
    verdicts: list[Verdict]
    decisions: list[dict[str, Any]]
    """Rows of `policy_decisions`, oldest first."""


def explain(
    lake: LakeTables,
    policies: PolicySet,
    run_id: str,
    at_us: int,
    *,
    tenant_id: str | None = None,
    purposes: tuple[Purpose, ...] = PURPOSES,
    place: WritePlace = NOWHERE,
) -> list[Explained]:
    """Explain every run of that id, one for each tenant that has one; empty where nothing of it is known.

    `place`: where the training zone lies; runs are written for no other purpose.
    """
    graded = evidence.rewards(lake, run_id, tenant_id)
    said = evidence.consents(lake)
    found = []
    decided = _decisions(lake, run_id, tenant_id)
    for facts in sorted(evidence.runs(lake, run_id, tenant_id), key=lambda facts: facts.tenant_id):
        given = graded.get((facts.tenant_id, facts.run_id), [])
        verdicts = [
            judge_run(policies, facts, given, said, purpose, at_us, place if purpose == "train" else NOWHERE)
            for purpose in purposes
        ]
        stored = decided.pop(facts.tenant_id, [])
        found.append(Explained(facts, _landed_under(lake, facts), given, verdicts, stored))
    # Of a run that was blocked there is no row, only decisions.
    found += [Explained(None, None, [], [], rows) for rows in decided.values()]
    return found


def rule_place(policies: PolicySet, rule: str) -> str | None:
    """`file:line` of a rule; None for those that no file holds."""
    return policies.places.get(rule.partition(":")[0])


def as_json(explained: Explained, policies: PolicySet) -> dict[str, Any]:
    """One explained run as JSON has it."""
    verdicts = [msgspec.to_builtins(verdict) for verdict in explained.verdicts]
    for verdict in verdicts:
        verdict["places"] = {rule: rule_place(policies, rule) for rule in verdict["rules"]}
    return {
        "run": msgspec.to_builtins(explained.facts),
        "landed_under": explained.landed_under,
        "rewards": msgspec.to_builtins(explained.rewards),
        "policy_revision": policies.revision,
        "verdicts": verdicts,
        "decisions": explained.decisions,
    }


def _decisions(lake: LakeTables, run_id: str, tenant_id: str | None) -> dict[str | None, list[dict[str, Any]]]:
    rows = lake.frame("policy_decisions").filter(pl.col("run_id") == run_id)
    if tenant_id is not None:
        rows = rows.filter(pl.col("tenant_id") == tenant_id)
    found: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows.sort("at", "offset").collect().iter_rows(named=True):
        found.setdefault(row["tenant_id"], []).append({name: row[name] for name in _DECISION})
    return found


def _landed_under(lake: LakeTables, facts: RunFacts) -> str | None:
    own = (pl.col("topic") == facts.topic) & (pl.col("partition") == facts.partition)
    row = lake.runs().filter(own & (pl.col("offset") == facts.offset)).select("policy_revision").head(1).collect()
    revision: str | None = row.item() if len(row) else None
    return revision
