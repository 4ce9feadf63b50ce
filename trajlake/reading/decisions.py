"""Decisions as the lake holds them: the newest revision of each, and whether it still stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from trajlake.expectations.outcomes import Decision
from trajlake.transforms.levers.rows import decision_of_row

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables


class DecisionNotFound(LookupError):
    """No decision, or more than one, has an id that begins so."""


def read_decisions(lake: LakeTables, *, tenant: str | None = None, skill: str | None = None) -> list[Decision]:
    """The newest revision of each decision, newest first. skill: its own, and those on causes that it shares."""
    frame = lake.frame("decisions")
    if tenant is not None:
        frame = frame.filter(pl.col("tenant_id") == tenant)
    if skill is not None:
        frame = frame.filter((pl.col("skill_name") == skill) | pl.col("skills").list.contains(skill))
    newest = (
        frame.sort("revision", "offset")
        .group_by("decision_id", maintain_order=True)
        .last()
        .sort("as_of", "decision_id", descending=[True, False])
        .collect()
    )
    return [decision_of_row(row) for row in newest.iter_rows(named=True)]


def find_decision(lake: LakeTables, beginning: str) -> Decision:
    """The decision whose id begins so. Raises `DecisionNotFound` where not exactly one does."""
    found = [each for each in read_decisions(lake) if each.decision_id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise DecisionNotFound(
            f"no decision has an id that begins with {beginning}; `trajlake decisions list` shows them"
        )
    raise DecisionNotFound(f"{len(found)} decisions have ids that begin with {beginning}; give more of it")


def state_of(decision: Decision, superseded: frozenset[str], now_us: int) -> str:
    """standing, superseded, expired, or the flag that was raised on it."""
    if decision.flag is not None:
        return decision.flag
    if decision.decision_id in superseded:
        return "superseded"
    return "expired" if decision.expires_us <= now_us else "standing"
