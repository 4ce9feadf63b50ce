"""All skills of one tenant together: common causes, who stands out among so many, and which decisions are new.

A pure function of the newest statistics of each skill, of what was decided before, and of facts that are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from trajlake.expectations.decisions import PulledLever, TierCounts, TierEntry, VersionChange
from trajlake.expectations.levers import Lever, LeverTable
from trajlake.expectations.outcomes import HOUR_US, Decision, Position, SkillStats, Stratum, WindowStats
from trajlake.transforms.levers.advice import decide
from trajlake.transforms.levers.effects import effects
from trajlake.transforms.levers.oldrule import BAD_IN_A_ROW, bad_in_a_row
from trajlake.transforms.levers.snapshots import cause_snapshot, skill_snapshot, standing_of, terms_of
from trajlake.transforms.rolling.readings import reading_of
from trajlake.transforms.stats.assessment import Assessment, State, assess, evidence_among
from trajlake.transforms.stats.causes import Cause, Faults, find_causes, new_faults, observe_run
from trajlake.transforms.stats.comparison import Verdict
from trajlake.transforms.stats.control import discoveries
from trajlake.transforms.stats.quality import measure_quality

WINDOW: Final = "30d"
"""Window that skills are judged and advised by."""
WITHDRAWN_BELOW: Final = 1.0
"""E-value below which a skill's runs speak against what was found, and advice on it is withdrawn."""
_COMPONENTS: Final[tuple[Literal["prompt", "skill", "memory", "model"], ...]] = ("prompt", "skill", "memory", "model")


class Facts(Struct, frozen=True, kw_only=True):
    """What does not come from outcomes."""

    table: LeverTable
    table_versions: Mapping[str, int] = field(default_factory=dict)
    tier_entries: Mapping[str, TierEntry] = field(default_factory=dict)
    """By skill."""
    trajectories: Mapping[str, int] = field(default_factory=dict)
    """Published, by skill."""


class Fleet(Struct):
    """What is known of one tenant. `decisions`: the newest on each subject, `skill:<name>` or `cause:<id>`."""

    tenant_id: str
    skills: dict[str, SkillStats] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)


class Verdicts(Struct):
    """The outcome of one look at a fleet."""

    causes: list[Cause]
    standings: dict[str, Assessment]
    decisions: list[tuple[str, Decision]]
    """New or flagged decisions with their subjects, in order."""


def judge(fleet: Fleet, facts: Facts, changed: set[str]) -> Verdicts:
    """Judge a fleet. `changed`: skills whose statistics are newer than the last look; only they get new decisions."""
    terms = terms_of(facts.table)
    skills = {name: stats for name, stats in fleet.skills.items() if name}
    if not fleet.skills:
        return Verdicts(fleet.causes, {}, [])
    newest_us = max(stats.as_of_us for stats in fleet.skills.values())
    causes = find_causes(
        faults_of(fleet.skills), fleet.tenant_id, newest_us // HOUR_US, terms.alpha, previous=fleet.causes
    )
    evidence = {
        name: evidence_among(reading_of(stats.drop), measure_quality(_since_change(stats), terms.alpha), terms)
        for name, stats in skills.items()
    }
    named = discoveries(evidence, terms.alpha)
    standings = {}
    decisions: list[tuple[str, Decision]] = []
    record = _record(fleet, facts, changed)
    for name in sorted(changed & skills.keys()):
        stats = skills[name]
        reaching = [cause for cause in causes if name in cause.skills]
        drop = reading_of(stats.drop)
        standings[name] = found = assess(
            _window(stats, WINDOW).counts,
            drop,
            since_change=_since_change(stats),
            selection=reading_of(stats.unjudged),
            causes=reaching,
            named=name in named,
            streak=stats.streak,
            terms=terms,
        )
        subject = f"skill:{name}"
        known = fleet.decisions.get(subject)
        if known is not None and (flagged := _flagged(known, stats)) is not None:
            decisions.append((subject, flagged))
            known = flagged
        if not _worth_deciding(stats, found, known):
            continue
        made = decide(
            skill_snapshot(
                stats, standing_of(found, drop), facts.table, window=WINDOW,
                tiers=_tiers(_window(stats, WINDOW).strata),
                tier_entry=facts.tier_entries.get(name), pulled=_pulled(stats), changes=_changes(stats),
                causes=reaching, trajectories=facts.trajectories.get(name, 0), record=record,
                supersedes=None if known is None else known.decision_id, table_versions=facts.table_versions,
            )
        )  # fmt: skip
        if known is not None and _still_stands(known, made, found, stats):
            continue
        if _is_news(made, known) and (known is not None or made.lever != "none" or _is_told(made, found)):
            decisions.append((subject, made))
    for cause in causes:
        subject = f"cause:{cause.cause_id}"
        known = fleet.decisions.get(subject)
        if known is not None and not changed & set(cause.skills):
            continue
        made = decide(
            cause_snapshot(
                cause, fleet.tenant_id, newest_us, facts.table, pulled=_tenant_pulls(fleet), record=record,
                supersedes=None if known is None else known.decision_id, table_versions=facts.table_versions,
                positions=_positions(fleet),
            )
        )  # fmt: skip
        if _is_news(made, known):
            decisions.append((subject, made))
    return Verdicts(causes, standings, decisions)


def faults_of(skills: Mapping[str, SkillStats]) -> Faults:
    """Fault hours of all skills of a tenant; what lies before them, back to thirty days, adds to the usual share."""
    faults = new_faults()
    succeeded: dict[int, int] = {}
    for name, stats in sorted(skills.items()):
        window = _window(stats, WINDOW)
        before = dict(window.counts)
        for hour in stats.hours:
            failed = 0
            for cause in hour.causes:
                failed += cause.count
                before[cause.outcome_class] = before.get(cause.outcome_class, 0) - cause.count
                observe_run(
                    faults, hour.hour, name, cause.outcome_class, provider=cause.model_provider,
                    tool=cause.failing_tool, error_type=cause.error_type, kind=cause.failure_kind, count=cause.count,
                )  # fmt: skip
            succeeded[hour.hour] = succeeded.get(hour.hour, 0) + hour.runs - failed
        faults["before_runs"] += max(0, window.runs - sum(hour.runs for hour in stats.hours))
        for label, count in before.items():
            if count > 0:
                faults["before"][label] = faults["before"].get(label, 0) + count
    for hour_number, count in sorted(succeeded.items()):
        if count > 0:
            observe_run(faults, hour_number, "", "success", count=count)
    return faults


def _worth_deciding(stats: SkillStats, found: Assessment, known: Decision | None) -> bool:
    """Whether a decision can come out that anybody wants to see: most skills are well, and that is not news."""
    if found.state == State.DEGRADED or known is not None or stats.pulled:
        return True
    if len({stratum.model_tier for stratum in _window(stats, WINDOW).strata}) > 1:
        return True
    return len(bad_in_a_row([run.outcome_class for run in stats.recent])) >= BAD_IN_A_ROW


def _is_told(made: Decision, found: Assessment) -> bool:
    """Whether advice to do nothing is worth a row: no lever is left, or the old rule would move the skill."""
    return found.state == State.DEGRADED or made.old_rule == "promote"


def _still_stands(known: Decision, made: Decision, found: Assessment, stats: SkillStats) -> bool:
    """Whether advice stays although the skill is not named any more.

    An e-value that wavers about its threshold would give and withdraw advice by the hour. What was proven once stays so
    (Ville's inequality is about the highest value) until nothing speaks for it, it expires, or a lever is pulled.
    """
    if known.lever == "none" or made.lever != "none" or known.flag is not None or made.as_of_us >= known.expires_us:
        return False
    if found.state == State.DEGRADED or any(each.pull.at_us > known.as_of_us for each in stats.pulled):
        return False
    if known.lever == Lever.MODEL_DOWN:
        return found.state != State.WATCH
    return found.e_value >= WITHDRAWN_BELOW


def _is_news(made: Decision, known: Decision | None) -> bool:
    """Whether a decision says something else than the one before, or that one has expired or is in doubt."""
    if known is None:
        return True
    if known.flag is not None or made.as_of_us >= known.expires_us:
        return True
    if (made.lever, made.target, made.skills) != (known.lever, known.target, known.skills):
        return True
    if made.lever == "none":
        return made.old_rule != known.old_rule
    # Advice that stands is not given anew for every two bad runs in a row; that the old rule agrees is told once.
    return made.old_rule == "promote" != known.old_rule


def _flagged(known: Decision, stats: SkillStats) -> Decision | None:
    """The decision with a flag where late runs changed an hour that it was made from."""
    changed = stats.restated_from_us
    if known.flag is not None or changed is None or changed > known.as_of_us:
        return None
    at = {(position.topic, position.partition): position.offset for position in known.positions}
    if all(at.get((place.topic, place.partition), -1) >= place.offset for place in stats.positions):
        return None
    detail = f"runs that came later changed the hour from {changed} µs on"
    return replace(known, revision=known.revision + 1, flag="restated", flag_detail=detail)


def _window(stats: SkillStats, name: str) -> WindowStats:
    return next((each for each in stats.windows if each.window == name), WindowStats(name, 0, 0))


def _since_change(stats: SkillStats) -> dict[str, int]:
    return _window(stats, "version").counts


def _tiers(strata: list[Stratum]) -> tuple[TierCounts, ...]:
    return tuple(
        TierCounts(
            model_tier=each.model_tier, task_family=each.task_family, successes=each.successes, failures=each.failures,
            priced_runs=each.priced_runs, cost_usd=each.cost_nano_usd / 1e9,
        )
        for each in strata
    )  # fmt: skip


def _pulled(stats: SkillStats) -> list[PulledLever]:
    return [
        PulledLever(
            lever=each.pull.lever, at_us=each.pull.at_us, before=_tiers(each.before), after=_tiers(each.after),
            change_from=each.pull.change_from, change_to=each.pull.change_to, applied_by=each.pull.applied_by,
            decision_id=each.pull.decision_id,
        )
        for each in stats.pulled
    ]  # fmt: skip


def _tenant_pulls(fleet: Fleet) -> list[PulledLever]:
    """Levers that were pulled on no skill in particular."""
    nameless = fleet.skills.get("")
    return [] if nameless is None else _pulled(nameless)


def _changes(stats: SkillStats) -> list[VersionChange]:
    """Versions that replaced another one of their component within the window."""
    start = _window(stats, WINDOW).start_us
    found = []
    for component in _COMPONENTS:
        seen = [each for each in stats.versions_seen if each.component == component]
        found += [
            VersionChange(component=component, at_us=later.first_us, change_from=one.version, change_to=later.version)
            for one, later in pairwise(seen)
            if later.first_us >= start
        ]
    return sorted(found, key=lambda each: (each.at_us, each.component))


def _record(fleet: Fleet, facts: Facts, changed: set[str]) -> dict[str, tuple[int, int]]:
    """Lever -> how often it worked and how often it was judged, over the skills on which levers were pulled."""
    record: dict[str, tuple[int, int]] = {}
    if not changed:
        return record
    for name, stats in sorted(fleet.skills.items()):
        if not name or not stats.pulled:
            continue
        drop = reading_of(stats.drop)
        standing = standing_of(assess(_window(stats, WINDOW).counts, drop), drop)
        snapshot = skill_snapshot(
            stats,
            standing,
            facts.table,
            window=WINDOW,
            tiers=_tiers(_window(stats, WINDOW).strata),
            pulled=_pulled(stats),
        )
        for effect in effects(snapshot):
            if effect.at_us is not None and effect.verdict is not Verdict.TOO_EARLY:
                worked, tried = record.get(str(effect.lever), (0, 0))
                failed = effect.verdict in (Verdict.NO_EFFECT, Verdict.WORSE)
                record[str(effect.lever)] = (worked + (not failed), tried + 1)
    return record


def _positions(fleet: Fleet) -> list[Position]:
    """Last closing offset of each partition over all skills."""
    at: dict[tuple[str, int], int] = {}
    for stats in fleet.skills.values():
        for position in stats.positions:
            place = (position.topic, position.partition)
            at[place] = max(position.offset, at.get(place, -1))
    return [Position(topic, partition, offset) for (topic, partition), offset in sorted(at.items())]
