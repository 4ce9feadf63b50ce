"""The weekly review that a person reads: what happened to skills, what was shared trouble, what was advised and
pulled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from trajlake.expectations.outcomes import Decision
from trajlake.transforms.levers.report import Block, Grid, Heading, Listing, Paragraph
from trajlake.transforms.stats.assessment import Assessment, State, percent
from trajlake.transforms.stats.causes import Cause
from trajlake.transforms.stats.comparison import Comparison
from trajlake.transforms.stats.quality import Quality

_ORDER: Final = {State.DEGRADED: 0, State.WATCH: 1, State.OK: 2, State.NOT_ENOUGH_DATA: 3}


class SkillWeek(Struct, frozen=True, kw_only=True):
    """One skill in the week. `not_counted`: runs that say nothing of quality, by class."""

    tenant: str
    skill: str
    quality: Quality
    before: Quality
    """The week before."""
    assessment: Assessment
    """At the end of the week."""
    not_counted: dict[str, int]
    cost_usd: float | None


class LeverWeek(Struct, frozen=True, kw_only=True):
    """A lever that was pulled in the week, and the skill's runs since against those of four weeks before."""

    tenant: str
    skill: str | None
    lever: str
    at: datetime
    change: str
    applied_by: str | None
    effect: Comparison | None


class Week(Struct, frozen=True, kw_only=True):
    """All that a review tells."""

    name: str
    """ISO week, such as 2026-W48."""
    start: datetime
    end: datetime
    skills: tuple[SkillWeek, ...]
    causes: tuple[tuple[str, Cause], ...]
    """Tenant and cause."""
    decisions: tuple[Decision, ...]
    levers: tuple[LeverWeek, ...]


def week_bounds(name: str) -> tuple[datetime, datetime]:
    """First moment of an ISO week and of the next, UTC. Raises ValueError for a name that is none, such as 2026-W54."""
    try:
        year, week = name.upper().split("-W")
        start = datetime.fromisocalendar(int(year), int(week), 1).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{name!r} is no ISO week; write it like 2026-W48") from None
    return start, start + timedelta(days=7)


def review(week: Week) -> list[Block]:
    """The review of a week."""
    return [
        Heading(1, f"Skills in week {week.name}"),
        Paragraph(f"{week.start:%Y-%m-%d} to {week.end - timedelta(days=1):%Y-%m-%d}, UTC. {_headline(week)}"),
        *_degraded(week),
        *_causes(week),
        *_decisions(week),
        *_levers(week),
        *_table(week),
        Heading(2, "How to read it"),
        Paragraph(
            "A rate is over the runs that speak of quality: successes, wrong answers, the model's own malformed acts. "
            "The range beside it holds however often it is looked at. Quota, infrastructure, tools, configuration, "
            "policies, graders, cancelled, timed-out and abandoned runs are counted apart, against no skill."
        ),
    ]


def _headline(week: Week) -> str:
    runs = sum(each.quality.runs for each in week.skills)
    states = [each.assessment.state for each in week.skills]
    return (
        f"{runs:,} runs of {len(states)} skills: {states.count(State.DEGRADED)} degraded, "
        f"{states.count(State.WATCH)} to watch, {states.count(State.OK)} ok, "
        f"{states.count(State.NOT_ENOUGH_DATA)} with too little to say. "
        f"{len(week.causes)} common causes, {len(week.levers)} levers pulled, {len(week.decisions)} decisions."
    )


def _degraded(week: Week) -> list[Block]:
    told = sorted(
        (each for each in week.skills if each.assessment.state in (State.DEGRADED, State.WATCH)),
        key=lambda each: (_ORDER[each.assessment.state], -each.assessment.e_value),
    )
    items = tuple(f"{each.skill} ({each.tenant}), {each.assessment.state}: {each.assessment.reason}" for each in told)
    return [Heading(2, "Skills that need a look"), Listing(items) if items else Paragraph("None.")]


def _causes(week: Week) -> list[Block]:
    items = tuple(
        f"{_hour(cause.since_hour)} to {_hour(cause.last_hour + 1)}, {tenant}: {cause.reason} ({_some(cause.skills)})."
        for tenant, cause in week.causes
    )
    return [Heading(2, "Trouble that skills shared"), Listing(items) if items else Paragraph("None.")]


def _decisions(week: Week) -> list[Block]:
    advised = [each for each in week.decisions if each.lever != "none" or each.old_rule == "promote"]
    rows = tuple(
        (
            _time(each.as_of_us), each.skill_name or _some(each.skills), each.lever, each.summary, each.old_rule or "",
            each.flag or "", each.decision_id[:12],
        )
        for each in sorted(advised, key=lambda each: each.as_of_us)
    )  # fmt: skip
    promoted = sum(each.old_rule == "promote" for each in week.decisions)
    agreed = sum(each.old_rule == "promote" and each.lever == "model_up" for each in week.decisions)
    return [
        Heading(2, "Advice, beside the rule of two bad runs in a row"),
        Paragraph(f"The old rule would have promoted at {promoted} of these decisions; the advice was so at {agreed}."),
        Grid(("when", "skill", "lever", "why", "old rule", "flag", "decision"), rows) if rows else Paragraph("None."),
    ]


def _levers(week: Week) -> list[Block]:
    rows = tuple(
        (
            f"{each.at:%Y-%m-%d %H:%M}", each.skill or "", each.lever, each.change, each.applied_by or "",
            _effect(each.effect),
        )
        for each in sorted(week.levers, key=lambda each: each.at)
    )  # fmt: skip
    grid = Grid(("when", "skill", "lever", "change", "by", "what happened after"), rows)
    return [Heading(2, "Levers that were pulled"), grid if rows else Paragraph("None.")]


def _effect(effect: Comparison | None) -> str:
    if effect is None or effect.rate_b is None:
        return "no scorable run since"
    before = "nothing known before" if effect.rate_a is None else f"{percent(effect.rate_a)} of {effect.runs_a} before"
    verdict = str(effect.verdict).replace("_", " ")
    return f"{verdict}: {percent(effect.rate_b)} of {effect.runs_b} runs since, {before}"


def _table(week: Week) -> list[Block]:
    skills = sorted(week.skills, key=lambda each: (_ORDER[each.assessment.state], each.tenant, each.skill))
    rows = tuple(
        (
            each.tenant, each.skill, str(each.assessment.state).replace("_", " "), f"{each.quality.runs:,}",
            _rate(each.quality), _rate(each.before),
            ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(each.not_counted.items()) if n),
            "" if each.cost_usd is None else f"{each.cost_usd:,.2f}",
        )
        for each in skills
    )  # fmt: skip
    columns = ("tenant", "skill", "standing", "runs", "rate", "week before", "not counted", "USD")
    return [Heading(2, "All skills"), Grid(columns, rows) if rows else Paragraph("No run ended in this week.")]


def _rate(quality: Quality) -> str:
    if quality.rate is None or quality.interval is None:
        return ""
    low, high = percent(quality.interval.low), percent(quality.interval.high)
    return f"{percent(quality.rate)} of {quality.scorable} ({low} to {high})"


def _hour(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%d %H:%M")


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def _some(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
