"""Runs as they come: calls of the model that failed, nothing known of the prompt, numbers that no double holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.curate.lab import Lab
from tests.exporters.test_exports import made
from tests.landkit.events import Sent, event
from trajlake.exporting.datafiles import ROW_GROUP_BYTES, ShardWriter
from trajlake.exporting.export import Plan, export
from trajlake.reading.training import TrainingZone
from trajlake.transforms.exporters.format import Omission
from trajlake.transforms.exporters.registry import FORMATS

ANSWER, RESULT, SUMMARY = "model.responded", "tool.returned", "context.compacted"
TRL = ("trl-sft", "trl-sft-messages", "trl-preference", "trl-prompt")


def told(name: str, *parts: tuple[str, dict[str, Any]], score: float | None = None, **start: Any) -> list[Sent]:
    """A run of these events, from its start to its end."""
    sent = [event("run.started", name, 1, {"input": "task"} | start)]
    for kind, data in parts:
        sent.append(event(kind, name, len(sent) + 1, data))
    if score is not None:
        graded = {"score": score, "annotator_kind": "code", "reward_id": "r"}
        sent.append(event("reward.assigned", name, len(sent) + 1, graded))
    return [*sent, event("run.ended", name, len(sent) + 1, {"end_state": "completed"})]


def call(key: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"tool_call_id": key, "function_name": "look", "arguments": arguments}


def published(lab: Lab, *stories: list[Sent]) -> None:
    lab.land([one for story in stories for one in story])
    lab.curate()
    assert len(lab.current()) == len(stories)


FAILED: dict[str, dict[str, Any]] = {
    "error_as_text": {"message": "Error: 429 rate limit", "http_status": 429, "usage": {"output_tokens": 0}},
    "nothing_but_a_status": {"http_status": 429, "error_type": "rate_limit"},
    "overloaded": {"message": "API Error: 529 overloaded_error", "http_status": 529, "error_type": "overloaded_error"},
    "credentials": {"message": "invalid x-api-key", "http_status": 401, "error_type": "authentication_error"},
    "empty": {"message": ""},
    "absent": {},
}


@pytest.mark.parametrize("fault", FAILED)
def test_what_a_provider_said_in_place_of_the_model_is_never_trained_on(lab: Lab, tmp_path: Path, fault: str) -> None:
    published(lab, told("run-a", (ANSWER, FAILED[fault]), (ANSWER, {"message": "the answer"}), score=1.0, group_id="g"))
    row = lab.current()["run-a"]
    assert [step["trains"] for step in row["steps"]] == [False, True]
    assert row["trained_step_count"] == 1
    for name in ("trl-sft", "trl-sft-messages", "chat"):
        [found], _ = made(lab, tmp_path / name, name)
        talk = found["prompt"] + found["completion"] if name == "trl-sft" else found["messages"]
        assert [(m["role"], m["content"]) for m in talk] == [("user", "task"), ("assistant", "the answer")]
    _, manifest = made(lab, tmp_path / "areal", "areal")
    assert manifest.left_out == {"nothing_said": 1, "tokens_missing": 1}
    [document], _ = made(lab, tmp_path / "atif", "atif")
    assert [step.get("extra", {}).get("trains") for step in document["steps"]] == [None, False, None]
    rows, _ = made(lab, tmp_path / "steps", "steps")
    assert [step["trains"] for step in rows] == [False, True]


def test_a_decision_whose_tool_failed_is_the_agents_own_and_carries_loss(lab: Lab) -> None:
    spent = {"tool_call_id": "a", "content": "429", "is_error": True, "http_status": 429}
    published(lab, told("run-a", (ANSWER, {"tool_calls": [call("a")]}), (RESULT, spent), (ANSWER, {"message": "so"})))
    [first, _] = lab.current()["run-a"]["steps"]
    assert (first["outcome_class"], first["trains"]) == ("quota", True)


def test_a_prompt_that_nobody_knows_is_counted_and_never_empty(lab: Lab, tmp_path: Path) -> None:
    """TRL looks at a prompt's first message to tell formats apart, and fails where there is none."""
    published(
        lab,
        told("unasked", (ANSWER, {"message": "hi"}), score=1.0, input=None, group_id="g"),
        told("unasked-too", (ANSWER, {"message": "ho"}), score=0.0, input=None, group_id="g"),
        told("unsummed", (ANSWER, {"message": "before"}), (SUMMARY, {}), (ANSWER, {"message": "after"})),
    )
    for name in TRL:
        rows, manifest = made(lab, tmp_path / name, name)
        assert all(row[key] for row in rows for key in row.keys() & {"prompt", "messages", "completion"})
        expected = {"trl-sft": 3, "trl-sft-messages": 0, "trl-preference": 2, "trl-prompt": 2}[name]
        assert manifest.left_out.get("prompt_missing", 0) == expected, name
    rows, manifest = made(lab, tmp_path / "verl", "verl")
    assert (rows, manifest.left_out["prompt_missing"]) == ([], 2)


def test_long_attempts_stay_in_their_groups_prompt_with_their_reward(lab: Lab, tmp_path: Path) -> None:
    """What was compacted, saw large results, or never got an answer from the model was asked the same."""
    large = {"tool_call_id": "a", "content": "z" * 400_000}
    stories = [
        told("short", (ANSWER, {"message": "x"}), score=1.0, group_id="g"),
        told("compacted", (ANSWER, {"message": "x"}), (SUMMARY, {"summary": "s"}), (ANSWER, {"message": "y"}),
             score=0.25, group_id="g"),
        told("large", (ANSWER, {"tool_calls": [call("a")]}), (RESULT, large), score=0.5, group_id="g"),
        told("spent", (ANSWER, {"http_status": 429, "error_type": "rate_limit"}), group_id="g"),
    ]  # fmt: skip
    published(lab, *stories)
    [row], manifest = made(lab, tmp_path / "verl", "verl")
    assert row["extra_info"]["rewards"] == [1.0, 0.25, 0.5, None]
    assert manifest.left_out == {}
    rows, _ = made(lab, tmp_path / "prompt", "trl-prompt")
    assert {one["run_id"]: one["reward"] for one in rows} == {
        "short": 1.0, "compacted": 0.25, "large": 0.5, "spent": None,
    }  # fmt: skip
    _, manifest = made(lab, tmp_path / "pairs", "trl-preference")
    assert manifest.left_out == {
        "context_compacted": 1, "content_stored_elsewhere": 1, "reward_missing": 1, "no_spread": 1,
    }  # fmt: skip


def test_a_summary_stands_behind_the_messages_of_the_system(lab: Lab, tmp_path: Path) -> None:
    system = {"input_messages": [{"role": "system", "content": "be kind"}]}
    published(
        lab,
        told("run-a", (ANSWER, {"message": "x"} | system), (SUMMARY, {"summary": "so far"}),
             (ANSWER, {"message": "y"} | system)),
    )  # fmt: skip
    rows, _ = made(lab, tmp_path / "out", "trl-sft")
    assert [[m["role"] for m in row["prompt"]] for row in rows] == [["system", "user"]] * 2
    [document], _ = made(lab, tmp_path / "atif", "atif")
    assert document["steps"][-1]["extra"] == {"context_segment": 1}


@pytest.mark.parametrize(
    "text",
    [
        '{"n":123456789012345678901234567890}', '{"n":-9223372036854775809}', '{"n":1e400}', '{"a":1,"a":2}',
        '{"n":NaN}', '{"t":"\\ud800"}', "[1]", "not json", '{"a":{"b":1,"b":1}}',
        '{"n":' + "[" * 3000 + "]" * 3000 + "}",
        '{"n":' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_atif_keeps_as_text_what_an_object_cannot_hold(lab: Lab, tmp_path: Path, text: str) -> None:
    published(lab, told("run-a", (ANSWER, {"tool_calls": [call("a", text), call("b", '{"n":18446744073709551615}')]})))
    [document], _ = made(lab, tmp_path / "out", "atif")
    found = [one["arguments"] for one in document["steps"][1]["tool_calls"]]
    assert found == [{"_raw": text}, {"n": 2**64 - 1}]
    [talk], _ = made(lab, tmp_path / "chat", "chat")
    assert talk["messages"][1]["tool_calls"][0]["function"]["arguments"] == text
    json.dumps(talk)


@pytest.mark.parametrize("name", [name for name, kind in FORMATS.items() if kind.schema is not None])
def test_types_of_columns_do_not_depend_on_what_the_rows_hold(lab: Lab, tmp_path: Path, name: str) -> None:
    """`datasets` guesses types of JSON lines from the first megabytes, and fails where a reward first comes later."""
    kind = FORMATS[name]
    lab.land([*told("plain", (ANSWER, {"message": "x"})), *told("alone", (ANSWER, {"message": "x"}), group_id="g")])
    lab.curate()
    manifest = export(TrainingZone(lab.lake), Plan(name), tmp_path / "plain")
    assert kind.schema is not None
    assert pq.read_schema(tmp_path / "plain" / manifest.files[0].name).equals(kind.schema)
    tokens = {"prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-0.5]}
    seen = {"tool_call_id": "a", "content": "seen"}
    parts = ((ANSWER, {"message": "x", "tool_calls": [call("a")]} | tokens), (RESULT, seen))
    lab.land([one for n in (0, 1) for one in told(f"full-{n}", *parts, score=float(n), task_id="t", group_id="full")])
    lab.curate()
    rows = TrainingZone(lab.lake).scan("group_id = 'full'").collect().to_dicts()
    found = [row for row in kind.rows(rows) if not isinstance(row, Omission)]
    assert found
    assert all(list(row.keys() ^ set(kind.schema.names)) == [] for row in found)


def test_long_rows_are_written_in_small_groups(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, FORMATS["trl-sft"], 1000)
    writer.write([{"tools": "x" * ROW_GROUP_BYTES}, {"tools": "y"}, {"tools": "z" * ROW_GROUP_BYTES}])
    [entry] = writer.close()
    assert (entry.rows, pq.ParquetFile(tmp_path / entry.name).num_row_groups) == (3, 2)
