"""How the pipeline stands: tables with their commits, partitions, quarantine by reason, gaps, duplicates, late runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from trajlake.expectations.reasons import Reason
from trajlake.expectations.tables import TABLES

if TYPE_CHECKING:
    from trajlake.reading.lag import Lag
    from trajlake.reading.tables import LakeTables, PartitionId, TableInfo


@dataclass(frozen=True)
class Pipeline:
    """Counts over the whole lake, or over one tenant where the reader may see one only."""

    tables: list[TableInfo]
    partitions: list[dict[str, Any]]
    quarantine: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    duplicates: int
    late_runs: int
    open_ended: int


def read_pipeline(lake: LakeTables, tenant: str | None, lags: Mapping[PartitionId, Lag]) -> Pipeline:
    """Read all of it. lags: of the partitions that Kafka has, those included of which nothing has landed."""
    runs = lake.frame("runs")
    refused = lake.frame("quarantine")
    if tenant is not None:
        runs = runs.filter(pl.col("tenant_id") == tenant)
        refused = refused.filter(pl.col("tenant_id") == tenant)
    sums = runs.select(
        pl.col("late").sum().alias("late_runs"),
        pl.col("end_inferred").sum().alias("open_ended"),
    ).collect()
    reasons = (
        refused.group_by("stage", pl.col("reason_code").alias("reason"))
        .agg(pl.len().alias("records"), pl.col("append_time").max().alias("newest"))
        .sort("records", descending=True)
        .collect()
    )
    events = (
        lake.frame("events")
        .group_by("topic", "partition")
        .agg(pl.col("offset").max(), pl.col("append_time").max().alias("landed_to"))
        .sort("topic", "partition")
        .collect()
    )
    partitions = {(row["topic"], row["partition"]): row for row in events.to_dicts()}
    for topic, partition in lags:
        nothing = {"topic": topic, "partition": partition, "offset": None, "landed_to": None}
        partitions.setdefault((topic, partition), nothing)
    gaps = (
        lake.frame("gaps")
        .group_by("code")
        .agg(pl.len().alias("ranges"), (pl.col("offset") - pl.col("first_offset") + 1).sum().alias("offsets"))
    )
    return Pipeline(
        [] if tenant is not None else [lake.describe(name) for name in TABLES],
        [] if tenant is not None else [partitions[key] for key in sorted(partitions)],
        reasons.to_dicts(),
        [] if tenant is not None else gaps.sort("code").collect().to_dicts(),
        int(reasons.filter(pl.col("reason") == Reason.DUPLICATE.value)["records"].sum()),
        int(sums["late_runs"][0] or 0),
        int(sums["open_ended"][0] or 0),
    )
