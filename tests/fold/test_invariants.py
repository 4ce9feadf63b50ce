"""What holds of any log's rows: every offset once, steps 1..n, counts that add up, memory that is given back."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings

from tests.fold.logs import logs, rules
from tests.fold.story import TOPIC, Landed, fold_in_batches, tick
from trajlake.transforms.assemble.fold import Assembler
from trajlake.transforms.assemble.state import RUN_BYTES, OpenRun
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

many = settings(max_examples=80, deadline=None)
Rows = list[dict[str, Any]]


def landed(records: list[Record], land: LandRules) -> Landed:
    return Landed.of(fold_in_batches(PartitionFold(TOPIC, 0, land), records))


@many
@given(logs(), rules)
def test_every_offset_is_in_exactly_one_of_ledger_quarantine_and_holes(records: list[Record], land: LandRules) -> None:
    tables = landed(records, land)
    taken = Counter(row["offset"] for name in ("events", "quarantine") for row in tables.rows(name))
    for hole in tables.rows("gaps"):
        taken.update(range(hole["first_offset"], hole["offset"] + 1))
    end = records[-1].offset + 1 if records else 0
    assert taken == Counter(range(end))


@many
@given(logs(), rules)
def test_offsets_of_a_table_never_go_back(records: list[Record], land: LandRules) -> None:
    for name, table in landed(records, land).tables.items():
        column = table.column("offset").to_pylist()
        assert column == sorted(column), name


@many
@given(logs(), rules)
def test_runs_and_steps_of_each_life_of_a_run_are_whole(records: list[Record], land: LandRules) -> None:
    tables = landed(records, land)
    lives: dict[tuple[str, int], Rows] = defaultdict(list)
    for row in tables.rows("runs"):
        lives[row["run_id"], row["first_offset"]].append(row)
    for (run_id, first), rows in lives.items():
        assert [row["revision"] for row in rows] == list(range(len(rows)))
        last = rows[-1]
        events = [event for event in tables.rows("events", run_id=run_id) if first <= event["offset"] <= last["offset"]]
        assert last["event_count"] == len(events)
        steps = [
            step
            for step in tables.rows("steps", run_id=run_id)
            if first <= step["first_offset"] and step["offset"] <= last["offset"]
        ]
        _check_steps(steps, last)


def _check_steps(steps: Rows, run: dict[str, Any]) -> None:
    revisions: dict[int, Rows] = defaultdict(list)
    for step in steps:
        revisions[step["step_index"]].append(step)
    assert sorted(revisions) == list(range(1, run["step_count"] + 1))
    for rows in revisions.values():
        assert [row["revision"] for row in rows] == list(range(len(rows)))
    latest = [rows[-1] for _, rows in sorted(revisions.items())]
    assert [step["is_last"] for step in latest] == [False] * (len(latest) - 1) + [True] * bool(latest)
    assert sum(len(step["tool_calls"]) for step in latest) == run["tool_call_count"]
    assert sum(step["is_copied_context"] for step in latest) == run["copied_step_count"]
    own = [step for step in latest if not step["is_copied_context"]]
    for figure in ("input_tokens", "output_tokens"):
        assert sum(step[figure] or 0 for step in own) == (run[figure] or 0), figure
    assert abs(sum(step["cost_usd"] or 0 for step in own) - (run["cost_usd"] or 0)) < 1e-9
    assert sum(step["retry_count"] or 0 for step in own) == (run["retry_count"] or 0)
    for step in latest:
        calls = [call["tool_call_id"] for call in step["tool_calls"]]
        answers = [answer["source_call_id"] for answer in step["observations"]]
        if step["source"] == "agent":
            assert not Counter(answers) - Counter(calls), "an observation stands only beside its call"
            assert answers == [call for call in calls if call in answers][: len(answers)] or len(set(calls)) < len(
                calls
            )


@many
@given(logs(), rules)
def test_memory_is_counted_and_given_back_when_runs_close(records: list[Record], land: LandRules) -> None:
    fold = PartitionFold(TOPIC, 0, land)
    for record in records:
        fold.fold([record])
        _check_memory(fold.assembler, land)
    offset = fold.next_offset
    late = 10**16
    import orjson

    end = Record(offset, late, b"trajlake/tick", orjson.dumps(tick(late, 0, 0, 0)))
    fold.fold([end])
    assert not fold.assembler.open
    assert not fold.assembler.closed
    assert (fold.assembler.held_bytes, fold.assembler.closed_bytes, fold.assembler._holding) == (0, 0, 0)


def _check_memory(fold: Assembler, land: LandRules) -> None:
    assert fold.held_bytes == sum(run.held_bytes for run in fold.open.values())
    assert fold.closed_bytes == sum(run.held_bytes for run in fold.closed.values())
    assert fold._holding == sum(bool(run.held) for run in fold.open.values())
    assert fold.held_bytes <= land.state_max_bytes
    assert fold.closed_bytes <= land.state_max_bytes // 4
    assert len(fold.closed) <= land.closed_runs_kept
    for run in (*fold.open.values(), *fold.closed.values()):
        assert run.held_bytes >= _least(run)
        assert not (run.closed and run.held), "a closed run waits for nothing"
        assert run.absent == len(run.seen[::4]) - sum(
            run.seen[i : i + 4] != bytes(4) for i in range(0, len(run.seen), 4)
        )
        assert run.seen_from + len(run.seen) // 4 == run.next_sequence


def _least(run: OpenRun) -> int:
    """What a run surely holds."""
    return (
        RUN_BYTES
        + sum(step.held_bytes for step in run.steps)
        + sum(len(held.text) for held in run.held.values())
        + sum(result.size for result in run.orphans.values())
    )
