"""A week of skills, recounted from `runs`, `events` and `decisions` alone: what the weekly review tells.

It needs no rolling state: the same counts go through the same statistics, so that the review can be held against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from trajlake.expectations.levers import LeverTable, shipped_levers
from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass
from trajlake.reading.decisions import read_decisions
from trajlake.transforms.levers.retro import LeverWeek, SkillWeek, Week, week_bounds
from trajlake.transforms.levers.snapshots import terms_of
from trajlake.transforms.stats.assessment import assess, evidence_among
from trajlake.transforms.stats.causes import Cause, Faults, find_causes, new_faults, observe_run
from trajlake.transforms.stats.comparison import compare
from trajlake.transforms.stats.control import discoveries
from trajlake.transforms.stats.drops import Reading, read_drops, rebuild, stratum_of
from trajlake.transforms.stats.quality import OPEN_READING, failure_streak, measure_quality

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

HISTORY_DAYS: Final = 120
"""Runs of so many days before the week teach the base rates."""
_BEFORE_DAYS: Final = 28
_WEEK: Final = timedelta(days=7)
_SKILL: Final = ("tenant_id", "skill_name")
_NAMES: Final = ("model_provider", "failing_tool", "error_type", "failure_kind")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_week(
    lake: LakeTables,
    name: str,
    *,
    tenant: str | None = None,
    table: LeverTable | None = None,
    progress: Progress = SILENT,
) -> Week:
    """Everything that the review of an ISO week tells. Raises ValueError for a name that is no week.

    progress: counts skills, hours and levers, once the runs are read.
    """
    start, end = week_bounds(name)
    table = shipped_levers() if table is None else table
    progress.stage(f"reading the runs of the week and of {HISTORY_DAYS} days before")
    runs = _runs(lake, start - timedelta(days=HISTORY_DAYS), end, tenant)
    skills = tuple(_skills(runs, start, end, table, progress))
    causes = tuple(_causes(runs, start, end, table.terms.alpha, progress))
    progress.stage("reading the decisions")
    decisions = [each for each in read_decisions(lake, tenant=tenant) if start <= _moment(each.as_of_us) < end]
    return Week(
        name=name.upper(),
        start=start,
        end=end,
        skills=skills,
        causes=causes,
        decisions=tuple(decisions),
        levers=tuple(_levers(lake, runs, start, end, tenant, table, progress)),
    )


def _runs(lake: LakeTables, start: datetime, end: datetime, tenant: str | None) -> pl.DataFrame:
    """Runs that ended within a stretch, with the columns that are counted, in order of end time."""
    ended = pl.min_horizontal(pl.coalesce("ended_at", "closed_at"), "closed_at").alias("ended")
    frame = lake.current_runs().with_columns(ended, pl.col("skill_name").fill_null(""))
    frame = frame.filter(pl.col("ended").is_between(start, end, closed="left"))
    if tenant is not None:
        frame = frame.filter(pl.col("tenant_id") == tenant)
    return (
        frame.select(
            *_SKILL, "ended", "outcome_class", "failure_kind", "model_tier", "task_family", "model_provider",
            "error_type", "failing_tool", "cost_usd", "topic", "partition", "offset",
            (pl.col("ended").dt.epoch("us") // 3_600_000_000).alias("hour"),
        )
        .sort("ended", "topic", "partition", "offset")
        .collect()
    )  # fmt: skip


def _skills(
    runs: pl.DataFrame, start: datetime, end: datetime, table: LeverTable, progress: Progress
) -> Iterator[SkillWeek]:
    """Each skill with runs in the week; who is named is decided among the skills of its tenant."""
    terms = terms_of(table)
    this = runs.filter(pl.col("ended") >= start)
    before = runs.filter(pl.col("ended").is_between(start - _WEEK, start, closed="left"))
    found: dict[tuple[str, str], tuple[Reading, Reading, dict[str, int], int]] = {}
    by_skill = runs.partition_by(_SKILL, as_dict=True, maintain_order=True)
    progress.stage("comparing each skill with its past", len(by_skill), "skills")
    for key, rows in by_skill.items():
        progress.advance()
        month = rows.filter(pl.col("ended") >= end - timedelta(days=30))
        if rows["ended"].max() < start:  # type: ignore[operator]  # of a datetime column that is not empty
            continue
        found[key[0], key[1]] = (
            _reading(rows, bad=frozenset(SCORABLE - {OutcomeClass.SUCCESS}), good=frozenset({OutcomeClass.SUCCESS})),
            _reading(rows, bad=frozenset(OPEN_READING), good=frozenset(SCORABLE)),
            _classes(month),
            failure_streak(month["outcome_class"].to_list()),
        )
    named: set[tuple[str, str]] = set()
    for tenant in {key[0] for key in found}:
        named |= discoveries(
            {
                key: evidence_among(drop, measure_quality(counts, terms.alpha), terms)
                for key, (drop, _, counts, _) in found.items()
                if key[0] == tenant
            },
            terms.alpha,
        )
    progress.stage("judging skills", len(found), "skills")
    for key in sorted(found):
        progress.advance()
        drop, selection, counts, streak = found[key]
        mine = (pl.col("tenant_id") == key[0]) & (pl.col("skill_name") == key[1])
        week = this.filter(mine)
        classes = _classes(week)
        yield SkillWeek(
            tenant=key[0],
            skill=key[1],
            quality=measure_quality(classes, terms.alpha),
            before=measure_quality(_classes(before.filter(mine)), terms.alpha),
            assessment=assess(counts, drop, selection=selection, named=key in named, streak=streak, terms=terms),
            not_counted={each: n for each, n in classes.items() if each not in SCORABLE},
            cost_usd=float(week["cost_usd"].sum()) if week["cost_usd"].count() else None,
        )


def _reading(rows: pl.DataFrame, *, bad: frozenset[OutcomeClass], good: frozenset[OutcomeClass]) -> Reading:
    """The detector's reading of all runs of a skill, from hourly counts."""
    kind = pl.col("outcome_class")
    hourly = (
        rows.filter(kind.is_in([str(each) for each in bad | good]))
        .group_by("hour", "model_tier", "task_family")
        .agg(kind.is_in([str(each) for each in good]).sum().alias("good"), pl.len().alias("all"))
    )
    return read_drops(
        rebuild((hour, stratum_of(tier, family), s, n - s) for hour, tier, family, s, n in hourly.iter_rows())
    )


def _classes(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by("outcome_class").len().sort("outcome_class").iter_rows())


def _causes(
    runs: pl.DataFrame, start: datetime, end: datetime, alpha: float, progress: Progress
) -> Iterator[tuple[str, Cause]]:
    """Common causes that were seen at any hour of the week, as they stood when last seen."""
    from_hour, to_hour = _hour(start), _hour(end)
    counted = (
        runs.group_by("tenant_id", "hour", "skill_name", "outcome_class", *_NAMES)
        .len()
        .sort("tenant_id", "hour", "skill_name", "outcome_class", *_NAMES)
    )
    progress.stage("looking for common causes", counted.select("tenant_id", "hour").n_unique(), "hours")
    for (tenant,), rows in counted.partition_by("tenant_id", as_dict=True, maintain_order=True).items():
        faults: Faults = new_faults()
        seen: dict[str, Cause] = {}
        known: list[Cause] = []
        by_hour = rows.partition_by("hour", as_dict=True, maintain_order=True)
        for hour in sorted(key[0] for key in by_hour):
            progress.advance()
            for _, _, skill, outcome, provider, tool, error, kind, count in by_hour[hour,].iter_rows():
                observe_run(
                    faults, hour, skill, outcome, provider=provider, tool=tool, error_type=error, kind=kind, count=count
                )
            if from_hour <= hour < to_hour:
                known = find_causes(faults, tenant, hour, alpha, known)
                seen.update((cause.cause_id, cause) for cause in known)
        yield from ((tenant, cause) for cause in sorted(seen.values(), key=lambda each: each.since_hour))


def _levers(
    lake: LakeTables,
    runs: pl.DataFrame,
    start: datetime,
    end: datetime,
    tenant: str | None,
    table: LeverTable,
    progress: Progress,
) -> Iterator[LeverWeek]:
    progress.stage("looking for levers that were pulled")
    applied = lake.events().filter(pl.col("type") == "agent.lever.applied")
    applied = applied.with_columns(pl.coalesce("time", "append_time").alias("at"))
    applied = applied.filter(pl.col("at").is_between(start, end, closed="left"))
    if tenant is not None:
        applied = applied.filter(pl.col("tenant_id") == tenant)
    pulled = applied.select("tenant_id", "at", "event").sort("at").collect()
    progress.stage("comparing before and after each lever", len(pulled), "levers")
    for owner, at, text in pulled.iter_rows():
        progress.advance()
        data: dict[str, Any] = msgspec.json.decode(text).get("data") or {}
        skill = (data.get("skill") or {}).get("name")
        change = " to ".join(str(each) for each in (data.get("change_from"), data.get("change_to")) if each)
        effect = None
        if skill is not None:
            mine = runs.filter((pl.col("tenant_id") == owner) & (pl.col("skill_name") == skill))
            effect = compare(
                _families(
                    mine.filter(pl.col("ended").is_between(at - timedelta(days=_BEFORE_DAYS), at, closed="left"))
                ),
                _families(mine.filter(pl.col("ended") >= at)),
                alpha=table.terms.alpha,
            )
        yield LeverWeek(
            tenant=owner, skill=skill, lever=str(data.get("lever")), at=at, change=change,
            applied_by=data.get("applied_by"), effect=effect,
        )  # fmt: skip


def _families(rows: pl.DataFrame) -> dict[str, tuple[int, int]]:
    scorable = rows.filter(pl.col("outcome_class").is_in([str(each) for each in SCORABLE]))
    counted = scorable.group_by(pl.col("task_family").fill_null("")).agg(
        (pl.col("outcome_class") == OutcomeClass.SUCCESS).sum().alias("good"), pl.len().alias("all")
    )
    return {family: (s, n - s) for family, s, n in counted.iter_rows()}


def _hour(moment: datetime) -> int:
    return int((moment - _EPOCH) // timedelta(hours=1))


def _moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
