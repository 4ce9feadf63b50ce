"""Whether the runs of an export may still be used: compared with the newest version of the training zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from trajlake.exporting.manifest import Manifest
from trajlake.reading.training import RUN, TrainingZone
from trajlake.reading.versions import VersionError


@dataclass(frozen=True)
class Standing:
    """What became of an export's runs. `withdrawn`: taken out, by which publication and with the reasons. `erased`:
    nothing of them is left. `superseded`: published again in a later state. `reproducible`: whether its version can
    still be opened."""

    manifest_id: str
    version: int
    runs: int
    current: int
    withdrawn: list[dict[str, Any]]
    erased: list[dict[str, Any]]
    superseded: list[dict[str, Any]]
    reproducible: bool

    @property
    def ok(self) -> bool:
        """Whether every run stands as it stood."""
        return self.current == self.runs


def check(zone: TrainingZone, manifest: Manifest, runs: pl.DataFrame) -> Standing:
    """Compare. `zone`: at the newest version. `runs`: the export's `runs.parquet`."""
    newest = (
        zone.history()
        .select(*RUN, "publication", "withdrawn", "reasons")
        .group_by(RUN)
        .agg(pl.col("publication", "withdrawn", "reasons").sort_by("publication").last().name.prefix("now_"))
        .join(runs.select(RUN).unique().lazy(), on=RUN, how="semi")
        .collect(engine="streaming")
    )
    joined = runs.join(newest, on=RUN, how="left", maintain_order="left")
    gone = joined.filter(pl.col("now_withdrawn").fill_null(False))
    erased = joined.filter(pl.col("now_publication").is_null())
    later = joined.filter(~pl.col("now_withdrawn") & (pl.col("now_publication") > pl.col("publication")))
    current = len(joined) - len(gone) - len(erased) - len(later)
    return Standing(
        manifest.manifest_id,
        zone.version,
        len(joined),
        current,
        gone.select(
            *RUN, pl.col("now_publication").alias("publication"), pl.col("now_reasons").alias("reasons")
        ).to_dicts(),
        erased.select(RUN).to_dicts(),
        later.select(*RUN, pl.col("now_publication").alias("publication")).to_dicts(),
        _opens(zone, manifest),
    )


def _opens(zone: TrainingZone, manifest: Manifest) -> bool:
    """Whether the version and all its files are still there."""
    try:
        at = TrainingZone(zone.lake, manifest.versions["trajectories"])
        at.scan().select(pl.len()).collect()
        table = at.table
    except (VersionError, OSError, pl.exceptions.PolarsError, pl.exceptions.ComputeError):
        return False
    return table is not None
