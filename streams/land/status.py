"""What a land worker says of itself: progress and lag of its partitions, and why it is not ready, if it is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.metrics import Tally


@dataclass
class WorkerStatus:
    """What a worker reports of itself. `problem`: why it is not ready, in one line; None when all is well.

    `rows`: offsets landed since the start. `concerns`: what the problems are about. `tally`: what it has counted.
    """

    partitions: dict[int, dict[str, Any]] = field(default_factory=dict)
    rows: int = 0
    commits: int = 0
    problem: str | None = "starting"
    concerns: list[str] = field(default_factory=list)
    memory_bytes: int = 0
    tally: Tally = field(default_factory=Tally)


class Problems:
    """The problems that a worker has now, by what they concern. Its status shows all of them in one line.

    A worker begins with one: `start`, which only counts while there is no other reason.
    """

    def __init__(self, status: WorkerStatus) -> None:
        self._status = status
        self._now: dict[str, str] = {"start": "starting"}

    def __contains__(self, concern: str) -> bool:
        return concern in self._now

    def note(self, concern: str, problem: str) -> None:
        """Something is wrong, or still wrong."""
        self._now[concern] = problem
        self._show()

    def clear(self, concern: str) -> None:
        """It is well again."""
        if self._now.pop(concern, None) is not None:
            self._show()

    def _show(self) -> None:
        others = {concern: problem for concern, problem in self._now.items() if concern != "start"}
        self._status.problem = "; ".join((others or self._now).values()) or None
        # Partitions have a problem each, named by their number.
        self._status.concerns = sorted({concern.split()[0] for concern in others or self._now})


def partition_status(owned: AssignedPartition, now: float) -> dict[str, Any]:
    """Lag of one partition, in records and in seconds, from what the tables hold. `now`: seconds since the Unix
    epoch.

    Before this owner's first commit nobody knows when the last landed record was written: the lag counts from the
    moment at which the partition was taken up, and so is at least what it says.
    """
    progress = owned.progress
    lag = max(0, progress.high_watermark - owned.landed - 1)
    behind = now - (progress.committed_append_us / 1e6 or progress.taken_up) if lag else 0.0
    return {
        "landed_offset": owned.landed,
        "high_watermark": progress.high_watermark,
        "lag_records": lag,
        "lag_seconds": round(max(0.0, behind), 3),
        "replayed_records": progress.replayed,
        "open_runs": len(owned.fold.assembler.open),
        "held_bytes": owned.fold.assembler.held_bytes,
        "committed_at": progress.committed_at,
        "snapshot_lag_records": max(0, owned.landed - owned.snapshot_offset),
    }
