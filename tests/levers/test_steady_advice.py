"""Advice of a fleet that is looked at every hour: given once, kept while anything speaks for it, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from trajlake.expectations.levers import shipped_levers
from trajlake.expectations.outcomes import HOUR_US, ClosedRun, Decision, LeverPull, OutcomeBatch, RunOutcome
from trajlake.transforms.levers.advice import replay
from trajlake.transforms.rolling.fleet import Facts, Fleet, judge
from trajlake.transforms.rolling.readings import Detectors, skill_stats
from trajlake.transforms.rolling.state import SkillState

START_US = 500_000 * HOUR_US
DROP = 150


def watched(rate: Callable[[int], float], hours: int, seed: int, pulled_at: int | None = None) -> list[Decision]:
    """Decisions on a skill with two runs an hour and so many a share of successes, looked at every hour."""
    random = Random(seed)
    fleet, facts = Fleet("acme"), Facts(table=shipped_levers())
    state, detectors, told = SkillState("acme", "mail"), Detectors(), []
    for hour in range(hours):
        runs = []
        for half in (0, 1):
            place, good = 3 * hour + half, random.random() < rate(hour)
            end_us = START_US + hour * HOUR_US + half * HOUR_US // 2
            name = "success" if good else "quality_failure"
            runs.append(ClosedRun(place, RunOutcome(place, f"r{place}", end_us, name, model_tier="cheap")))
        pull = LeverPull(3 * hour + 2, 0, START_US + hour * HOUR_US + 1, "model_up", "cheap", "upper", None, None)
        state.apply(OutcomeBatch("acme", "mail", "t", 0, runs, levers=[pull] if hour == pulled_at else []))
        fleet.skills["mail"] = skill_stats(state, detectors, emitted_us=0, code_revision="x")
        found = judge(fleet, facts, {"mail"})
        for subject, decision in found.decisions:
            assert replay(decision).agrees
            fleet.decisions[subject] = decision
            told.append(decision)
    return told


def hour_of(decision: Decision) -> int:
    return (decision.as_of_us - START_US) // HOUR_US


def levers(told: list[Decision]) -> list[str]:
    """Levers in the order in which they were advised; the same one after itself left out."""
    found: list[str] = []
    for each in told:
        if not found or found[-1] != each.lever:
            found.append(each.lever)
    return found


def test_advice_is_not_given_and_withdrawn_by_the_hour() -> None:
    for seed in (2, 3, 4):
        told = watched(lambda hour: 0.82 if hour > DROP else 0.93, 300, seed)
        assert levers(told) in (["none", "model_up"], ["model_up"], ["none"])


def test_advice_that_stands_is_not_repeated_for_every_two_bad_runs_in_a_row() -> None:
    told = watched(lambda hour: 0.6 if hour > DROP else 0.95, 300, seed=7)
    advised = [each for each in told if each.lever == "model_up"]
    assert 1 <= len(advised) <= 2
    assert [each.old_rule for each in advised][-1] == "promote"


def test_advice_is_taken_back_when_the_skill_is_well_again() -> None:
    told = watched(lambda hour: 0.5 if DROP < hour < DROP + 16 else 1.0, 400, seed=1)
    assert levers(told)[-2:] == ["model_up", "none"]


def test_advice_ends_with_the_pull_of_its_lever() -> None:
    told = watched(lambda hour: 0.5 if DROP < hour < 200 else 1.0, 230, seed=1, pulled_at=200)
    after = [each for each in told if hour_of(each) >= 200]
    assert after
    assert after[0].lever == "none"
