"""Which skills need attention, in which order, and what they have in common: the home page, here and in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trajlake.dashboard.board import STATES, Board, SkillRow
from trajlake.expectations.levers import Lever
from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass
from trajlake.transforms.stats.assessment import percent

MOST_SKILLS: Final = 20
COMMON_SHARE: Final = 0.2
"""Share of a window's failures from which a class that does not speak of quality is a common cause."""
LEAST_COMMON: Final = 5
NEEDS: Final = frozenset({"degraded", "watch"})
ADVICE: Final[Mapping[str, str]] = {
    OutcomeClass.QUOTA: "capacity, not skills",
    OutcomeClass.INFRA_FAULT: "platform, not skills",
    OutcomeClass.CONFIG: "configuration, not skills",
    OutcomeClass.TOOL_FAULT: "a tool, not skills",
    OutcomeClass.VERIFIER_FAULT: "the grader, not skills",
    OutcomeClass.POLICY_DENIED: "policy, not skills",
    OutcomeClass.TIMEOUT: "time limits: may hide failures of quality",
    OutcomeClass.ABANDONED: "runs without an end: may hide failures of quality",
    OutcomeClass.CANCELLED: "people's own decision",
    OutcomeClass.UNKNOWN: "not explained by any rule",
}


@dataclass(frozen=True, slots=True)
class CommonCause:
    """A class of failures that many runs of a window share. `share` is of all runs that did not succeed."""

    outcome_class: str
    runs: int
    share: float
    skills: int
    names: Sequence[str]
    """Providers, tools or error types that most of them bear."""
    window: str = "24h"

    @property
    def sentence(self) -> str:
        of = f" ({', '.join(self.names)})" if self.names else ""
        skills = "1 skill" if self.skills == 1 else f"{self.skills:,} skills"
        advice = ADVICE.get(self.outcome_class, "")
        return (
            f"{percent(self.share)} of failures {_within(self.window)} are {self.outcome_class.replace('_', ' ')}{of}: "
            f"{self.runs:,} runs of {skills}; {advice}"
        )


def attention(board: Board, window: str, most: int = MOST_SKILLS) -> list[SkillRow]:
    """At most `most` skills: by standing, then by the failures that their baseline does not explain."""
    return sorted(board.skills(window), key=urgency)[:most]


def urgency(row: SkillRow) -> tuple[int, float, int, str, str]:
    """Sort key: the most urgent first."""
    return (STATES.index(row.state), -row.impact, -row.scorable, row.tenant, row.skill)


def by_lower_bound(row: SkillRow) -> tuple[bool, float, int, str, str]:
    """Sort key of the list of skills: surely bad ones first, so that 1 failure of 1 run never leads."""
    return (row.high is None, row.high if row.high is not None else 2.0, -row.scorable, row.tenant, row.skill)


def _within(window: str) -> str:
    return "of the newest versions" if window == "version" else f"within {window}"


def mostly(row: SkillRow) -> str:
    """What most failures of quality of a skill that is not well are of; empty where no kind makes up half of them."""
    if row.state not in NEEDS:
        return ""
    counted: Counter[str] = Counter()
    for cause in row.causes:
        if cause["outcome_class"] in SCORABLE:
            kind = (cause["failure_kind"] or cause["outcome_class"]).replace("_", " ")
            counted[f"{kind} ({cause['failing_tool']})" if cause["failing_tool"] else kind] += cause["count"]
    failures = row.scorable - row.successes
    return next((f"mostly {name}" for name, count in counted.most_common(1) if 2 * count >= failures > 0), "")


def common_causes(rows: Iterable[SkillRow], window: str = "24h") -> list[CommonCause]:
    """Classes outside quality that make up a good part of a window's failures, the largest first."""
    rows = list(rows)
    failures: Counter[str] = Counter()
    skills: Counter[str] = Counter()
    names: dict[str, Counter[str]] = {}
    for row in rows:
        for name, count in row.counts.items():
            if name != OutcomeClass.SUCCESS:
                failures[name] += count
                skills[name] += 1
        for cause in row.causes:
            named = _name_of(cause)
            if named:
                names.setdefault(cause["outcome_class"], Counter())[named] += cause["count"]
    total = sum(failures.values())
    return [
        CommonCause(
            name,
            runs,
            runs / total,
            skills[name],
            [text for text, _ in names.get(name, Counter()).most_common(2)],
            window,
        )
        for name, runs in failures.most_common()
        if name not in SCORABLE and runs >= LEAST_COMMON and runs >= COMMON_SHARE * total
    ]


def _name_of(cause: Mapping[str, Any]) -> str | None:
    return next((str(cause[part]) for part in ("failing_tool", "model_provider", "error_type") if cause[part]), None)


def standing_advice(board: Board, tenant: str, skill: str, now: datetime) -> Mapping[str, Any] | None:
    """The newest advice that stands on a skill: its own, else that on a cause which it shares, else that its own is to
    pull none; None without any."""
    standing = [
        row
        for row in board.decisions
        if row["tenant_id"] == tenant
        and row["expires_at"] > now
        and row["flag"] is None
        and row["decision_id"] not in board.superseded
    ]
    own = next((row for row in standing if row["skill_name"] == skill), None)
    shared = next((row for row in standing if row["skill_name"] is None and skill in (row["skills"] or ())), None)
    return own if own is not None and own["lever"] != Lever.NONE else shared or own


def advice_words(advice: Mapping[str, Any] | None) -> str:
    """What to do, without the reason, which stands beside it."""
    return "" if advice is None else str(advice["summary"]).partition(": ")[0]
