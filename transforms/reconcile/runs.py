"""Reconciliation of runs: do steps, runs and rewards say what the ledger of events says?

Frames in, faults out. Revisions, steps and counts are judged within one life of a run, see `transforms.lives`.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from trajlake.transforms.reconcile.faults import FaultCode, Faults, list_faults
from trajlake.transforms.reconcile.lives import Lives


def check_runs(runs: pl.DataFrame, lives: Lives, ledger: pl.DataFrame) -> Iterator[Faults]:
    """Run rows against one another and the ledger. `runs` as for `Lives`, `ledger` as `Ledger.runs` gives it."""
    rows = runs.group_by("key", "first_offset", "revision").agg(pl.len().alias("rows"), pl.col("offset").max())
    doubled = rows.filter(pl.col("rows") > 1)
    yield list_faults(
        FaultCode.DUPLICATE_RUN,
        "runs",
        doubled,
        lambda r: f"revision {r['revision']} stands {r['rows']} times",
        ("revision",),
    )
    revisions = rows.group_by("key", "first_offset").agg(
        pl.len().alias("rows"), pl.col("revision").max(), pl.col("offset").max()
    )
    yield list_faults(
        FaultCode.MISSING_RUN_REVISION,
        "runs",
        revisions.filter(pl.col("rows") != pl.col("revision") + 1),
        lambda r: f"revisions 0 to {r['revision']} are due, {r['rows']} are there",
        ("revision",),
    )
    known = ledger.select("key")
    yield list_faults(
        FaultCode.RUN_WITHOUT_EVENTS,
        "runs",
        runs.join(known, on="key", how="anti").unique("key", keep="first"),
        lambda r: "the ledger has no event of this run",
    )
    wrong = lives.frame.with_columns(counted=lives.counted).filter(pl.col("counted") != pl.col("event_count"))
    yield list_faults(
        FaultCode.EVENT_COUNT,
        "runs",
        wrong.join(known, on="key", how="semi"),
        lambda r: f"event_count is {r['event_count']}, the ledger has {r['counted']} up to the run's offset",
        ("revision",),
    )
    yield list_faults(
        FaultCode.MISSING_RUN,
        "runs",
        _rowless(runs, ledger),
        lambda r: "the ledger holds the whole run with its end, and there is no row of it",
    )


def _rowless(runs: pl.DataFrame, ledger: pl.DataFrame) -> pl.DataFrame:
    """Runs that must have closed and have no row: every sequence number up to the highest came, and the end."""
    closed = ledger.filter(pl.col("ended") & (pl.col("sequenced") == pl.col("highest")))
    return closed.join(runs, on="key", how="anti")


def check_steps(
    steps: pl.DataFrame, runs: pl.DataFrame, lives: Lives, ledger: pl.DataFrame, *, rows_at_once: int = 500_000
) -> Iterator[Faults]:
    """Steps against one another, against runs and against the ledger, some runs at a time to bound the memory of
    grouping.

    `steps`: key UInt64, offset, first_offset Int64, step_index, revision Int32, is_last Boolean.
    """
    shares = len(steps) // rows_at_once + 1
    closed = lives.frame.with_row_index("life").with_columns(pl.col("life").cast(pl.Int64))
    for share in range(shares):
        mine = pl.col("key") % shares == share
        parts = (frame.filter(mine) for frame in (steps, runs, closed, ledger))
        yield from _check_some_steps(lives, *parts)


def _check_some_steps(
    lives: Lives, steps: pl.DataFrame, runs: pl.DataFrame, closed: pl.DataFrame, ledger: pl.DataFrame
) -> Iterator[Faults]:
    yield list_faults(
        FaultCode.STEP_WITHOUT_EVENTS,
        "steps",
        steps.join(ledger, on="key", how="anti").unique("key", keep="first"),
        lambda r: "the ledger has no event of this step's run",
        ("step_index",),
    )
    life = pl.Series("life", lives.locate(steps["key"].to_numpy(), steps["first_offset"].to_numpy()), pl.Int64)
    steps = steps.with_columns(life)
    ends = steps.filter("is_last")
    yield list_faults(
        FaultCode.MISSING_RUN,
        "runs",
        ends.join(runs, on=["key", "offset"], how="anti").join(_rowless(runs, ledger), on="key", how="anti"),
        lambda r: f"step {r['step_index']} closed the run here, and there is no row of it",
        ("step_index",),
    )
    rows = steps.group_by("key", "life", "step_index", "revision").agg(pl.len().alias("rows"), pl.col("offset").max())
    yield list_faults(
        FaultCode.DUPLICATE_STEP,
        "steps",
        rows.filter(pl.col("rows") > 1),
        lambda r: f"revision {r['revision']} of the step stands {r['rows']} times",
        ("step_index", "revision"),
    )
    revisions = rows.group_by("key", "life", "step_index").agg(
        pl.len().alias("rows"), pl.col("revision").max(), pl.col("offset").max()
    )
    yield list_faults(
        FaultCode.MISSING_STEP_REVISION,
        "steps",
        revisions.filter(pl.col("rows") != pl.col("revision") + 1),
        lambda r: f"revisions 0 to {r['revision']} are due, {r['rows']} are there",
        ("step_index", "revision"),
    )
    yield from _check_step_counts(revisions, closed)
    yield from _check_last_steps(steps, closed)


def _check_step_counts(revisions: pl.DataFrame, closed: pl.DataFrame) -> Iterator[Faults]:
    counts = (
        revisions.filter(pl.col("life") >= 0)
        .group_by("life")
        .agg(
            pl.len().alias("distinct"),
            pl.col("step_index").min().alias("low"),
            pl.col("step_index").max().alias("high"),
        )
    )
    judged = closed.join(counts, on="life", how="left").with_columns(pl.col("distinct").fill_null(0))
    yield list_faults(
        FaultCode.STEP_COUNT,
        "steps",
        judged.filter(pl.col("distinct") != pl.col("step_count")),
        lambda r: f"step_count of the run is {r['step_count']}, steps has {r['distinct']}",
    )
    broken = (pl.col("low") != 1) | (pl.col("high") != pl.col("distinct"))
    yield list_faults(
        FaultCode.STEP_ORDER,
        "steps",
        judged.filter((pl.col("distinct") == pl.col("step_count")) & broken),
        lambda r: f"step indices run from {r['low']} to {r['high']}, and there are {r['distinct']}",
    )


def _check_last_steps(steps: pl.DataFrame, closed: pl.DataFrame) -> Iterator[Faults]:
    """`is_last` of each step's newest revision at the close of its run."""
    ends = closed.select("life", pl.col("offset").alias("closed_at"), "step_count")
    newest = (
        steps.join(ends, on="life", how="inner")
        .filter(pl.col("offset") <= pl.col("closed_at"))
        .group_by("key", "life", "step_index")
        .agg(pl.col("is_last", "offset", "step_count").sort_by("revision").last())
    )
    yield list_faults(
        FaultCode.LAST_STEP,
        "steps",
        newest.filter(pl.col("is_last") != (pl.col("step_index") == pl.col("step_count"))),
        lambda r: f"is_last is {str(r['is_last']).lower()}, and the run has {r['step_count']} steps",
        ("step_index",),
    )


def check_rewards(rows: pl.DataFrame, given: pl.DataFrame, lives: Lives) -> Iterator[Faults]:
    """Reward rows against reward and feedback events.

    `rows`: key UInt64, offset Int64, reward_id String. `given` as `Ledger.rewards` gives it. A reward that holds a
    place in its run's order may be waiting for its predecessors: its row is due when the run closes, and then carries a
    later offset.
    """
    yield list_faults(
        FaultCode.DUPLICATE_REWARD,
        "rewards",
        rows.group_by("key", "offset", "reward_id").agg(pl.len().alias("rows")).filter(pl.col("rows") > 1),
        lambda r: f"the row stands {r['rows']} times",
        ("reward_id",),
    )
    unmet = given.join(rows, on=["key", "offset"], how="anti")
    extra = rows.join(given, on=["key", "offset"], how="anti")
    waiting = unmet.filter("sequenced")
    if len(waiting):
        life = lives.locate(waiting["key"].to_numpy(), waiting["offset"].to_numpy())
        waiting = waiting.with_columns(due=pl.Series(life >= 0)).sort(
            "key", "due", "offset", descending=[False, True, False]
        )
        extra = extra.sort("key", "offset")
        turn = pl.int_range(pl.len()).over("key").alias("turn")
        waiting, extra = waiting.with_columns(turn), extra.with_columns(turn)
        met, late = extra.select("key", "turn"), waiting.select("key", "turn")
        extra = extra.join(late, on=["key", "turn"], how="anti")
        waiting = waiting.join(met, on=["key", "turn"], how="anti").filter("due")
    missing = pl.concat([unmet.filter(~pl.col("sequenced")).select("key", "offset"), waiting.select("key", "offset")])
    yield list_faults(
        FaultCode.MISSING_REWARD,
        "rewards",
        missing,
        lambda r: "the ledger has a reward here, and there is no row of it",
    )
    yield list_faults(
        FaultCode.EXTRA_REWARD, "rewards", extra, lambda r: "no reward of the ledger made this row", ("reward_id",)
    )


def orphan_observations(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with an observation whose call they do not hold.

    `steps`: any columns, `source` String, `calls` and `answered` List(String): ids of the calls, and ids that the
    observations name. Returns the rows at fault with `orphans`, how many such observations there are. Steps that no
    agent decided are left out.
    """
    agent = steps.filter((pl.col("source") == "agent") & (pl.col("answered").list.len() > 0)).with_row_index("row")
    if not len(agent):
        return agent.with_columns(orphans=pl.lit(0, pl.UInt32)).drop("row", "calls", "answered")
    answered = agent.select("row", pl.col("answered").alias("id")).explode("id")
    calls = agent.select("row", pl.col("calls").alias("id")).explode("id").drop_nulls().unique()
    orphans = answered.join(calls, on=["row", "id"], how="anti").group_by("row").agg(pl.len().alias("orphans"))
    return agent.join(orphans, on="row", how="inner").drop("row", "calls", "answered")
