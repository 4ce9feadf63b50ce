"""Curation follows: runs that come to something else are judged and published anew, all others are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.curate.lab import OPEN, lenient, policies
from tests.landkit.events import event
from tests.reclassify.lab import QUOTA, Partition, run_of, tick
from tests.reclassify.test_landing import FAILED, history, landed_by_older_rules
from trajlake.streams.curate.curator import Curator, Done, Limits
from trajlake.streams.curate.rules import Rules

NOW_US = 1_700_086_400_000_000


class Curated:
    """A lake that lands, and a curator before it."""

    def __init__(self, root: Path) -> None:
        self.partition = landed_by_older_rules(Partition(root), history())
        self.curate()

    def curate(self, text: str = OPEN) -> list[Done]:
        rules = Rules(policies(text), lenient())
        return list(Curator(self.partition.lake, rules, Limits(), lambda: NOW_US).run_once())

    def trajectories(self, run: str) -> list[dict[str, Any]]:
        """Rows of a run in the training zone, in the order of their publications."""
        rows = [dict(row) for row in self.partition.lake.open("trajectories").to_pyarrow_table().to_pylist()]
        return sorted((row for row in rows if row["run_id"] == run), key=lambda row: row["publication"])


@pytest.fixture
def curated(tmp_path: Path) -> Curated:
    return Curated(tmp_path / "lake")


def test_trajectories_get_a_revision_where_the_class_changes(curated: Curated) -> None:
    curated.partition.land(curated.partition.requests())
    assert [(done.cause, done.runs, done.published) for done in curated.curate()] == [("new", 2, 2)]
    ended = curated.trajectories("end")
    assert [(row["run_revision"], row["outcome_class"]) for row in ended] == [(0, "config"), (1, "quota")]
    assert [[step["outcome_class"] for step in row["steps"]] for row in curated.trajectories("step")] == [
        ["config", "success"], ["quota", "success"],
    ]  # fmt: skip
    assert len(curated.trajectories("good")) == 1
    assert curated.curate() == []


def test_parts_that_came_behind_a_forgotten_run_stay_out_of_it(tmp_path: Path) -> None:
    one = Curated.__new__(Curated)
    one.partition = landed_by_older_rules(Partition(tmp_path), history(), forgotten=True)
    one.partition.land([
        event("model.responded", "end", 8, {"message": "stray"}), tick(idle_us=0, held_us=0, name="close"),
    ])  # fmt: skip
    one.curate()
    one.partition.land(one.partition.requests())
    one.curate()
    assert [[step["outcome_class"] for step in row["steps"]] for row in one.trajectories("end")][-1] == ["quota"]
    assert all("stray" not in str(row["steps"]) for row in one.trajectories("end"))


def test_late_rewards_count_as_before(curated: Curated) -> None:
    score = {"name": "x", "annotator_kind": "code", "score": 1.0, "reward_id": "r"}
    curated.partition.land([event("reward.assigned", "end", None, score)])
    curated.curate()
    curated.partition.land(curated.partition.requests())
    curated.curate()
    assert [(row["outcome_class"], row["reward"]) for row in curated.trajectories("end")] == [
        ("config", None), ("config", 1.0), ("quota", 1.0),
    ]  # fmt: skip
    curated.partition.land([event("reward.assigned", "end", None, score | {"reward_id": "s", "score": 0.0}, id="s")])
    curated.curate()
    assert [(row["outcome_class"], row["reward"]) for row in curated.trajectories("end")][3:] == [("quota", 0.0)]


def test_runs_that_close_beside_requests_are_curated_once(curated: Curated) -> None:
    sent = curated.partition.requests()
    curated.partition.land([*run_of("n1", {}), sent[0], *run_of("n2", QUOTA, end=FAILED), *sent[1:]])
    (done,) = curated.curate()
    assert (done.runs, done.published) == (4, 4)
    assert curated.curate() == []
