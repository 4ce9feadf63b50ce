"""One run as people look at it: its newest row, its steps in order, its rewards, and what quarantine holds of it.

Reads no more than the rows of that run: its identity prunes files by their statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

STEP_COLUMNS: Final = (
    "step_index", "step_id", "revision", "offset", "first_offset", "source", "started_at", "ended_at", "latency_ms",
    "model_name", "finish_reason", "outcome_class", "failure_kind", "failure_basis", "error_type", "is_copied_context",
    "context_segment", "late", "input_tokens", "output_tokens", "cost_usd",
)  # fmt: skip
"""What a list of steps shows; the content of a step is read with `read_step`."""


class RunNotFound(LookupError):
    """No closed run of that id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id!r}; `trajlake runs` lists those that have closed")


class AmbiguousRun(LookupError):
    """Several tenants have a run of that id."""

    def __init__(self, run_id: str, tenants: Sequence[str]) -> None:
        super().__init__(f"several tenants have a run {run_id!r} ({', '.join(tenants)}); --tenant names one")


@dataclass(frozen=True)
class RunView:
    """A run: the row that counts, all its revisions' numbers, its steps (`STEP_COLUMNS`, `tools`, `message_chars`,
    `observation_chars`, `gap_codes`, `redacted`), rewards and quarantine rows, each as mappings by column."""

    run: dict[str, Any]
    revisions: list[int]
    steps: pl.DataFrame
    rewards: list[dict[str, Any]]
    quarantine: list[dict[str, Any]]

    @property
    def first_failing_step(self) -> int | None:
        """`step_index` that the failure is laid to, else of the first step that did not succeed; None without one."""
        laid_to = self.run.get("attributed_step_id")
        if laid_to is not None:
            found = self.steps.filter(pl.col("step_id") == laid_to)
            if found.height:
                return int(found["step_index"][0])
        if self.run["outcome_class"] == "success":
            return None
        failed = self.steps.filter(pl.col("outcome_class") != "success")
        return int(failed["step_index"][0]) if failed.height else None


def run_rows(lake: LakeTables, run_id: str, tenant_id: str | None = None) -> pl.DataFrame:
    """All rows of one run in `runs`; the last one counts. Raises `RunNotFound` or `AmbiguousRun`."""
    wanted = pl.col("run_id") == run_id
    if tenant_id is not None:
        wanted &= pl.col("tenant_id") == tenant_id
    rows = lake.frame("runs").filter(wanted).sort("has_start", "revision", "offset").collect()
    tenants = sorted(rows["tenant_id"].unique().to_list())
    if not tenants:
        raise RunNotFound(run_id)
    if len(tenants) > 1:
        raise AmbiguousRun(run_id, tenants)
    return rows


def of_run(run: Mapping[str, Any]) -> pl.Expr:
    """Rows of any table that belong to the run of a row."""
    own: pl.Expr = (pl.col("tenant_id") == run["tenant_id"]) & (pl.col("run_id") == run["run_id"])
    return own


def read_run(lake: LakeTables, run_id: str, tenant_id: str | None = None) -> RunView:
    """Read one run. Raises `RunNotFound` or `AmbiguousRun`."""
    rows = run_rows(lake, run_id, tenant_id)
    run = rows.row(-1, named=True)
    rewards = lake.frame("rewards").filter(of_run(run)).sort("offset").collect().to_dicts()
    refused = lake.frame("quarantine").filter(of_run(run)).sort("offset").collect().to_dicts()
    steps = steps_of(lake, run).select(
        *STEP_COLUMNS,
        pl.col("tool_calls").list.eval(pl.element().struct.field("function_name")).alias("tools"),
        pl.col("message").str.len_chars().fill_null(0).alias("message_chars"),
        pl.col("observations")
        .list.eval(pl.element().struct.field("content").str.len_chars().fill_null(0))
        .list.sum()
        .alias("observation_chars"),
        pl.col("gaps").list.eval(pl.element().struct.field("code")).alias("gap_codes"),
        pl.col("redactions").is_not_null().alias("redacted"),
    )
    return RunView(run, rows["revision"].to_list(), steps.sort("step_index").collect(), rewards, refused)


def verdicts_on(lake: LakeTables, run: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of `curation` on a run, the oldest first."""
    return lake.frame("curation").filter(of_run(run)).sort("publication").collect()


def read_step(lake: LakeTables, run: dict[str, Any], step_index: int) -> dict[str, Any] | None:
    """All columns of one step of a run (`RunView.run`), as it counts now; None where it has no such step."""
    rows = steps_of(lake, run).filter(pl.col("step_index") == step_index).collect()
    return rows.row(0, named=True) if rows.height else None


def steps_of(lake: LakeTables, run: dict[str, Any]) -> pl.LazyFrame:
    """Newest revision of the steps of one life of a run (`RunView.run`), as `LakeTables.current_steps` has them."""
    closed = run["offset"] if run["close_offset"] is None else run["close_offset"]
    steps = lake.frame("steps").filter(
        of_run(run)
        & (pl.col("topic") == run["topic"])
        & (pl.col("partition") == run["partition"])
        & pl.col("first_offset").is_between(run["first_offset"], closed)
    )
    return steps.filter(pl.col("revision") == pl.col("revision").max().over("first_offset"))
