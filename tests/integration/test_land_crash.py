"""A worker that is killed at any step of the commit order loses nothing and doubles nothing, on a real Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MakeTopic
from tests.landkit.checker import assert_exactly_once, assert_same_rows, read
from tests.landkit.events import mixture
from tests.landkit.kafka import Transactions, end_of, produce
from tests.landkit.processes import WorkerProcess, land
from tests.landkit.running import land_all, plan

pytestmark = pytest.mark.integration

SIDE_STEPS = [f"3 {table}" for table in ("gaps", "quarantine", "rewards", "steps", "runs")]
STEPS = ["1 payloads", "2 data files", *SIDE_STEPS, "4 events", "5 snapshot", "6 group offsets"]
SMALL = {"batch_max_rows": 60, "snapshot_interval_s": 1}


@pytest.fixture(scope="module")
def topic(broker: str, make_topic: MakeTopic) -> str:
    """A log with rows for every table in every 60 offsets or so: transactions, aborted ones, poison, doubles."""
    name = make_topic()
    sent = mixture(24, width=4)
    transactions = Transactions(broker, name)
    for start in range(0, len(sent), 20):
        transactions.write(sent[start : start + 20])
        if start % 60 == 0:
            transactions.write(mixture(1, name=f"aborted-{start}"), commit=False)
    produce(broker, name, mixture(3, name="plain"))
    return name


@pytest.fixture(scope="module")
def undisturbed(broker: str, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of a worker that nothing happened to."""
    root = tmp_path_factory.mktemp("undisturbed")
    land_all(broker, topic, root)
    assert_exactly_once(root, broker, topic)
    assert all(read(root, table) for table in ("events", "steps", "runs", "rewards", "gaps", "quarantine"))
    return root


@pytest.mark.parametrize("step", STEPS)
def test_L1_killed_at_a_step_of_the_commit_order(
    broker: str, topic: str, undisturbed: Path, tmp_path: Path, step: str
) -> None:
    settings = plan(broker, topic, tmp_path, **SMALL)
    with WorkerProcess(settings, kill_at=step, times=1 if step[0] in "56" else 2) as worker:
        assert worker.end() == -9, worker.tail()
    landed = read(tmp_path, "events")
    assert landed, "killed before anything had landed"
    assert len(landed) < len(read(undisturbed, "events"))
    # Another group: the same one would first wait until the dead member's session is over.
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)
    assert_same_rows(tmp_path, undisturbed)


def test_L1_killed_after_the_delta_commit_and_before_the_group_offsets_resumes_from_the_table(
    broker: str, topic: str, undisturbed: Path, tmp_path: Path
) -> None:
    settings = plan(broker, topic, tmp_path, **SMALL)
    with WorkerProcess(settings, kill_after="4 events", tell_steps=True) as worker:
        assert worker.end() == -9, worker.tail()
    assert {"step": "6 group offsets"} not in worker.told
    assert read(tmp_path, "events")
    # The same group, whose own offsets know nothing of what has landed.
    second = land(settings)
    assert '"landed": -1' not in "".join(second.log)
    assert_exactly_once(tmp_path, broker, topic)
    assert_same_rows(tmp_path, undisturbed)


@pytest.mark.slow
def test_L1_killed_again_and_again_until_everything_has_landed(
    broker: str, topic: str, undisturbed: Path, tmp_path: Path
) -> None:
    end = end_of(broker, topic)
    crashes = 0
    for step in (*SIDE_STEPS[::2], "4 events", "2 data files"):
        settings = plan(broker, topic, tmp_path, batch_max_rows=50, snapshot_interval_s=1)
        with WorkerProcess(settings, kill_at=step, until_end=True, times=2) as worker:
            crashes += worker.end() == -9
    assert crashes >= 3
    land(plan(broker, topic, tmp_path))
    assert max(row["offset"] for name in ("events", "quarantine", "gaps") for row in read(tmp_path, name)) == end - 1
    assert_exactly_once(tmp_path, broker, topic)
    assert_same_rows(tmp_path, undisturbed)
