"""The training zone as its readers see it: published runs, at one version, and nothing of the other zones.

    import trajlake

    zone = trajlake.training("./lake")
    zone.scan("outcome_class = 'success' and reward >= 0.5").select("run_id", "steps").collect()

What is read needs access to the training zone alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PolarsError

from trajlake.expectations.tables import TRAJECTORIES
from trajlake.reading.tables import LakeTables
from trajlake.sinks.lake import Lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

RUN: Final = ["tenant_id", "run_id"]


class WhereError(ValueError):
    """A filter cannot be read, or names a column that is not there; the message says which there are."""


class TrainingZone:
    """Published runs at one version of `trajectories`. Raises `VersionError` where it has no such version."""

    def __init__(self, lake: Lake, version: int | None = None) -> None:
        self.lake = lake
        self._tables = LakeTables(lake, None if version is None else {TRAJECTORIES.name: version})

    @property
    def table(self) -> DeltaTable | None:
        """The Delta table at the version; None where nothing has been published."""
        return self._tables.delta(TRAJECTORIES.name)

    @property
    def version(self) -> int:
        """The version that is read; -1 where nothing has been published."""
        return -1 if self.table is None else self.table.version()

    def history(self) -> pl.LazyFrame:
        """Every row: earlier states of runs, and the tombstones of withdrawn ones."""
        return self._tables.frame(TRAJECTORIES.name)

    def scan(self, where: str | pl.Expr | None = None) -> pl.LazyFrame:
        """Published runs, one row each in the state that counts, as a Polars LazyFrame with the columns of
        `trajectories`.

        where: a condition in SQL (`reward > 0.5 and skill_name = 'refund'`) or as an expression of Polars.
        Raises `WhereError` for a condition that cannot be read.
        """
        rows = self.history()
        newest = (
            rows.select(*RUN, "publication", "withdrawn")
            .group_by(RUN)
            .agg(pl.col("publication", "withdrawn").sort_by("publication").last())
        )
        current = rows.join(newest.filter(~pl.col("withdrawn")), on=[*RUN, "publication"], how="semi")
        return current if where is None else current.filter(condition(where, current.collect_schema()))


def condition(where: str | pl.Expr, columns: Mapping[str, pl.DataType]) -> pl.Expr:
    """A condition on a row as an expression of Polars. `columns`: those of the rows. Raises `WhereError`.

    What asks about many rows (`max`, `count(*)`, `over`) is refused: its answer would depend on what else is selected.
    """
    try:
        expression = pl.sql_expr(where) if isinstance(where, str) else where
        named = expression.meta.root_names()
    except PolarsError as error:
        raise WhereError(f"{where!r} is no condition: {str(error).splitlines()[0]}") from None
    unknown = [name for name in named if name not in columns]
    if unknown:
        raise WhereError(f"there is no column {unknown[0]}; there are {', '.join(columns)}")
    if isinstance(where, str):
        _refuse_no_condition(where, expression, columns)
    return expression


def _refuse_no_condition(where: str, expression: pl.Expr, columns: Mapping[str, pl.DataType]) -> None:
    """Raise `WhereError` where an expression does not say yes or no of each row. It is tried on no rows."""
    try:
        said = pl.DataFrame(schema=dict(columns)).select(expression.alias("said"))["said"]
    except (PolarsError, TypeError, ValueError) as error:
        hint = "; write times as DATE '2026-01-31'" if "date" in str(error).lower() else ""
        raise WhereError(f"{where!r} does not fit the columns: {str(error).splitlines()[0]}{hint}") from None
    if said.dtype != pl.Boolean:
        raise WhereError(f"{where!r} is no condition: it gives {said.dtype.base_type()}, and not yes or no")
    asked = re.sub(r'"[^"]*"', "", str(expression))
    if (len(said) and not expression.meta.is_literal()) or re.search(r"\.over\(|\blen\(\)", asked):
        raise WhereError(f"{where!r} asks about many rows; a condition is on the columns of one")


def training(
    root: str | None = None, *, version: int | None = None, storage_options: Mapping[str, str] | None = None
) -> TrainingZone:
    """Open the training zone for reading.

    root: the zone's own root, or that of a lake that holds it; the settings' when None. storage_options: for the zone's
    object store; the settings' when None. version: of `trajectories`; the newest when None.
    """
    return TrainingZone(zone_lake(root, storage_options), version)


def zone_lake(root: str | None, storage_options: Mapping[str, str] | None = None) -> Lake:
    """The lake whose training zone a root names: its own root, or that of the lake around it."""
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    options = settings.training_storage_options if storage_options is None else storage_options
    if root is None:
        lake = settings.lake()
        return lake if storage_options is None else Lake(lake.root, {}, lake.training_uri, storage_options)
    own = Lake(settings.root, {}, settings.root, options)
    if own.exists(TRAJECTORIES.name):
        return own
    inner = settings.training_root or f"{settings.root.rstrip('/')}/training"
    return Lake(settings.root, {}, inner, options or settings.storage_options)
