"""Which runs an export holds and in what order, and their rows, read in parts of bounded size.

The order is that of publication, then of the log: it depends on what is published, not on how files lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl
import pyarrow as pa

from trajlake.expectations.tables import TRAJECTORIES
from trajlake.reading.training import RUN, TrainingZone
from trajlake.streams.curate.source import Source

PART_STEPS: Final = 5_000
PART_RUNS: Final = 500
ORDER: Final = ["publication", "topic", "partition", "offset", "tenant_id", "run_id"]
_KEYS: Final = (
    *ORDER, "group_id", "task_id", "parent_run_id", "outcome_class", "reward", "step_count", "policy_revision",
    "code_revision", "consent_basis", "verdict_id", "detector_revision",
)  # fmt: skip


def select_runs(zone: TrainingZone, where: str | None) -> pl.DataFrame:
    """Keys of the runs that a condition selects, in the order of the export. Raises `WhereError`."""
    return zone.scan(where).select(_KEYS).collect(engine="streaming").sort(ORDER)


def grouped(keys: pl.DataFrame, by: str) -> pl.DataFrame:
    """Runs that are attempts of a group, with its number in `group`: groups in the order of their first run.

    `by`: `group` (a run's `group_id`, where it has none its task) or `task`. Sub-agents are no attempts.
    """
    named = pl.col("task_id") if by == "task" else pl.coalesce("group_id", "task_id")
    attempts = keys.filter(pl.col("parent_run_id").is_null()).with_columns(name=named).drop_nulls("name")
    places = attempts.select("tenant_id", "name").unique(maintain_order=True).with_row_index("group")
    return attempts.join(places, on=["tenant_id", "name"], maintain_order="left").sort("group", maintain_order=True)


class RunReader:
    """Rows of runs at the version of a zone, whole and in the order of the keys."""

    def __init__(self, zone: TrainingZone) -> None:
        self._source = Source(zone.lake, TRAJECTORIES.name)
        self._source.files.load_version(zone.version)

    def parts(self, keys: pl.DataFrame) -> Iterator[list[dict[str, Any]]]:
        """All rows in parts of about `PART_STEPS` steps; a group (column `group`) is never parted."""
        for part in _parts(keys):
            yield self.read(part)

    def read(self, keys: pl.DataFrame) -> list[dict[str, Any]]:
        low, high = keys["publication"].min(), keys["publication"].max()
        files = [
            file
            for file in self._source.files.all()
            if file.publications[0] <= high and file.publications[1] >= low  # type: ignore[operator]
        ]
        on = [*RUN, "publication"]
        rows = self._source.rows_matching(keys.select(on), on, TRAJECTORIES.names, files)
        have = pl.DataFrame(pl.from_arrow(rows.select(on))).with_row_index("row")
        order = keys.select(on).join(have, on=on, how="left", maintain_order="left")["row"]
        if order.null_count():
            raise LookupError(f"{order.null_count()} published runs are not in the files of version any more")
        found: pa.Table = rows.take(order.to_arrow())
        return [dict(row) for row in found.to_pylist()]


def _parts(keys: pl.DataFrame) -> Iterator[pl.DataFrame]:
    if keys.is_empty():
        return
    unit = "group" if "group" in keys.columns else None
    steps = keys["step_count"].to_list()
    groups = keys["group"].to_list() if unit else list(range(len(keys)))
    first = size = 0
    for place in range(len(keys)):
        new = place == 0 or groups[place] != groups[place - 1]
        if new and place > first and (size >= PART_STEPS or place - first >= PART_RUNS):
            yield keys.slice(first, place - first)
            first, size = place, 0
        size += steps[place] or 0
    yield keys.slice(first)
