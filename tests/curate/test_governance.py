"""Whom governance and quality keep out: no reader of the training zone finds a byte of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.curate.lab import OPEN, Lab, lenient, policies, renumbered, reward, shipped, story, tick
from tests.landkit.events import Sent, event
from trajlake.expectations.reasons import Exclusion, PolicyReason
from trajlake.expectations.suites.suite import read_suite
from trajlake.streams.curate import standings
from trajlake.streams.curate.curator import Limits
from trajlake.streams.curate.rules import Rules
from trajlake.transforms.policy.place import WritePlace

NEVER = """{"name": "publication", "expectations": [{"type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "step_count", "max_value": 0}, "meta": {"rule": "batch.never"}}]}"""
MARK = "canary-7f3a"
"""Stands in every text, id and name of the run that must not get in."""


def marked(**start: Any) -> list[Sent]:
    """A run with the mark in everything that it says."""
    facts = {"skill": {"name": f"skill-{MARK}"}, "task_id": f"task-{MARK}", "agent": {"name": f"agent-{MARK}"}}
    return story(f"run-{MARK}", text=f"text {MARK}", start=facts | start, steps=2)


def train(**terms: Any) -> str:
    """The open policy with other terms for training."""
    text = OPEN
    for name, value in terms.items():
        lines = [line for line in text.splitlines() if not line.strip().startswith(f"{name}:")]
        text = "\n".join([*lines, f"        {name}: {value}", ""])
    return text


DENY = OPEN + "deny:\n  - {id: never, reason: no, when: {classifications: [secret]}}\n"
POLICY_CASES: dict[str, tuple[str, list[Sent]]] = {
    PolicyReason.PURPOSE_NOT_ALLOWED: (train(allow="false"), marked()),
    PolicyReason.PURPOSE_NOT_DECLARED: (train(declared="required"), marked(purpose=["evaluate"])),
    PolicyReason.SUBJECT_UNKNOWN: (train(consent="required"), marked()),
    PolicyReason.CONSENT_ABSENT: (OPEN, marked(subject_id=f"person-{MARK}")),
    PolicyReason.LICENCE_MISSING: (train(licences="[MIT]"), marked()),
    PolicyReason.LICENCE_NOT_ALLOWED: (train(licences="[MIT]"), marked(license="proprietary")),
    PolicyReason.ANNOTATOR_NOT_ALLOWED: (train(annotators="[{kind: human}]", refused_rewards="deny_run"), marked()),
    PolicyReason.DENY_RULE: (DENY, marked(classification="secret")),
    PolicyReason.OTHER_ZONE: (OPEN + "    zone: eu\n", marked()),
    PolicyReason.NOT_ISOLATED: (OPEN + "    isolation: dedicated\n", marked()),
}


def assert_nothing_of_it(lab: Lab) -> None:
    """No row, file or name in the training zone holds the mark."""
    assert MARK not in lab.trainer_rows()
    for content in lab.trainer_files():
        assert MARK.encode() not in content


def assert_left_out(lab: Lab) -> None:
    """Runs with the mark were judged, and nothing of them reached the training zone."""
    assert_nothing_of_it(lab)
    assert MARK in repr(lab.rows("curation")), "the ledger of verdicts knows the run"


@pytest.mark.parametrize("reason", POLICY_CASES, ids=str)
def test_a_run_that_policy_denies_leaves_no_byte_in_the_training_zone(lab: Lab, reason: str) -> None:
    text, run = POLICY_CASES[reason]
    lab.rules = type(lab.rules)(policies(text), lab.rules.suite, WritePlace(zone="kr"))
    lab.land([*run, *story("other", start={"license": "MIT", "purpose": ["train"]})])
    lab.curate()
    verdict, codes = lab.verdicts(f"run-{MARK}")[-1]
    assert (verdict, reason in codes) == ("refused", True)
    assert_left_out(lab)


def unfinished(count: int) -> list[Sent]:
    """Runs of the marked skill of which nearly all time out: the shipped suite holds them."""
    skill = {"skill": {"name": f"skill-{MARK}"}}
    ends = {"end_state": "timeout", "success": None, "output": MARK}
    return [one for n in range(count) for one in story(f"run-{MARK}-{n}", text=MARK, start=skill, end=ends)]


def test_S17_held_runs_wait_nothing_else_is_blocked_and_an_operator_releases_them(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lake", suite=shipped())
    lab.land([*unfinished(24), *[one for n in range(8) for one in story(f"good-{n}")]])
    [done] = lab.curate()
    assert (done.published, done.held, done.reasons) == (8, 24, {Exclusion.BATCH_RULE.value: 24})
    assert_left_out(lab)
    assert lab.curate() == []
    lab.land(story("later"))
    assert [one.published for one in lab.curate()] == [1]
    [released] = list(lab.curator().release(done.publication, "kim"))
    assert (released.cause, released.published) == ("release", 24)
    assert lab.current()[f"run-{MARK}-0"]["outcome_class"] == "timeout"
    assert [row["decided_by"] for row in lab.rows("curation") if row["cause"] == "release"] == ["kim"] * 24


def _calls(count: int, failed: int, first: int) -> list[Sent]:
    """Runs of one call each, of which some fail."""
    sent: list[Sent] = []
    for n in range(first, first + count):
        run, call = f"run-{n}", f"call-{n}"
        bad = n - first < failed
        sent += [
            event("run.started", run, 1, {"skill": {"name": "refund"}, "model": {"name": "m"}, "input": "x"}),
            event("model.responded", run, 2, {"message": "look", "tool_calls": [
                {"tool_call_id": call, "function_name": "look", "arguments": "{}"}]}),
            event("tool.returned", run, 3, {"tool_call_id": call, "content": "text", "is_error": bad}),
            event("run.ended", run, 4, {"end_state": "completed", "success": True, "output": "done " * 20}),
        ]  # fmt: skip
    return sent


def test_S16_tool_calls_that_start_to_fail_hold_the_batch_before_anybody_trains_on_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lake", suite=shipped())
    lab.land(_calls(150, 1, 0))
    assert [done.published for done in lab.curate()] == [150]
    lab.land(_calls(150, 2, 1000))
    assert [done.published for done in lab.curate()] == [150]
    lab.land(_calls(300, 30, 2000))
    [done] = lab.curate()
    assert (done.published, done.held) == (0, 300)
    rules = {given["rule"] for row in lab.rows("curation") if row["verdict"] == "held" for given in row["reasons"]}
    assert rules == {"batch.tool_error_share"}
    assert not {run for run in lab.current() if int(run[4:]) >= 2000}


def test_rejected_runs_stay_out_for_good(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lake", suite=shipped())
    lab.land([*unfinished(24), *[one for n in range(8) for one in story(f"good-{n}")]])
    [done] = lab.curate()
    [rejected] = list(lab.curator().reject(done.publication, "kim"))
    assert (rejected.refused, rejected.reasons) == (24, {Exclusion.REJECTED.value: 24})
    with pytest.raises(LookupError, match="holds no run"):
        list(lab.curator().release(done.publication, "kim"))
    assert lab.curate() == []
    assert_left_out(lab)


@pytest.mark.parametrize("later", ["reward", "revision", "policies", "suite"])
def test_what_was_rejected_stays_out_whatever_comes_later(tmp_path: Path, later: str) -> None:
    lab = Lab(tmp_path / "lake", suite=shipped())
    lab.land([*unfinished(24), *[one for n in range(8) for one in story(f"good-{n}")]])
    [done] = lab.curate()
    list(lab.curator().reject(done.publication, "kim"))
    rejected = sorted({row["run_id"] for row in lab.rows("runs")} - set(lab.current()))
    lab.rules = Rules(lab.rules.policies, lab.rules.suite if later == "policies" else lenient())
    if later == "reward":
        lab.land([reward(run, "late", 1.0) for run in rejected])
    elif later == "revision":
        lab.land([event("tool.returned", run, None, {"tool_call_id": f"{run}-0", "content": "late"}, id=f"{run}:late")
                  for run in rejected])  # fmt: skip
    elif later == "policies":
        lab.rules = Rules(policies(OPEN + "deny:\n  - {id: x, reason: no, when: {skills: [other]}}\n"), lenient())
    lab.curate()
    assert len(rejected) == 24
    assert set(lab.current()) == {f"good-{n}" for n in range(8)}
    assert {lab.verdicts(run)[-1] for run in rejected if lab.verdicts(run)[-1][0] != "refused"} == set()
    assert all(lab.verdicts(run)[-1][1] == ["rejected"] for run in rejected)


def test_an_earlier_state_stays_published_where_a_later_one_was_rejected(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lake", suite=lenient())
    run = story("run-a", steps=1)
    lab.land([run[0], run[1], *(renumbered(one, -1) for one in run[3:])])
    lab.curate()
    assert set(lab.current()) == {"run-a"}
    lab.rules = Rules(lab.rules.policies, read_suite(NEVER, "publication"))
    lab.land([renumbered(run[2], 2), tick(idle_us=0)])
    assert [(done.cause, done.held) for done in lab.curate()] == [("new", 1)]
    list(lab.curator().reject(2, "kim"))
    lab.land([reward("run-a", "late", 0.25)])
    lab.rules = Rules(lab.rules.policies, lenient())
    lab.curate()
    assert [verdict for verdict, _ in lab.verdicts("run-a")] == ["published", "held", "refused"]
    assert lab.current()["run-a"]["publication"] == 1


def test_a_rule_may_settle_what_nobody_released(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lake", suite=shipped())
    lab.land([*unfinished(24), *[one for n in range(8) for one in story(f"good-{n}")]])
    lab.limits = Limits(held_then="reject", held_after_s=3600)
    assert [done.held for done in lab.curate()] == [24]
    assert lab.curate() == []
    lab.now_us += 3_600_000_000
    assert [(done.cause, done.refused) for done in lab.curate()] == [("reject", 24)]


def test_G18_changed_policies_judge_again_and_both_verdicts_are_kept(lab: Lab) -> None:
    strict = train(licences="[MIT]")
    lab.rules = type(lab.rules)(policies(strict), lab.rules.suite)
    lab.land([*story("run-a"), *story("run-b", start={"license": "MIT"})])
    lab.curate()
    assert set(lab.current()) == {"run-b"}
    lab.rules = type(lab.rules)(policies(), lab.rules.suite)
    [done] = lab.curate()
    assert (done.cause, done.published) == ("policy", 1)
    assert lab.verdicts("run-a") == [("refused", ["licence_missing"]), ("published", [])]
    assert lab.curate() == []
    lab.rules = type(lab.rules)(policies(train(licences="[Apache-2.0]")), lab.rules.suite)
    [done] = lab.curate()
    assert done.withdrawn == 2
    assert lab.current() == {}
    rows = lab.rows("trajectories")
    assert sorted((row["run_id"], row["withdrawn"], row["steps"]) for row in rows) == [
        ("run-a", True, None),
        ("run-b", True, None),
    ]
    lab.rules = type(lab.rules)(policies(), lab.rules.suite)
    lab.curate()
    assert set(lab.current()) == {"run-a", "run-b"}


def test_many_runs_are_judged_again_in_parts_and_each_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "ROUND_RUNS", 3)
    lab.land([one for n in range(10) for one in story(f"run-{n}")])
    lab.curate()
    lab.rules = type(lab.rules)(policies(train(licences="[MIT]")), lab.rules.suite)
    assert sum(done.withdrawn for done in lab.curate()) == 10
    assert {row["run_id"]: row["withdrawn"] for row in lab.rows("trajectories")} == {
        f"run-{n}": True for n in range(10)
    }
    assert lab.curate() == []


def test_rewards_of_graders_that_may_not_speak_do_not_count(lab: Lab) -> None:
    lab.rules = type(lab.rules)(policies(train(annotators="[{kind: human}]")), lab.rules.suite)
    lab.land([*story("run-a", reward=1.0), reward("run-a", "person", 0.25, annotator_kind="human", name="review")])
    lab.curate()
    row = lab.current()["run-a"]
    assert row["reward"] == 0.25
    assert [(given["reward_id"], given["counts"]) for given in row["rewards"]] == [
        ("run-a-r0", False),
        ("person", True),
    ]


def test_fields_are_masked_and_dropped_before_publication(lab: Lab) -> None:
    actions = "\n        fields: {steps.message: drop, steps.observations: mask, runs.input: mask, runs.output: drop}\n"
    lab.rules = type(lab.rules)(policies(OPEN.rstrip() + actions), lab.rules.suite)
    lab.land(story("run-a", text=MARK))
    lab.curate()
    row = lab.current()["run-a"]
    assert (row["input"], row["output"]) == ("[masked by policy]", None)
    assert [step["message"] for step in row["steps"]] == [None, None]
    assert [step["observations"][0]["content"] for step in row["steps"]] == ["[masked by policy]"] * 2
    assert row["steps"][0]["observations"][0]["source_call_id"] == "run-a-0"
    assert MARK not in lab.trainer_rows()


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ("steps.message: drop", False), ("steps.observations: mask", False), ("runs.input: mask", False),
        ("runs.final_messages: drop", False), ("runs.compactions: drop", False), ("rewards.label: drop", True),
    ],
)  # fmt: skip
def test_token_ids_do_not_say_what_is_masked_or_dropped(lab: Lab, field: str, kept: bool) -> None:
    tokens = {"prompt_token_ids": [7, 8], "completion_token_ids": [9], "logprobs": [-0.5], "loss_mask": [1]}
    lab.rules = type(lab.rules)(policies(f"{OPEN.rstrip()}\n        fields: {{{field}}}\n"), lab.rules.suite)
    lab.land(
        [
            event("run.started", "run-a", 1, {"input": "text"}),
            event("model.responded", "run-a", 2, {"message": "m", **tokens}),
            event("run.ended", "run-a", 3, {"end_state": "completed"}),
        ]
    )
    lab.curate()
    [step] = lab.current()["run-a"]["steps"]
    assert {name: step[name] for name in tokens} == (tokens if kept else dict.fromkeys(tokens))
    assert step["tokens_usable"] is kept


def test_what_passes_skill_by_skill_waits_where_it_does_not_pass_together(lab: Lab) -> None:
    rule = {"type": "expect_table_row_count_to_be_between", "kwargs": {"max_value": 3}, "meta": {"rule": "batch.few"}}
    suite = read_suite(json.dumps({"name": "publication", "expectations": [rule]}), "publication")
    lab.rules = Rules(lab.rules.policies, suite)
    lab.land(
        [
            one
            for skill, runs in (("a", 4), ("b", 2), ("c", 2))
            for number in range(runs)
            for one in story(f"{skill}-{number}", start={"skill": {"name": skill}})
        ]
    )
    [done] = lab.curate()
    assert (done.published, done.held) == (0, 8)
    details = {row["run_id"]: row["reasons"][0]["detail"] for row in lab.rows("curation")}
    assert (details["a-0"], details["b-0"], details["c-1"]) == ("in batch 1/0", "in batch 1/rest", "in batch 1/rest")
