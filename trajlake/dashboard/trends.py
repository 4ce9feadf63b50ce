"""How the rate of each skill went over the last week, in memory: each file of `skill_stats` is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

WINDOW: Final = "24h"
SLOT_H: Final = 6
SLOTS: Final = 28
"""A point every six hours, over seven days."""
_KEY: Final = ["tenant_id", "skill_name", "slot"]

Trend = Sequence[float | None]
"""Rates within 0..1, the oldest first; None where the skill had no scorable run, or nothing was told."""


class Trends:
    """The last rate of each skill in each slot of the week that ends with the newest statistics."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._last: pl.DataFrame | None = None

    def refresh(self, lake: LakeTables) -> None:
        """Read what is new."""
        paths = lake.file_paths("skill_stats")
        new = [path for path in paths if path not in self._seen]
        if self._last is not None and not new:
            return
        found = (
            lake.rows_of("skill_stats", new)
            .filter(pl.col("window_name") == WINDOW)
            .select("tenant_id", "skill_name", "as_of", "offset", "rate")
            .with_columns((pl.col("as_of").dt.epoch("s") // (3600 * SLOT_H)).alias("slot"))
        )
        if self._last is not None:
            found = pl.concat([self._last.lazy(), found])
        last = found.sort("as_of", "offset").unique(_KEY, keep="last", maintain_order=True).collect()
        self._last = last.filter(pl.col("slot") > pl.col("slot").max() - SLOTS)
        self._seen = set(paths)

    def by_skill(self) -> Mapping[tuple[str, str], Trend]:
        """The trend of each skill that has one, by tenant and name."""
        if self._last is None or self._last.is_empty():
            return {}
        first = int(self._last["slot"].max()) - SLOTS + 1  # type: ignore[arg-type]  # of a column that is not empty
        found: dict[tuple[str, str], list[float | None]] = {}
        for tenant, skill, slot, rate in self._last.select(*_KEY, "rate").iter_rows():
            found.setdefault((tenant, skill), [None] * SLOTS)[slot - first] = rate
        return found
