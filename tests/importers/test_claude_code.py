"""Claude Code sessions: one step a response, sub-agents and cleared contexts apart, copied history marked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest


def records(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [record for record in found if isinstance(record, dict)]


def blocks(record: dict[str, Any], type: str) -> list[dict[str, Any]]:
    content = record["message"]["content"]
    return (
        [block for block in content if isinstance(block, dict) and block["type"] == type]
        if isinstance(content, list)
        else []
    )


def texts(data: dict[str, Any]) -> list[Any]:
    return [message["content"] for message in data.get("input_messages", ())]


def test_public_sessions_give_one_step_a_response_and_one_result_a_tool_result(
    runs_folder: Path, import_contents: Any
) -> None:
    paths = [*runs_folder.glob("claude_code/*.jsonl"), *runs_folder.glob("letta_fixtures/claude-code*_input.jsonl")]
    assert len(paths) == 15
    for path in paths:
        source = records(path)
        messages = [record for record in source if record["type"] in ("user", "assistant")]
        responses = {
            (record.get("isSidechain", False), record["message"].get("id", record["uuid"])): record
            for record in messages
            if record["type"] == "assistant"
        }
        done = import_contents({path.name: path.read_bytes()})
        assert len(done.of("model.responded")) == len(responses), path.name
        returned = [block["tool_use_id"] for record in messages for block in blocks(record, "tool_result")]
        assert [data["tool_call_id"] for data in done.of("tool.returned")] == returned
        calls = [block["id"] for record in messages for block in blocks(record, "tool_use")]
        found = [one["tool_call_id"] for data in done.of("model.responded") for one in data.get("tool_calls", ())]
        assert found == calls
        tokens = sum(record["message"].get("usage", {}).get("output_tokens", 0) for record in responses.values())
        assert sum(data.get("usage", {}).get("output_tokens", 0) for data in done.of("model.responded")) == tokens
        cleared = sum("<command-name>/clear" in str(r["message"]["content"]) and not r.get("isMeta") for r in messages)
        sidechains = len({record.get("isSidechain", False) for record in messages}) - 1
        assert len(done.of("run.ended")) == len(done.runs) == 1 + cleared + sidechains, path.name


@pytest.mark.parametrize("name", ["cleanup", "subagent", "tool-call"])
def test_public_expectations_of_another_reader_are_met(name: str, runs_folder: Path, import_contents: Any) -> None:
    folder = runs_folder / "letta_fixtures"
    expected = json.loads((folder / f"claude-code_{name}_expected.json").read_text())["records"]
    done = import_contents({"f.jsonl": (folder / f"claude-code_{name}_input.jsonl").read_bytes()})
    told: list[tuple[str, Any]] = []
    for event in done.run(done.runs[0]):
        data = event["data"]
        told += [("user", m["content"]) for m in data.get("input_messages", ()) if m.get("name") != "meta"]
        if event["type"] == "agent.model.responded":
            told += [("reasoning", data["reasoning_content"])] if "reasoning_content" in data else []
            told += [("assistant", data["message"])] if "message" in data else []
            told += [("call", (one["tool_call_id"], one["function_name"])) for one in data.get("tool_calls", ())]
        elif event["type"] == "agent.tool.returned":
            told.append(("tool", (data["tool_call_id"], data["content"])))
    wanted: list[tuple[str, Any]] = []
    for record in expected[1:]:
        if record.get("tool_calls"):
            wanted += [("call", (one["id"], one["name"])) for one in record["tool_calls"]]
        elif record["role"] == "tool":
            wanted.append(("tool", (record["tool_call_id"], record["content"])))
        else:
            wanted.append((record["role"], record["content"]))
    assert told == wanted


def test_what_the_file_does_not_say_stays_absent(session: Any, import_contents: Any) -> None:
    bare = {
        "type": "assistant",
        "uuid": "a",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
    }
    done = import_contents(
        {"f.jsonl": [{"type": "user", "uuid": "u", "message": {"role": "user", "content": "q"}}, bare]}
    )
    [data] = done.of("model.responded")
    assert set(data) == {"message_id", "message", "input_messages"}
    assert all("time" not in event for event in done.events)


def test_a_run_says_who_ran_with_which_version_and_what_was_asked(session: Any, import_contents: Any) -> None:
    log = session("s1", version="2.1.0", cwd="/home/x/app", gitBranch="main")
    log.user("Caveat", isMeta=True)
    log.user("Fix it")
    log.assistant({"type": "thinking", "thinking": "hm", "signature": "zz"}, "Done.", stop="end_turn")
    done = import_contents({"deep/er/name.jsonl": log.records})
    [start] = done.of("run.started")
    assert start["agent"] == start["framework"] == {"name": "claude-code", "version": "2.1.0"}
    assert (start["session_id"], start["input"]) == ("s1", "Fix it")
    assert start["origin"] == "claude-code:name.jsonl"
    assert start["skill"] == {"name": "claude-code"}
    assert start["extra"] == {"cwd": "/home/x/app", "git_branch": "main"}
    [data] = done.of("model.responded")
    assert (data["reasoning_content"], data["message"], data["finish_reason"]) == ("hm", "Done.", "end_turn")
    assert data["input_messages"][0] == {"role": "user", "content": "Caveat", "name": "meta"}
    assert done.events[0]["time"] == log.records[0]["timestamp"]


def test_T1_results_of_parallel_calls_carry_their_ids_in_any_order(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("go")
    log.assistant(log.call("a"), log.call("b"))
    log.result("b", "B")
    log.result("a", "A")
    log.assistant("done")
    done = import_contents({"f.jsonl": log.records})
    assert [(data["tool_call_id"], data["content"]) for data in done.of("tool.returned")] == [("b", "B"), ("a", "A")]


def test_T2_records_of_one_message_are_one_step_with_all_their_blocks(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("go")
    log.assistant({"type": "thinking", "thinking": "plan"}, id="m", usage={"input_tokens": 7, "output_tokens": 1})
    log.assistant("Two things.", id="m", usage={"input_tokens": 7, "output_tokens": 4})
    log.assistant(log.call("a"), id="m", usage={"input_tokens": 7, "output_tokens": 9})
    log.result("a")
    log.assistant(log.call("b"), id="m", stop="tool_use", usage={"input_tokens": 7, "output_tokens": 20})
    log.result("b")
    log.assistant("end")
    done = import_contents({"f.jsonl": log.records})
    first, second = done.of("model.responded")
    assert (first["reasoning_content"], first["message"], first["finish_reason"]) == ("plan", "Two things.", "tool_use")
    assert [one["tool_call_id"] for one in first["tool_calls"]] == ["a", "b"]
    assert first["usage"] == {"input_tokens": 7, "output_tokens": 20}
    assert second["message"] == "end"
    kinds = [event["type"].removeprefix("agent.") for event in done.events]
    assert kinds == ["run.started", "model.responded", "tool.returned", "tool.returned", "model.responded", "run.ended"]


def test_T2_a_partial_record_and_the_whole_one_count_once(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("go")
    log.assistant("Hel", id="m", uuid="same", usage={"output_tokens": 1})
    log.assistant("Hello wor", id="m", uuid="same", parentUuid="s1-1", usage={"output_tokens": 3})
    log.assistant("Hello world", log.call("a", command="ls"), id="m", parentUuid="s1-1", usage={"output_tokens": 5})
    done = import_contents({"f.jsonl": log.records})
    [data] = done.of("model.responded")
    assert (data["message"], len(data["tool_calls"]), data["usage"]["output_tokens"]) == ("Hello world", 1, 5)


def test_T2_blocks_that_come_after_another_message_has_begun_still_join_their_own(
    session: Any, import_contents: Any
) -> None:
    log = session()
    log.user("go")
    log.assistant(log.call("a"), id="m1")
    log.assistant("other", id="m2")
    log.assistant(log.call("b"), id="m1")
    done = import_contents({"f.jsonl": log.records})
    written = [data for data in done.of("model.responded") if data["message_id"] == "m1"]
    assert [len(data["tool_calls"]) for data in written] == [1, 2]
    assert done.of("run.ended")[0]["end_state"] == "abandoned"


def test_T2_history_written_twice_into_one_file_counts_once(session: Any, import_contents: Any) -> None:
    log = session()
    for number in range(12):
        log.user(f"q{number}")
        log.assistant(f"a{number}")
    once = import_contents({"f.jsonl": log.records})
    twice = import_contents({"f.jsonl": [*log.records[:18], *log.records]})
    assert twice.of("model.responded") == once.of("model.responded")


def test_T3_records_of_the_resumed_session_in_one_file_are_marked_as_copied(session: Any, import_contents: Any) -> None:
    old = session("old")
    old.user("q1")
    old.assistant("a1")
    new = session("new", start=2, parent=old.last)
    new.user("q2")
    new.assistant("a2")
    done = import_contents({"f.jsonl": [*old.records, {"type": "summary", "summary": "x"}, *new.records]})
    assert done.runs == ["new"]
    assert [data.get("is_copied_context", False) for data in done.of("model.responded")] == [True, False]
    assert done.of("run.started")[0]["forked_from_id"] == "old"
    assert done.of("run.started")[0]["session_id"] == "new"


def test_T3_two_sessions_that_only_share_a_file_stay_two_runs(session: Any, import_contents: Any) -> None:
    one, two = session("one"), session("two")
    for log in (one, two):
        log.user("q")
        log.assistant(f"answer of {log.session}")
    done = import_contents({"f.jsonl": [*one.records, *two.records]})
    assert done.runs == ["one", "two"]
    assert not any(data.get("is_copied_context") for data in done.of("model.responded"))


def forked(session: Any, **marks: Any) -> tuple[Any, Any]:
    """A session that goes on, and another that copied its beginning under its own session id."""
    parent = session("parent")
    parent.user("q1")
    parent.assistant("a1")
    child = session("child", start=10)
    child.records = [{**record, "sessionId": "child", **marks} for record in parent.records]
    child.last = parent.last
    parent.user("q2")
    parent.assistant("a2")
    child.user("other")
    child.assistant("b2")
    return parent, child


def test_T3_a_fork_that_says_so_is_marked_even_alone(session: Any, import_contents: Any) -> None:
    _, child = forked(session, forkedFrom={"sessionId": "parent", "messageUuid": "x"})
    done = import_contents({"child.jsonl": child.records})
    assert [data.get("is_copied_context", False) for data in done.of("model.responded")] == [True, False]
    assert done.of("run.started")[0]["forked_from_id"] == "parent"


@pytest.mark.parametrize("order", [("parent", "child"), ("child", "parent")])
def test_T3_a_silent_copy_is_found_when_both_files_are_given_in_any_order(
    order: tuple[str, str], session: Any, import_contents: Any
) -> None:
    logs = {log.session: log for log in forked(session)}
    done = import_contents({f"{name}.jsonl": logs[name].records for name in order})
    copied = {
        run: [data.get("is_copied_context", False) for data in done.of("model.responded", run)] for run in done.runs
    }
    assert copied == {"parent": [False, False], "child": [True, False]}
    assert done.of("run.started", "child")[0]["forked_from_id"] == "parent"
    own = [data for data in done.of("model.responded") if not data.get("is_copied_context")]
    assert sum(data["usage"]["output_tokens"] for data in own) == 5 * 3


def test_T3_a_parent_that_said_no_more_is_the_origin(session: Any, import_contents: Any) -> None:
    parent, child = forked(session)
    done = import_contents({"a.jsonl": child.records, "b.jsonl": parent.records[:2]})
    assert [data.get("is_copied_context", False) for data in done.of("model.responded", "parent")] == [False]
    assert [data.get("is_copied_context", False) for data in done.of("model.responded", "child")] == [True, False]


def test_T3_equal_ids_with_other_content_are_no_copies(session: Any, import_contents: Any) -> None:
    one, two = session("one"), session("two")
    for log in (one, two):
        log.user("q", uuid="u1")
        log.assistant(f"I am {log.session}", uuid="a1", id="m1")
    done = import_contents({"1.jsonl": one.records, "2.jsonl": two.records})
    assert not any(data.get("is_copied_context") for data in done.of("model.responded"))


def test_T4_compaction_lands_with_summary_and_sizes_between_the_steps(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q1")
    log.assistant("a1")
    log.add(
        "system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 5000}, parentUuid=None
    )
    log.user("Earlier: q1, a1.", isCompactSummary=True)
    log.user("q2")
    log.assistant("a2")
    done = import_contents({"f.jsonl": log.records})
    kinds = [event["type"].removeprefix("agent.") for event in done.events]
    assert kinds == ["run.started", "model.responded", "context.compacted", "model.responded", "run.ended"]
    assert done.of("context.compacted") == [{"summary": "Earlier: q1, a1.", "trigger": "auto", "tokens_before": 5000}]
    assert texts(done.of("model.responded")[1]) == ["Earlier: q1, a1.", "q2"]


def test_T4_a_summary_without_boundary_and_a_boundary_without_summary_both_count(
    session: Any, import_contents: Any
) -> None:
    log = session()
    log.user("q1")
    log.assistant("a1")
    log.user("S", isCompactSummary=True)
    log.assistant("a2")
    micro = {"trigger": "auto", "preTokens": 100, "tokensSaved": 30}
    log.add("system", subtype="microcompact_boundary", microcompactMetadata=micro)
    log.assistant("a3")
    log.add("system", subtype="compact_boundary", compactMetadata={})
    log.user("q4")
    log.assistant("a4")
    done = import_contents({"f.jsonl": log.records})
    assert done.of("context.compacted") == [
        {"summary": "S"},
        {"trigger": "microcompact:auto", "tokens_before": 100, "tokens_after": 70},
        {},
    ]


def test_T5_a_subagent_with_a_file_of_its_own_names_parent_and_spawning_call(
    session: Any, import_contents: Any
) -> None:
    main = session("s1")
    main.user("go")
    main.assistant(main.call("t1", "Task", prompt="look", subagent_type="Explore"))
    main.result("t1", [{"type": "text", "text": "found"}], toolUseResult={"agentId": "abc", "totalDurationMs": 1500})
    main.assistant("done")
    inner = session("s1", start=100, isSidechain=True, agentId="abc")
    inner.user("look")
    inner.assistant(inner.call("t2", "Agent", prompt="deeper", subagent_type="Plan"))
    inner.result("t2", "deep", toolUseResult={"agentId": "def"})
    inner.assistant("found")
    deep = session("s1", start=200, isSidechain=True, agentId="def")
    deep.user("deeper")
    deep.assistant("deep")
    files = {
        "s1/subagents/agent-def.jsonl": deep.records,
        "s1/subagents/agent-abc.jsonl": inner.records,
        "s1.jsonl": main.records,
    }
    done = import_contents(files)
    parents = {event["runid"]: event.get("parentrunid") for event in done.events}
    assert parents == {"s1": None, "s1:agent-abc": "s1", "s1:agent-def": "s1:agent-abc"}
    spawned = {run: done.of("run.started", run)[0].get("spawned_by_tool_call_id") for run in done.runs}
    assert spawned == {"s1": None, "s1:agent-abc": "t1", "s1:agent-def": "t2"}
    assert done.of("run.started", "s1:agent-abc")[0]["skill"] == {"name": "claude-code/Explore"}
    assert len(done.of("model.responded")) == 5
    assert done.of("tool.returned", "s1")[0]["latency_ms"] == 1500
    alone = import_contents({"agent-abc.jsonl": inner.records})
    assert alone.run("s1:agent-abc")[0]["parentrunid"] == "s1"


def test_T5_interleaved_subagents_of_old_files_are_told_apart_by_their_chain_and_prompt(
    session: Any, import_contents: Any
) -> None:
    main = session("s1")
    main.user("go")
    main.assistant(main.call("t1", "Task", prompt="P1"), main.call("t2", "Task", prompt="P2"))
    one, two = session("s1", start=100, isSidechain=True), session("s1", start=200, isSidechain=True)
    for log, prompt in ((one, "P1"), (two, "P2")):
        log.user(prompt)
        log.assistant(log.call(f"x-{prompt}"))
        log.result(f"x-{prompt}")
        log.assistant(f"answer to {prompt}")
    mixed = [record for pair in zip(one.records, two.records, strict=True) for record in pair]
    main.result("t2", "r2")
    main.result("t1", "r1")
    main.assistant("end")
    done = import_contents({"s1.jsonl": [*main.records[:2], *mixed, *main.records[2:]]})
    starts = {run: done.of("run.started", run)[0] for run in done.runs}
    sub_one, sub_two = "s1:sidechain-s1-101", "s1:sidechain-s1-201"
    assert set(starts) == {"s1", sub_one, sub_two}
    assert (starts[sub_one]["spawned_by_tool_call_id"], starts[sub_two]["spawned_by_tool_call_id"]) == ("t1", "t2")
    assert [data.get("message") for data in done.of("model.responded", sub_two)] == [None, "answer to P2"]
    assert Counter(event.get("parentrunid") for event in done.events if event["type"] == "agent.run.started") == {
        None: 1,
        "s1": 2,
    }


def test_T5_the_same_subagent_inline_and_in_a_file_counts_once(session: Any, import_contents: Any) -> None:
    inner = session("s1", isSidechain=True, agentId="abc")
    inner.user("look")
    inner.assistant("found")
    main = session("s1", start=50)
    main.user("go")
    main.assistant("done")
    files = {"s1.jsonl": [*main.records, *inner.records], "agent-abc.jsonl": inner.records}
    assert len(import_contents(files).of("model.responded", "s1:agent-abc")) == 1


def test_T6_how_a_file_stops_decides_how_its_run_ended(session: Any, import_contents: Any) -> None:
    def end(*steps: Any) -> tuple[str, str]:
        log = session()
        for act in steps:
            act(log)
        [data] = import_contents({"f.jsonl": log.records}).of("run.ended")
        return data["end_state"], data["stop_condition"]

    def ask(log: Any) -> None:
        log.user("q")

    def answer(log: Any) -> None:
        log.assistant("a")

    def act(log: Any) -> None:
        log.assistant(log.call("c"))

    def observe(log: Any) -> None:
        log.result("c")

    def interrupt(log: Any) -> None:
        log.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])

    def leave(log: Any) -> None:
        log.user("<command-name>/exit</command-name>")
        log.user("<local-command-stdout>Bye!</local-command-stdout>")

    assert end(ask, answer) == ("completed", "end_of_file")
    assert end(ask, act) == ("abandoned", "end_of_file")
    assert end(ask, act, observe) == ("abandoned", "end_of_file")
    assert end(ask, answer, ask) == ("abandoned", "end_of_file")
    assert end(ask, act, observe, answer) == ("completed", "end_of_file")
    assert end(ask, act, interrupt) == ("cancelled", "end_of_file")
    assert end(ask, act, interrupt, ask, answer) == ("abandoned", "end_of_file")
    assert end(ask, answer, leave) == ("completed", "exit")
    assert end(ask, answer, leave, ask, answer) == ("completed", "end_of_file")


def test_T7_an_orphan_is_kept_with_its_gap_and_named_in_the_report(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q", parentUuid="gone")
    log.assistant("a")
    log.assistant("b", parentUuid="lost")
    log.result("never-called", "x", parentUuid="lost-too")
    done = import_contents({"f.jsonl": log.records})
    gaps = [event["data"].get("gaps") for event in done.events]
    assert gaps == [
        None,
        [{"code": "orphan_parent", "detail": "gone"}],
        [{"code": "orphan_parent", "detail": "lost"}],
        [{"code": "orphan_parent", "detail": "lost-too"}],
        None,
    ]
    assert [(problem.place, problem.kept) for problem in done.problems] == [
        ("line 1", True),
        ("line 3", True),
        ("line 4", True),
    ]
    assert done.of("tool.returned")[0]["tool_call_id"] == "never-called"


def test_T7_a_sidechain_that_lost_its_beginning_never_joins_another_run(session: Any, import_contents: Any) -> None:
    main, inner = session("s1"), session("s1", start=100, isSidechain=True)
    main.user("q")
    main.assistant("a")
    inner.user("x")
    inner.assistant("y")
    done = import_contents({"f.jsonl": [*main.records, *inner.records[1:]]})
    assert [data["message"] for data in done.of("model.responded", "s1")] == ["a"]
    assert [data["message"] for data in done.of("model.responded", "s1:sidechain-s1-102")] == ["y"]


def test_a_session_that_hangs_on_another_given_file_is_no_orphan(session: Any, import_contents: Any) -> None:
    old = session("old")
    old.user("q1")
    old.assistant("a1")
    new = session("new", start=5, parent=old.last)
    new.user("q2")
    new.assistant("a2")
    done = import_contents({"old.jsonl": old.records, "new.jsonl": new.records})
    assert done.problems == []
    assert done.of("run.started", "new")[0]["forked_from_id"] == "old"
    assert not done.of("model.responded", "new")[0].get("is_copied_context")
    assert import_contents({"new.jsonl": new.records}).problems != []


def test_what_follows_a_clear_is_a_run_of_its_own(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q1")
    log.assistant("a1")
    log.user("<command-name>/clear</command-name>\n<command-args></command-args>")
    log.user("q2")
    log.assistant("a2")
    done = import_contents({"f.jsonl": log.records})
    assert done.runs == ["s1", "s1:s1-3"]
    assert [end["stop_condition"] for end in done.of("run.ended")] == ["clear", "end_of_file"]
    assert texts(done.of("model.responded", "s1:s1-3")[0]) == ["q2"]


def test_T12_images_and_other_blocks_stay_whole(session: Any, import_contents: Any) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * (8 << 20)}}
    log = session()
    log.user([{"type": "text", "text": "see"}, image])
    log.assistant(log.call("a"))
    log.result("a", [{"type": "text", "text": "shot"}, image])
    log.assistant("nice")
    done = import_contents({"f.jsonl": log.records})
    assert done.of("tool.returned")[0]["content"] == [{"type": "text", "text": "shot"}, image]
    assert texts(done.of("model.responded")[0])[0][1] == image


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("API Error: 529 Overloaded. Try again.", {}, {"error_type": "api_error", "http_status": 529}),
        (
            'API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}',
            {},
            {"error_type": "rate_limit_error", "http_status": 429},
        ),
        ("You've hit your limit · resets 1:20am", {"error": "rate_limit"}, {"error_type": "rate_limit"}),
        ("You've hit your session limit — resets 11:30am", {}, {"error_type": "rate_limit"}),
        ("Claude AI usage limit reached|1749924000", {}, {"error_type": "rate_limit"}),
        (
            "Prompt is too long",
            {"error": "invalid_request", "apiErrorStatus": 400},
            {"error_type": "invalid_request", "http_status": 400},
        ),
        ("API Error: Connection lost", {}, {"error_type": "api_error"}),
    ],
)
def test_S1_errors_of_the_api_are_failures_with_what_they_state(
    text: str, fields: dict[str, Any], expected: dict[str, Any], session: Any, import_contents: Any
) -> None:
    log = session()
    log.user("q")
    log.assistant(
        text, model="<synthetic>", usage={"input_tokens": 0, "output_tokens": 0}, isApiErrorMessage=True, **fields
    )
    done = import_contents({"f.jsonl": log.records})
    [data], [end] = done.of("model.responded"), done.of("run.ended")
    for evidence in (data, end):
        assert {name: evidence[name] for name in ("error_type", "http_status") if name in evidence} == expected
        assert evidence["error_message"] == text
    assert end["end_state"] == "failed"
    assert "model" not in data


def test_S2_a_limit_in_a_normal_answer_is_no_failure(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("What does 429 mean?")
    log.assistant("API Error: 429 means you hit your limit.")
    done = import_contents({"f.jsonl": log.records})
    assert "error_type" not in done.of("model.responded")[0]
    assert done.of("run.ended")[0]["end_state"] == "completed"


def test_S11_retries_that_the_harness_reports_are_counted_on_the_response_that_followed(
    session: Any, import_contents: Any
) -> None:
    log = session()
    log.user("q")
    for attempt in (1, 2):
        log.add("system", subtype="api_error", retryAttempt=attempt, maxRetries=10, error={"status": 529})
    log.assistant("a")
    log.assistant("b")
    done = import_contents({"f.jsonl": log.records})
    assert [data.get("retry_count") for data in done.of("model.responded")] == [2, None]


def test_what_the_harness_says_in_the_models_name_is_no_decision(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q")
    log.assistant("No response requested.", model="<synthetic>")
    log.user("go on")
    log.assistant("a")
    done = import_contents({"f.jsonl": log.records})
    [data] = done.of("model.responded")
    assert data["input_messages"][1] == {"role": "assistant", "content": "No response requested.", "name": "synthetic"}


def test_failed_commands_carry_error_and_exit_code(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q")
    log.assistant(log.call("a"))
    log.result("a", "Exit code 2\nno such file", is_error=True)
    [data] = import_contents({"f.jsonl": log.records}).of("tool.returned")
    assert (data["is_error"], data["exit_code"], data["function_name"]) == (True, 2, "Bash")


def test_attachments_and_queued_prompts_are_context(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q")
    log.add("attachment", attachment={"type": "queued_command", "prompt": "also this"})
    log.add("attachment", attachment={"type": "todo_reminder", "items": [1]})
    log.assistant("a")
    messages = import_contents({"f.jsonl": log.records}).of("model.responded")[0]["input_messages"]
    assert messages[1:] == [
        {"role": "user", "content": "also this", "name": "attachment:queued_command"},
        {"role": "user", "content": {"type": "todo_reminder", "items": [1]}, "name": "attachment:todo_reminder"},
    ]


def test_notes_about_a_session_and_a_session_without_words_make_no_events(session: Any, import_contents: Any) -> None:
    notes = [
        {"type": "summary", "summary": "x", "leafUuid": "l"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
    ]
    log = session()
    log.user("Caveat", isMeta=True)
    log.user("<command-name>/model</command-name>")
    log.add("progress", data={"type": "hook_progress"})
    log.add("system", subtype="turn_duration", durationMs=3)
    assert import_contents({"f.jsonl": [*notes, *log.records]}).events == []
    assert import_contents({"f.jsonl": notes}).events == []


def test_L10_records_that_are_none_are_named_and_move_nothing(session: Any, import_contents: Any) -> None:
    log = session()
    log.user("q")
    log.assistant("a")
    good = import_contents({"f.jsonl": log.records})
    first, second = (json.dumps(record).encode() for record in log.records)
    bad = (
        b'{"type":"user","sessionId":"zzz","uuid":"z"}\n[1]\nnope\n"text"\n'
        b'{"type":"assistant","message":5}\n{"type":"new-kind"}\n'
    )
    done = import_contents({"f.jsonl": bad + first + b"\n" + bad + second + b"\n" + bad})
    assert done.events == good.events
    assert len(done.lost) == 15
    assert done.lost[5].place == "line 8"
