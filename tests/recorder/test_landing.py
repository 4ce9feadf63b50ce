"""What the recorder publishes lands: by the fast path, without quarantine, as the steps that the agent took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trajlake import Recorder
from trajlake.streams.publish.spoolfolder import SpoolFolder
from trajlake.transforms.decode.decoder import decode_fast
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record


def land(recorder: Recorder, spool: Path, servers: str) -> Landing:
    """Close an offline recorder and fold what it left, as one partition."""
    recorder.close(0)
    _, (orphan,) = SpoolFolder(spool, "nowhere", servers).open()
    records: list[Record] = []
    while entries := orphan.read():
        records += [
            Record(len(records) + place, 1_700_000_000_000_000, entry.key, entry.value)
            for place, entry in enumerate(entries)
        ]
    assert all(decode_fast(record.value or b"") is not None for record in records)
    return PartitionFold("nowhere", 0, LandRules()).fold(records)


def test_steps_runs_and_rewards_land_as_they_were_recorded(offline: Recorder, spool: Path, nobody: str) -> None:
    with offline.run(skill="refund", skill_version="3", task_id="t", run_id="r") as run:
        with run.step() as step:
            step.respond(
                message="two at once",
                tool_calls=[
                    {"tool_call_id": "a", "function_name": "search", "arguments": "{}"},
                    {"tool_call_id": "b", "function_name": "shell", "arguments": "{}"},
                ],
            )
            first, second = step.tool("search", {}).start(), step.tool("shell", {}).start()
            second.result("b done")
            second.end()
            first.result("a done")
            first.end()
        with run.step() as silent, silent.tool("listed", {"n": 1}) as call:
            call.result("nowhere before")
        run.reward("tests", 1.0)
    run.reward("late", 0.5)
    landing = land(offline, spool, nobody)
    assert landing.quarantine == []
    assert landing.holes == []
    assert len(landing.rewards) == 2
    (run_row,) = landing.runs
    assert (run_row.step_count, run_row.head.run_id) == (2, "r")
    taken = {row.step.step_id: row.step for row in landing.steps}
    assert [
        [
            (call.tool_call_id, result and result.data.content)
            for call, result in zip(step.calls, step.results, strict=True)
        ]
        for step in taken.values()
    ] == [[("a", "a done"), ("b", "b done")], [("call-1", "nowhere before")]]
    assert not any(row.gaps for row in landing.steps)


def test_values_that_fit_nothing_land_too(offline: Recorder, spool: Path, nobody: str) -> None:
    odd: Any = {1: object(), "deep": [[[{"x": float("nan")}]]], "bytes": b"\xff", "big": 2**80, "text": "\ud800"}
    with offline.run(skill=odd, input=odd, purpose=odd, session_id=odd) as run:
        with run.step(message=odd, logprobs=odd, usage=odd, tool_calls=odd) as step, step.tool("odd", odd) as call:
            call.result(odd, exit_code=odd)
        run.reward("odd", odd, explanation=odd)
        run.end(output=odd, success=odd)
    landing = land(offline, spool, nobody)
    assert landing.quarantine == []
    assert len(landing.events) == 6
