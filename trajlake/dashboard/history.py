"""A skill's statistics over time, thinned to what a chart can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from trajlake.expectations.taxonomy import OutcomeClass

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

MOST_POINTS: Final = 240
WINDOW: Final = "24h"


def read_history(lake: LakeTables, tenant: str, skill: str, window: str = WINDOW) -> pl.DataFrame:
    """Rows of `skill_stats` of one skill and window in order of event time: the last of each slice of time, at most
    `MOST_POINTS` slices."""
    columns = ["as_of", "offset", "rate", "rate_low", "rate_high", "scorable", "skill_version"]
    rows = (
        lake.frame("skill_stats")
        .filter((pl.col("tenant_id") == tenant) & (pl.col("skill_name") == skill) & (pl.col("window_name") == window))
        .select(*columns, *(member.value for member in OutcomeClass))
        .sort("offset")
        .collect()
    )
    if rows.height <= MOST_POINTS:
        return rows.sort("as_of", maintain_order=True)
    slices = rows.with_columns(pl.col("as_of").qcut(MOST_POINTS, allow_duplicates=True).alias("slice"))
    return slices.group_by("slice").agg(pl.all().sort_by("as_of").last()).drop("slice").sort("as_of")
