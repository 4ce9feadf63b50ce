"""Runs whose start was never seen: what a producer that tells none, a late joiner and a late start come to.

Who ran, for whom and under which consent stands in the start. A policy that asks for consent "if a subject is named"
would let such a run pass, because none is; so it stays out until its start is there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.curate.lab import Lab, shipped_rows, story, tick
from tests.landkit.events import Sent, event


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Runs land by the row suites that are shipped."""
    return Lab(tmp_path / "lake", land_rules=shipped_rows())


def from_the_first_number_on(run: str) -> list[Sent]:
    """A harness that tells decisions and the end, and no start: its numbers begin with 1 all the same."""
    return [
        event("model.responded", run, 1, {"message": "hello"}),
        event("run.ended", run, 2, {"end_state": "completed", "success": True}),
    ]


def test_a_run_without_a_start_is_refused_for_that_alone_and_holds_nothing_else_up(lab: Lab) -> None:
    lab.land([*from_the_first_number_on("blind"), *story("late-joined")[3:], *story("whole"), tick(), tick(idle_us=0)])
    [done] = lab.curate()
    assert (done.published, done.held, done.refused) == (1, 0, 2)
    assert lab.verdicts("blind") == [("refused", ["no_start"])]
    assert lab.verdicts("late-joined") == [("refused", ["no_start", "events_missing"])]
    marks = {row["run_id"]: [mark["rule_id"] for mark in row["quality"] or ()] for row in lab.rows("runs")}
    assert "runs.start_seen" in marks["blind"]
    assert "runs.start_seen" not in marks["whole"]
    assert lab.curate() == []


def test_a_start_that_comes_after_the_end_lets_the_run_in(lab: Lab) -> None:
    start, *others = story("run-a", start={"license": "MIT"})
    lab.land([*others, tick(), tick(idle_us=0)])
    lab.curate()
    assert lab.verdicts("run-a") == [("refused", ["no_start", "events_missing"])]
    lab.land([start, tick(), tick(idle_us=0)])
    lab.curate()
    assert [verdict for verdict, _ in lab.verdicts("run-a")] == ["refused", "published"]
    row = lab.current()["run-a"]
    assert (row["license"], row["skill_name"], len(row["steps"])) == ("MIT", "refund", 2)


def test_a_start_that_comes_late_with_a_subject_asks_for_that_subjects_consent(lab: Lab) -> None:
    start, *others = story("run-a", start={"subject_id": "person-1"})
    lab.land([*others, tick(), tick(idle_us=0)])
    lab.curate()
    lab.land([start, tick(), tick(idle_us=0)])
    lab.curate()
    assert lab.verdicts("run-a")[-1] == ("refused", ["consent_absent"])
    assert lab.current() == {}


def test_what_comes_long_after_a_published_run_leaves_it_where_it_is(lab: Lab) -> None:
    """The worker has forgotten the run by then, and what comes makes a fragment without a start."""
    rows = shipped_rows()
    lab = Lab(Path(lab.lake.uri + "-2"), land_rules=type(rows)(row_rules=rows.row_rules, closed_runs_kept=0))
    lab.land(story("run-a"))
    lab.curate()
    lab.land([event("model.responded", "run-a", 40, {"message": "who am I?"}), tick(), tick(idle_us=0)])
    lab.curate()
    assert [verdict for verdict, _ in lab.verdicts("run-a")] == ["published", "refused"]
    assert [len(row["steps"]) for row in lab.current().values()] == [2]
