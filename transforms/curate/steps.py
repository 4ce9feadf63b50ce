"""Which rows of `steps` make up each run: of the run's own life, the latest revision of each step, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.tables import STEPS, TRAJECTORY_STEP
from trajlake.expectations.taxonomy import NO_ANSWER

RUN_KEY: Final = ("tenant_id", "run_id", "topic", "partition")
STEP_KEY: Final = (*RUN_KEY, "first_offset", "offset", "revision", "step_index")
QUALITY: Final = "quality"
"""Column of marks that row rules left, where a table has it."""
STEP_COLUMNS: Final = tuple(
    dict.fromkeys(
        [
            *STEP_KEY,
            *(field.name for field in TRAJECTORY_STEP if field.name not in ("trains", "tokens_usable")),
            *(name for name in STEPS.names if name == QUALITY),
        ]
    )
)
"""Columns of `steps` that a trajectory needs."""


@dataclass(frozen=True)
class Membership:
    """Rows of a table by the run they belong to: `rows` are places in the table, run by run, `counts` how many of
    each run."""

    rows: np.ndarray
    counts: np.ndarray

    @property
    def offsets(self) -> pa.Array:
        """List offsets, int32, one more than runs."""
        return pa.array(np.concatenate(([0], np.cumsum(self.counts))), pa.int32())

    def runs_of_rows(self) -> np.ndarray:
        """Place of the run of each row of `rows`."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def key_frame(table: pa.Table, columns: tuple[str, ...]) -> pl.DataFrame:
    """Some columns of an Arrow table as a Polars frame."""
    return pl.DataFrame(pl.from_arrow(table.select(list(columns))))


def run_frame(runs: pa.Table) -> pl.DataFrame:
    """Identity and bounds of each run with its place in the table."""
    return (
        key_frame(runs, (*RUN_KEY, "first_offset", "offset", "close_offset"))
        .select(
            *RUN_KEY,
            pl.col("first_offset").alias("low"),
            pl.coalesce("close_offset", "offset").alias("closed"),
            pl.col("offset").alias("high"),
        )
        .with_row_index("run")
    )


def members_of(runs: pa.Table, steps: pa.Table) -> Membership:
    """Steps of each run, in the order of the run.

    `runs`: rows of `runs`, at most one a run. `steps`: rows of `steps` with at least `STEP_KEY`. A row belongs to a run
    where its opening event lies between the run's first event and its close, and it was made by the time of the run's
    row: rows are functions of the log, so what a run consists of does not depend on when somebody looks.
    """
    joined = key_frame(steps, STEP_KEY).with_row_index("row").join(run_frame(runs), on=RUN_KEY, how="inner")
    held = (
        joined.filter(pl.col("first_offset").is_between("low", "closed") & (pl.col("offset") <= pl.col("high")))
        .sort("run", "step_index", "first_offset", "revision", "offset")
        .unique(["run", "first_offset"], keep="last", maintain_order=True)
    )
    return _membership(held, runs.num_rows)


def _membership(held: pl.DataFrame, runs: int) -> Membership:
    return Membership(held["row"].to_numpy(), np.bincount(held["run"].to_numpy(), minlength=runs).astype(np.int64))


def nested_steps(steps: pa.Table, members: Membership) -> pa.ListArray:
    """`trajectories.steps`: list of structs, one list a run."""
    taken = steps.take(pa.array(members.rows))
    own = pc.and_(pc.equal(_column(taken, "source"), "agent"), pc.invert(_column(taken, "is_copied_context")))
    computed = {"trains": pc.and_(own, answered(taken)), "tokens_usable": tokens_usable(taken)}
    fields = list(TRAJECTORY_STEP)
    children = [
        (computed[field.name] if field.name in computed else _column(taken, field.name)).cast(field.type)
        for field in fields
    ]
    values = pa.StructArray.from_arrays(children, fields=fields)
    return pa.ListArray.from_arrays(members.offsets, values, type=pa.list_(pa.field("element", TRAJECTORY_STEP)))


def answered(steps: pa.Table) -> pa.Array:
    """Whether the model gave something: calls, or words, reasoning or tokens of its own.

    A call of the model that failed for a quota, the network or a wrong name often leaves the provider's error where the
    message would be.
    """
    called = pc.greater(pc.fill_null(pc.list_value_length(_column(steps, "tool_calls")), 0), 0)
    said = [
        pc.fill_null(pc.greater(pc.utf8_length(_column(steps, n)), 0), False) for n in ("message", "reasoning_content")
    ]
    sampled = pc.greater(pc.fill_null(pc.list_value_length(_column(steps, "completion_token_ids")), 0), 0)
    failed = pc.is_in(_column(steps, "outcome_class").cast(pa.string()), pa.array(sorted(NO_ANSWER), pa.string()))
    gave = pc.or_(pc.or_(*said), sampled)
    return pc.or_(called, pc.and_(gave, pc.invert(failed)))


def tokens_usable(steps: pa.Table) -> pa.Array:
    """Whether a step has real token ids, and log-probabilities and loss mask that fit them.

    The rule of gap `tokens_unusable`: a loss mask covers the completion, or the prompt and the completion.
    """
    lengths = {
        name: pc.list_value_length(_column(steps, name))
        for name in ("prompt_token_ids", "completion_token_ids", "logprobs", "loss_mask")
    }
    prompt = pc.fill_null(lengths["prompt_token_ids"], 0)
    completion = pc.fill_null(lengths["completion_token_ids"], 0)
    mask = lengths["loss_mask"]
    fits = [
        pc.greater(completion, 0),
        pc.or_(pc.is_null(lengths["prompt_token_ids"]), pc.greater(prompt, 0)),
        pc.fill_null(pc.equal(lengths["logprobs"], completion), True),
        pc.fill_null(pc.or_(pc.equal(mask, completion), pc.equal(mask, pc.add(prompt, completion))), True),
    ]
    usable = fits[0]
    for fit in fits[1:]:
        usable = pc.and_(usable, fit)
    return usable


def _column(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece; one that is in one piece already is not copied."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
