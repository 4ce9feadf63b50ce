"""ATIF documents: steps of the agent are decisions, all else is context; what is wrong is said and the rest kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def step(number: int, source: str, message: Any = "m", **fields: Any) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": message, **fields}


def call(id: str, name: str = "f", arguments: Any = None) -> dict[str, Any]:
    return {"tool_call_id": id, "function_name": name, "arguments": {} if arguments is None else arguments}


def results(*pairs: tuple[str | None, Any]) -> dict[str, Any]:
    return {"results": [{"source_call_id": id, "content": content} for id, content in pairs]}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    agent = {"name": "bot", "version": "2", "model_name": "m1"}
    return {"schema_version": "ATIF-v1.8", "trajectory_id": "t1", "agent": agent, "steps": list(steps), **fields}


DIALOGUE = (
    step(1, "system", "Be good."),
    step(2, "user", "Look."),
    step(
        3, "agent", "", tool_calls=[call("a"), call("b")], observation=results(("b", "B"), ("a", "A")), model_name="m2"
    ),
    step(
        4, "agent", "Done.", metrics={"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.5}
    ),
)


def atif(import_contents: Any, *documents: dict[str, Any], **options: Any) -> Any:
    return import_contents({f"d{n}.json": json.dumps(doc).encode() for n, doc in enumerate(documents)}, **options)


def test_public_files_give_a_step_for_each_agent_step_and_a_result_for_each_call(
    runs_folder: Path, import_contents: Any
) -> None:
    paths = [
        *runs_folder.glob("atif/*.json"),
        *runs_folder.glob("atof/*_atif.json"),
        *runs_folder.glob("letta*/atif*input*"),
    ]
    assert len(paths) == 9
    for path in paths:
        body = json.loads(path.read_text())
        documents = [body, *body.get("subagent_trajectories", [])]
        steps = [one for doc in documents for one in doc["steps"]]
        done = import_contents({path.name: path.read_bytes()})
        assert done.lost == []
        assert len(done.runs) == len(documents)
        agents = [one for one in steps if one["source"] == "agent"]
        assert len(done.of("model.responded")) == len(agents)
        answered = [
            result["source_call_id"]
            for one in steps
            for result in one.get("observation", {}).get("results", [])
            if result.get("source_call_id")
        ]
        assert [result["tool_call_id"] for result in done.of("tool.returned")] == answered
        tokens = sum(one.get("metrics", {}).get("prompt_tokens", 0) for one in agents)
        assert sum(data.get("usage", {}).get("input_tokens", 0) for data in done.of("model.responded")) == tokens


def test_public_expectations_of_another_reader_are_met(runs_folder: Path, import_contents: Any) -> None:
    folder = runs_folder / "letta_fixtures"
    body = (folder / "atif_tool-calls_input.json").read_bytes()
    expected = json.loads((folder / "atif_tool-calls_expected.json").read_text())["records"]
    done = import_contents({"f.json": body})
    first = done.of("model.responded")[0]
    told = {record["tool_call_id"]: record["content"] for record in expected if record["role"] == "tool"}
    listed, delegated = done.of("tool.returned")
    assert listed["content"] == told["call-list"]
    assert delegated["content"] == json.loads(told["call-delegate"])
    assert first["reasoning_content"] == next(r["content"] for r in expected if r["role"] == "reasoning")
    names = [(one["id"], one["name"]) for record in expected for one in record.get("tool_calls", [])]
    assert [(one["tool_call_id"], one["function_name"]) for one in first["tool_calls"]] == names
    said = [record["content"] for record in expected if record["role"] == "assistant" and record["content"]]
    assert [data["message"] for data in done.of("model.responded")] == said


def test_T1_results_carry_the_id_of_their_call_in_the_order_they_came(import_contents: Any) -> None:
    done = atif(import_contents, document(*DIALOGUE))
    assert done.problems == []
    assert [one["tool_call_id"] for one in done.of("model.responded")[0]["tool_calls"]] == ["a", "b"]
    assert [(one["tool_call_id"], one["content"]) for one in done.of("tool.returned")] == [("b", "B"), ("a", "A")]


def test_versions_context_usage_and_cost_land_where_the_contract_has_them(import_contents: Any) -> None:
    done = atif(import_contents, document(*DIALOGUE, session_id="s"))
    [start] = done.of("run.started")
    assert (start["agent"], start["model"]) == ({"name": "bot", "version": "2"}, {"name": "m1"})
    assert (start["session_id"], start["input"], start["skill"]["name"]) == ("s", "Look.", "atif/bot")
    first, second = done.of("model.responded")
    assert [message["role"] for message in first["input_messages"]] == ["system", "user"]
    assert (first["model"]["name"], second["model"]["name"]) == ("m2", "m1")
    assert second["usage"] == {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4}
    assert second["cost_usd"] == 0.5
    assert "usage" not in first
    assert done.of("run.ended") == [{"end_state": "completed", "stop_condition": "end_of_file"}]
    assert all("time" not in event for event in done.events)


def test_T3_copied_steps_are_marked(import_contents: Any) -> None:
    copied = {**DIALOGUE[2], "is_copied_context": True}
    done = atif(import_contents, document(*DIALOGUE[:2], copied, DIALOGUE[3]))
    assert [data.get("is_copied_context", False) for data in done.of("model.responded")] == [True, False]


def test_T5_embedded_subagents_are_runs_of_their_own_with_parent_and_spawning_call(import_contents: Any) -> None:
    inner = document(step(1, "user", "Sub."), step(2, "agent", "Yes."), trajectory_id="sub")
    nested = document(step(1, "agent", "Deep."), trajectory_id="deep")
    inner["subagent_trajectories"] = [nested]
    referring = step(
        1,
        "agent",
        tool_calls=[call("spawn")],
        observation={"results": [{"source_call_id": "spawn", "subagent_trajectory_ref": [{"trajectory_id": "sub"}]}]},
    )
    done = atif(import_contents, document(referring, subagent_trajectories=[inner]))
    assert done.problems == []
    root, sub, deep = done.runs
    parents = {event["runid"]: event.get("parentrunid") for event in done.events}
    assert parents == {root: None, sub: root, deep: sub}
    assert done.of("run.started", sub)[0]["spawned_by_tool_call_id"] == "spawn"
    assert len(done.of("model.responded")) == 3


def test_T5_a_subagent_in_a_file_of_its_own_finds_the_call_that_names_it(import_contents: Any) -> None:
    referring = step(
        1,
        "agent",
        tool_calls=[call("spawn")],
        observation={
            "results": [{"source_call_id": "spawn", "subagent_trajectory_ref": [{"trajectory_path": "sub/x.json"}]}]
        },
    )
    parent, child = document(referring, trajectory_id="p"), document(*DIALOGUE, trajectory_id="c")
    files = {"all/sub/x.json": json.dumps(child).encode(), "all/p.json": json.dumps(parent).encode()}
    done = import_contents(files)
    assert done.run("atif:c")[0]["parentrunid"] == "atif:p"
    assert done.of("run.started", "atif:c")[0]["spawned_by_tool_call_id"] == "spawn"
    assert "parentrunid" not in import_contents({"y.json": files["all/sub/x.json"]}).events[0]


def test_results_that_answer_no_call_are_context_from_the_environment(import_contents: Any) -> None:
    body = document(
        step(1, "agent", "act", observation=results((None, "rebooted"))),
        step(2, "system", "note", observation=results((None, "disk full"))),
        step(3, "agent", "ok", observation=results((None, "last"))),
    )
    done = atif(import_contents, body)
    entered = [(message["role"], message["content"]) for message in done.of("model.responded")[1]["input_messages"]]
    assert entered == [("environment", "rebooted"), ("system", "note"), ("environment", "disk full")]
    assert done.of("run.ended")[0]["input_messages"] == [{"role": "environment", "content": "last"}]
    assert done.of("tool.returned") == []


def test_a_call_that_nothing_answers_means_abandoned_unless_the_writer_closed_the_document(
    import_contents: Any,
) -> None:
    finish = step(1, "agent", tool_calls=[call("x", "finish")])
    open_end = atif(import_contents, document(finish))
    closed = atif(import_contents, document(finish, final_metrics={"total_steps": 1}))
    continued = atif(import_contents, document(finish, continued_trajectory_ref="next.json"))
    ends = [done.of("run.ended")[0] for done in (open_end, closed, continued)]
    assert [end["end_state"] for end in ends] == ["abandoned", "completed", "completed"]
    assert ends[2]["stop_condition"] == "continued"


def test_two_documents_of_one_session_are_two_runs(import_contents: Any) -> None:
    one, two = (
        document(*DIALOGUE, session_id="same"),
        document(step(1, "user", "Other."), step(2, "agent"), session_id="same"),
    )
    del one["trajectory_id"], two["trajectory_id"]
    done = atif(import_contents, one, two)
    assert len(done.runs) == 2
    assert {start["session_id"] for start in done.of("run.started")} == {"same"}


@pytest.mark.parametrize("named", [True, False])
def test_T8_a_document_that_grew_adds_only_its_tail(named: bool, import_contents: Any) -> None:
    more = (step(5, "user", "And?"), step(6, "agent", "", tool_calls=[call("c")], observation=results(("c", "C"))))
    half = {**DIALOGUE[2], "observation": results(("b", "B"))}
    short, long = document(*DIALOGUE[:2], half), document(*DIALOGUE, *more)
    if not named:
        del short["trajectory_id"], long["trajectory_id"]
    first = atif(import_contents, short)
    second = atif(import_contents, long, known=first.published)
    assert second.runs == first.runs
    assert [event["type"] for event in second.events] == [
        "agent.tool.returned",
        "agent.model.responded",
        "agent.model.responded",
        "agent.tool.returned",
        "agent.run.ended",
    ]
    assert atif(import_contents, long, known={**first.published, **second.published}).events != []
    merged = {run: {**first.published[run], **second.published[run]} for run in first.runs}
    assert atif(import_contents, long, known=merged).events == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"tool_calls": [call("a", arguments=["x"])]}, "$.steps[2].tool_calls[0].arguments"),
        ({"timestamp": "yesterday"}, "$.steps[2].timestamp"),
        ({"step_id": 7}, "$"),
        ({"surprise": 1}, "$.steps[2].surprise"),
        ({"metrics": {"prompt_tokens": "many"}}, "$.steps[2].metrics.prompt_tokens"),
        ({"observation": results(("nobody", "x")), "tool_calls": [call("a")]}, "$.steps[2]"),
    ],
)
def test_L10_an_invalid_field_is_reported_with_its_path_and_the_rest_is_kept(
    change: dict[str, Any], place: str, import_contents: Any
) -> None:
    body = document(*DIALOGUE[:2], {**DIALOGUE[2], "observation": None, **change}, DIALOGUE[3])
    done = atif(import_contents, body)
    assert [(problem.place, problem.kept) for problem in done.problems] == [(place, True)]
    assert len(done.of("model.responded")) == 2
    assert done.of("model.responded")[1]["message"] == "Done."


def test_T7_a_result_for_a_call_of_nobody_is_kept_under_its_own_id(import_contents: Any) -> None:
    orphan = step(1, "agent", tool_calls=[call("a")], observation=results(("ghost", "boo"), ("a", "A")))
    assert [one["tool_call_id"] for one in atif(import_contents, document(orphan)).of("tool.returned")] == [
        "ghost",
        "a",
    ]


def test_L10_steps_that_are_none_are_left_out_with_their_place(import_contents: Any) -> None:
    done = atif(import_contents, document("text", step(2, "robot"), *DIALOGUE[2:]))  # type: ignore[arg-type]
    assert {problem.place for problem in done.lost} == {"$.steps[0]", "$.steps[1]"}
    assert len(done.of("model.responded")) == 2


@pytest.mark.parametrize("version", ["ATIF-v2.0", "ATIF-v1", "ATIF-vX.Y"])
def test_versions_that_cannot_be_read_are_refused_by_name(version: str, import_contents: Any) -> None:
    done = atif(import_contents, {**document(*DIALOGUE), "schema_version": version})
    assert done.events == []
    assert version in done.lost[0].reason


@pytest.mark.parametrize("shape", ["array", "lines"])
def test_several_trajectories_in_one_file_are_several_runs(shape: str, import_contents: Any) -> None:
    texts = [json.dumps(document(*DIALOGUE, trajectory_id=f"t{n}")) for n in range(3)]
    texts.insert(1, '{"schema_version": "ATIF-v1.0"}')
    text = f"[{','.join(texts)}]" if shape == "array" else "\n".join(texts)
    done = import_contents({"many": text.encode()})
    assert done.runs == ["atif:t0", "atif:t1", "atif:t2"]
    assert [problem.place for problem in done.lost] == ["$[1]" if shape == "array" else "line 2"]


def test_T11_token_ids_are_passed_on_as_they_are_and_never_shifted(import_contents: Any) -> None:
    good = {"completion_token_ids": [1, 2], "logprobs": [-0.5, -1], "prompt_token_ids": []}
    bad = {"completion_token_ids": [1, "2"], "logprobs": [0.0, None], "prompt_token_ids": None}
    done = atif(import_contents, document(step(1, "agent", metrics=good), step(2, "agent", metrics=bad)))
    first, second = done.of("model.responded")
    assert (first["completion_token_ids"], first["logprobs"], first["prompt_token_ids"]) == ([1, 2], [-0.5, -1.0], [])
    assert not {"completion_token_ids", "logprobs", "prompt_token_ids"} & set(second)
