"""Large inputs cost what they hold: no run, step or event makes the next one dearer, and memory stays within its
limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.fold.story import START_US, TOPIC, tick
from trajlake.transforms.assemble.fold import MAX_OPEN_STEPS
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

KEY = b"acme/r1"


def event(kind: str, sequence: int | None, data: dict[str, Any], run: str = "r1", name: str = "") -> bytes:
    body = {
        "specversion": "1.0", "id": name or f"{run}:{sequence}", "source": "s", "type": f"agent.{kind}",
        "tenantid": "acme", "runid": run, "sequence": sequence, "data": data,
    }  # fmt: skip
    return orjson.dumps({name: value for name, value in body.items() if value is not None})


def answered(n: int) -> list[tuple[str, dict[str, Any]]]:
    call = {"tool_call_id": f"c{n}", "function_name": "f", "arguments": "{}"}
    return [("model.responded", {"message": "x", "tool_calls": [call]}), ("tool.returned", {"tool_call_id": f"c{n}"})]


def with_ids(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("model.responded", {"message_id": f"m{n}", "message": "x"})]


def never_answered(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("model.responded", {"message_id": f"m{n}", "tool_calls": [{"tool_call_id": f"c{n}"}]})]


def orphans(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("tool.returned", {"tool_call_id": f"nobody {n}"})]


def calls_of_one_step(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("tool.called", {"tool_call_id": f"c{n}"}), ("tool.returned", {"tool_call_id": f"c{n}"})]


def one_id(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("tool.called", {"tool_call_id": "same"}), ("tool.returned", {"tool_call_id": "same"})]


def repeated_results(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [*answered(n), ("tool.returned", {"tool_call_id": f"c{n // 2}"})]


def verdicts(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("policy.decided", {"policy_id": "p", "verdict": "allow"})]


def compactions(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("context.compacted", {"summary": "s"})]


def streamed(n: int) -> list[tuple[str, dict[str, Any]]]:
    return [("model.responded", {"message_id": f"m{n // 100}", "partial": n % 100 < 99, "message": "x" * (n % 100)})]


def cpu_us_per_event(
    acts: Callable[[int], list[tuple[str, dict[str, Any]]]], first: int, events: int, fold: PartitionFold
) -> float:
    """Microseconds of CPU per event, for `events` more events of one run."""
    records: list[Record] = []
    n = first
    while len(records) < events:
        for kind, data in acts(n):
            offset = fold.next_offset + len(records)
            records.append(Record(offset, START_US + offset, KEY, event(kind, offset + 1, data)))
        n += 1
    best = time.process_time()
    fold.fold(records)
    return (time.process_time() - best) / len(records) * 1e6


@pytest.mark.parametrize(
    "acts",
    [
        answered, with_ids, never_answered, orphans, calls_of_one_step, one_id, repeated_results, verdicts, compactions,
        streamed,
    ],
)  # fmt: skip
def test_a_run_of_many_events_costs_the_same_at_its_end_as_at_its_beginning(
    acts: Callable[[int], list[tuple[str, dict[str, Any]]]],
) -> None:
    fold = PartitionFold(TOPIC, 0, LandRules())
    early = cpu_us_per_event(acts, 0, 3_000, fold)
    cpu_us_per_event(acts, 3_000, 40_000, fold)
    late = cpu_us_per_event(acts, 50_000, 3_000, fold)
    assert late < 4 * early + 100, f"{early:.0f} us per event at first, {late:.0f} us in the end"


def test_a_run_of_unsequenced_events_costs_the_same_at_its_end() -> None:
    fold = PartitionFold(TOPIC, 0, LandRules())
    data = {"score": 1.0, "annotator_kind": "code"}
    spent = []
    for part in (3_000, 40_000, 3_000):
        first = fold.next_offset
        records = [
            Record(n, n, KEY, event("reward.assigned", None, data, name=f"e{n}")) for n in range(first, first + part)
        ]
        started = time.process_time()
        fold.fold(records)
        spent.append((time.process_time() - started) / part * 1e6)
    assert spent[2] < 4 * spent[0] + 100


def test_fifty_thousand_holes_are_given_up_in_one_go() -> None:
    fold = PartitionFold(TOPIC, 0, LandRules())
    fold.fold([Record(n, n, KEY, event("model.responded", 2 + 2 * n, {"message": "x"})) for n in range(50_000)])
    started = time.process_time()
    landing = fold.fold([Record(50_000, 10**9, b"trajlake/tick", orjson.dumps(tick(10**12, 0, 0, 10**6)))])
    assert time.process_time() - started < 15
    assert len(landing.steps) == 50_000
    assert landing.runs[0].event_count == 50_000


def test_a_response_of_many_calls_pairs_them_without_scanning_all_for_each() -> None:
    count = 20_000
    calls = [{"tool_call_id": f"c{n}", "function_name": "f", "arguments": "{}"} for n in range(count)]
    fold = PartitionFold(TOPIC, 0, LandRules(payload_inline_max_bytes=8 << 20, event_inline_max_bytes=8 << 20))
    records = [Record(0, 0, KEY, event("model.responded", 1, {"tool_calls": calls}))]
    records += [
        Record(n, n, KEY, event("tool.returned", n + 1, {"tool_call_id": f"c{count - n}"})) for n in range(1, count + 1)
    ]
    records += [
        Record(count + 1, 0, KEY, event("model.responded", count + 2, {"message_id": "m", "tool_calls": calls}))
    ]
    records += [
        Record(count + 2, 0, KEY, event("model.responded", count + 3, {"message_id": "m", "tool_calls": calls}))
    ]
    started = time.process_time()
    landing = fold.fold(records)
    assert time.process_time() - started < 15
    (row,) = landing.steps
    assert all(result is not None for result in row.step.results)


def test_a_stream_of_many_content_blocks_is_united_without_comparing_each_with_all() -> None:
    fold = PartitionFold(TOPIC, 0, LandRules(payload_inline_max_bytes=8 << 20, event_inline_max_bytes=8 << 20))
    started = time.process_time()
    for copy in range(3):
        blocks = [{"type": "text", "text": f"{copy} {n}"} for n in range(20_000)]
        fold.fold([Record(copy, 0, KEY, event("model.responded", copy + 1, {"message_id": "m", "message": blocks}))])
    assert time.process_time() - started < 15
    (run,) = fold.assembler.open.values()
    assert len(run.steps) == 1
    assert run.steps[0].response.message is not None
    assert len(run.steps[0].response.message) == 60_000


def test_ticks_over_many_open_runs_close_them_all() -> None:
    fold = PartitionFold(TOPIC, 0, LandRules())
    count = 20_000
    fold.fold([Record(n, n, b"acme/r%d" % n, event("run.started", 1, {}, f"r{n}")) for n in range(count)])
    assert len(fold.assembler.open) == count
    landing = fold.fold([Record(count, 10**9, b"trajlake/tick", orjson.dumps(tick(10**12, 0, 0, 10**6)))])
    assert [row.head.run_id for row in landing.runs] == [f"r{n}" for n in range(count)]
    assert fold.assembler.held_bytes == 0


def test_closing_many_runs_keeps_the_newest_and_costs_the_same_all_along() -> None:
    fold = PartitionFold(TOPIC, 0, LandRules(closed_runs_kept=10_000))
    spent = []
    for part in range(5):
        runs = range(part * 8_000, (part + 1) * 8_000)
        records = [
            Record(2 * n + k, n, b"acme/r%d" % n, event(kind, k + 1, data, f"r{n}"))
            for n in runs
            for k, (kind, data) in enumerate((("run.started", {}), ("run.ended", {"end_state": "completed"})))
        ]
        started = time.process_time()
        fold.fold(records)
        spent.append(time.process_time() - started)
    assert list(fold.assembler.closed)[-1] == b"acme/r39999"
    assert len(fold.assembler.closed) == 10_000
    assert spent[-1] < 4 * spent[0] + 0.2


@pytest.mark.parametrize(
    "kind",
    [
        "run.started",
        "model.responded",
        "tool.returned",
        "policy.decided",
        "context.compacted",
        "run.ended",
        "reward.assigned",
    ],
)
def test_whatever_fills_the_memory_of_runs_is_bounded(kind: str) -> None:
    """Many runs that never end, each with one large event of a kind."""
    limit = 400_000
    large: dict[str, dict[str, Any]] = {
        "run.started": {"input": "x" * 2_000},
        "model.responded": {"message": "x" * 2_000},
        "tool.returned": {"tool_call_id": "a", "content": "x" * 2_000},
        "policy.decided": {"policy_id": "p", "verdict": "allow", "action": "x" * 1_000, "rule_id": "x" * 1_000},
        "context.compacted": {"summary": "x" * 2_000},
        "run.ended": {"end_state": "completed", "output": "x" * 2_000},
        "reward.assigned": {"score": 1.0, "annotator_kind": "code"},
    }
    fold = PartitionFold(TOPIC, 0, LandRules(state_max_bytes=limit))
    for n in range(1_500):
        fold.fold([Record(n, n, b"acme/r%d" % n, event(kind, 1, large[kind], f"r{n}"))])
        assert fold.assembler.held_bytes <= limit
        assert fold.assembler.closed_bytes <= limit // 4
    kept = [*fold.assembler.open.values(), *fold.assembler.closed.values()]
    assert sum(len(repr(run)) for run in kept) < 3 * limit


@pytest.mark.parametrize("kind", ["reward.assigned", "feedback.given"])
@pytest.mark.parametrize("spread", [1, 50])
def test_what_comes_to_closed_runs_without_a_sequence_keeps_to_the_limit_too(kind: str, spread: int) -> None:
    """To one run, or to many in turn."""
    limit = 400_000
    fold = PartitionFold(TOPIC, 0, LandRules(state_max_bytes=limit))
    ends = [
        Record(n, n, b"acme/r%d" % n, event("run.ended", 1, {"end_state": "completed"}, f"r{n}")) for n in range(60)
    ]
    fold.fold(ends)
    assert len(fold.assembler.closed) == 60
    by_code = {"annotator_kind": "code"} if kind == "reward.assigned" else {}
    for n in range(60, 4_060):
        run = f"r{59 - n % spread}"
        value = event(kind, None, {"score": 1.0, **by_code}, run, f"score-{n}")
        assert not fold.fold([Record(n, n, b"acme/" + run.encode(), value)]).quarantine
        kept = fold.assembler.closed.values()
        assert fold.assembler.closed_bytes == sum(closed.held_bytes for closed in kept) <= limit // 4
        assert sum(len(closed.unsequenced) for closed in kept) <= limit // 4 // 64
        assert fold.assembler.held_bytes <= limit


def test_a_run_keeps_a_bounded_number_of_open_steps() -> None:
    fold = PartitionFold(TOPIC, 0, LandRules())
    cpu_us_per_event(never_answered, 0, 1_000, fold)
    (run,) = fold.assembler.open.values()
    assert len(run.steps) == MAX_OPEN_STEPS
