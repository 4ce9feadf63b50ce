"""What is known of runs, for people: each run with its verdict, and one run with its steps, rewards and verdicts."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from trajlake.reading.onerun import RunNotFound, of_run, run_rows, steps_of, verdicts_on
from trajlake.reading.tables import LakeTables
from trajlake.reading.training import condition
from trajlake.transforms.curate.standing import STANDING_COLUMNS, standing

RUN: Final = ["tenant_id", "run_id"]
NOT_JUDGED: Final = "not judged"


def runs_with_verdicts(lake: LakeTables, where: str | None = None) -> pl.LazyFrame:
    """The state that counts of each closed run, with `verdict` (`not judged` where there is none), `reason_codes`,
    `publication` and `live` (whether it is in the training zone). Raises `WhereError`."""
    joined = _with_verdicts(lake.current_runs(), lake.frame("curation"))
    return joined if where is None else joined.filter(condition(where, joined.collect_schema()))


def _with_verdicts(runs: pl.LazyFrame, curation: pl.LazyFrame) -> pl.LazyFrame:
    stand = standing(curation.select(STANDING_COLUMNS).collect()).select(
        *RUN,
        "verdict",
        pl.col("reasons").list.eval(pl.element().struct.field("code")).fill_null([]).alias("reason_codes"),
        "publication",
        "live",
    )
    return runs.join(stand.lazy(), on=RUN, how="left").with_columns(
        pl.col("verdict").fill_null(NOT_JUDGED),
        pl.col("live").fill_null(False),
        pl.col("reason_codes").fill_null([]),
    )


def run_in_full(lake: LakeTables, run_id: str, tenant: str | None = None) -> dict[str, Any]:
    """One run: `run`, `steps`, `rewards`, `verdicts` (oldest first), `published` (whether trainers can read it now).

    Raises `LookupError` when there is no such run, or several tenants have one of this id.
    """
    try:
        newest = run_rows(lake, run_id, tenant).tail(1)
    except RunNotFound:
        return _open_run(lake, run_id, tenant)
    row = newest.row(0, named=True)
    verdicts = verdicts_on(lake, row)
    [run] = _with_verdicts(newest.lazy(), verdicts.lazy()).collect().to_dicts()
    return {
        "run": run,
        "steps": steps_of(lake, row).sort("first_offset").collect().to_dicts(),
        "rewards": lake.rewards().filter(of_run(row)).sort("offset").collect().to_dicts(),
        "verdicts": verdicts.to_dicts(),
        "published": bool(run["live"]),
    }


def _open_run(lake: LakeTables, run_id: str, tenant: str | None) -> dict[str, Any]:
    """A run that has steps and no row yet. Raises `RunNotFound`."""
    named = pl.col("run_id") == run_id
    if tenant is not None:
        named &= pl.col("tenant_id") == tenant
    steps = lake.current_steps().filter(named).sort("first_offset").collect()
    if steps.is_empty():
        raise RunNotFound(run_id)
    return {
        "run": None,
        "steps": steps.to_dicts(),
        "rewards": lake.rewards().filter(named).sort("offset").collect().to_dicts(),
        "verdicts": lake.frame("curation").filter(named).sort("publication").collect().to_dicts(),
        "published": False,
    }
