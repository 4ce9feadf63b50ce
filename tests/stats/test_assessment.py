"""One word and one sentence on a skill."""

from __future__ import annotations

from trajlake.transforms.stats.assessment import (
    State,
    Terms,
    assess,
    below_target,
    evidence_against,
    evidence_among,
    percent,
)
from trajlake.transforms.stats.causes import find_causes, new_faults, observe_run
from trajlake.transforms.stats.control import discoveries
from trajlake.transforms.stats.drops import Drops, new_drops, observe, read_drops
from trajlake.transforms.stats.quality import measure_quality

START = 492_000
NOTHING = read_drops(new_drops())


def steady(runs: int = 400, every: int = 10) -> Drops:
    """A run an hour of which each tenth fails."""
    drops = new_drops()
    for n in range(runs):
        observe(drops, START + n, "cheap|", int(n % every != 0), int(n % every == 0))
    return drops


def test_a_steady_skill_is_ok_with_its_numbers() -> None:
    found = assess({"success": 360, "quality_failure": 40, "quota": 3}, read_drops(steady()))
    assert found.state is State.OK
    assert found.reason == (
        "90% of 400 runs succeeded, 84% to 94.5% whenever looked at; no drop against 90% of 300 runs before "
        "(not counted: 3 quota)."
    )


def test_a_skill_that_drops_is_degraded_and_the_sentence_says_from_what_to_what() -> None:
    drops = steady()
    for n in range(30):
        observe(drops, START + 400 + n, "cheap|", n % 2, 1 - n % 2)
    found = assess({"success": 375, "quality_failure": 55}, read_drops(drops), streak=1)
    assert (found.state, found.code) == (State.DEGRADED, "dropped")
    assert "success fell from 90% (" in found.reason
    assert " to 5" in found.reason


def test_among_many_skills_an_alarm_that_is_not_yet_sure_is_watched() -> None:
    drops = steady()
    for n in range(14):
        observe(drops, START + 400 + n, "cheap|", int(n % 3 == 0), int(n % 3 != 0))
    reading = read_drops(drops)
    quality = measure_quality({"success": 5, "quality_failure": 9})
    e_value = evidence_against(reading, quality, Terms())
    assert e_value >= 20
    named = discoveries({**{f"other-{n}": 0.3 for n in range(999)}, "this": evidence_among(reading, quality, Terms())})
    found = assess({"success": 365, "quality_failure": 49}, reading, named="this" in named)
    assert found.state is State.WATCH
    assert found.reason.endswith("not yet sure enough among as many skills.")
    assert assess({"success": 365, "quality_failure": 49}, reading).state is State.DEGRADED


def test_s6_a_skill_that_never_worked_is_found_without_a_base() -> None:
    found = assess({"quality_failure": 21}, NOTHING, streak=21)
    assert (found.state, found.code) == (State.DEGRADED, "below_target")
    assert found.reason.startswith("0 of 21 runs succeeded, 21 failures in a row; the rate is at most ")
    # So it is among the eighteen skills of one team.
    e_value = below_target(0, 21, 0.5) * 0.1
    assert discoveries({**{f"other-{n}": 0.1 for n in range(17)}, "this": e_value}) == {"this"}


def test_s5_no_skill_loses_standing_in_the_night_of_the_quota() -> None:
    drops = steady()
    faults = new_faults()
    for n in range(400):
        observe_run(faults, START + n, "orchestrate", "success")
    for n in range(6):
        observe_run(faults, START + 400, f"job-{n}", "quota", provider="north")
        observe_run(faults, START + 400, "orchestrate", "quota", provider="north")
    causes = find_causes(faults, "acme", START + 400)
    assert len(causes) == 1
    before = assess({"success": 360, "quality_failure": 40}, read_drops(drops))
    after = assess({"success": 360, "quality_failure": 40, "quota": 6}, read_drops(drops), causes=causes)
    assert (before.state, after.state) == (State.OK, State.OK)
    assert after.e_value == before.e_value
    assert "not counted against it: quota of provider north: 12 of 12 runs of 7 skills" in after.reason


def test_s17_timeouts_that_rise_are_shown_as_selection() -> None:
    judged = new_drops()
    for n in range(400):
        observe(judged, START + n, "cheap|", 1, 0)
    for n in range(12):
        observe(judged, START + 400 + n, "cheap|", n % 2, 1 - n % 2)
    found = assess({"success": 400, "timeout": 6}, read_drops(steady()), selection=read_drops(judged))
    assert (found.state, found.code) == (State.WATCH, "unjudged_rose")
    assert "rose from 0% to 5" in found.reason
    assert "the others are a selection" in found.reason


def test_few_runs_are_no_verdict() -> None:
    found = assess({"success": 3, "cancelled": 2}, NOTHING)
    assert found.state is State.NOT_ENOUGH_DATA
    assert found.reason == "3 runs of 5 speak of quality, 20 are needed."
    assert assess({"cancelled": 9}, NOTHING).reason == "0 runs of 9 speak of quality, 20 are needed."


def test_runs_that_nobody_can_explain_are_visible() -> None:
    found = assess({"success": 30, "unknown": 12}, NOTHING)
    assert (found.state, found.code) == (State.WATCH, "unexplained")


def test_a_version_that_fails_beside_a_good_one_is_not_hidden_by_the_newest_run() -> None:
    found = assess({"success": 3, "quality_failure": 40}, NOTHING, since_change={"success": 132, "quality_failure": 12})
    assert (found.state, found.code) == (State.WATCH, "window_below_target")
    assert found.reason.startswith("3 of 43 runs in this window succeeded, at most ")
    few = assess({"quality_failure": 3}, NOTHING, since_change={"success": 132})
    assert few.state is State.NOT_ENOUGH_DATA


def test_percentages_never_claim_a_certainty() -> None:
    assert [percent(rate) for rate in (0, 0.0001, 0.05, 0.5, 0.999, 0.99999, 1)] == [
        "0%", "<0.1%", "5%", "50%", "99.9%", ">99.9%", "100%",
    ]  # fmt: skip
