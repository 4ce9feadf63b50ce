"""What a worker does between its batches: snapshots, one a turn and only of what has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.landkit.events import mixture
from tests.landkit.faults import FaultyStore
from tests.landkit.running import settings
from tests.landkit.stretches import TOPIC, records
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.land.worker import LandWorker
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules

LOG = records(mixture(6))


@pytest.fixture
def worker(tmp_path: Path) -> LandWorker:
    """A worker that is no member of a group, with three partitions that have landed ten records each."""
    made = LandWorker(settings("nowhere:1", TOPIC, tmp_path, snapshot_interval_s=60))
    made._problems.note("broker", "there is none, so nobody is told of offsets")
    for partition in range(3):
        rules = LandRules()
        made._owned[partition] = AssignedPartition(TOPIC, partition, rules, -1, PartitionFold(TOPIC, partition, rules))
        lands(made, partition, 10)
    return made


def lands(worker: LandWorker, partition: int, count: int) -> None:
    """As if so many more records had landed."""
    owned = worker._owned[partition]
    owned.take(LOG[owned.next_offset : owned.next_offset + count])
    owned.committed()


def snapshots(worker: LandWorker) -> dict[int, list[int]]:
    """Offsets of the stored snapshots by partition."""
    folders = {
        partition: Path(worker.lake.uri) / worker.lake.snapshot_folder(TOPIC, partition) for partition in range(3)
    }
    return {number: sorted(int(path.name[:20]) for path in folder.glob("*.zst")) for number, folder in folders.items()}


def test_one_partition_is_snapshotted_in_a_turn(worker: LandWorker) -> None:
    for turn in range(1, 5):
        worker._snapshot_next(1_000.0)
        assert sum(map(len, snapshots(worker).values())) == min(turn, 3)


def test_a_partition_that_stands_still_is_not_written_again(worker: LandWorker, store_faults: FaultyStore) -> None:
    written: list[str] = []
    # Heads of the ledger's chain go with snapshots; they are counted elsewhere.
    store_faults.before = lambda path: written.append(path) if path.startswith("_state/land/") else None
    for _ in range(3):
        worker._snapshot_next(1_000.0)
    assert len(written) == 3
    lands(worker, 1, 5)
    far = worker._owned[1].snapshot_due + 3_600
    for turn in range(10):
        worker._snapshot_next(far + turn * 3_600)
    assert len(written) == 4
    assert snapshots(worker) == {0: [9], 1: [9, 14], 2: [9]}


def test_a_partition_that_moves_is_written_once_an_interval(worker: LandWorker) -> None:
    for _ in range(3):
        worker._snapshot_next(1_000.0)
    lands(worker, 0, 5)
    due = worker._owned[0].snapshot_due
    worker._snapshot_next(due - 1)
    assert snapshots(worker)[0] == [9]
    worker._snapshot_next(due)
    assert snapshots(worker)[0] == [9, 14]


def test_a_snapshot_that_could_not_be_stored_is_tried_again_an_interval_later(
    worker: LandWorker, store_faults: FaultyStore
) -> None:
    def full(path: str) -> None:
        raise OSError(28, "No space left on device")

    store_faults.before = full
    for _ in range(3):
        worker._snapshot_next(1_000.0)
    store_faults.heal()
    due = min(owned.snapshot_due for owned in worker._owned.values())
    worker._snapshot_next(due - 1)
    assert snapshots(worker) == {0: [], 1: [], 2: []}
    worker._snapshot_next(due)
    assert sum(map(len, snapshots(worker).values())) == 1
