"""Context managers: what is recorded when, in which order, and that the agent never notices."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trajlake import Recorder
from trajlake.expectations.events import (
    Event,
    ModelRespondedEvent,
    Named,
    RewardAssignedEvent,
    RunEndedEvent,
    RunStartedEvent,
    ToolCalledEvent,
    ToolReturnedEvent,
)
from trajlake.recording.recorder import Call, Run

ReadSpool = Callable[[Recorder], list[Event]]


class RateLimitError(Exception):
    """As HTTP clients of model providers raise it."""

    def __init__(self) -> None:
        super().__init__("quota used up")
        self.status_code = 429
        self.code = "insufficient_quota"


def kinds(events: list[Event]) -> list[str]:
    return [str(event.__struct_config__.tag).removeprefix("agent.") for event in events]


def check_consecutive(events: list[Event]) -> None:
    for _, group in itertools.groupby(sorted(events, key=lambda event: event.runid or ""), lambda event: event.runid):
        sequences = [event.sequence for event in group if event.sequence is not None]
        assert sequences == list(range(1, len(sequences) + 1))
    assert len({event.id for event in events}) == len(events)


def test_a_run_with_a_step_and_a_tool_call_is_recorded_as_it_happens(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run(
        skill="refund", skill_version="3", model="m", model_tier="cheap", task_id="t", input={"q": 1}
    ) as run:
        with run.step() as step:
            step.respond(
                message="let me look",
                tool_calls=[{"tool_call_id": "c1", "function_name": "search", "arguments": '{"q": 1}'}],
                usage={"input_tokens": 3},
            )
            with step.tool("search", {"q": 1}) as call:
                call.result("found", exit_code=0)
        run.reward("tests", 1.0, annotator_id="pytest")
    events = read_spool(offline)
    assert kinds(events) == [
        "run.started", "model.responded", "tool.called", "tool.returned", "reward.assigned", "run.ended",
    ]  # fmt: skip
    check_consecutive(events)
    started, responded, called, returned, reward, ended = events
    assert isinstance(started, RunStartedEvent)
    assert isinstance(responded, ModelRespondedEvent)
    assert isinstance(called, ToolCalledEvent)
    assert isinstance(returned, ToolReturnedEvent)
    assert isinstance(reward, RewardAssignedEvent)
    assert isinstance(ended, RunEndedEvent)
    assert started.data.skill == Named("refund", "3")
    assert started.data.input == {"q": 1}
    assert responded.data.step_id == step.id
    assert called.data.tool_call_id == returned.data.tool_call_id == "c1"
    assert (returned.data.content, returned.data.exit_code, returned.data.is_error) == ("found", 0, False)
    assert returned.data.latency_ms is not None
    assert reward.data.score == 1.0
    assert ended.data.end_state == "completed"
    assert {event.runid for event in events} == {run.id}
    assert all(first.time <= second.time for first, second in itertools.pairwise(events) if first.time and second.time)
    assert offline.counts.altered == offline.counts.errors == 0


@pytest.mark.parametrize(
    ("error", "end_state", "error_type"),
    [
        (ValueError("bad"), "failed", "ValueError"),
        (RateLimitError(), "failed", "RateLimitError"),
        (KeyboardInterrupt(), "cancelled", "KeyboardInterrupt"),
        (asyncio.CancelledError(), "cancelled", "CancelledError"),
        (GeneratorExit(), "cancelled", "GeneratorExit"),
        (SystemExit(3), "failed", "SystemExit"),
        (SystemExit(0), "completed", None),
        (TimeoutError(), "failed", "TimeoutError"),
    ],
    ids=lambda value: repr(value) if isinstance(value, BaseException) else str(value),
)
def test_an_exception_ends_the_run_and_goes_on(
    offline: Recorder, read_spool: ReadSpool, error: BaseException, end_state: str, error_type: str | None
) -> None:
    with pytest.raises(type(error)) as raised, offline.run():
        raise error
    assert raised.value is error
    ended = read_spool(offline)[-1]
    assert isinstance(ended, RunEndedEvent)
    assert (ended.data.end_state, ended.data.error_type) == (end_state, error_type)


def test_http_evidence_of_an_exception_is_recorded(offline: Recorder, read_spool: ReadSpool) -> None:
    with pytest.raises(RateLimitError), offline.run() as run, run.step():
        raise RateLimitError
    _, responded, ended = read_spool(offline)
    assert isinstance(responded, ModelRespondedEvent)
    assert isinstance(ended, RunEndedEvent)
    for data in (responded.data, ended.data):
        assert (data.error_type, data.http_status, data.provider_code) == ("RateLimitError", 429, "insufficient_quota")
        assert data.error_message == "quota used up"


def test_an_exception_in_a_tool_is_its_result_and_goes_on(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as run:
        with pytest.raises(ZeroDivisionError), run.step() as step, step.tool("divide", {"by": 0}) as call:
            fail(call)
        with run.step() as step:
            step.respond(message="that went wrong")
    events = read_spool(offline)
    returned = events[3]
    assert isinstance(returned, ToolReturnedEvent)
    assert returned.data.is_error
    assert (returned.data.error_type, returned.data.content) == ("ZeroDivisionError", "half a result")
    assert kinds(events)[-1] == "run.ended"


def fail(call: Call) -> None:
    call.result("half a result")
    raise ZeroDivisionError


def test_an_explicit_end_is_the_only_one(offline: Recorder, read_spool: ReadSpool) -> None:
    with pytest.raises(ValueError, match="late"), offline.run() as run:
        end_and_fail(run)
    events = read_spool(offline)
    assert kinds(events) == ["run.started", "run.ended"]
    assert isinstance(events[1], RunEndedEvent)
    assert (events[1].data.end_state, events[1].data.success) == ("truncated", False)


def end_and_fail(run: Run) -> None:
    run.end(success=False, stop_condition="max_steps", end_state="truncated")
    run.end("completed")
    raise ValueError("late")


def test_a_step_that_says_nothing_still_is_a_decision(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as run:
        with run.step(message="only this"):
            pass
        with run.step() as silent, silent.tool("shell", "ls"):
            pass
    events = read_spool(offline)
    assert kinds(events)[1:-1] == ["model.responded", "model.responded", "tool.called", "tool.returned"]
    assert isinstance(events[1], ModelRespondedEvent)
    assert events[1].data.message == "only this"


def test_T1_calls_made_in_another_order_claim_the_ids_that_the_response_lists(
    offline: Recorder, read_spool: ReadSpool
) -> None:
    calls = [
        {"tool_call_id": "a", "function_name": "search", "arguments": '{"q": 1}'},
        {"tool_call_id": "b", "function_name": "search", "arguments": {"q": 2}},
        {"tool_call_id": "c", "function_name": "shell", "arguments": "ls"},
    ]
    with offline.run() as run, run.step() as step:
        step.respond(tool_calls=calls)
        made = [
            step.tool("shell", "ls"),
            step.tool("search", {"q": 2}),
            step.tool("search", {"q": 1}),
            step.tool("search", {"q": 1}),
            step.tool("search", {"q": 9}, tool_call_id="mine"),
        ]
    assert [call.tool_call_id for call in made[:3]] == ["c", "b", "a"]
    assert made[3].tool_call_id not in {"a", "b", "c"}
    assert made[4].tool_call_id == "mine"


def test_T1_a_call_listed_when_its_step_began_is_found_too(offline: Recorder, read_spool: ReadSpool) -> None:
    listed = [{"tool_call_id": "x", "function_name": "search", "arguments": {}}]
    with offline.run() as run, run.step(message="I look.", tool_calls=listed) as step, step.tool("search", {}) as call:
        call.result("found")
    assert call.tool_call_id == "x"
    assert kinds(read_spool(offline))[1:-1] == ["model.responded", "tool.called", "tool.returned"]


def test_T2_a_streamed_response_is_one_message(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as run, run.step() as step:
        step.respond(message="Hel", partial=True)
        step.respond(message="Hello", finish_reason="stop")
    events = [event for event in read_spool(offline) if isinstance(event, ModelRespondedEvent)]
    assert [event.data.partial for event in events] == [True, False]
    assert len({event.data.message_id for event in events}) == 1


def test_T5_a_run_that_a_tool_call_spawned_points_at_both(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as outer, outer.step() as step, step.tool("delegate", {"task": 1}) as call:
        with offline.run(parent=call, skill="inner") as inner:
            pass
        with offline.run(parent=outer) as sibling:
            pass
    events = read_spool(offline)
    starts = {event.runid: event for event in events if isinstance(event, RunStartedEvent)}
    assert starts[inner.id].parentrunid == starts[sibling.id].parentrunid == outer.id
    assert starts[inner.id].data.spawned_by_tool_call_id == call.tool_call_id
    assert starts[sibling.id].data.spawned_by_tool_call_id is None


def test_T9_a_judgement_after_the_end_does_not_open_the_run_again(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as run:
        first = run.reward("tests", 0.0)
    run.reward("tests", 1.0, supersedes=first)
    events = read_spool(offline)
    assert [event.sequence for event in events] == [1, 2, 3, None]
    last = events[-1]
    assert isinstance(last, RewardAssignedEvent)
    assert last.data.supersedes == events[1].id


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None])
def test_T10_a_score_that_is_none_is_null_and_never_zero(
    offline: Recorder, read_spool: ReadSpool, score: float | None
) -> None:
    with offline.run() as run:
        run.reward("tests", score)
    reward = read_spool(offline)[1]
    assert isinstance(reward, RewardAssignedEvent)
    assert reward.data.score is None


def test_tool_calls_of_providers_are_understood(offline: Recorder, read_spool: ReadSpool) -> None:
    class Function:
        name, arguments = "search", '{"q": 1}'

        def __init__(self) -> None:
            self.name, self.arguments = "search", '{"q": 1}'

    class OpenAiCall:
        def __init__(self) -> None:
            self.id, self.type, self.function = "call_1", "function", Function()

    anthropic = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"cmd": "ls"}}
    with offline.run() as run, run.step() as step:
        step.respond(
            tool_calls=[OpenAiCall(), anthropic, "gibberish"], usage={"prompt_tokens": 5, "completion_tokens": 2}
        )
        assert step.tool("shell", {"cmd": "ls"}).tool_call_id == "toolu_1"
    responded = read_spool(offline)[1]
    assert isinstance(responded, ModelRespondedEvent)
    calls = responded.data.tool_calls or []
    assert [(call.tool_call_id, call.function_name, call.arguments) for call in calls[:2]] == [
        ("call_1", "search", '{"q": 1}'),
        ("toolu_1", "shell", {"cmd": "ls"}),
    ]
    assert calls[2].arguments == "gibberish"
    assert responded.data.usage is not None
    assert (responded.data.usage.input_tokens, responded.data.usage.output_tokens) == (5, 2)


def test_events_without_context_managers_count_along(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as run:
        offline.emit("agent.model.responded", {"message": "by hand"}, run_id=run.id)
        run.emit("agent.context.compacted", {"summary": "short"})
        offline.emit("agent.reward.assigned", {"annotator_kind": "code", "score": 1.0}, run_id=run.id)
    offline.emit("agent.run.started", {}, run_id="plain")
    offline.emit("agent.run.ended", {"end_state": "completed"}, run_id="plain")
    offline.emit("agent.model.responded", {"message": "placed"}, run_id="placed", sequence=7)
    offline.emit("agent.consent.changed", {"subject_id": "s", "purpose": "p", "state": "granted"}, event_id="mine")
    events = read_spool(offline)
    by_run: dict[str | None, list[int | None]] = {}
    for event in events:
        by_run.setdefault(event.runid, []).append(event.sequence)
    assert by_run == {run.id: [1, 2, 3, None, 4], "plain": [1, 2], "placed": [7], None: [None]}
    assert [event.id for event in events[-2:]] == ["placed:7", "mine"]


def test_a_run_id_that_is_used_again_does_not_look_like_a_redelivery(offline: Recorder, read_spool: ReadSpool) -> None:
    for _ in range(2):
        with offline.run(run_id="job-17"):
            pass
    events = read_spool(offline)
    assert [event.sequence for event in events] == [1, 2, 1, 2]
    assert len({event.id for event in events}) == 4


def test_values_of_the_wrong_kind_never_reach_the_agent(offline: Recorder, read_spool: ReadSpool) -> None:
    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("no")

        __repr__ = __str__

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None  # type: ignore[assignment]

    bad: Any = Hostile()
    with offline.run(
        run_id=bad, parent=bad, traceparent=bad, skill=bad, skill_version="1", tools=bad, purpose=bad
    ) as run:
        with run.step(message=bad, usage=bad) as step:
            step.respond(tool_calls=bad, model=bad, logprobs=bad)
            step.respond(tool_calls=[bad, {"tool_call_id": bad}, {"tool_call_id": "x", "function_name": bad}])
            with step.tool(bad, bad) as call:
                call.result(bad, exit_code=bad, unknown_field=bad)  # type: ignore[call-arg]
            with step.tool("x", bad):
                pass
        run.reward(bad, bad, annotator_kind=bad)
        run.feedback(bad, label=bad)
        run.policy(bad, bad)
        run.compacted(bad)
        run.emit(bad, bad)
        run.end(bad, output=bad)
    offline.emit(bad, bad, run_id=bad, sequence=bad, time=bad)
    offline.emit("agent.run.started", {"skill": bad}, run_id="x" * 5_000)
    assert repr(run)
    assert offline.counts.dropped == 0


def test_concurrent_tools_of_one_step_get_consecutive_numbers(offline: Recorder, read_spool: ReadSpool) -> None:
    with offline.run() as run, run.step() as step:
        step.respond()

        def work(number: int) -> None:
            for _ in range(50):
                with step.tool(f"tool-{number}") as call:
                    call.result(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = read_spool(offline)
    assert [event.sequence for event in events] == list(range(1, 2 + 2 * 8 * 50 + 2))
    calls = [event for event in events if isinstance(event, ToolCalledEvent | ToolReturnedEvent)]
    seen: set[str] = set()
    for event in calls:
        if isinstance(event, ToolReturnedEvent):
            assert event.data.tool_call_id in seen
        else:
            assert event.data.tool_call_id not in seen
            seen.add(event.data.tool_call_id)


def test_async_with_records_the_same(offline: Recorder, read_spool: ReadSpool) -> None:
    async def agent(number: int) -> None:
        async with offline.arun(task_id=str(number)) as run, run.step() as step:
            step.respond(message="hi")
            async with step.tool("wait") as call:
                await asyncio.sleep(0)
                call.result("waited")

    async def main() -> None:
        await asyncio.gather(*(agent(number) for number in range(20)))
        cancelled = asyncio.create_task(hang())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    async def hang() -> None:
        async with offline.arun(task_id="hang") as run, run.step() as step, step.tool("wait"):
            await asyncio.Event().wait()

    asyncio.run(main())
    events = read_spool(offline)
    check_consecutive(sorted(events, key=lambda event: (event.runid or "", event.sequence or 0)))
    ends = [event.data.end_state for event in events if isinstance(event, RunEndedEvent)]
    assert sorted(ends) == ["cancelled"] + ["completed"] * 20


ACTION = st.sampled_from(["respond", "partial", "tool", "bad tool", "reward", "policy", "compact", "feedback", "raise"])
TEXT = st.text(max_size=20) | st.none() | st.integers() | st.lists(st.floats(), max_size=2)


@given(st.lists(st.lists(st.tuples(ACTION, TEXT), max_size=5), min_size=1, max_size=4), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_use_gives_decodable_events_with_consecutive_numbers(
    make_recorder: Any, nobody: str, read_spool: ReadSpool, steps: list[list[tuple[str, Any]]], is_ended: bool
) -> None:
    recorder = make_recorder(bootstrap_servers=nobody)
    try:
        with recorder.run(input=steps) as run:
            for actions in steps:
                with run.step() as step:
                    for action, text in actions:
                        act(run, step, action, text)
            if is_ended:
                run.end(output=steps)
    except LookupError:
        pass
    events = read_spool(recorder)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert kinds(events)[0] == "run.started"
    assert kinds(events)[-1] == "run.ended"
    assert kinds(events).count("run.ended") == 1
    responses = [event.data.step_id for event in events if isinstance(event, ModelRespondedEvent)]
    assert list(dict.fromkeys(responses)) == [f"step-{number}" for number in range(1, len(set(responses)) + 1)]
    called = [event.data.tool_call_id for event in events if isinstance(event, ToolCalledEvent)]
    returned = [event.data.tool_call_id for event in events if isinstance(event, ToolReturnedEvent)]
    assert sorted(called) == sorted(returned)
    assert recorder.counts.errors == recorder.counts.dropped == 0


def act(run: Any, step: Any, action: str, text: Any) -> None:
    if action in ("respond", "partial"):
        step.respond(message=text, partial=action == "partial")
    elif action == "tool":
        with step.tool("echo", text) as call:
            call.result(text)
    elif action == "bad tool":
        with pytest.raises(KeyError), step.tool("echo", text):
            raise KeyError(text)
    elif action == "reward":
        run.reward("tests", 0.5, explanation=text)
    elif action == "policy":
        run.policy("p", "allow", reason=text)
    elif action == "compact":
        run.compacted(text)
    elif action == "feedback":
        run.feedback(comment=text)
    else:
        raise LookupError(text)
