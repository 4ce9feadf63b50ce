"""Where runs stand by the verdicts so far, from the narrow columns of `curation`: of some runs, or of all in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from trajlake.expectations.reasons import Publication
from trajlake.expectations.tables import CURATION
from trajlake.sinks.lake import Lake
from trajlake.streams.curate.source import Source
from trajlake.transforms.curate.standing import RUN, STANDING_COLUMNS, standing

ROUND_RUNS: Final = 200_000
"""Runs whose keys or standings are held at once."""


class Standings:
    """The verdicts of one lake. Frames are those of `transforms.curate.standing.standing`: one row a run."""

    def __init__(self, lake: Lake) -> None:
        self._source = Source(lake, CURATION.name)

    def verdicts_of(self, publication: int) -> pl.DataFrame:
        """Rows of one publication with all columns of `curation`."""
        self._source.files.refresh()
        return self._source.rows_where(CURATION.names, pl.col("publication") == publication)

    def of(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Where runs stand that are named by `RUN`; those that were never judged are left out."""
        self._source.files.refresh()
        key = pl.concat_str("tenant_id", pl.lit("\0"), "run_id")
        wanted = runs.select(key.alias("key"))["key"].implode()
        return standing(self._source.rows_where(STANDING_COLUMNS, key.is_in(wanted), [] if runs.is_empty() else None))

    def where(self, columns: Sequence[str], condition: pl.Expr) -> pl.DataFrame:
        """Where those runs stand of which any verdict meets a condition on these columns."""
        self._source.files.refresh()
        return self.of(self._source.rows_where((*RUN, *columns), condition).select(RUN).unique())

    def all_in_parts(self) -> Iterator[pl.DataFrame]:
        """Where all runs stand, in parts that may be held at once."""
        self._source.files.refresh()
        files = self._source.files.all()
        parts = sum(file.rows for file in files) // ROUND_RUNS + 1
        for part in range(parts):
            yield standing(self._source.rows_where(STANDING_COLUMNS, pl.col("run_id").hash() % parts == part, files))

    def waiting(self) -> pl.DataFrame:
        """Where those runs stand that are held."""
        held = pl.col("verdict") == Publication.HELD.value
        return self.where(("verdict",), held).filter(held)

    def before_revision(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Where those new runs stand that were judged before; None when there are none."""
        again = keys.filter((pl.col("revision") > 0) | ~pl.col("has_start"))
        if again.is_empty():
            return None
        found = self.of(again.select(RUN).unique())
        return found if found.height else None

    def may_have_run_out(self, since_us: int, now_us: int) -> bool:
        """Whether consent to something published may have ended in a stretch of time; by bounds of files, then rows."""
        self._source.files.refresh()
        files = [file for file in self._source.files.all() if file.until[0] <= now_us and file.until[1] > since_us]
        until = pl.col("holds_until").cast(pl.Int64)
        ended = (until <= now_us) & (until > since_us)
        return self._source.rows_where(("holds_until",), ended, files).height > 0
