"""`verify` names what is wrong: one change to a sound lake a test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajlake.reading.tables import LakeTables
from trajlake.sinks.lake import Lake
from trajlake.verification.report import Report
from trajlake.verification.verify import verify

APP = "trajlake-land"
TOPIC = "agent.audit.v1"


def check(root: Path, *, deep: bool = False) -> Report:
    return verify(LakeTables(Lake(str(root))), APP, deep=deep)


def problem(report: Report, code: str) -> dict[str, Any]:
    """The one problem of this code; the lake must have no other kind."""
    assert not report.ok
    assert set(report.problem_counts) == {code}, report.problems
    assert len(report.problems) == 1, report.problems
    return report.problems[0]


def test_a_sound_lake_is_ok_and_every_offset_is_counted_once(rows: Any, tmp_path: Path) -> None:
    rows.write(tmp_path)
    report = check(tmp_path)
    assert report.ok
    assert report.problems == []
    assert (report.missing, report.duplicates) == ([], [])
    for part in report.partitions:
        produced = rows.next_offset[part.partition]
        assert part.events + part.quarantined + part.holes + part.below_retention == produced
        assert part.landed_offset == produced - 1
    assert [(gap.partition, gap.first_offset, gap.last_offset) for gap in report.gaps] == [(0, 0, 2)]
    assert report.holes == 1
    assert report.checked["runs"] == 3


def test_an_empty_table_set_is_ok(make_rows: Any, tmp_path: Path) -> None:
    make_rows().write(tmp_path)
    report = check(tmp_path)
    assert report.ok
    assert report.partitions == []


# Offsets


def test_an_event_that_is_gone_is_missing_at_its_offset(rows: Any, tmp_path: Path) -> None:
    lost = rows.drop("events", type="trajlake.tick")
    rows.write(tmp_path)
    found = problem(check(tmp_path), "missing_offsets")
    assert found["place"] == {"topic": TOPIC, "partition": 1, "offset": lost["offset"], "last_offset": lost["offset"]}


@pytest.mark.parametrize("table", ["quarantine", "gaps"])
def test_a_side_row_that_is_gone_is_missing(rows: Any, tmp_path: Path, table: str) -> None:
    lost = rows[table].pop(0)
    rows.write(tmp_path)
    report = check(tmp_path)
    assert problem(report, "missing_offsets")["place"]["offset"] == lost.get("first_offset", lost["offset"])
    assert report.missing_count == lost["offset"] - lost.get("first_offset", lost["offset"]) + 1


def test_a_tail_that_is_gone_is_missing_up_to_the_landed_offset(rows: Any, tmp_path: Path) -> None:
    lost = [rows["events"].pop(), rows["events"].pop()]
    rows.write(tmp_path)
    report = check(tmp_path)
    assert [(r.first_offset, r.last_offset) for r in report.missing] == [(lost[1]["offset"], lost[0]["offset"])]


def test_a_record_in_the_ledger_and_in_quarantine_is_doubled(rows: Any, tmp_path: Path) -> None:
    rows["quarantine"].append(rows["quarantine"][0] | {"offset": rows["events"][-1]["offset"], "partition": 1})
    rows.write(tmp_path)
    report = check(tmp_path)
    assert problem(report, "duplicate_offsets")["place"]["offset"] == rows["events"][-1]["offset"]
    assert [(r.partition, r.first_offset, r.count) for r in report.duplicates] == [(1, rows["events"][-1]["offset"], 1)]


def test_L02_a_batch_that_landed_twice_is_doubled(rows: Any, tmp_path: Path) -> None:
    batch = [row for row in rows["events"] if row["run_id"] == "run-a"]
    rows["events"].extend(batch)
    rows.write(tmp_path)
    report = check(tmp_path)
    assert report.duplicate_count == len(batch)
    # The run's own events stand twice as well, and its count no longer agrees.
    assert {"duplicate_offsets", "duplicate_event", "event_count"} == set(report.problem_counts)
    assert "run-a" in str([p for p in report.problems if p["code"] == "duplicate_event"])


def test_events_above_the_landed_offset_are_named(rows: Any, tmp_path: Path) -> None:
    last = rows.last_offsets()
    rows.write(tmp_path, landed={**last, 1: last[1] - 1})
    assert problem(check(tmp_path), "beyond_landed")["place"] == {"topic": TOPIC, "partition": 1, "offset": last[1]}


def test_L08_holes_are_no_gaps(make_rows: Any, tmp_path: Path) -> None:
    made = make_rows()
    for _ in range(50):
        made.event(0, "trajlake.tick", None, None, tenant="")
        made.gap(0, 1)
    made.write(tmp_path)
    report = check(tmp_path)
    assert report.ok
    assert report.gaps == []
    assert report.holes == 50


def test_L09_a_declared_loss_is_listed_and_no_fault(rows: Any, tmp_path: Path) -> None:
    rows.write(tmp_path)
    report = check(tmp_path)
    assert report.ok
    assert [(gap.topic, gap.first_offset, gap.last_offset, gap.count) for gap in report.gaps] == [(TOPIC, 0, 2, 3)]


def test_L12_a_partition_with_nothing_but_poison_is_accounted_for(make_rows: Any, tmp_path: Path) -> None:
    made = make_rows()
    for _ in range(20):
        made.refuse(3)
    made.write(tmp_path)
    report = check(tmp_path)
    assert report.ok
    assert [(p.partition, p.quarantined, p.landed_offset) for p in report.partitions] == [(3, 20, 19)]
    made.drop("quarantine", offset=7)
    made.write(tmp_path / "second")
    assert problem(check(tmp_path / "second"), "missing_offsets")["place"]["offset"] == 7


def test_a_table_without_transactions_is_judged_by_its_highest_offset(rows: Any, tmp_path: Path) -> None:
    rows.write(tmp_path, landed={})
    assert check(tmp_path).ok


# What is on its way


@pytest.mark.parametrize("committed", range(6))
def test_a_batch_between_two_commits_is_on_its_way_and_no_fault(
    rows: Any, make_rows: Any, append_rows: Callable[..., None], tmp_path: Path, committed: int
) -> None:
    lake = rows.write(tmp_path)
    later = make_rows(next_offset=dict(rows.next_offset))
    later.refuse(0)
    later.gap(0, 2)
    later.whole_run(0, "run-later")
    order = ("quarantine", "gaps", "rewards", "steps", "runs", "events")
    for name in order[:committed]:
        append_rows(lake, name, later[name], later.last_offsets())
    report = check(tmp_path)
    assert report.ok, report.problems
    assert report.partitions[0].in_flight == (0, 1, 3, 3, 3, 3)[committed]
    for name in order[committed:]:
        append_rows(lake, name, later[name], later.last_offsets())
    assert check(tmp_path).checked["runs"] == 4


def test_a_lake_whose_ledger_is_gone_is_refused(rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.write(tmp_path, names=["quarantine", "steps", "runs"])
    monkeypatch.setattr("trajlake.verification.verify.FIRST_BATCH_S", 0.2)
    with pytest.raises(LookupError, match="the ledger is gone"):
        check(tmp_path)


# Events


def test_an_event_that_stands_at_two_offsets_is_named_with_both(rows: Any, tmp_path: Path) -> None:
    first = rows.first("events", run_id="run-a", sequence=2)
    again = first | {"offset": rows.take(0)}
    rows["events"].append(again)
    rows.write(tmp_path)
    found = problem(check(tmp_path), "duplicate_event")
    assert found["place"]["event_id"] == first["id"]
    assert f"offset {first['offset']}" in found["detail"]
    assert f"offset {again['offset']}" in found["detail"]


def test_the_same_event_id_in_two_runs_is_two_events(rows: Any, tmp_path: Path) -> None:
    rows.first("events", run_id="run-a", sequence=2)["id"] = rows.first("events", run_id="run-b", sequence=2)["id"]
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_an_id_that_a_producer_gives_to_two_events_of_a_run_is_no_doubling(rows: Any, tmp_path: Path) -> None:
    rows.first("events", run_id="run-a", sequence=2)["id"] = rows.first("events", run_id="run-a", sequence=3)["id"]
    rows.write(tmp_path)
    assert check(tmp_path).ok


# Runs and steps


def test_a_run_row_that_is_gone_is_missing(rows: Any, tmp_path: Path) -> None:
    lost = rows.drop("runs", run_id="run-b")
    rows.write(tmp_path)
    found = problem(check(tmp_path), "missing_run")
    assert found["place"]["run_id"] == "run-b"
    assert found["place"]["offset"] == lost["offset"]


def test_a_run_row_that_stands_twice_is_named(rows: Any, tmp_path: Path) -> None:
    rows["runs"].append(dict(rows.first("runs", run_id="run-a")))
    rows.write(tmp_path)
    assert problem(check(tmp_path), "duplicate_run")["place"]["run_id"] == "run-a"


def test_a_revision_that_is_gone_is_named(rows: Any, tmp_path: Path) -> None:
    run = rows.first("runs", run_id="run-a")
    late = rows.event(0, "agent.policy.decided", "run-a", None)
    rows["runs"].append(run | {"revision": 2, "offset": late, "event_count": run["event_count"] + 1})
    rows.write(tmp_path)
    assert problem(check(tmp_path), "missing_run_revision")["place"]["revision"] == 2


def test_a_wrong_event_count_is_named(rows: Any, tmp_path: Path) -> None:
    rows.first("runs", run_id="run-c")["event_count"] += 1
    rows.write(tmp_path)
    assert problem(check(tmp_path), "event_count")["place"]["run_id"] == "run-c"


def test_late_events_of_a_run_do_not_change_the_count_of_its_close(rows: Any, tmp_path: Path) -> None:
    rows.reward(0, "run-a", rows.event(0, "agent.reward.assigned", "run-a", None), late=True)
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_a_step_that_is_gone_is_named_by_its_run(rows: Any, tmp_path: Path) -> None:
    rows.drop("steps", run_id="run-b", step_index=2)
    rows.write(tmp_path)
    found = problem(check(tmp_path), "step_count")
    assert (found["place"]["run_id"], found["place"]["tenant_id"]) == ("run-b", "acme")
    assert "is 3, steps has 2" in found["detail"]


def test_step_indices_that_skip_a_number_are_named(rows: Any, tmp_path: Path) -> None:
    rows.first("steps", run_id="run-b", step_index=2)["step_index"] = 7
    rows.write(tmp_path)
    assert problem(check(tmp_path), "step_order")["place"]["run_id"] == "run-b"


def test_a_step_that_stands_twice_is_named(rows: Any, tmp_path: Path) -> None:
    rows["steps"].append(dict(rows.first("steps", run_id="run-a", step_index=1)))
    rows.write(tmp_path)
    place = problem(check(tmp_path), "duplicate_step")["place"]
    assert (place["run_id"], place["step_index"], place["revision"]) == ("run-a", 1, 0)


def test_a_step_revision_that_is_gone_is_named(rows: Any, tmp_path: Path) -> None:
    rows.first("steps", run_id="run-a", step_index=1)["revision"] = 1
    rows.write(tmp_path)
    assert problem(check(tmp_path), "missing_step_revision")["place"]["step_index"] == 1


def test_a_step_of_a_run_that_the_ledger_does_not_know_is_named(rows: Any, tmp_path: Path) -> None:
    rows.step(1, "run-ghost", 1, 3, 4, last=False)
    rows.write(tmp_path)
    assert problem(check(tmp_path), "step_without_events")["place"]["run_id"] == "run-ghost"


def test_a_run_that_the_ledger_does_not_know_is_named(rows: Any, tmp_path: Path) -> None:
    rows.run_row(1, "run-ghost", 3, 4, events=0, steps=0)
    rows.write(tmp_path)
    assert problem(check(tmp_path), "run_without_events")["place"]["run_id"] == "run-ghost"


def test_steps_of_an_open_run_need_no_run_row(rows: Any, tmp_path: Path) -> None:
    opened = rows.offsets("events", run_id="run-open")[-1]
    rows.step(1, "run-open", 1, opened, opened, last=False)
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_a_last_step_without_its_run_row_is_named(rows: Any, tmp_path: Path) -> None:
    opened = rows.offsets("events", run_id="run-open")[-1]
    rows.step(1, "run-open", 1, opened, opened, last=True)
    rows.write(tmp_path)
    assert problem(check(tmp_path), "missing_run")["place"]["run_id"] == "run-open"


def test_T01_an_observation_that_answers_no_call_of_its_step_is_named(rows: Any, tmp_path: Path) -> None:
    rows.first("steps", run_id="run-b", step_index=3)["observations"][0]["source_call_id"] = "run-b-call-2"
    rows.write(tmp_path)
    place = problem(check(tmp_path), "orphan_observation")["place"]
    assert (place["run_id"], place["step_index"]) == ("run-b", 3)


def test_T01_parallel_results_in_another_order_are_paired_by_id(rows: Any, tmp_path: Path) -> None:
    step = rows.first("steps", run_id="run-b", step_index=3)
    step["tool_calls"] = [{"tool_call_id": name} for name in ("x", "y", "z")]
    step["observations"] = [{"source_call_id": name} for name in ("z", "x")]
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_T07_a_result_that_no_call_claims_may_stand_in_an_environment_step(rows: Any, tmp_path: Path) -> None:
    step = rows.first("steps", run_id="run-b", step_index=3)
    step.update(source="environment", tool_calls=[])
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_T08_late_parts_of_a_closed_run_make_a_sound_revision(rows: Any, tmp_path: Path) -> None:
    run = rows.first("runs", run_id="run-a")
    step = rows.first("steps", run_id="run-a", step_index=2)
    late = rows.event(0, "agent.tool.returned", "run-a", 8)
    rows["steps"].append(step | {"revision": 1, "offset": late, "late": True, "is_last": False})
    # One event of another run, and one that reopened the run: neither counts before the next close.
    rows.event(0, "agent.run.started", "run-other", 1)
    rows.event(0, "agent.model.responded", "run-a", 9)
    close = rows.event(0, "trajlake.tick", None, None, tenant="")
    rows.step(0, "run-a", 3, late + 2, close, last=True)
    rows["runs"].append(run | {"revision": 1, "offset": close, "event_count": run["event_count"] + 2, "step_count": 3})
    rows.write(tmp_path)
    report = check(tmp_path)
    assert report.ok, report.problems


def test_a_run_that_was_closed_and_goes_on_is_sound_before_its_next_close(rows: Any, tmp_path: Path) -> None:
    late = rows.event(0, "agent.model.responded", "run-a", 8)
    rows.step(0, "run-a", 3, late, rows.event(0, "agent.model.responded", "run-a", 9), last=False)
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_T07_a_fragment_after_a_forgotten_run_is_a_life_of_its_own(rows: Any, tmp_path: Path) -> None:
    first = rows.event(0, "agent.model.responded", "run-a", 7)
    close = rows.event(0, "trajlake.tick", None, None, tenant="")
    rows.step(0, "run-a", 1, first, close, last=True)
    rows.run_row(0, "run-a", first, close, events=1, steps=1, has_start=False, end_inferred=True)
    rows.write(tmp_path)
    report = check(tmp_path)
    assert report.ok, report.problems


# Rewards


def test_T09_a_reward_row_that_is_gone_is_missing_at_its_offset(rows: Any, tmp_path: Path) -> None:
    lost = rows.drop("rewards", run_id="run-b")
    rows.write(tmp_path)
    place = problem(check(tmp_path), "missing_reward")["place"]
    assert (place["run_id"], place["offset"]) == ("run-b", lost["offset"])


def test_T09_a_reward_row_without_an_event_is_named(rows: Any, tmp_path: Path) -> None:
    rows.reward(0, "run-b", rows.first("runs", run_id="run-b")["offset"])
    rows.write(tmp_path)
    assert problem(check(tmp_path), "extra_reward")["place"]["run_id"] == "run-b"


def test_T09_a_reward_row_that_stands_twice_is_named(rows: Any, tmp_path: Path) -> None:
    rows["rewards"].append(dict(rows.first("rewards", run_id="run-a")))
    rows.write(tmp_path)
    assert problem(check(tmp_path), "duplicate_reward")["place"]["run_id"] == "run-a"


def test_a_reward_that_waits_for_its_predecessors_has_no_row_yet(rows: Any, tmp_path: Path) -> None:
    rows.event(1, "agent.reward.assigned", "run-open", 5)
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_a_reward_that_waited_has_its_row_at_a_later_offset(rows: Any, tmp_path: Path) -> None:
    rows.event(1, "agent.reward.assigned", "run-open", 4)
    rows.reward(1, "run-open", rows.event(1, "agent.tool.returned", "run-open", 3))
    rows.write(tmp_path)
    assert check(tmp_path).ok


def test_a_reward_that_waited_is_due_when_its_run_closes(make_rows: Any, tmp_path: Path) -> None:
    made = make_rows()
    first = made.event(0, "agent.run.started", "run", 1)
    waiting = made.event(0, "agent.reward.assigned", "run", 3)
    close = made.event(0, "trajlake.tick", None, None, tenant="")
    made.run_row(0, "run", first, close, events=2, steps=0)
    made.write(tmp_path)
    assert problem(check(tmp_path), "missing_reward")["place"]["offset"] == waiting


# Content by reference


def test_T12_content_that_is_stored_whole_is_ok(rows: Any, tmp_path: Path) -> None:
    refer(rows, rows.store("acme", b"x" * 5000))
    rows.write(tmp_path)
    report = check(tmp_path, deep=True)
    assert report.ok
    assert report.checked["payloads"] == 1


def test_T12_content_that_is_gone_is_named(rows: Any, tmp_path: Path) -> None:
    refer(rows, rows.store("acme", b"x" * 5000))
    rows.payloads.clear()
    rows.write(tmp_path)
    place = problem(check(tmp_path), "payload_missing")["place"]
    assert place["sha256"] == hashlib.sha256(b"x" * 5000).hexdigest()
    assert place["offset"] == rows.first("steps", run_id="run-b", step_index=1)["offset"]


def test_T12_content_of_another_tenant_does_not_count(rows: Any, tmp_path: Path) -> None:
    refer(rows, rows.store("rival", b"x" * 5000))
    rows.write(tmp_path)
    problem(check(tmp_path), "payload_missing")


def test_T12_content_that_was_cut_is_named(rows: Any, tmp_path: Path) -> None:
    refer(rows, rows.store("acme", b"x" * 5000))
    lake = rows.write(tmp_path)
    stored(lake, b"x" * 5000).write_bytes(b"x" * 4999)
    assert "4999 bytes" in problem(check(tmp_path), "payload_size")["detail"]


def test_T12_content_that_was_changed_is_found_by_a_deep_look(rows: Any, tmp_path: Path) -> None:
    refer(rows, rows.store("acme", b"x" * 5000))
    lake = rows.write(tmp_path)
    stored(lake, b"x" * 5000).write_bytes(b"y" * 5000)
    assert check(tmp_path).ok
    problem(check(tmp_path, deep=True), "payload_hash")


def test_a_deep_look_finds_references_that_only_events_hold(rows: Any, tmp_path: Path) -> None:
    event = rows.first("events", run_id="run-a", sequence=2)
    event["event"] = '{"data":{"message":"' + rows.store("acme", b"gone") + '"}}'
    quoted = rows.first("events", run_id="run-a", sequence=3)
    quoted["event"] = '{"data":{"message":"{\\"m\\":\\"payload:sha256:' + "a" * 64 + ':9\\"}"}}'
    rows.payloads.clear()
    rows.write(tmp_path)
    assert check(tmp_path).ok
    assert problem(check(tmp_path, deep=True), "payload_missing")["place"]["offset"] == event["offset"]


def test_a_tenant_with_an_odd_name_keeps_its_content(rows: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    path = lake.payload_path("a b/ü%2F", "0" * 64)
    lake.store.put(path, b"kept")
    assert [item["path"] for page in lake.store.list("restricted/_payloads/") for item in page] == [path]


def refer(rows: Any, reference: str) -> None:
    observation = rows.first("steps", run_id="run-b", step_index=1)["observations"][0]
    observation.update(content=reference, payload_ref=reference)


def stored(lake: Lake, content: bytes) -> Path:
    return Path(lake.uri) / lake.payload_path("acme", hashlib.sha256(content).hexdigest())
