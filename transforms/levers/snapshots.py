"""Snapshots from what the rolling state and the detectors say: one of a skill, one of a common cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trajlake.expectations.decisions import (
    MOST_RECENT,
    CommonCause,
    FailureCount,
    PulledLever,
    Snapshot,
    Standing,
    TierCounts,
    TierEntry,
    VersionChange,
)
from trajlake.expectations.levers import LeverTable
from trajlake.expectations.outcomes import Position, RecentRun, SkillStats, WindowStats
from trajlake.transforms.stats.assessment import ENGINE, Assessment, Terms
from trajlake.transforms.stats.causes import Cause
from trajlake.transforms.stats.drops import Reading

HOUR_US: Final = 3_600_000_000


def terms_of(table: LeverTable) -> Terms:
    """What skills are held to under a lever table: for `assess` and `evidence_against`."""
    terms = table.terms
    return Terms(alpha=terms.alpha, target_rate=terms.target_rate, least_runs=terms.least_runs)


def standing_of(assessment: Assessment, drop: Reading) -> Standing:
    """An assessment with the drop that it saw."""
    return Standing(
        state=str(assessment.state),
        code=assessment.code,
        reason=assessment.reason,
        e_value=assessment.e_value,
        before=drop.before,
        after=drop.after,
        since_us=None if drop.since_hour is None else drop.since_hour * HOUR_US,
    )


def skill_snapshot(
    stats: SkillStats,
    standing: Standing,
    table: LeverTable,
    *,
    window: str = "30d",
    tiers: Sequence[TierCounts] | None = None,
    tier_entry: TierEntry | None = None,
    pulled: Sequence[PulledLever] = (),
    changes: Sequence[VersionChange] | None = None,
    causes: Sequence[Cause] = (),
    trajectories: int = 0,
    record: Mapping[str, tuple[int, int]] | None = None,
    supersedes: str | None = None,
    table_versions: Mapping[str, int] | None = None,
    classifier_revision: str = "",
) -> Snapshot:
    """All that a decision on a skill is made from.

    tiers: with prices, where they are known; the window's strata where None. changes: the skill's version changes as
    its recent runs show them where None. Raises KeyError where the statistics have no such window.
    """
    shown = _window(stats, window)
    return Snapshot(
        tenant_id=stats.tenant_id,
        as_of_us=stats.as_of_us,
        window=window,
        table=table,
        skill_name=stats.skill_name,
        standing=standing,
        counts=dict(sorted(shown.counts.items())),
        tiers=_strata(shown) if tiers is None else tuple(tiers),
        current_tier=stats.model_tier,
        tier_entry=tier_entry,
        failures=tuple(
            FailureCount(
                outcome_class=each.outcome_class,
                failure_kind=each.failure_kind,
                failing_tool=each.failing_tool,
                error_type=each.error_type,
                model_provider=each.model_provider,
                runs=each.count,
            )
            for each in shown.causes
        ),
        streak=stats.streak,
        recent=tuple(each.outcome_class for each in stats.recent[-MOST_RECENT:]),
        pulled=tuple(sorted(pulled, key=lambda each: each.at_us)),
        changes=_changes(stats.recent) if changes is None else tuple(changes),
        trajectories=trajectories,
        record=dict(sorted((record or {}).items())),
        causes=tuple(cause.cause_id for cause in causes),
        supersedes=supersedes,
        table_versions=dict(sorted((table_versions or {}).items())),
        positions=tuple(stats.positions),
        statistics_revision=ENGINE,
        classifier_revision=classifier_revision,
    )


def cause_snapshot(
    cause: Cause,
    tenant_id: str,
    as_of_us: int,
    table: LeverTable,
    *,
    pulled: Sequence[PulledLever] = (),
    record: Mapping[str, tuple[int, int]] | None = None,
    supersedes: str | None = None,
    table_versions: Mapping[str, int] | None = None,
    positions: Sequence[Position] = (),
) -> Snapshot:
    """All that a decision on a common cause is made from. The window is the day up to `as_of_us`."""
    return Snapshot(
        tenant_id=tenant_id,
        as_of_us=as_of_us,
        window="24h",
        table=table,
        cause=CommonCause(
            cause_id=cause.cause_id,
            classes=cause.classes,
            kind=cause.kind,
            dimension=cause.dimension,
            value=cause.value,
            since_us=cause.since_hour * HOUR_US,
            last_us=(cause.last_hour + 1) * HOUR_US - 1,
            faults=cause.faults,
            runs=cause.runs,
            skills=cause.skills,
            e_value=cause.e_value,
            reason=cause.reason,
        ),
        pulled=tuple(sorted(pulled, key=lambda each: each.at_us)),
        record=dict(sorted((record or {}).items())),
        supersedes=supersedes,
        table_versions=dict(sorted((table_versions or {}).items())),
        positions=tuple(positions),
        statistics_revision=ENGINE,
    )


def _window(stats: SkillStats, name: str) -> WindowStats:
    found = next((each for each in stats.windows if each.window == name), None)
    if found is None:
        raise KeyError(f"statistics of {stats.skill_name} have no window {name!r}")
    return found


def _strata(window: WindowStats) -> tuple[TierCounts, ...]:
    return tuple(
        TierCounts(
            model_tier=each.model_tier, task_family=each.task_family, successes=each.successes, failures=each.failures
        )
        for each in window.strata
    )


def _changes(recent: Sequence[RecentRun]) -> tuple[VersionChange, ...]:
    """Where the skill's version differs from the run before; runs that name none are passed over."""
    found: list[VersionChange] = []
    before: str | None = None
    for run in recent:
        if run.version is None:
            continue
        if before is not None and run.version != before:
            found.append(VersionChange(component="skill", at_us=run.end_us, change_from=before, change_to=run.version))
        before = run.version
    return tuple(found)
