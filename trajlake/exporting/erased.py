"""An erasure that comes while an export is made: what it took must not leave by the export.

Each erasure puts its number into the table `trajectories` before it takes rows out (the fence, `sinks/erasures.py`),
and looks at the register of exports behind that. So an export that finds no newer number when it is written and
registered is one that the erasure finds; else it looks itself whether its runs are all still there.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
from deltalake.exceptions import TableNotFoundError

from trajlake.expectations.tables import TRAJECTORIES
from trajlake.exporting.manifest import RUNS
from trajlake.reading.training import RUN, TrainingZone
from trajlake.sinks.deltalog import FENCE_APP
from trajlake.sinks.lake import Lake


class ExportError(ValueError):
    """An export cannot be made; the message says why and what to do."""


def erasures_seen(lake: Lake) -> int:
    """Number of the newest erasure that the training zone knows of; -1 where there is none."""
    try:
        number = lake.open(TRAJECTORIES.name).transaction_version(FENCE_APP)
    except TableNotFoundError:
        return -1
    return -1 if number is None else number


def refuse_erased(lake: Lake, folder: Path, fence: int) -> None:
    """Raise `ExportError` where an erasure behind number `fence` took runs that an export in a folder holds."""
    if erasures_seen(lake) == fence:
        return
    held = pl.read_parquet(folder / RUNS, columns=RUN)
    there = TrainingZone(lake).history().select(RUN).unique().collect(engine="streaming")
    gone = held.join(there, on=RUN, how="anti")
    if len(gone):
        raise ExportError(f"an erasure took {len(gone):,} of its runs while it was made; make it again")
