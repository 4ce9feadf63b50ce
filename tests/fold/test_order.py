"""Order within a run: early, missing, late and repeated events, ends that are none, and runs that are closed to free
memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fold.story import TOPIC, Landed, Log, fold_in_batches
from trajlake.transforms.assemble.openrun import MAX_HOLE
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules


def gaps_of(row: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(gap["code"], gap["detail"]) for gap in row["gaps"] or ()]


def messages(landed: Landed, run: str = "r1") -> list[str]:
    return [step["message"] for step in landed.steps(run)]


def test_an_early_event_waits_for_its_predecessors() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("third", sequence=4)
    run.ends(sequence=5)
    run.responds("second", sequence=3)
    closing = run.responds("first", sequence=2)
    landed = log.land()
    assert messages(landed) == ["first", "second", "third"]
    row = landed.one("runs")
    assert (row["offset"], row["event_count"], row["gaps"], row["late"]) == (closing, 5, None, False)


def test_a_missing_event_is_a_gap_once_the_logs_time_says_so() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("after the hole", sequence=4)
    run.ends(sequence=7)
    log.tick(held_s=60)
    assert log.land().rows("runs") == []
    log.waits(60)
    closing = log.tick(held_s=60)
    landed = log.land()
    row = landed.one("runs")
    assert row["offset"] == closing
    assert gaps_of(row) == [("missing_sequence", "2-3"), ("missing_sequence", "5-6")]
    assert messages(landed) == ["after the hole"]


def test_a_missing_event_that_comes_after_all_is_no_gap_any_more() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("third", sequence=4)
    log.waits(100)
    log.tick(held_s=50)
    run.responds("late", sequence=3)
    run.responds("fourth", sequence=5)
    run.ends(sequence=6)
    landed = log.land()
    row = landed.one("runs")
    assert gaps_of(row) == [("missing_sequence", "2")]
    assert row["late"]
    assert [(step["message"], step["late"]) for step in landed.steps()] == [
        ("third", False),
        ("late", True),
        ("fourth", False),
    ]


def test_a_missing_event_that_comes_after_the_close_makes_a_revision() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.ends(sequence=3, success=True)
    log.waits(100)
    log.tick(held_s=50)
    run.responds("late", sequence=2)
    log.waits(100)
    log.tick(idle_s=50)
    first, second = log.land().rows("runs")
    assert (first["revision"], first["step_count"], gaps_of(first)) == (0, 0, [("missing_sequence", "2")])
    assert (second["revision"], second["step_count"], gaps_of(second)) == (1, 1, [])
    assert (second["end_state"], second["end_inferred"], second["success"], second["late"]) == (
        "completed",
        False,
        True,
        True,
    )


def test_a_given_up_number_is_taken_once() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("third", sequence=3)
    log.waits(100)
    log.tick(held_s=50)
    run.responds("late", sequence=2, id="late")
    run.responds("late", sequence=2, id="late")
    run.responds("other", sequence=2, id="other")
    run.ends(sequence=4)
    landed = log.land()
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["duplicate", "sequence_conflict"]
    assert landed.one("runs")["event_count"] == 4


def test_an_early_event_that_comes_twice_while_it_waits_is_a_duplicate() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for name in ("a", "a", "b"):
        run.responds(name, sequence=3, id=name)
    run.responds("first", sequence=2)
    run.ends(sequence=4)
    landed = log.land()
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["duplicate", "sequence_conflict"]
    assert messages(landed) == ["first", "a"]


def test_a_quarantined_record_uses_up_its_number_even_when_it_comes_early() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("bad", sequence=3, latency_ms="soon")
    run.responds("fourth", sequence=4)
    run.responds("second", sequence=2)
    closing = run.ends(sequence=5)
    landed = log.land()
    row = landed.one("runs")
    assert row["offset"] == closing
    assert gaps_of(row) == [("missing_sequence", "3: quarantined, wrong_type")]
    assert row["event_count"] == 4
    assert messages(landed) == ["second", "fourth"]


def test_a_quarantined_record_that_comes_again_whole_takes_its_place() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("bad", sequence=3, latency_ms="soon")
    run.responds("good", sequence=3)
    run.responds("second", sequence=2)
    run.ends(sequence=4)
    landed = log.land()
    assert messages(landed) == ["second", "good"]
    assert gaps_of(landed.one("runs")) == []


def test_a_quarantined_end_does_not_close_the_run_but_what_follows_is_not_held_back() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.ends("perfect")
    run.responds("still here")
    run.ends()
    row = log.land().one("runs")
    assert row["step_count"] == 1
    assert gaps_of(row) == [("missing_sequence", "2: quarantined, out_of_range")]


def test_events_after_the_end_reopen_the_run_and_are_noted() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("one")
    run.ends(output="the answer")
    run.responds("and another thing")
    log.waits(100)
    log.tick(idle_s=50)
    landed = log.land()
    first, second = landed.rows("runs")
    assert (first["step_count"], first["output"]) == (1, "the answer")
    assert (second["step_count"], second["output"], second["revision"]) == (2, "the answer", 1)
    assert gaps_of(second) == [("event_after_end", None)]
    assert [step["is_last"] for step in landed.steps()] == [False, True]


def test_a_revision_keeps_the_last_message_as_output_where_the_end_has_none() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("the answer", calls=["a"])
    run.ends()
    run.returns("a", "late")
    log.waits(100)
    log.tick(idle_s=50)
    landed = log.land()
    assert [row["output"] for row in landed.rows("runs")] == ["the answer", "the answer"]
    (step,) = landed.steps()
    assert (step["revision"], step["late"], step["gaps"]) == (1, True, None)
    assert step["observations"][0]["content"] == "late"


def test_a_second_end_counts_and_the_last_step_says_so() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("one")
    run.ends("failed", truncated=True)
    run.ends("completed", terminated=True)
    landed = log.land()
    assert [row["end_state"] for row in landed.rows("runs")] == ["failed", "completed"]
    assert [(row["revision"], row["truncated"], row["terminated"]) for row in landed.rows("steps")] == [
        (0, True, None),
        (1, None, True),
    ]


def test_a_late_verdict_without_a_number_makes_a_revision() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("one")
    run.ends()
    run.decides("deny", sequence=None, id="verdict")
    log.waits(100)
    log.tick(idle_s=50)
    landed = log.land()
    assert [row["revision"] for row in landed.rows("runs")] == [0, 1]
    assert landed.last_run()["policy_verdicts"][0]["verdict"] == "deny"
    assert landed.steps()[-1]["policy_verdicts"][0]["verdict"] == "deny"


def test_rows_that_were_emitted_do_not_change_when_the_run_goes_on_in_the_same_batch() -> None:
    """The first revision in one batch with the second is what it is alone."""
    log = Log()
    run = log.run()
    run.starts()
    run.decides()
    run.compacts()
    run.responds("one", calls=["a"])
    run.ends()
    first = len(log.records)
    run.decides("deny", sequence=None, id="v", tool_call_id="a")
    run.compacts("again")
    run.returns("nobody", "x")
    run.returns("a", "late", is_error=True)
    run.responds("bad", latency_ms="soon")
    run.ends()
    together = log.land()
    alone = Log()
    alone.records = log.records[:first]
    before = alone.land()
    for name in ("runs", "steps"):
        assert together.tables[name].slice(0, 1).equals(before.tables[name]), name


@pytest.mark.parametrize("kept", [0, 1])
def test_a_run_that_was_forgotten_and_goes_on_is_a_fragment_of_its_own(kept: int) -> None:
    log = Log()
    run, other = log.run("r1"), log.run("r2")
    run.starts()
    run.ends()
    other.starts()
    other.ends()
    run.responds("who am I?")
    log.waits(100)
    log.tick(idle_s=50)
    rows = log.land(LandRules(closed_runs_kept=kept)).rows("runs", run_id="r1")
    assert [(row["revision"], row["has_start"]) for row in rows] == [(0, True), (0, False)]
    assert gaps_of(rows[1]) == [("missing_sequence", "1-2"), ("missing_start", None), ("missing_end", None)]


# Numbers far away


def test_a_number_far_ahead_costs_no_memory_and_is_one_gap() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("far", sequence=2**53 - 2)
    run.ends(sequence=2**53 - 1)
    log.waits(100)
    log.tick(held_s=50)
    fold = PartitionFold(TOPIC, 0, LandRules())
    landed = Landed.of(fold_in_batches(fold, log.records))
    row = landed.one("runs")
    assert gaps_of(row) == [("missing_sequence", f"2-{2**53 - 3}")]
    assert row["event_count"] == 3
    (closed,) = fold.assembler.closed.values()
    assert len(closed.seen) == 8


def test_what_lies_before_a_very_long_hole_is_forgotten_and_refused_as_a_conflict() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("far", sequence=MAX_HOLE + 10)
    log.waits(100)
    log.tick(held_s=50)
    run.responds("in the hole", sequence=7)
    run.starts(sequence=1)
    landed = log.land()
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["sequence_conflict"] * 2
    assert "behind it" in landed.rows("quarantine")[0]["detail"]


def test_gaps_from_before_a_very_long_hole_stay_noted() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("a", sequence=3)
    run.ends(sequence=MAX_HOLE + 10)
    log.waits(100)
    log.tick(held_s=50)
    assert gaps_of(log.land().one("runs")) == [
        ("missing_sequence", "2"),
        ("missing_sequence", f"4-{MAX_HOLE + 9}"),
    ]


def test_very_many_gaps_are_counted_in_the_last_note() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for n in range(250):
        run.responds("x", sequence=3 + 2 * n)
    run.ends()
    log.waits(1000)
    log.tick(held_s=50)
    gaps = gaps_of(log.land().one("runs"))
    assert len(gaps) == 100
    assert gaps[0] == ("missing_sequence", "2")
    assert gaps[-1] == ("missing_sequence", "200 and 150 more notes")


# Memory


def test_when_open_runs_hold_too_much_the_oldest_are_closed_and_marked() -> None:
    log = Log()
    runs = [log.run(f"r{n}") for n in range(8)]
    for run in runs:
        run.starts(input="x" * 500)
        run.responds("y" * 500)
    fold = PartitionFold(TOPIC, 0, LandRules(state_max_bytes=16_000))
    landed = Landed.of(fold_in_batches(fold, log.records))
    evicted = landed.rows("runs")
    assert [row["run_id"] for row in evicted] == [f"r{n}" for n in range(len(evicted))]
    assert evicted
    assert {row["end_state"] for row in evicted} == {"abandoned"}
    assert gaps_of(evicted[0]) == [("evicted", None), ("missing_end", None)]
    assert fold.assembler.held_bytes <= 16_000


def test_an_evicted_run_goes_on_as_a_revision_without_an_end_before_its_end() -> None:
    log = Log()
    run, greedy = log.run("r1"), log.run("greedy")
    run.starts()
    run.responds("one")
    greedy.starts()
    greedy.responds("x" * 14_000)
    run.responds("two")
    run.ends()
    landed = log.land(LandRules(state_max_bytes=16_000))
    first, second = landed.rows("runs", run_id="r1")
    assert ("evicted", None) in gaps_of(first)
    assert (second["end_state"], second["step_count"], second["late"]) == ("completed", 2, True)
    assert "event_after_end" not in [code for code, _ in gaps_of(second)]


def test_events_that_wait_count_as_memory() -> None:
    log = Log()
    run = log.run()
    for n in range(40):
        run.responds("x" * 500, sequence=100 + n)
    fold = PartitionFold(TOPIC, 0, LandRules(state_max_bytes=16_000))
    landed = Landed.of(fold_in_batches(fold, log.records))
    assert fold.assembler.held_bytes <= 16_000
    assert landed.last_run()["event_count"] > 10


def test_a_call_that_is_never_answered_does_not_keep_a_long_run_in_memory() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("stuck", calls=["never"])
    for n in range(500):
        run.responds(f"{n}", calls=[f"c{n}"])
        run.returns(f"c{n}")
    fold = PartitionFold(TOPIC, 0, LandRules())
    landed = Landed.of(fold_in_batches(fold, log.records))
    (held,) = fold.assembler.open.values()
    assert len(held.steps) <= 128
    assert gaps_of(landed.steps()[0]) == [("missing_tool_result", "never")]
    assert len(landed.steps()) >= 372


def test_only_what_has_waited_long_enough_is_given_up() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("third", sequence=3)
    log.waits(100)
    run.responds("fifth", sequence=5)
    log.tick(held_s=50)
    run.responds("fourth", sequence=4)
    run.ends(sequence=6)
    row = log.land().one("runs")
    assert gaps_of(row) == [("missing_sequence", "2")]
    assert not row["late"]


def test_a_run_whose_events_come_in_disorder_all_along_loses_none_of_them() -> None:
    log = Log()
    run = log.run()
    run.starts(sequence=1)
    for n in range(2, 200, 2):
        run.responds(f"{n + 1}", sequence=n + 1)
        log.tick(held_s=5)
        run.responds(f"{n + 3}", sequence=n + 3, id=f"r1:{n + 3}")
        run.responds(f"{n}", sequence=n, id=f"r1:{n}")
    landed = log.land()
    assert [step["late"] for step in landed.steps()] == [False] * len(landed.steps())
    messages_in_order = messages(landed)
    assert messages_in_order == [f"{n}" for n in range(2, 2 + len(messages_in_order))]


def test_a_copy_of_the_last_message_that_comes_after_the_close_replaces_its_figures() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("half", message_id="m1", partial=True, usage={"input_tokens": 5, "output_tokens": 1})
    run.ends()
    run.responds("half and whole", message_id="m1", usage={"output_tokens": 9}, calls=["a"])
    log.waits(100)
    log.tick(idle_s=50)
    landed = log.land()
    row = landed.last_run()
    assert (row["input_tokens"], row["output_tokens"], row["tool_call_count"], row["step_count"]) == (5, 9, 1, 1)
    assert row["output"] == "half and whole"
    assert [step["message"] for step in landed.rows("steps")] == ["half", "half and whole"]


def test_an_open_run_holds_its_open_steps_and_not_those_that_have_their_rows() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for n in range(100):
        run.responds("x" * 1000, calls=[f"c{n}"])
        run.returns(f"c{n}", "y" * 1000)
    fold = PartitionFold(TOPIC, 0, LandRules())
    fold.fold(log.records)
    assert fold.assembler.held_bytes < 8_000


def test_what_was_missing_at_the_close_is_no_gap_of_the_revision_that_has_it() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a", "b"])
    run.returns("a")
    run.returns("a", "again")
    run.ends()
    run.returns("b", "late")
    log.waits(100)
    log.tick(idle_s=50)
    first, second = log.land().rows("steps")
    assert gaps_of(first) == [("duplicate_tool_result", "a"), ("missing_tool_result", "b")]
    assert gaps_of(second) == [("duplicate_tool_result", "a")]
