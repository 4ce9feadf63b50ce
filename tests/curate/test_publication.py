"""What gets into the training zone: whole runs, in the state that the log gives them, each state once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.curate.lab import OPEN, Lab, never, policies, renumbered, reward, story, tick, with_parent
from tests.landkit.events import event
from tests.landkit.stretches import TOPIC
from tests.landkit.told import Told
from trajlake.sinks.maintenance import UpkeepRules, maintain_table
from trajlake.streams.curate.curator import Limits
from trajlake.transforms.gate.rowgate import compile_gate
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules


def test_a_closed_run_is_published_whole_and_once(lab: Lab) -> None:
    lab.land([*story("run-a", steps=3), *story("run-open")[:3]])
    [done] = lab.curate()
    assert (done.runs, done.published, done.steps) == (1, 1, 3)
    [row] = lab.rows("trajectories")
    assert (row["run_id"], row["publication"], row["withdrawn"], row["reward"]) == ("run-a", 1, False, 1.0)
    assert [step["message"] for step in row["steps"]] == ["hello 0", "hello 1", "hello 2"]
    assert [len(step["observations"]) for step in row["steps"]] == [1, 1, 1]
    assert [step["trains"] for step in row["steps"]] == [True] * 3
    assert row["trained_step_count"] == 3
    [verdict] = lab.rows("curation")
    assert (verdict["verdict"], verdict["purposes"]) == ("published", ["train"])
    assert (row["verdict_id"], row["policy_revision"]) == (verdict["verdict_id"], lab.rules.policies.revision)
    assert lab.curate() == []


def test_a_pass_tells_how_many_of_how_many_runs_it_has_judged(lab: Lab) -> None:
    lab.limits = Limits(batch_steps=2)
    lab.land([event for name in "abcde" for event in story(f"run-{name}")])
    told = Told()
    list(lab.curator(told).run_once())
    assert (told["judging new runs"].done, told["judging new runs"].total) == (5, 5)
    lab.land([reward("run-a", "late", 0.5), reward("run-b", "late", 0.5)])
    list(lab.curator(told).run_once())
    assert (told["judging runs that were rewarded"].done, told["judging runs that were rewarded"].total) == (2, 2)


def test_an_empty_lake_has_nothing_to_judge(lab: Lab) -> None:
    assert lab.curate() == []


def test_runs_that_close_later_come_with_the_next_pass(lab: Lab) -> None:
    lab.land(story("run-a"))
    lab.curate()
    late = story("run-b")
    lab.land(late[:3])
    assert lab.curate() == []
    lab.land(late[3:])
    [done] = lab.curate()
    assert (done.publication, done.published) == (2, 1)
    assert set(lab.current()) == {"run-a", "run-b"}


def test_T9_a_late_reward_makes_a_new_state_the_last_counts_and_history_is_kept(lab: Lab) -> None:
    lab.land(story("run-a", reward=0.0))
    lab.curate()
    lab.land([reward("run-a", "late", 0.5)])
    [done] = lab.curate()
    assert (done.cause, done.published) == ("reward", 1)
    lab.land([reward("run-a", "better", 1.0, supersedes="late")])
    lab.curate()
    row = lab.current()["run-a"]
    assert row["reward"] == 1.0
    assert [(given["reward_id"], given["counts"]) for given in row["rewards"]] == [
        ("run-a-r0", True),
        ("late", False),
        ("better", True),
    ]
    history = sorted((row["publication"], row["reward"]) for row in lab.rows("trajectories"))
    assert history == [(1, 0.0), (2, 0.5), (3, 1.0)]
    assert lab.curate() == []


def test_T10_a_missing_score_stays_null(lab: Lab) -> None:
    lab.land(story("run-a", reward=None))
    lab.land(story("run-b", rewards=0))
    lab.curate()
    assert {run: row["reward"] for run, row in lab.current().items()} == {"run-a": None, "run-b": None}


def test_a_late_result_makes_a_new_revision(lab: Lab) -> None:
    sent = story("run-a", steps=2)
    missing = sent[4]
    lab.land([one for one in sent if one is not missing])
    lab.land([tick()])
    lab.curate()
    assert lab.verdicts("run-a") == [("refused", ["events_missing"])]
    lab.land([missing])
    assert lab.curate() == []
    lab.land([tick(idle_us=0)])
    lab.curate()
    assert [verdict for verdict, _ in lab.verdicts("run-a")] == ["refused", "published"]
    assert [len(step["observations"]) for step in lab.current()["run-a"]["steps"]] == [1, 1]


def test_T3_copied_steps_of_a_fork_carry_no_loss(lab: Lab) -> None:
    sent = story("fork", steps=1, start={"forked_from_id": "run-a"})
    copied = event("model.responded", "fork", 2, {"message": "from before", "is_copied_context": True})
    lab.land([sent[0], copied, *[renumbered(one, 1) for one in sent[1:]]])
    lab.curate()
    row = lab.current()["fork"]
    assert [(step["message"], step["trains"]) for step in row["steps"]] == [("from before", False), ("hello 0", True)]
    assert (row["trained_step_count"], row["forked_from_id"]) == (1, "run-a")


def test_T4_steps_on_both_sides_of_a_compaction_are_told_apart(lab: Lab) -> None:
    lab.land(
        [
            event("run.started", "run-a", 1, {}),
            event("model.responded", "run-a", 2, {"message": "before"}),
            event("context.compacted", "run-a", 3, {"summary": "so far"}),
            event("model.responded", "run-a", 4, {"message": "after"}),
            event("run.ended", "run-a", 5, {"end_state": "completed"}),
        ]
    )
    lab.curate()
    row = lab.current()["run-a"]
    assert [step["context_segment"] for step in row["steps"]] == [0, 1]
    assert row["compactions"][0]["summary"] == "so far"


def test_T5_a_sub_agent_is_a_run_of_its_own(lab: Lab) -> None:
    spawned = story("child", start={"spawned_by_tool_call_id": "run-a-0"})
    lab.land([*story("run-a"), *[with_parent(one, "run-a") for one in spawned]])
    lab.curate()
    row = lab.current()["child"]
    assert (row["parent_run_id"], row["spawned_by_tool_call_id"]) == ("run-a", "run-a-0")
    assert lab.current()["run-a"]["trained_step_count"] == 2


@pytest.mark.parametrize(
    ("tokens", "usable"),
    [
        (
            {"prompt_token_ids": [1], "completion_token_ids": [2, 3], "logprobs": [-0.1, -0.2], "loss_mask": [1, 1]},
            True,
        ),
        ({"prompt_token_ids": [1], "completion_token_ids": [2, 3], "loss_mask": [0, 1, 1]}, True),
        ({"completion_token_ids": []}, False),
        ({"completion_token_ids": [2, 3], "logprobs": [-0.1]}, False),
        ({"completion_token_ids": [2, 3], "loss_mask": [1]}, False),
        ({"prompt_token_ids": [], "completion_token_ids": [2]}, False),
        ({}, False),
    ],
)
def test_T11_tokens_are_usable_only_where_ids_mask_and_logprobs_fit(
    lab: Lab, tokens: dict[str, Any], usable: bool
) -> None:
    lab.land(
        [
            event("run.started", "run-a", 1, {}),
            event("model.responded", "run-a", 2, {"message": "m", **tokens}),
            event("run.ended", "run-a", 3, {"end_state": "completed"}),
        ]
    )
    lab.curate()
    assert [step["tokens_usable"] for step in lab.current()["run-a"]["steps"]] == [usable]


def test_what_is_published_does_not_depend_on_batches_and_passes(tmp_path: Path) -> None:
    sent = [one for number in range(8) for one in story(f"run-{number}", steps=1 + number % 3)]
    sent += [reward("run-3", "late", 0.25), reward("run-7", "late", 0.75)]

    def published(name: str, cuts: list[int], limits: Limits) -> list[dict[str, Any]]:
        lab = Lab(tmp_path / name)
        lab.limits = limits
        for low, high in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            lab.land(sent[low:high])
            lab.curate()
        rows = [lab.current()[run] for run in sorted(lab.current())]
        changing = ("publication", "verdict_id")
        return [{name: value for name, value in row.items() if name not in changing} for row in rows]

    once = published("once", [], Limits())
    assert len(once) == 8
    assert published("parts", [9, 30], Limits()) == once
    assert published("small", [40], Limits(batch_steps=2)) == once
    assert published("bytes", [40], Limits(batch_bytes=3_000)) == once


def test_compaction_between_passes_neither_loses_nor_doubles(lab: Lab) -> None:
    for number in range(6):
        lab.land(story(f"run-{number}"))
    lab.curate()
    for number in range(6, 12):
        lab.land(story(f"run-{number}"))
    for name in ("runs", "steps", "rewards", "curation", "trajectories"):
        maintain_table(lab.lake, name, UpkeepRules(least_files=2, checkpoint_every=1))
    [done] = lab.curate()
    assert done.published == 6
    assert sorted(row["run_id"] for row in lab.rows("trajectories")) == sorted(f"run-{number}" for number in range(12))
    lab.land([reward("run-2", "late", 0.5)])
    lab.curate()
    assert lab.current()["run-2"]["reward"] == 0.5


def test_a_run_that_is_too_large_is_refused_and_nothing_else(lab: Lab) -> None:
    lab.limits = Limits(batch_bytes=20_000, run_max_bytes=20_000)
    lab.land([*story("small"), *story("large", text="x" * 30_000, steps=4), *story("other")])
    lab.curate()
    assert set(lab.current()) == {"small", "other"}
    assert lab.verdicts("large") == [("refused", ["too_large"])]


def test_a_record_that_a_rule_refused_and_that_comes_again_under_milder_rules_lets_its_run_in(lab: Lab) -> None:
    """As `trajlake quarantine release` does it: the record is published again, and judged by the rules of now."""
    gate = compile_gate({"events": never("saw hello", "events", "event")})
    strict = PartitionFold(TOPIC, 0, LandRules(row_rules=gate))
    lab.land_with(strict)
    sent = story("run-a", steps=2)
    lab.land([*sent, tick()])
    lab.curate()
    assert [row["reason_code"] for row in lab.rows("quarantine")] == ["row_rule"] * 2
    assert lab.verdicts("run-a") == [("refused", ["events_missing"])]
    lab.land_with(PartitionFold(TOPIC, 0, LandRules(), strict.snapshot()))
    lab.land([sent[2], sent[4], tick(), tick(idle_us=0)])
    lab.curate()
    assert [verdict for verdict, _ in lab.verdicts("run-a")] == ["refused", "published"]
    row = lab.current()["run-a"]
    assert [len(step["observations"]) for step in row["steps"]] == [1, 1]
    assert (row["late"], row["run_revision"] > 0) == (True, True)


def test_a_withdrawn_run_is_gone_from_old_versions_when_their_retention_is_over(lab: Lab) -> None:
    closed = OPEN + "deny:\n  - {id: no-b, reason: not b, when: {skills: [b]}}\n"
    lab.land([*story("run-a"), *story("run-b", start={"skill": {"name": "b"}}, text="unsayable")])
    lab.curate()
    lab.rules = type(lab.rules)(policies(closed), lab.rules.suite)
    lab.curate()
    assert any(b"unsayable" in content for content in _plain(lab)), "an older version still holds it"
    rules = UpkeepRules(least_files=2, checkpoint_every=1, vacuum_retention_h=0, log_retention_h=0, log_versions_kept=1)
    maintain_table(lab.lake, "trajectories", rules)
    assert set(lab.current()) == {"run-a"}
    assert not any(b"unsayable" in content for content in _plain(lab))


def _plain(lab: Lab) -> list[bytes]:
    """Content of the training zone's objects, data files without their compression."""
    found = []
    for path in Path(lab.lake.training_uri).rglob("*"):
        if path.suffix == ".parquet" and "_delta_log" not in path.parts:
            found.append(repr(pq.read_table(path).to_pylist()).encode())
        elif path.is_file():
            found.append(path.read_bytes())
    return found
