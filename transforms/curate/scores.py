"""Rewards of a run: which count, and the score that the run gets from them.

- Of rewards given twice under one `reward_id` the last counts; one that a later reward names in `supersedes` does not.
- A reward whose grader may not be used (policy) is left out.
- The run's score is the last that counts, as in the fold (`transforms.assemble.openrun.rewarded`): not of a single
  step, not by the agent itself, not a person's feedback (kind `human`, name `feedback`). One without score and verdict
  takes nothing back, unless it says that it replaces another. A missing score is null, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from trajlake.expectations.tables import TRAJECTORY_REWARD
from trajlake.transforms.curate.steps import RUN_KEY, Membership, key_frame, run_frame

REWARD_COLUMNS: Final = tuple(
    dict.fromkeys([*RUN_KEY, "offset", *(field.name for field in TRAJECTORY_REWARD if field.name != "counts")])
)
_JUDGED: Final = (
    *RUN_KEY, "offset", "reward_id", "step_id", "name", "score", "passed", "annotator_kind", "supersedes", "time",
)  # fmt: skip


@dataclass(frozen=True)
class Scores:
    """Rewards by run. `counts`: of each row of `members.rows`. `score`, `passed`: the run's, null where none counts.
    `last_offset`: of each run's last reward, -1 without. `last_time`: its time."""

    members: Membership
    counts: pa.Array
    score: pa.Array
    passed: pa.Array
    last_offset: np.ndarray
    last_time: pa.Array


def scores_of(runs: pa.Table, rewards: pa.Table, up_to: np.ndarray, left_out: list[list[str]] | None = None) -> Scores:
    """Rewards of each run, in log order.

    `rewards`: rows of `rewards` with at least `REWARD_COLUMNS`. `up_to`: by run, the offset up to which rewards are
    taken in, int64. `left_out`: by run, ids of rewards that may not be used.
    """
    held = (
        key_frame(rewards, _JUDGED)
        .with_row_index("row")
        .join(run_frame(runs).with_columns(pl.Series("up_to", up_to, pl.Int64)), on=RUN_KEY, how="inner")
        .filter(pl.col("offset").is_between("low", "up_to"))
        .sort("run", "offset", "reward_id", "row")
    )
    replaced = held.filter(pl.col("supersedes").is_not_null()).select("run", pl.col("supersedes").alias("reward_id"))
    barred = _barred(left_out)
    held = held.with_columns(
        counts=pl.col("row").is_last_distinct()
        & (pl.struct("run", "reward_id").is_last_distinct())
        & ~_found(held, replaced)
        & ~_found(held, barred)
    )
    deciding = held.filter(
        pl.col("counts")
        & pl.col("step_id").is_null()
        & (pl.col("annotator_kind") != "self")
        & ~((pl.col("annotator_kind") == "human") & (pl.col("name") == "feedback"))
        & (pl.col("score").is_not_null() | pl.col("passed").is_not_null() | pl.col("supersedes").is_not_null())
    )
    places = pl.DataFrame({"run": np.arange(runs.num_rows, dtype=np.uint32)})
    final = places.join(deciding.group_by("run").agg(pl.col("score", "passed").last()), on="run", how="left")
    last = places.join(held.group_by("run").agg(pl.col("offset", "time").last()), on="run", how="left")
    return Scores(
        Membership(held["row"].to_numpy(), np.bincount(held["run"].to_numpy(), minlength=runs.num_rows)),
        held["counts"].to_arrow(),
        final["score"].to_arrow(),
        final["passed"].to_arrow(),
        last["offset"].fill_null(-1).to_numpy(),
        last["time"].to_arrow(),
    )


def _found(held: pl.DataFrame, listed: pl.DataFrame) -> pl.Series:
    """Whether each row's (run, reward_id) is listed."""
    if not len(listed):
        return pl.repeat(False, len(held), eager=True)
    marked = held.select("run", "reward_id").join(
        listed.unique().with_columns(hit=pl.lit(True)), on=["run", "reward_id"], how="left", maintain_order="left"
    )
    return marked["hit"].fill_null(False)


def _barred(left_out: list[list[str]] | None) -> pl.DataFrame:
    pairs = [(run, reward) for run, rewards in enumerate(left_out or ()) for reward in rewards]
    return pl.DataFrame(pairs, {"run": pl.UInt32, "reward_id": pl.String}, orient="row")


def nested_rewards(rewards: pa.Table, scores: Scores) -> pa.ListArray:
    """`trajectories.rewards`: list of structs, one list a run."""
    taken = rewards.take(pa.array(scores.members.rows)).combine_chunks()
    fields = list(TRAJECTORY_REWARD)
    children = []
    for field in fields:
        column = scores.counts if field.name == "counts" else taken.column(field.name)
        children.append(
            pa.chunked_array([column]).cast(field.type).combine_chunks()
            if not isinstance(column, pa.ChunkedArray)
            else column.combine_chunks().cast(field.type)
        )
    values = pa.StructArray.from_arrays(children, fields=fields)
    return pa.ListArray.from_arrays(
        scores.members.offsets, values, type=pa.list_(pa.field("element", TRAJECTORY_REWARD))
    )
