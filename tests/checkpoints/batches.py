"""Batches of runs as a publication suite gets them, with marks that no report may show."""

from __future__ import annotations

from typing import Any

import polars as pl

from trajlake.transforms.gate.batchframe import batch_frame

MARK = "zq-private-mark"
"""Part of every text value that a row of `batch` holds, closed sets and columns of names apart."""


def batch(count: int = 120, **columns: Any) -> pl.DataFrame:
    """A healthy batch of `count` runs in groups of four, with columns replaced by what is given: a list or one
    value."""
    runs: dict[str, Any] = {
        "tenant_id": [f"tenant-{MARK}"] * count,
        "run_id": [f"run-{MARK}-{number}" for number in range(count)],
        "group_id": [f"group-{MARK}-{number // 4}" for number in range(count)],
        "skill_name": [f"skill-{MARK}"] * count,
        "model_name": [f"model-{MARK}"] * count,
        "origin": [None] * count,
        "outcome_class": ["success"] * count,
        "end_state": ["completed"] * count,
        "end_inferred": [False] * count,
        "has_start": [True] * count,
        "step_count": [3] * count,
        "tool_call_count": [10] * count,
        "tool_error_count": [number % 2 for number in range(count)],
        "max_time_skew_ms": [12.5] * count,
        "reward_score": [1.0] * count,
        "input": [f"task {MARK}"] * count,
        "output": [f"answer {MARK} " + "x" * (100 + number % 50) for number in range(count)],
        "gaps": [[{"code": "missing_end", "detail": MARK}]] * count,
    }
    runs.update({name: value if isinstance(value, list) else [value] * count for name, value in columns.items()})
    return batch_frame(pl.DataFrame(runs))


def rewards(kinds: list[str], *, supersedes: str | None = None) -> pl.DataFrame:
    """One reward for each of the first runs of `batch`, by kind of grader."""
    count = len(kinds)
    return pl.DataFrame(
        {
            "tenant_id": [f"tenant-{MARK}"] * count,
            "run_id": [f"run-{MARK}-{number}" for number in range(count)],
            "reward_id": [f"reward-{number}" for number in range(count)],
            "annotator_kind": kinds,
            "score": [1.0] * count,
            "passed": [None] * count,
            "supersedes": [supersedes] * count,
        },
        schema_overrides={"passed": pl.Boolean, "supersedes": pl.String},
    )
