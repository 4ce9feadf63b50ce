"""What `verify` has to say: figures by partition, ranges of offsets, problems with their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trajlake.reading.tables import PartitionId
from trajlake.transforms.reconcile.faults import Fault, FaultCode, Faults
from trajlake.verification.integrity import PartitionIntegrity


@dataclass(slots=True)
class OffsetRange:
    """Offsets `first_offset..last_offset` of a partition."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int


@dataclass(slots=True)
class PartitionReport:
    """How the offsets `0..landed_offset` of a partition are accounted for. All figures but the first three count
    offsets.

    `in_flight`: rows of `quarantine` and `gaps` above the landed offset. `erased`: rows of `events` that an erasure
    took out. `end_offset` and `lag`: only where Kafka was
    asked.
    """

    topic: str
    partition: int
    landed_offset: int
    events: int = 0
    quarantined: int = 0
    holes: int = 0
    below_retention: int = 0
    missing: int = 0
    duplicates: int = 0
    in_flight: int = 0
    erased: int = 0
    end_offset: int | None = None
    lag: int | None = None


@dataclass(slots=True)
class Report:
    """What `verify` found. `ok` is false when `problems` holds anything; declared gaps are no problem.

    `integrity`: only where the hashes were asked for.
    """

    root: str
    ok: bool
    versions: dict[str, int | None]
    checked: dict[str, int]
    partitions: list[PartitionReport]
    missing: list[OffsetRange]
    missing_count: int
    duplicates: list[OffsetRange]
    duplicate_count: int
    gaps: list[OffsetRange]
    holes: int
    problems: list[dict[str, Any]]
    problem_counts: dict[str, int]
    deep: bool = False
    integrity: list[PartitionIntegrity] | None = None
    seconds: float = 0.0

    def add(self, faults: Mapping[FaultCode, Faults]) -> None:
        """More that is wrong."""
        for code, group in faults.items():
            self.ok = False
            self.problems += [problem_of(fault) for fault in group.listed]
            self.problem_counts[code.value] = self.problem_counts.get(code.value, 0) + group.count


def add_lags(report: Report, lags: dict[PartitionId, tuple[int, int, bool]]) -> None:
    """Add what Kafka holds: (end offset, records not landed, whether the tables are ahead of the log) by partition.

    Records that have not landed yet are no problem; tables that are ahead of their log are.
    """
    parts = {(part.topic, part.partition): part for part in report.partitions}
    for key, (end_offset, records, ahead) in sorted(lags.items()):
        part = parts.get(key)
        if part is None:
            part = parts[key] = PartitionReport(*key, -1)
            report.partitions.append(part)
        part.end_offset, part.lag = end_offset, records
        if ahead:
            detail = (
                f"landed up to {part.landed_offset}, and the log ends at {end_offset}: is this the topic's own lake?"
            )
            place = {"topic": key[0], "partition": key[1], "offset": part.landed_offset}
            code = FaultCode.AHEAD_OF_LOG
            report.add({code: Faults(code, 1, [Fault(code, detail, "events", place)])})


def problem_of(fault: Fault) -> dict[str, Any]:
    return {"code": fault.code.value, "table": fault.table, "detail": fault.detail, "place": fault.place}
