"""Decisions: pure, one lever at a time, each rejection with its reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.decisions import (
    CommonCause,
    FailureCount,
    PulledLever,
    Snapshot,
    Standing,
    TierCounts,
    TierEntry,
    VersionChange,
    decode_snapshot,
    encode_snapshot,
)
from trajlake.expectations.levers import shipped_levers
from trajlake.expectations.outcomes import Decision
from trajlake.transforms.levers.advice import decide, replay
from trajlake.transforms.levers.oldrule import old_rule

NOW = 1_770_000_000_000_000
HOUR = 3_600_000_000
DAY = 24 * HOUR
DEGRADED = Standing(
    state="degraded", code="dropped", reason="success fell from 90% to 60%.", e_value=900.0,
    before=(450, 50), after=(24, 16), since_us=NOW - 2 * DAY,
)  # fmt: skip
OK = Standing(state="ok", code="steady", reason="95% of 1,000 runs succeeded.", e_value=0.1)


def skill(**more: Any) -> Snapshot:
    given: dict[str, Any] = {
        "standing": DEGRADED,
        "tiers": (TierCounts(model_tier="cheap", successes=474, failures=66, priced_runs=540, cost_usd=5.4),),
        "current_tier": "cheap",
        "counts": {"success": 474, "quality_failure": 66},
        "failures": (FailureCount(outcome_class="quality_failure", failure_kind="wrong_answer", runs=66),),
    }
    return Snapshot(
        tenant_id="acme", skill_name="mail", as_of_us=NOW, window="30d", table=shipped_levers(), **{**given, **more}
    )


def in_vain(lever: str, days_ago: int) -> PulledLever:
    """A lever after which thirty runs were as those before."""
    before, after = (TierCounts(successes=24, failures=16),), (TierCounts(successes=18, failures=12),)
    return PulledLever(lever=lever, at_us=NOW - days_ago * DAY, before=before, after=after)


def rejections(decision: Decision) -> dict[str, tuple[str, str | None]]:
    return {each.lever: (each.reason, each.detail) for each in decision.rejected}


def test_the_cheapest_lever_that_may_help_comes_first_and_the_others_say_why_not() -> None:
    made = decide(skill())
    assert (made.lever, made.target_kind, made.target) == ("model_up", "model", "upper")
    assert made.confidence == pytest.approx(1 - 1 / 900)
    assert made.expected_gain == pytest.approx(0.4 * 0.3)
    assert rejections(made)["prompt"][0] == "ranked_lower"
    assert rejections(made)["memory"] == ("condition", "memory_in_play is false, not true")
    assert rejections(made)["model_down"] == ("condition", "state is degraded, not ok")
    assert made.expires_us == NOW + 7 * DAY


def test_malformed_acts_speak_for_the_tools() -> None:
    entry = TierEntry(tier="cheap", pinned=True)
    failures = (FailureCount(outcome_class="agent_action", failure_kind="unknown_tool", runs=40),)
    made = decide(skill(failures=failures, tier_entry=entry))
    assert made.lever == "tool"
    assert rejections(made)["model_up"] == ("condition", "pinned is true, not false")


def test_a_version_that_changed_just_before_the_drop_is_gone_back_on_first() -> None:
    change = VersionChange(component="prompt", at_us=NOW - 2 * DAY - HOUR, change_from="11", change_to="12")
    made = decide(skill(changes=(change,)))
    assert made.lever == "prompt"
    assert made.summary.startswith("Go back to the former prompt version 11, or revise it for mail")
    long_ago = VersionChange(component="prompt", at_us=NOW - 20 * DAY, change_from="11", change_to="12")
    assert decide(skill(changes=(long_ago,))).lever == "model_up"


def test_while_a_lever_is_being_judged_no_other_is_advised() -> None:
    pulled = PulledLever(
        lever="prompt",
        at_us=NOW - DAY,
        before=(TierCounts(successes=24, failures=16),),
        after=(TierCounts(successes=5),),
    )
    made = decide(skill(pulled=(pulled,)))
    assert made.lever == "none"
    assert made.summary == "No further lever for mail yet: prompt was pulled, and 5 of 20 runs have come since."
    assert rejections(made)["model_up"][0] == "one_at_a_time"


def test_a_spent_lever_may_be_tried_again_after_its_time() -> None:
    fresh = decide(skill(pulled=(in_vain("tier_up", 5),)))
    assert rejections(fresh)["model_up"][0] == "spent"
    assert fresh.lever == "prompt"
    old = decide(skill(pulled=(in_vain("tier_up", 70),)))
    assert old.lever == "model_up"


def test_retraining_needs_trajectories_and_spent_cheap_levers() -> None:
    pulled = tuple(
        in_vain(name, days) for name, days in (("prompt", 9), ("model_up", 7), ("tool", 5), ("memory", 4), ("skill", 3))
    )
    few = decide(skill(pulled=pulled, trajectories=499, current_tier="upper"))
    assert few.lever == "none"
    assert few.summary.startswith("No lever is left for mail (")
    enough = decide(skill(pulled=pulled, trajectories=500, current_tier="upper"))
    assert enough.lever == "retrain"
    unspent = decide(skill(pulled=pulled[1:], trajectories=500))
    assert rejections(unspent)["retrain"] == ("condition", "not yet spent: prompt")
    untried = decide(skill(pulled=pulled[:1], trajectories=500, current_tier="cheap"))
    assert rejections(untried)["retrain"] == ("condition", "still open: model_up")
    # A pinned skill has no tier lever to spend first.
    pinned = decide(skill(pulled=(pulled[0], pulled[4]), trajectories=500, tier_entry=TierEntry(pinned=True)))
    assert pinned.lever == "retrain"


def test_a_cheaper_tier_is_offered_when_it_is_proven_to_be_as_good() -> None:
    upper = TierCounts(model_tier="upper", successes=950, failures=50, priced_runs=1000, cost_usd=100.0)
    proven = TierCounts(model_tier="cheap", successes=955, failures=45, priced_runs=1000, cost_usd=10.0)
    made = decide(skill(standing=OK, tiers=(upper, proven), current_tier="upper"))
    assert (made.lever, made.target) == ("model_down", "cheap")
    assert made.expected_gain == pytest.approx(0.09)
    assert made.expected_gain_unit == "USD a run"
    few = TierCounts(model_tier="cheap", successes=38, failures=2)
    unproven = decide(skill(standing=OK, tiers=(upper, few), current_tier="upper"))
    assert unproven.lever == "none"
    assert rejections(unproven)["model_down"] == ("condition", "below_as_good is false, not true")
    pinned = decide(
        skill(standing=OK, tiers=(upper, proven), current_tier="upper", tier_entry=TierEntry(tier="upper", pinned=True))
    )
    assert pinned.lever == "none"


@pytest.mark.parametrize(("tier", "lever", "told"), [("upper", "model_up", "above"), ("cheap", "model_down", "below")])
def test_a_table_that_asks_for_no_tier_gets_none_that_is_not_there(tier: str, lever: str, told: str) -> None:
    table = shipped_levers()
    bare = tuple(msgspec.structs.replace(entry, when=()) for entry in table.levers)
    asked = msgspec.structs.replace(table, levers=bare)
    proven = (TierCounts(model_tier=tier, successes=950, failures=50),)
    made = decide(msgspec.structs.replace(skill(tiers=proven, current_tier=tier), table=asked))
    assert made.lever != lever
    assert rejections(made)[lever] == ("condition", f"tier_{told} is false, not true")


def test_a_promotion_that_has_just_been_noted_is_awaited_whatever_earlier_runs_on_that_tier_were() -> None:
    tiers = (
        TierCounts(model_tier="cheap", successes=24, failures=16),
        TierCounts(model_tier="upper", successes=18, failures=12),
    )
    pulled = PulledLever(
        lever="tier", at_us=NOW - HOUR, before=tiers, after=(TierCounts(model_tier="upper", successes=2),),
        change_from="cheap", change_to="upper",
    )  # fmt: skip
    seen = decide(skill(tiers=tiers, current_tier="upper"))
    assert rejections(seen)["model_up"][0] == "spent"
    made = decide(skill(tiers=tiers, current_tier="upper", pulled=(pulled,)))
    assert made.lever == "none"
    assert made.summary == "No further lever for mail yet: model_up was pulled, and 2 of 20 runs have come since."


def test_tiers_that_the_table_does_not_list_are_ordered_by_price() -> None:
    small = TierCounts(model_tier="s", successes=24, failures=16, priced_runs=40, cost_usd=0.4)
    large = TierCounts(model_tier="l", successes=39, failures=1, priced_runs=40, cost_usd=20.0)
    made = decide(skill(tiers=(large, small), current_tier="s"))
    assert (made.lever, made.target) == ("model_up", "l")
    assert made.expected_gain == pytest.approx(0.375)


def test_no_skill_that_is_only_watched_gets_a_lever() -> None:
    made = decide(skill(standing=Standing(state="watch", code="dropped", reason="Not yet sure.", e_value=25.0)))
    assert made.lever == "none"
    assert made.summary == "No lever for mail: Not yet sure."


@pytest.mark.parametrize(
    ("of_cause", "lever", "target"),
    [
        ({"classes": ("quota",), "kind": "rate_limit"}, "wait", "north"),
        ({"classes": ("quota",), "kind": "quota_exhausted"}, "capacity", "north"),
        ({"classes": ("infra_fault",)}, "platform", "north"),
        ({"classes": ("tool_fault",), "dimension": "tool", "value": "search"}, "tool", "search"),
        ({"classes": ("unknown",), "dimension": "class", "value": "unknown"}, "platform", "acme"),
    ],
)
def test_a_common_cause_gets_one_lever_of_its_own(of_cause: dict[str, Any], lever: str, target: str) -> None:
    made = decide(about_cause(**of_cause))
    assert (made.lever, made.target) == (lever, target)
    assert (made.skill_name, made.skills) == (None, ["a", "b"])
    assert made.old_rule is None
    assert made.expires_us == NOW + DAY


def test_a_lever_that_did_not_end_a_cause_is_spent_for_it() -> None:
    made = decide(about_cause(classes=("quota",), pulled=(PulledLever(lever="capacity", at_us=NOW - 6 * HOUR),)))
    assert made.lever == "none"
    assert rejections(made)["capacity"] == ("spent", "faults went on for 6 hours after it")


def about_cause(pulled: tuple[PulledLever, ...] = (), **more: Any) -> Snapshot:
    given: dict[str, Any] = {
        "cause_id": "c1", "classes": ("quota",), "dimension": "provider", "value": "north", "since_us": NOW - 8 * HOUR,
        "last_us": NOW, "faults": 40, "runs": 41, "skills": ("a", "b"), "e_value": 1e6,
        "reason": "quota: 40 of 41 runs",
    }  # fmt: skip
    return Snapshot(
        tenant_id="acme", as_of_us=NOW, window="24h", table=shipped_levers(), cause=CommonCause(**{**given, **more}),
        pulled=pulled,
    )  # fmt: skip


def test_a_snapshot_is_about_one_thing() -> None:
    with pytest.raises(ValueError, match="and not both"):
        decide(skill(standing=None))


def test_a_decision_made_under_another_table_replays_under_that_table() -> None:
    table = shipped_levers()
    other = msgspec.structs.replace(table, levers=table.levers[::-1])
    made = decide(msgspec.structs.replace(skill(), table=other))
    assert made.policy_revision != table.revision
    assert replay(made).agrees


def test_replay_names_what_differs() -> None:
    made = decide(skill())
    made.summary, made.flag, made.made_us = "something else", "restated", 5
    assert replay(made).differences == ("summary",)


@pytest.mark.parametrize(
    ("recent", "above", "pinned", "would"),
    [
        (("success", "quota", "quota"), True, False, "promote"),
        (("quota", "cancelled", "infra_fault"), True, False, "promote"),
        (("quality_failure", "success", "quality_failure"), True, False, "keep"),
        (("quality_failure", "quality_failure"), False, False, "keep"),
        (("quality_failure", "quality_failure"), True, True, "keep"),
        ((), True, False, "keep"),
    ],
)
def test_the_old_rule_counts_exit_codes(recent: tuple[str, ...], above: bool, pinned: bool, would: str) -> None:
    assert old_rule(recent, tier_above=above, pinned=pinned).would == would


def test_the_old_rule_takes_the_teams_own_count_where_there_are_no_runs() -> None:
    assert old_rule((), tier_above=True, pinned=False, known_failures=2).would == "promote"


COUNTS = st.builds(
    TierCounts,
    model_tier=st.sampled_from(["cheap", "upper", "odd", None]),
    task_family=st.sampled_from(["a", "b", None]),
    successes=st.integers(0, 90),
    failures=st.integers(0, 90),
    priced_runs=st.integers(0, 3),
    cost_usd=st.floats(0, 5),
)
PULLED = st.builds(
    PulledLever,
    lever=st.sampled_from(["prompt", "tier", "tool", "coffee"]),
    at_us=st.integers(NOW - 90 * DAY, NOW),
    before=st.lists(COUNTS, max_size=2).map(tuple),
    after=st.lists(COUNTS, max_size=2).map(tuple),
    change_from=st.sampled_from(["cheap", "upper", None]),
    change_to=st.sampled_from(["cheap", "upper", None]),
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([DEGRADED, OK]),
    st.lists(COUNTS, max_size=4).map(tuple),
    st.lists(PULLED, max_size=3).map(tuple),
    st.sampled_from(["cheap", "upper", "odd", None]),
    st.booleans(),
)
def test_any_snapshot_is_decided_the_same_again(
    standing: Standing, tiers: tuple[TierCounts, ...], pulled: tuple[PulledLever, ...], tier: str | None, pinned: bool
) -> None:
    snapshot = skill(
        standing=standing, tiers=tiers, pulled=pulled, current_tier=tier, tier_entry=TierEntry(tier=tier, pinned=pinned)
    )
    made = decide(snapshot)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot
    assert replay(made).agrees
    assert made.lever not in {each.lever for each in made.rejected}
    if pinned:
        assert made.lever not in ("model_up", "model_down")
    if standing is OK:
        assert made.lever in ("none", "model_down")
