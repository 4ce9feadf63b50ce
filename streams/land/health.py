"""What the land workers say together: ready when every worker runs, has spoken lately and has no problem.

Lag is counted from the offsets that the tables hold, in records and in seconds.
"""

from __future__ import annotations

from typing import Any, Final

SILENT_AFTER_S: Final = 30.0
"""A worker that has not reported for so long counts as stuck."""


def summarise(workers: dict[int, dict[str, Any]], wanted: int, now: float) -> dict[str, Any]:
    """One view over all workers' reports. `workers`: number -> report with `at` (seconds since the Unix epoch)."""
    problems = []
    if len(workers) < wanted:
        problems.append(f"waits for {wanted - len(workers)} of {wanted} workers to start and report")
    partitions: dict[str, Any] = {}
    for number, report in sorted(workers.items()):
        if now - report["at"] > SILENT_AFTER_S:
            problems.append(f"worker {number} is silent for {now - report['at']:.0f} s")
        elif report["problem"]:
            problems.append(f"worker {number}: {report['problem']}")
        for partition, figures in report["partitions"].items():
            partitions[str(partition)] = {**figures, "worker": number}
    return {
        "ready": not problems,
        "problems": problems,
        "workers": {number: {k: report[k] for k in ("pid", "rows", "commits")} for number, report in workers.items()},
        "partitions": dict(sorted(partitions.items(), key=lambda item: int(item[0]))),
        "lag_records": sum(figures["lag_records"] for figures in partitions.values()),
        "lag_seconds": max((figures["lag_seconds"] for figures in partitions.values()), default=0.0),
    }
