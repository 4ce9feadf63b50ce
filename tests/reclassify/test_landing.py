"""What land makes of a request to classify a run again: a further revision, once, whatever happens around it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from tests.landkit.checker import assert_same_rows
from tests.landkit.events import Sent, event
from tests.landkit.killed import Killed, kill_at
from tests.landkit.stretches import TOPIC
from tests.reclassify.lab import APP, QUOTA, Partition, run_of, tick
from tests.reclassify.rules import classified_by, without_quota
from trajlake.expectations.failure_rules import rule_table
from trajlake.reading.onerun import read_run
from trajlake.reading.query import run_query
from trajlake.reading.tables import LakeTables
from trajlake.sinks.errors import Fenced
from trajlake.streams.keeping.forget import forget, request
from trajlake.streams.keeping.proof import prove_absence
from trajlake.streams.keeping.retention import expire
from trajlake.streams.keeping.upkeep import finish_erasures
from trajlake.streams.land.recovery import refold_ledger
from trajlake.transforms.assemble import restated
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION
from trajlake.transforms.landing import partition as landing
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules

DONE = {"end_state": "completed", "success": True}
FAILED = {"end_state": "failed", **QUOTA}


def history() -> list[Sent]:
    """Runs as they were before there were rules for quotas: two that such rules change, one that they do not."""
    return [*run_of("step", QUOTA, {}), *run_of("end", QUOTA, end=FAILED), *run_of("good", {})]


@pytest.fixture
def older(tmp_path: Path) -> Partition:
    """A lake that landed by older rules, with a worker of now in front of it."""
    return landed_by_older_rules(Partition(tmp_path / "lake"), history())


def landed_by_older_rules(one: Partition, sent: list[Sent], *, forgotten: bool = False) -> Partition:
    with classified_by(without_quota()):
        one.restart()
        one.land(sent)
        if forgotten:
            one.land([tick(forget_us=0)])
    one.restart()
    return one


def story(one: Partition, run: str) -> list[tuple[int, str, str | None, str]]:
    """A run's rows: revision, class, kind, and whose rules."""
    return [
        (row["revision"], row["outcome_class"], row["failure_kind"], "new" if is_new(row) else "old")
        for row in one.rows("runs", run)
    ]


def is_new(row: dict[str, Any]) -> bool:
    return bool(row["classifier_revision"] == CLASSIFIER_REVISION)


def assert_proved(one: Partition) -> None:
    report = one.verify()
    assert report.ok, report.problems


def test_history_gets_a_further_revision_and_what_it_was_stays(older: Partition) -> None:
    versions = {name: older.lake.open(name).version() for name in ("runs", "steps")}
    older.land(older.requests())
    assert story(older, "end") == [(0, "config", "bad_request", "old"), (1, "quota", "quota_exhausted", "new")]
    assert story(older, "step") == [(0, "success", None, "old"), (1, "success", None, "new")]
    assert story(older, "good") == [(0, "success", None, "old")]
    steps = [(row["run_id"], row["step_index"], row["revision"], row["outcome_class"]) for row in older.rows("steps")]
    assert sorted(steps) == [
        ("end", 1, 0, "config"), ("end", 1, 1, "quota"), ("good", 1, 0, "success"),
        ("step", 1, 0, "config"), ("step", 1, 1, "quota"), ("step", 2, 0, "success"),
    ]  # fmt: skip
    again = older.rows("runs", "end")[1]
    assert (again["close_offset"], again["closed_at"]) == (6, older.rows("runs", "end")[0]["closed_at"])
    # By version, as it was.
    assert older.lake.open("runs", versions["runs"]).to_pyarrow_table().num_rows == 3
    assert older.lake.open("steps", versions["steps"]).to_pyarrow_table().num_rows == 4
    assert_proved(older)


def test_the_second_time_there_is_nothing_to_ask_for(older: Partition) -> None:
    older.land(older.requests())
    assert older.requests() == []
    older.restart()
    assert older.requests() == []


def test_readers_see_the_newest_revision(older: Partition) -> None:
    older.land(older.requests())
    tables = LakeTables(older.lake)
    runs = {row["run_id"]: row["outcome_class"] for row in tables.current_runs().collect().to_dicts()}
    assert runs == {"step": "success", "end": "quota", "good": "success"}
    steps = tables.current_steps().sort("run_id", "step_index").collect()
    assert steps.select("run_id", "step_index", "outcome_class").rows() == [
        ("end", 1, "quota"), ("good", 1, "success"), ("step", 1, "quota"), ("step", 2, "success"),
    ]  # fmt: skip
    with run_query(tables, "select outcome_class from current_steps where run_id = 'end'") as result:
        assert result.read_all().to_pylist() == [{"outcome_class": "quota"}]
    view = read_run(tables, "end")
    assert (view.run["outcome_class"], view.revisions, view.steps["outcome_class"].to_list()) == (
        "quota", [0, 1], ["quota"],
    )  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_late_event_goes_on_from_the_new_revision(older: Partition, restarted: bool, snapshot: bool) -> None:
    older.land(older.requests())
    if snapshot:
        older.snapshot()
    if restarted:
        older.restart()
    # The end's own step and the run's row move on; nothing is said twice, and nothing goes back.
    older.land([event("model.responded", "end", 4, {"message": None, **QUOTA}), event("run.ended", "end", 5, FAILED)])
    assert [row[:3] for row in story(older, "end")] == [
        (0, "config", "bad_request"), (1, "quota", "quota_exhausted"), (2, "quota", "quota_exhausted"),
    ]  # fmt: skip
    steps = [(row["step_index"], row["revision"]) for row in older.rows("steps", "end")]
    assert sorted(steps) == [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert_proved(older)


def test_a_request_is_void_once_a_late_event_has_closed_the_run_again(older: Partition) -> None:
    requests = older.requests()
    more = [event("model.responded", "step", 5, {"message": "more"}), event("run.ended", "step", 6, DONE)]
    older.land(more)
    older.land(requests)
    assert [row["close_offset"] for row in older.rows("runs", "step")] == [None, None]
    assert_proved(older)
    # The close has judged the run itself by new rules; a step that it did not touch is what is left.
    older.land(older.requests())
    assert [(row["revision"], row["close_offset"]) for row in older.rows("runs", "step")] == [
        (0, None),
        (1, None),
        (2, 11),
    ]
    assert older.requests() == []
    assert_proved(older)


def test_so_it_is_where_the_run_was_forgotten_in_between(older: Partition) -> None:
    requests = older.requests()
    older.land([event("model.responded", "end", 4, {"message": "more"}), event("run.ended", "end", 5, FAILED)])
    older.land([tick(forget_us=0)])
    older.land(requests)
    assert [row["revision"] for row in older.rows("runs", "end")] == [0, 1]
    assert_proved(older)


def test_a_run_that_goes_on_is_left_to_its_next_close(older: Partition) -> None:
    requests = older.requests()
    older.land([event("model.responded", "end", 4, {"message": "more"})])
    older.land(requests)
    assert len(older.rows("runs", "end")) == 1
    older.land([event("run.ended", "end", 5, FAILED)])
    assert [row[:2] for row in story(older, "end")] == [(0, "config"), (1, "quota")]
    assert_proved(older)


@pytest.mark.parametrize("forgotten", [False, True])
def test_of_two_requests_for_a_run_one_is_met(tmp_path: Path, forgotten: bool) -> None:
    older = landed_by_older_rules(Partition(tmp_path), history(), forgotten=forgotten)
    requests = older.requests()
    again = [
        Sent(one.key, orjson.dumps(orjson.loads(one.value or b"") | {"id": f"{n}"})) for n, one in enumerate(requests)
    ]
    older.land([*requests, *again])
    older.restart()
    older.land(
        [Sent(one.key, orjson.dumps(orjson.loads(one.value or b"") | {"id": f"x{n}"})) for n, one in enumerate(again)]
    )
    assert len(older.rows("runs")) == 5
    assert_proved(older)


def test_a_request_from_before_what_is_remembered_is_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that is forgotten nobody could say any more whether it got a row in between."""
    monkeypatch.setattr(restated, "KEPT", 1)
    older = landed_by_older_rules(Partition(tmp_path), history(), forgotten=True)
    first, second = older.requests()
    older.land([first])
    older.land(older.requests())
    assert len(older.rows("runs")) == 5
    older.land(
        [tick(forget_us=0, name="u"), Sent(second.key, (second.value or b"").replace(b'"id":"', b'"id":"again-'))]
    )
    assert len(older.rows("runs")) == 5
    assert_proved(older)


def test_a_forgotten_run_is_classified_again_and_parts_that_came_behind_stay_apart(tmp_path: Path) -> None:
    older = landed_by_older_rules(Partition(tmp_path), history(), forgotten=True)
    # Of a forgotten run more comes: a life of its own, without a start.
    older.land([event("model.responded", "end", 8, {"message": "stray"}), tick(idle_us=0, held_us=0, name="close")])
    assert [row["has_start"] for row in older.rows("runs", "end")] == [True, False]
    older.land(older.requests())
    rows = older.rows("runs", "end")
    assert [(row["has_start"], row["revision"], row["outcome_class"]) for row in rows] == [
        (True, 0, "config"), (False, 0, "abandoned"), (True, 1, "quota"),
    ]  # fmt: skip
    assert_proved(older)
    tables = LakeTables(older.lake)
    assert tables.current_steps().filter(run_id="end").select("outcome_class").collect().rows() == [("quota",)]
    assert read_run(tables, "end").steps.height == 1
    with run_query(tables, "select message from current_steps where run_id = 'end'") as result:
        assert result.read_all().num_rows == 1


def test_runs_that_one_tick_closed_are_told_apart(tmp_path: Path) -> None:
    sent = [one for n in range(4) for one in run_of(f"r{n}", QUOTA)[:2]]
    older = landed_by_older_rules(Partition(tmp_path), [*sent, tick(idle_us=0)])
    assert len({row["offset"] for row in older.rows("runs")}) == 1
    older.land(older.requests())
    assert sorted((row["run_id"], row["outcome_class"]) for row in older.rows("runs") if is_new(row)) == [
        (f"r{n}", "quota") for n in range(4)
    ]
    assert_proved(older)


# Order, batches, restarts


@pytest.mark.parametrize("per_batch", [1, 3, 1_000])
def test_the_log_lands_to_the_same_rows_wherever_batches_end(tmp_path: Path, per_batch: int) -> None:
    """A lake made anew from a log that holds requests, the rows that they are about in the same batch or not."""
    older = landed_by_older_rules(Partition(tmp_path / "older"), history())
    older.land([*older.requests(), *run_of("next", {}), event("model.responded", "end", 4, {"message": "late"})])
    older.land([event("run.ended", "end", 5, FAILED), tick(forget_us=0)])
    whole, parts = Partition(tmp_path / "whole"), Partition(tmp_path / "parts")
    whole.land(older.log)
    parts.land(older.log, per_batch)
    assert_same_rows(whole.lake.uri, parts.lake.uri)
    assert_proved(whole)
    assert {row["revision"] for row in whole.rows("runs", "end")} == {0, 1, 2}


@pytest.mark.parametrize("step", ["1 payloads", "2 data files", "3 steps", "3 runs", "4 events"])
def test_killed_at_any_step_of_the_commit_the_next_worker_ends_the_same(tmp_path: Path, step: str) -> None:
    killed, whole = (landed_by_older_rules(Partition(tmp_path / name), history()) for name in ("killed", "whole"))
    requests = whole.requests()
    late = [event("model.responded", "end", 4, {"message": "late"}), event("run.ended", "end", 5, FAILED)]
    whole.land([*requests, *late])
    killed.on_step = kill_at(step)
    with pytest.raises(Killed):
        killed.land([*requests, *late])
    killed.on_step = lambda step: None
    killed.restart()
    killed.catch_up()
    assert_same_rows(killed.lake.uri, whole.lake.uri)
    assert_proved(killed)


def test_state_from_the_ledger_equals_state_from_the_log(older: Partition) -> None:
    older.land([*older.requests(), event("model.responded", "end", 4, {"message": "late"})])
    rebuilt = PartitionFold(TOPIC, 0, LandRules())
    for _ in refold_ledger(older.lake, rebuilt, older.owned.landed):
        pass
    ours, theirs = older.owned.fold.assembler.snapshot(), rebuilt.assembler.snapshot()
    assert msgspec.to_builtins(ours, str_keys=True) == msgspec.to_builtins(theirs, str_keys=True)
    assert ours.restated


def test_many_requests_are_met_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "MOST_ASKED", 7)
    older = landed_by_older_rules(Partition(tmp_path), [one for n in range(40) for one in run_of(f"r{n}", end=FAILED)])
    version = older.lake.open("runs").version()
    older.land([*older.requests(), *run_of("next", {})])
    assert older.lake.open("runs").version() == version + 6
    assert [row["outcome_class"] for row in older.rows("runs")].count("quota") == 40
    assert_proved(older)


def test_files_that_upkeep_takes_away_between_requests_are_looked_up_anew(older: Partition) -> None:
    first, second = older.requests()
    older.land([first])
    for name in ("events", "runs", "steps"):
        table = older.lake.open(name)
        table.optimize.compact()
        assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    older.restart_ledger()
    older.land([second])
    assert [row["run_id"] for row in older.rows("runs") if is_new(row)] == ["step", "end"]
    assert_proved(older)


# What is not met


def test_a_worker_under_other_rules_refuses(tmp_path: Path) -> None:
    one = Partition(tmp_path)
    with classified_by(without_quota()):
        one.land(history())
    requests = one.requests()
    with classified_by(without_quota()):
        one.restart()
        one.land(requests)
        one.land([event("model.responded", "end", 4, {"message": "late"}), event("run.ended", "end", 5, FAILED)])
    refused = one.rows("quarantine")
    assert [(row["reason_code"], row["sequence"]) for row in refused] == [("other_rules", None)] * 2
    assert CLASSIFIER_REVISION in refused[0]["detail"]
    assert [row["revision"] for row in one.rows("runs", "end")] == [0, 1]
    assert_proved(one)


@pytest.mark.parametrize("change", [{"seen": 1 << 40}, {"first_offset": 9, "offset": 3}, {"seen": 1}])
def test_a_request_that_cannot_be_is_refused(older: Partition, change: dict[str, int]) -> None:
    body = orjson.loads(older.requests()[1].value or b"")
    body["data"] |= change
    older.land([Sent(b"acme/end", orjson.dumps(body))])
    assert [row["reason_code"] for row in older.rows("quarantine")] == ["out_of_range"]
    assert len(older.rows("runs")) == 3


def test_a_request_cannot_tell_what_a_run_comes_to(older: Partition) -> None:
    """Whoever may write to the topic can have a run looked at; what it comes to is in its own events."""
    run = older.rows("runs", "good")[0]
    data = {
        "classifier_revision": CLASSIFIER_REVISION, "first_offset": run["first_offset"], "offset": run["offset"],
        "revision": 0, "seen": older.owned.landed, "outcome_class": "quality_failure", "steps": [],
    }  # fmt: skip
    body = orjson.loads(older.requests()[0].value or b"") | {"runid": "good", "data": data}
    older.land([Sent(b"acme/good", orjson.dumps(body))])
    assert [row[1] for row in story(older, "good")] == ["success", "success"]
    older.land([Sent(b"acme/end", orjson.dumps(body | {"runid": "end", "id": "stolen"}))])
    assert len(older.rows("runs", "end")) == 1
    assert_proved(older)


# Erasure


def test_an_erased_run_does_not_come_back(tmp_path: Path) -> None:
    older = landed_by_older_rules(Partition(tmp_path / "lake"), [*history(), *run_of("person-7", QUOTA, end=FAILED)])
    requests = older.requests()
    assert len(requests) == 3
    forget(older.lake, request(older.lake, "acme", run_id="person-7"))
    # Who asked before the erasure is met behind it.
    older.restart()
    older.land(requests)
    assert older.rows("runs", "person-7") == []
    assert sorted(row["run_id"] for row in older.rows("runs") if is_new(row)) == ["end", "step"]
    assert older.requests() == []
    assert prove_absence(older.lake, ["person-7"]).absent
    assert_proved(older)


def test_a_batch_of_requests_that_an_erasure_comes_upon_leaves_nothing(tmp_path: Path) -> None:
    older = landed_by_older_rules(Partition(tmp_path / "lake"), [*history(), *run_of("person-7", QUOTA, end=FAILED)])
    requests = older.requests()
    begun: list[int] = []

    def erase(step: str) -> None:
        if step == "3 runs" and not begun:
            begun.append(1)
            forget(older.lake, request(older.lake, "acme", run_id="person-7"))

    older.on_step = erase
    with pytest.raises(Fenced):
        older.land(requests)
    older.restart()
    older.catch_up()
    finish_erasures(older.lake)
    assert prove_absence(older.lake, ["person-7"]).absent
    assert sorted(row["run_id"] for row in older.rows("runs") if is_new(row)) == ["end", "step"]
    assert_proved(older)


def test_a_run_that_is_erased_after_it_was_classified_again_goes_whole(older: Partition) -> None:
    older.land([*run_of("person-7", QUOTA, end=FAILED)])
    older.land(older.requests())
    forget(older.lake, request(older.lake, "acme", run_id="person-7"))
    older.restart()
    assert prove_absence(older.lake, ["person-7"]).absent
    assert_proved(older)


def test_a_run_that_is_too_old_is_gone_and_its_request_does_nothing(older: Partition) -> None:
    requests = older.requests()
    last = max(row["closed_at"] for row in older.rows("runs"))
    done = expire(older.lake, {"runs": 1}, last + timedelta(days=2))
    assert done.runs == 3
    older.restart()
    assert older.requests() == []
    older.land([*requests, tick(forget_us=0)])
    assert older.rows("runs") == []
    assert_proved(older)


def test_the_rules_of_the_tests_are_a_table_of_their_own() -> None:
    with classified_by(without_quota()) as revision:
        assert revision != CLASSIFIER_REVISION
    assert len(without_quota().rule) < len(rule_table().rule)
    assert APP
