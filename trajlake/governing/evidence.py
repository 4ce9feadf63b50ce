"""The evidence of policy, read from the tables: facts of current runs, rewards that count, statements of consent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import polars as pl

from trajlake.expectations.progress import SILENT, Progress
from trajlake.reading.tables import LakeTables
from trajlake.transforms.policy.consents import ConsentRecord, Consents
from trajlake.transforms.policy.facts import RewardFacts, RunFacts

RunKey: TypeAlias = tuple[str, str]
"""Tenant and run."""

_RUN_COLUMNS: Final = (
    *(name for name in RunFacts.__struct_fields__ if not name.endswith("_us")),
    "started_at",
    "ended_at",
)
_REWARD_COLUMNS: Final = ("tenant_id", "run_id", *RewardFacts.__struct_fields__)
_FRAME_ROWS: Final = 50_000


def runs(
    lake: LakeTables, run_id: str | None = None, tenant_id: str | None = None, progress: Progress = SILENT
) -> Iterator[RunFacts]:
    """Facts of the current rows of runs, some ten thousand read at a time. progress: told how many there are."""
    found = _of(lake.current_runs(), run_id, tenant_id).select(_RUN_COLUMNS).collect(engine="streaming")
    progress.stage("judging", len(found), "runs")
    for frame in found.iter_slices(_FRAME_ROWS):
        yield from map(RunFacts.from_row, frame.iter_rows(named=True))


def rewards(
    lake: LakeTables, run_id: str | None = None, tenant_id: str | None = None
) -> dict[RunKey, list[RewardFacts]]:
    """Rewards by run. One that another names as superseded does not count."""
    rows = _of(lake.rewards(), run_id, tenant_id)
    gone = rows.filter(pl.col("supersedes").is_not_null()).select(
        "tenant_id", "run_id", pl.col("supersedes").alias("reward_id")
    )
    counting = rows.join(gone, on=["tenant_id", "run_id", "reward_id"], how="anti").select(_REWARD_COLUMNS)
    found: dict[RunKey, list[RewardFacts]] = {}
    for row in counting.unique().collect().iter_rows(named=True):
        found.setdefault((row["tenant_id"], row["run_id"]), []).append(RewardFacts.from_row(row))
    return found


def consents(lake: LakeTables) -> Consents:
    """All statements that have landed."""
    return Consents(map(ConsentRecord.from_row, lake.frame("consents").collect().iter_rows(named=True)))


def _of(rows: pl.LazyFrame, run_id: str | None, tenant_id: str | None) -> pl.LazyFrame:
    if run_id is not None:
        rows = rows.filter(pl.col("run_id") == run_id)
    return rows if tenant_id is None else rows.filter(pl.col("tenant_id") == tenant_id)
