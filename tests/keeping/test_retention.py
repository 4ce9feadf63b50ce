"""Retention: what is too old goes whole, the rest stays, and the accounting closes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.keeping.conftest import APP, Landed
from tests.keeping.people import run_of
from tests.landkit.checker import read
from tests.landkit.events import mixture
from tests.landkit.killed import Killed, kill_at
from trajlake.expectations.events import ERASED_TYPE
from trajlake.reading.tables import open_lake
from trajlake.sinks.erasures import ErasureLedger
from trajlake.streams.keeping.retention import Expired, closed_before, expire
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.streams.keeping.upkeep import finish_erasures
from trajlake.verification.verify import verify


@pytest.fixture
def aged(landed: Landed) -> Landed:
    """Closed runs, an open one, refused records."""
    landed.land([*mixture(5), *run_of("person-1", "open", ended=False)])
    return landed


def cutoff(landed: Landed) -> datetime:
    """A moment between the closes of the first and the last run."""
    closed = sorted(row["closed_at"] for row in read(landed.root, "runs"))
    moment: datetime = closed[2]
    return moment


def expire_up_to(landed: Landed, moment: datetime, **options: object) -> Expired:
    days = {"runs": 30.0, "quarantine": 7.0}
    return expire(landed.lake, days, moment + timedelta(days=30), **options)  # type: ignore[arg-type]


def test_runs_closed_before_their_time_go_whole_and_others_stay(aged: Landed) -> None:
    moment = cutoff(aged)
    due = closed_before(aged.lake, moment)
    assert len(due) == 2
    held = [
        row for row in read(aged.root, "quarantine") if row["payload"] is not None or row["payload_ref"] is not None
    ]
    done = expire_up_to(aged, moment)
    assert done.runs == 2
    assert done.quarantined == len(held) > 0
    for table in ("steps", "runs", "rewards"):
        left = {(row["tenant_id"], row["run_id"]) for row in read(aged.root, table)}
        assert not due & left
        assert len({run for _, run in left} - {"open"}) == 3
    assert any(row["run_id"] == "open" for row in read(aged.root, "events"))
    assert any(row["type"] == ERASED_TYPE for row in read(aged.root, "events"))
    assert not [row for row in read(aged.root, "quarantine") if row["payload"] is not None]
    report = verify(open_lake(aged.root, storage_options={}), APP)
    assert report.ok, report.problems


def test_nobody_is_suppressed_by_retention_and_a_second_round_finds_nothing(aged: Landed) -> None:
    moment = cutoff(aged)
    expire_up_to(aged, moment)
    assert read_suppression(aged.lake).epoch == 0
    assert not finish_erasures(aged.lake)
    entries = len(ErasureLedger(aged.lake).entries())
    assert expire_up_to(aged, moment) == Expired()
    assert len(ErasureLedger(aged.lake).entries()) == entries


@pytest.mark.parametrize("step", ["6 rewrite events", "6 rewrite runs", "runs: commit", "10 done"])
def test_a_round_that_is_killed_is_finished_by_the_next(aged: Landed, step: str) -> None:
    moment = cutoff(aged)
    due = closed_before(aged.lake, moment)
    with pytest.raises(Killed):
        expire_up_to(aged, moment, on_step=kill_at(step))
    expire_up_to(aged, moment)
    for table in ("events", "steps", "runs", "rewards"):
        assert not due & {(row["tenant_id"], row["run_id"]) for row in read(aged.root, table)}
    assert verify(open_lake(aged.root, storage_options={}), APP).ok


def test_a_retention_of_what_there_is_not_is_refused(aged: Landed) -> None:
    with pytest.raises(ValueError, match="no retention for 'steps'"):
        expire(aged.lake, {"steps": 1.0}, datetime.now(UTC))
