"""Two nights of a team with eighteen skills and one lever, told again with all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from trajlake.expectations.decisions import (
    FailureCount,
    PulledLever,
    Snapshot,
    Standing,
    TierCounts,
)
from trajlake.expectations.levers import shipped_levers
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.transforms.levers.advice import decide, replay
from trajlake.transforms.levers.snapshots import cause_snapshot, standing_of
from trajlake.transforms.stats.assessment import State, Terms, assess, evidence_among
from trajlake.transforms.stats.causes import Cause, find_causes, new_faults, observe_run
from trajlake.transforms.stats.control import discoveries
from trajlake.transforms.stats.drops import Drops, new_drops, observe, read_drops
from trajlake.transforms.stats.quality import failure_streak, measure_quality

HOUR_US = 3_600_000_000
START = 492_000
SKILLS = [f"job-{n:02d}" for n in range(16)] + ["orchestrate-a", "orchestrate-b"]


@dataclass
class Skill:
    """What is kept of one skill, fed run by run."""

    counts: dict[str, int] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)
    drops: Drops = field(default_factory=new_drops)

    def ends(self, hour: int, outcome: str, tier: str = "cheap") -> None:
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        self.recent.append(outcome)
        if outcome in (OutcomeClass.SUCCESS, OutcomeClass.QUALITY_FAILURE):
            good = outcome == OutcomeClass.SUCCESS
            observe(self.drops, hour, f"{tier}|", int(good), int(not good))


def standing(skill: Skill, named: bool, causes: list[Cause] | None = None) -> Standing:
    reading = read_drops(skill.drops)
    found = assess(skill.counts, reading, named=named, causes=causes or [], streak=failure_streak(skill.recent))
    return standing_of(found, reading)


def snapshot(name: str, skill: Skill, named: bool, hour: int, **more: object) -> Snapshot:
    successes = skill.counts.get("success", 0)
    failures = skill.counts.get("quality_failure", 0)
    given: dict[str, object] = {
        "tiers": (TierCounts(model_tier="cheap", successes=successes, failures=failures),),
        "current_tier": "cheap",
        "standing": standing(skill, named),
        "counts": skill.counts,
        "streak": failure_streak(skill.recent),
        "recent": tuple(skill.recent[-64:]),
    }
    return Snapshot(
        tenant_id="acme", as_of_us=hour * HOUR_US, window="30d", table=shipped_levers(), skill_name=name,
        **{**given, **more},  # type: ignore[arg-type]
    )  # fmt: skip


def test_s5_the_night_the_quota_ran_out_promotes_nobody_and_names_one_cause() -> None:
    random = Random(17)
    skills = {name: Skill() for name in SKILLS}
    faults = new_faults()
    for hour in range(START, START + 300):
        for name, skill in skills.items():
            outcome = "success" if random.random() < 0.94 else "quality_failure"
            skill.ends(hour, outcome)
            observe_run(faults, hour, name, outcome, provider="north")
    night = START + 300
    for hour in (night, night + 3):
        for name, skill in skills.items():
            skill.ends(hour, "quota")
            observe_run(faults, hour, name, "quota", provider="north", error_type="RateLimit", kind="quota_exhausted")
    causes = find_causes(faults, "acme", night + 3)
    assert len(causes) == 1
    evidence = {
        name: evidence_among(read_drops(skill.drops), measure_quality(skill.counts), Terms())
        for name, skill in skills.items()
    }
    assert discoveries(evidence) == frozenset()
    for name, skill in skills.items():
        found = standing(skill, named=False, causes=causes)
        assert found.state == State.OK, found.reason
        decision = decide(snapshot(name, skill, named=False, hour=night + 3))
        assert decision.lever == "none", name
        # The rule that the team had would have promoted every one of them.
        assert decision.old_rule == "promote"
    advice = decide(cause_snapshot(causes[0], "acme", (night + 3) * HOUR_US, shipped_levers()))
    assert (advice.lever, advice.target_kind, advice.target) == ("capacity", "provider", "north")
    assert advice.skills == sorted(SKILLS)
    assert advice.skill_name is None
    assert "36 of 36 runs of 18 skills" in advice.summary
    assert [(each.lever, each.reason) for each in advice.rejected if each.lever == "wait"] == [("wait", "condition")]


def test_s6_after_twenty_one_failures_on_the_upper_tier_the_tier_is_spent_and_another_lever_is_named() -> None:
    skill = Skill()
    for n in range(2):
        skill.ends(START + n, "quality_failure", "cheap")
    promoted = START + 2
    for n in range(21):
        skill.ends(promoted + n, "quality_failure", "upper")
    e_values = dict.fromkeys(SKILLS[1:], 0.2)
    e_values["mail"] = evidence_among(read_drops(skill.drops), measure_quality(skill.counts), Terms())
    assert "mail" in discoveries(e_values)
    before = (TierCounts(model_tier="cheap", failures=2),)
    after = (TierCounts(model_tier="upper", failures=21),)
    seen = snapshot(
        "mail", skill, named=True, hour=promoted + 21, tiers=before + after, current_tier="upper",
        failures=(FailureCount(outcome_class="quality_failure", failure_kind="wrong_answer", runs=23),),
        pulled=(
            PulledLever(
                lever="model_tier", at_us=promoted * HOUR_US, change_from="cheap", change_to="upper",
                applied_by="cron", before=before, after=after,
            ),
        ),
    )  # fmt: skip
    decision = decide(seen)
    rejected = {each.lever: each for each in decision.rejected}
    assert rejected["model_up"].reason == "spent"
    assert rejected["model_up"].detail == "0% of 21 runs since, against 0% of 2 before"
    assert decision.lever == "prompt"
    assert "model_up is spent" in decision.summary
    assert "23 failures in a row" in decision.summary
    assert rejected["retrain"].detail == "trajectories is 0, at least 500 is needed"
    assert replay(decision).agrees


def test_s6_the_runs_themselves_show_that_the_tier_is_spent_where_nobody_noted_the_promotion() -> None:
    skill = Skill()
    for n in range(23):
        skill.ends(START + n, "quality_failure", "cheap" if n < 2 else "upper")
    decision = decide(
        snapshot(
            "mail", skill, named=True, hour=START + 23, current_tier="upper",
            tiers=(TierCounts(model_tier="cheap", failures=2), TierCounts(model_tier="upper", failures=21)),
        )
    )  # fmt: skip
    assert {each.lever: each.reason for each in decision.rejected}["model_up"] == "spent"
    assert decision.lever == "prompt"
