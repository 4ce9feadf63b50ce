"""What the tables say after a demo: counted by the same readers that everybody has, never from memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from trajlake.reading.tables import LakeTables


@dataclass(frozen=True)
class Figures:
    """Counts over a whole lake.

    by_skill: skill -> outcome class -> runs. failures: each combination of outcome class, kind and rule, with its runs,
    most first. quarantine: reason -> records. redactions: values removed, by path and rule. skills: with statistics.
    decisions: on levers, those of common causes included. example_run: a run that failed.
    """

    runs: int
    steps: int
    events: int
    rewards: int
    by_skill: dict[str, dict[str, int]]
    failures: list[dict[str, Any]]
    quarantine: dict[str, int]
    redactions: dict[str, int]
    skills: int
    decisions: int
    example_run: str | None


def read_figures(lake: LakeTables) -> Figures:
    """Count what a lake holds at its pinned versions."""
    columns = ["run_id", "skill_name", "outcome_class", "failure_kind", "failure_basis"]
    runs = lake.current_runs().select(columns).collect()
    counted = runs.with_columns(pl.col("skill_name").fill_null("(none)")).group_by("skill_name", "outcome_class").len()
    ordered = counted.sort("skill_name", "len", "outcome_class", descending=[False, True, False])
    by_skill: dict[str, dict[str, int]] = {}
    for skill, outcome, count in ordered.iter_rows():
        by_skill.setdefault(skill, {})[outcome] = count
    failed = runs.filter(pl.col("outcome_class") != "success")
    kinds = failed.group_by("outcome_class", "failure_kind", "failure_basis").agg(pl.len().alias("runs"))
    return Figures(
        runs=len(runs),
        steps=_count(lake.current_steps()),
        events=_count(lake.events()),
        rewards=_count(lake.rewards()),
        by_skill=by_skill,
        failures=kinds.sort("runs", "outcome_class", "failure_kind", descending=[True, False, False]).to_dicts(),
        quarantine=_count_by(lake.quarantine(), "reason_code"),
        redactions=_redactions(lake),
        skills=_count(lake.frame("skill_stats").select("tenant_id", "skill_name").unique()),
        decisions=_count(lake.frame("decisions").select("decision_id").unique()),
        example_run=_example(failed),
    )


def _count(frame: pl.LazyFrame) -> int:
    return int(frame.select(pl.len()).collect().item())


def _count_by(frame: pl.LazyFrame, column: str) -> dict[str, int]:
    counted = frame.group_by(column).len().sort("len", column, descending=[True, False]).collect()
    return dict(counted.iter_rows())


def _redactions(lake: LakeTables) -> dict[str, int]:
    """Removed values by `path (rule)`."""
    removed = lake.events().select(pl.col("redactions").explode().struct.unnest()).drop_nulls("rule")
    counted = removed.group_by("path", "rule").agg(pl.col("count").sum()).sort("path", "rule").collect()
    return {f"{path} ({rule})": count for path, rule, count in counted.iter_rows()}


def _example(failed: pl.DataFrame) -> str | None:
    """A run worth looking at: a wrong answer, else any that failed."""
    for wanted in (failed.filter(pl.col("failure_kind") == "wrong_answer"), failed):
        if len(wanted):
            return str(wanted["run_id"].max())
    return None
