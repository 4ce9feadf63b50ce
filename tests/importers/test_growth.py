"""T8: importing the beginning of a file and later all of it comes to the same as importing all of it at once.

Sessions are drawn at random: prompts, responses in pieces, results in any order, sub-agents, compactions, clears,
errors.
"""

from __future__ import annotations

import json
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trajlake.expectations.events import kafka_key
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            "ask ask answer answer piece piece piece call call result result meta compact summary clear "
            "progress attach error retry side side_answer side_call side_result orphan repeat note".split()
        ),
        st.integers(0, 3),
    ),
    max_size=40,
)
JUNK = st.sampled_from(
    [
        b"nope",
        b"{",
        b"[]",
        b"null",
        b'{"type":"user"}',
        b'{"type":"user","sessionId":"q","uuid":"q"}',
        b"\xff\xfe",
        b'{"a":1}',
    ]
)
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def write(session: Any, acts: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Records of one file as a random session would write them."""
    log = session("s1")
    side: dict[int, str] = {}
    calls: list[str] = []
    message = 0
    for act, n in acts:
        if act == "ask":
            log.user(f"question {log.count}")
        elif act == "answer":
            message += 1
            log.assistant(f"answer {log.count}", id=f"m{message}", stop="end_turn")
        elif act == "piece":
            log.assistant(
                f"piece {log.count} of {message - n}", id=f"m{message - n}", usage={"output_tokens": log.count}
            )
        elif act == "call":
            calls.append(f"c{log.count}")
            prompt = f"prompt {n}"
            log.assistant(log.call(calls[-1], "Task" if n else "Bash", prompt=prompt), id=f"m{message}")
        elif act == "result":
            log.result(calls[-1 - n] if n < len(calls) else f"ghost{n}", f"result {log.count}")
        elif act == "meta":
            log.user("reminder", isMeta=True)
        elif act == "compact":
            log.add("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"}, parentUuid=None)
        elif act == "summary":
            log.user("so far", isCompactSummary=True)
        elif act == "clear":
            log.user("<command-name>/clear</command-name>")
        elif act == "progress":
            log.add("progress", data={"type": "bash_progress"})
        elif act == "attach":
            log.add("attachment", attachment={"type": "queued_command", "prompt": f"queued {n}"})
        elif act == "error":
            log.assistant("API Error: 529 Overloaded", model="<synthetic>", isApiErrorMessage=True)
        elif act == "retry":
            log.add("system", subtype="api_error", retryAttempt=n + 1)
        elif act == "orphan":
            log.assistant("lost", parentUuid="nowhere")
        elif act == "repeat" and log.records:
            log.records.append(log.records[-1 - n % len(log.records)])
        elif act == "note":
            log.records.append({"type": "summary", "summary": "x", "leafUuid": "y"})
        elif act.startswith("side"):
            main = log.last
            fields: dict[str, Any] = {"isSidechain": True, "parentUuid": side.get(n)}
            if act == "side":
                log.user(f"prompt {n}", **{**fields, "parentUuid": None})
            elif act == "side_answer":
                log.assistant(f"side answer {log.count}", **fields)
            elif act == "side_call":
                log.assistant(log.call(f"sc{n}"), **fields)
            else:
                log.result(f"sc{n}", f"side result {log.count}", **fields)
            side[n] = log.last or ""
            log.last = main
    records: list[dict[str, Any]] = log.records
    return records


def lines(records: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def come_to(*imports: Any) -> dict[str, list[Any]]:
    """What runs come to after imports in turn: repeated messages united at their first place, ends left out."""
    runs: dict[str, list[Any]] = {}
    places: dict[tuple[str, str], int] = {}
    for done in imports:
        for event in done.events:
            run, data = runs.setdefault(event["runid"], []), event["data"]
            if event["type"] == "agent.run.ended":
                continue
            body = {"type": event["type"], "time": event.get("time"), "data": data}
            message = data.get("message_id")
            if message is not None and (event["runid"], message) in places:
                run[places[event["runid"], message]] = body
                continue
            if message is not None:
                places[event["runid"], message] = len(run)
            run.append(body)
    return runs


def last_words(*imports: Any) -> dict[str, Any]:
    """What the highest sequence of each run says: how it ended."""
    highest: dict[str, Any] = {}
    for done in imports:
        highest |= {run: done.run(run)[-1] for run in done.runs}
    assert all(event["type"] == "agent.run.ended" for event in highest.values())
    return {run: event["data"] for run, event in highest.items()}


def one_file(text: list[bytes]) -> dict[str, bytes]:
    # A note at the top, so that any cut still looks like a session.
    return {"s1.jsonl": b"\n".join([b'{"type":"summary","summary":"s","leafUuid":"l"}', *text]) + b"\n"}


@RELAXED
@given(acts=ACTS, data=st.data())
def test_T8_a_beginning_and_then_the_whole_come_to_the_whole(
    acts: list[tuple[str, int]], data: st.DataObject, session: Any, import_contents: Any
) -> None:
    text = lines(write(session, acts))
    cut = data.draw(st.integers(0, len(text)))
    first = import_contents(one_file(text[:cut]))
    rest = import_contents(one_file(text), first.published)
    whole = import_contents(one_file(text))
    assert come_to(first, rest) == come_to(whole)
    assert last_words(first, rest) == last_words(whole)


@RELAXED
@given(acts=ACTS)
def test_T8_the_same_file_again_adds_nothing(acts: list[tuple[str, int]], session: Any, import_contents: Any) -> None:
    text = lines(write(session, acts))
    done = import_contents(one_file(text))
    assert import_contents({"elsewhere.jsonl": next(iter(one_file(text).values()))}, done.published).events == []
    ids = [event["id"] for event in done.events]
    assert len(set(ids)) == len(ids)


@RELAXED
@given(acts=ACTS, junk=st.lists(st.tuples(st.integers(0, 60), JUNK), max_size=6), chunk=st.integers(1, 200))
def test_L10_bad_lines_anywhere_change_no_event(
    acts: list[tuple[str, int]], junk: list[tuple[int, bytes]], chunk: int, session: Any, import_contents: Any
) -> None:
    text = lines(write(session, acts))
    spoiled = list(text)
    for place, line in junk:
        spoiled.insert(min(place, len(spoiled)), line)
    clean = import_contents(one_file(text))
    done = import_contents(one_file(spoiled), chunk=chunk, format="claude-code")
    assert done.events == clean.events


def land(*imports: Any) -> dict[tuple[str, str], Any]:
    """Latest revision of every step after imports in turn have been folded in one partition."""
    fold = PartitionFold("t", 0, LandRules())
    steps: dict[tuple[str, str], Any] = {}
    offset = 0
    for done in imports:
        records = []
        for event in done.events:
            key = kafka_key(event["tenantid"], event["runid"])
            records.append(Record(offset, 1_770_000_000_000_000 + offset, key, orjson.dumps(event), None))
            offset += 1
        landing: Landing = fold.fold(records)
        assert landing.quarantine == []
        for row in landing.steps:
            step = row.step
            observed = [None if result is None else result.data.content for result in step.results]
            calls = [(call.tool_call_id, call.arguments) for call in step.calls]
            response = step.response
            shown = (response.message, response.usage, response.input_messages, calls, observed, step.segment)
            steps[row.head.run_id, step.message_id or f"{observed}"] = shown
    return steps


@RELAXED
@given(acts=ACTS, data=st.data())
def test_T8_landed_steps_are_the_same_whether_the_file_came_at_once_or_grew(
    acts: list[tuple[str, int]], data: st.DataObject, session: Any, import_contents: Any
) -> None:
    # Ghost results and reopened compactions are the fold's own tests; here every call is answered once.
    text = lines(
        write(
            session,
            [act for act in acts if act[0] in ("ask", "answer", "piece", "call", "meta", "side", "side_answer")],
        )
    )
    cut = data.draw(st.integers(0, len(text)))
    first = import_contents(one_file(text[:cut]))
    rest = import_contents(one_file(text), first.published)
    assert land(first, rest) == land(import_contents(one_file(text)))


@RELAXED
@given(tasks=st.lists(st.integers(0, 5), max_size=8), data=st.data())
def test_T8_a_result_file_that_grew_adds_only_its_new_trials(
    tasks: list[int], data: st.DataObject, import_contents: Any
) -> None:
    message = {"role": "assistant", "content": "x"}
    trials = [
        {"task_id": task, "trial": number, "reward": 1.0, "info": {"reward_info": {"reward": 1.0}}, "traj": [message]}
        for number, task in enumerate(tasks)
    ]
    seed = {"task_id": 99, "trial": 0, "reward": 0.0, "info": {}, "traj": []}
    cut = data.draw(st.integers(0, len(trials)))
    first = import_contents({"r.json": json.dumps([seed, *trials[:cut]]).encode()})
    rest = import_contents({"r.json": json.dumps([*reversed(trials), seed]).encode()}, first.published)
    assert len(first.runs) + len(rest.runs) == len(trials) + 1
    assert not set(first.runs) & set(rest.runs)
