"""Figures of landing for Prometheus: counted by each worker at its commits, shown by their supervisor."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations import metrics
from trajlake.expectations.metrics import LAND, Metric
from trajlake.sinks.ledger import Stretch
from trajlake.streams.land.health import summarise
from trajlake.streams.metrics import Readings, Tally

_PARTITION_GAUGES: Final = {
    metrics.LAND_LAG: "lag_records",
    metrics.LAND_LAG_SECONDS: "lag_seconds",
    metrics.LAND_OFFSET: "landed_offset",
    metrics.LAND_COMMITTED: "committed_at",
    metrics.LAND_OPEN_RUNS: "open_runs",
    metrics.LAND_HELD: "held_bytes",
    metrics.LAND_SNAPSHOT_LAG: "snapshot_lag_records",
    metrics.LAND_OUTCOMES_LAG: "outcomes_lag_records",
}


def count_commit(tally: Tally, stretches: Sequence[Stretch], batch_bytes: int, took_s: float, now: float) -> None:
    """Count a batch that has just been committed. `now`: seconds since the Unix epoch."""
    tally.add(metrics.LAND_COMMITS)
    tally.add(metrics.LAND_BYTES, batch_bytes)
    tally.observe(metrics.LAND_COMMIT_DURATION, took_s)
    oldest: list[float] = []
    for stretch in stretches:
        tally.add(metrics.LAND_RECORDS, stretch.last - stretch.first + 1)
        batches = stretch.batches
        if (events := batches.get("events")) is not None:
            oldest.append(pc.min(events.column("append_time").cast(pa.int64())).as_py() / 1e6)
        if (refused := batches.get("quarantine")) is not None:
            _count(tally, metrics.LAND_QUARANTINED, refused.column("reason_code"))
        if (gaps := batches.get("gaps")) is not None:
            for gap in gaps.select(["code", "first_offset", "offset"]).to_pylist():
                tally.add(metrics.LAND_GAP_OFFSETS, gap["offset"] - gap["first_offset"] + 1, gap["code"])
        if (runs := batches.get("runs")) is not None:
            again = pc.is_valid(runs.column("close_offset"))
            _count(tally, metrics.LAND_RECLASSIFIED, runs.filter(again).column("outcome_class"))
            runs = runs.filter(pc.invert(again))
            _count(tally, metrics.LAND_RUNS, runs.column("outcome_class"))
            _count(tally, metrics.LAND_RUN_GAPS, pc.struct_field(pc.list_flatten(runs.column("gaps")), "code"))
    if oldest:
        tally.observe(metrics.LAND_DELAY, max(0.0, now - min(oldest)))


def _count(tally: Tally, metric: Metric, codes: pa.Array) -> None:
    for found in pc.value_counts(codes).to_pylist():
        if found["values"] is not None:
            tally.add(metric, found["counts"], found["values"])


class Landed:
    """What all workers counted since the supervisor's start, whichever of them is gone by now."""

    def __init__(self) -> None:
        self._past = Tally()

    def restarted(self, worker: int) -> None:
        """A worker ended and is started again."""
        self._past.add(metrics.LAND_RESTARTS, 1, str(worker))

    def ended(self, report: Mapping[str, Any] | None) -> None:
        """The last report of a worker that is gone."""
        if report is not None:
            self._past.merge(report["tally"]["values"])

    def text(self, topic: str, workers: dict[int, dict[str, Any]], wanted: int) -> bytes:
        """The text for Prometheus. `workers`: number -> newest report of those that run."""
        readings = Readings(LAND)
        for number in range(wanted):
            self._past.add(metrics.LAND_RESTARTS, 0, str(number))
        readings.add(self._past)
        seen = summarise(workers, wanted, time.time())
        readings.put(metrics.LAND_READY, float(seen["ready"]))
        readings.put(metrics.LAND_WORKERS, len(workers))
        readings.put(metrics.LAND_WORKERS_WANTED, wanted)
        concerns = dict.fromkeys(metrics.LAND_PROBLEMS.values, 0)
        for number, report in sorted(workers.items()):
            readings.add(Tally(report["tally"]["values"]))
            readings.put(metrics.LAND_MEMORY, report["memory_bytes"], number)
            for concern in report["concerns"]:
                concerns[concern] = concerns.get(concern, 0) + 1
        for concern, count in concerns.items():
            readings.put(metrics.LAND_PROBLEMS, count, concern)
        for partition, figures in seen["partitions"].items():
            for metric, name in _PARTITION_GAUGES.items():
                readings.put(metric, figures[name], topic, partition)
        return readings.text()
