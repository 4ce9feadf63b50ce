"""tau-bench result files: each trial a run, trials of a task a group, the evaluator's word a reward."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

WIKI = {"airline": "# Airline Agent Policy\n\nRules.", "retail": "# Retail agent policy\n\nRules."}


def trial(task: int = 3, number: int = 0, reward: Any = 1.0, domain: str = "airline", **changes: Any) -> dict[str, Any]:
    body = {
        "task_id": task,
        "trial": number,
        "reward": reward,
        "info": {
            "task": {"instruction": "You are mia. Book a flight.", "actions": [], "outputs": []},
            "source": "user",
            "reward_info": {"reward": reward, "info": {"r_actions": reward, "gt_data_hash": "h"}, "actions": []},
        },
        "traj": [
            {"role": "system", "content": WIKI[domain]},
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "Error: not found"},
            {"role": "assistant", "content": "Sorry."},
            {"role": "user", "content": "Bye ###STOP###"},
        ],
    }
    return {**body, **changes}


def file(*trials: dict[str, Any]) -> bytes:
    return json.dumps(list(trials), indent=2).encode()


@pytest.fixture(scope="module")
def source(runs_folder: Path) -> list[dict[str, Any]]:
    trials: list[dict[str, Any]] = json.loads((runs_folder / "tau_bench_airline_120.json").read_text())
    return trials


def test_the_public_file_gives_120_runs_in_30_groups_of_4(source: list[dict[str, Any]], import_contents: Any) -> None:
    done = import_contents({"results.json": json.dumps(source).encode()})
    assert done.problems == []
    starts, ends = done.of("run.started"), done.of("run.ended")
    assert len(done.runs) == len(starts) == len(ends) == len(source) == 120
    groups = Counter(start["group_id"] for start in starts)
    assert set(groups.values()) == {4}
    assert set(groups) == {f"tau-bench:airline:{number}" for number in range(30)}
    attempts = {(start["group_id"], start["attempt_id"]) for start in starts}
    assert len(attempts) == 120
    messages = [message for body in source for message in body["traj"]]
    roles = Counter(message["role"] for message in messages)
    calls = sum(len(message.get("tool_calls") or ()) for message in messages)
    assert len(done.of("model.responded")) == roles["assistant"]
    assert len(done.of("tool.returned")) == roles["tool"]
    assert sum(len(step.get("tool_calls", ())) for step in done.of("model.responded")) == calls
    entered = sum(len(data.get("input_messages", ())) for data in (*done.of("model.responded"), *ends))
    assert entered == roles["system"] + roles["user"]


def test_the_public_file_keeps_every_reward_with_its_provenance(
    source: list[dict[str, Any]], import_contents: Any
) -> None:
    done = import_contents({"results.json": json.dumps(source).encode()})
    by_attempt = {(body["task_id"], body["trial"]): body for body in source}
    for run in done.runs:
        events = done.run(run)
        start, reward, end = events[0]["data"], events[-2]["data"], events[-1]["data"]
        body = by_attempt[int(start["task_id"]), int(start["attempt_id"])]
        assert [event["type"] for event in events[-2:]] == ["agent.reward.assigned", "agent.run.ended"]
        assert (reward["score"], reward["annotator_kind"]) == (body["reward"], "code")
        evidence = body["info"]["reward_info"]
        if evidence is None:
            assert (end["end_state"], end["stop_condition"]) == ("truncated", "max_steps")
            assert "passed" not in reward
        else:
            assert json.loads(reward["explanation"]) == evidence
            assert (end["end_state"], end["success"]) == ("completed", body["reward"] == 1.0)
        assert start["input"] == body["info"]["task"]["instruction"]
    assert sum(reward["score"] for reward in done.of("reward.assigned")) == sum(body["reward"] for body in source)


def test_results_keep_the_call_id_that_the_source_pairs_them_by(import_contents: Any) -> None:
    done = import_contents({"r.json": file(trial())})
    [call] = done.of("model.responded")[0]["tool_calls"]
    assert call == {"tool_call_id": "c1", "function_name": "find", "arguments": '{"a":1}'}
    [result] = done.of("tool.returned")
    assert (result["tool_call_id"], result["is_error"]) == ("c1", True)


def test_messages_enter_before_the_next_decision_and_the_last_ones_with_the_end(import_contents: Any) -> None:
    done = import_contents({"r.json": file(trial())})
    first, second = done.of("model.responded")
    assert [message["role"] for message in first["input_messages"]] == ["system", "user"]
    assert "input_messages" not in second
    [end] = done.of("run.ended")
    assert end["input_messages"] == [{"role": "user", "content": "Bye ###STOP###"}]
    assert end["stop_condition"] == "user_stop"


def test_skill_comes_from_the_file_where_it_tells_and_from_the_caller_where_he_says(
    import_contents: Any,
) -> None:
    def skills(*trials: dict[str, Any], skill: str | None = None) -> list[str]:
        return [
            start["skill"]["name"] for start in import_contents({"r": file(*trials)}, skill=skill).of("run.started")
        ]

    silent = trial(traj=[{"role": "user", "content": "x"}])
    assert skills(trial()) == ["tau-bench/airline"]
    assert skills(trial(domain="retail")) == ["tau-bench/retail"]
    assert skills(silent) == ["tau-bench"]
    assert skills(silent, trial()) == ["tau-bench/airline"] * 2
    assert skills(trial(), skill="desk") == ["desk"]


def test_a_trial_that_raised_is_a_failed_run_without_reward(import_contents: Any) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "run.py", line 1, in _run\n    agent.solve()\n'
        "litellm.exceptions.RateLimitError: Error code: 429 - slow down\nNote: try later\n"
    )
    error = {"error": "Error code: 429 - slow down", "traceback": trace}
    done = import_contents({"r.json": file(trial(reward=0.0, info=error, traj=[]))})
    [end] = done.of("run.ended")
    assert end["end_state"] == "failed"
    assert end["error_type"] == "litellm.exceptions.RateLimitError"
    assert end["http_status"] == 429
    assert "success" not in end
    assert done.of("reward.assigned") == []


@pytest.mark.parametrize(
    ("text", "problems"), [("NaN", 1), ('"1"', 1), ("1e400", 1), ("true", 1), ("null", 0), ("[1]", 1)]
)
def test_T10_a_reward_that_is_no_number_is_missing_and_never_zero(
    text: str, problems: int, import_contents: Any
) -> None:
    body = json.dumps(trial(reward="REWARD")).replace('"REWARD"', text)
    done = import_contents({"r.json": f"[{body}]".encode()})
    [reward] = done.of("reward.assigned")
    assert "score" not in reward
    assert "passed" not in reward
    assert "success" not in done.of("run.ended")[0]
    assert len(done.problems) >= problems
    assert done.lost == []


def test_an_unknown_action_is_told_as_a_tool_that_does_not_exist(import_contents: Any) -> None:
    body = trial()
    body["traj"][3]["content"] = "Unknown action fly"
    [result] = import_contents({"r.json": file(body)}).of("tool.returned")
    assert (result["is_error"], result["error_type"]) == (True, "unknown_tool")


def test_a_run_ended_by_a_tool_names_it(import_contents: Any) -> None:
    body = trial()
    body["info"]["source"] = "transfer_to_human_agents"
    body["traj"] = body["traj"][:4]
    assert (
        import_contents({"r.json": file(body)}).of("run.ended")[0]["stop_condition"] == "tool:transfer_to_human_agents"
    )


def test_T8_ids_come_from_the_trial_not_from_file_order_or_layout(import_contents: Any) -> None:
    one, two = trial(1), trial(2)
    done = import_contents({"a.json": file(one, two)})
    again = import_contents({"b/other.json": json.dumps([two, trial(9), one]).encode()}, done.published)
    assert [start["task_id"] for start in again.of("run.started")] == ["9"]
    assert len(again.runs) == 1


def test_files_of_two_models_do_not_share_runs(import_contents: Any) -> None:
    other = trial()
    other["traj"][4]["content"] = "No."
    done = import_contents({"a.json": file(trial()), "b.json": file(other)})
    assert len(done.runs) == 2
    assert {start["group_id"] for start in done.of("run.started")} == {"tau-bench:airline:3"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"trial": 1, "traj": []}, "task_id"),
        ({"task_id": 1, "traj": None}, "traj"),
        ("text", "not a trial"),
        (7, "not a trial"),
    ],
)
def test_L10_a_bad_trial_is_reported_with_its_place_and_the_rest_goes_on(
    broken: Any, reason: str, import_contents: Any
) -> None:
    done = import_contents({"r.json": json.dumps([trial(1), broken, trial(2)]).encode()})
    assert [start["task_id"] for start in done.of("run.started")] == ["1", "2"]
    [problem] = done.problems
    assert (problem.file, problem.place, problem.kept) == ("r.json", "$[1]", False)
    assert reason in problem.reason


def test_L10_bad_messages_and_calls_are_left_out_of_their_trial_only(import_contents: Any) -> None:
    body = trial()
    body["traj"].insert(2, "text")
    body["traj"].insert(3, {"content": "no role"})
    body["traj"][4]["tool_calls"].append({"function": {"name": "f"}})
    done = import_contents({"r.json": file(body)})
    assert [problem.place for problem in done.problems] == [
        "$[0].traj[2]",
        "$[0].traj[3]",
        "$[0].traj[4].tool_calls[1]",
    ]
    assert len(done.of("model.responded")) == 2
    assert len(done.of("model.responded")[0]["input_messages"]) == 2
