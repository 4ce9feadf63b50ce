"""The frame that a publication suite judges: one row a run, with what its answer and its rewards add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from trajlake.transforms.gate.drift import BUCKETS, length_buckets


def batch_frame(runs: pl.DataFrame, rewards: pl.DataFrame | None = None) -> pl.DataFrame:
    """`runs` (columns of the runs table, latest revisions, one row a run) with the columns that suites add:

    `output_chars` (Int64): characters of the final answer, null without one. `reward_count`, `self_reward_count`
    (Int64): rewards that count, and those of them given by the agent itself; superseded rewards are left out.

    `rewards`: columns of the rewards table for these runs; None where there are none.
    """
    frame = runs.with_columns(pl.col("output").str.len_chars().cast(pl.Int64).alias("output_chars"))
    counts = {"reward_count": pl.len(), "self_reward_count": (pl.col("annotator_kind") == "self").sum()}
    if rewards is None or rewards.is_empty():
        return frame.with_columns(pl.lit(0, pl.Int64).alias(name) for name in counts)
    keys = ["tenant_id", "run_id"]
    gone = rewards.select(*keys, reward_id="supersedes").drop_nulls()
    counted = (
        rewards.unique([*keys, "reward_id"], keep="last", maintain_order=True)
        .join(gone, on=[*keys, "reward_id"], how="anti")
        .filter(pl.col("score").is_not_null() | pl.col("passed").is_not_null())
        .group_by(keys)
        .agg(expression.cast(pl.Int64).alias(name) for name, expression in counts.items())
    )
    return frame.join(counted, on=keys, how="left").with_columns(pl.col(*counts).fill_null(0))


@dataclass(frozen=True)
class Baseline:
    """What earlier batches looked like: runs, tool calls, tool calls that failed, and answers by length bucket."""

    runs: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    answer_lengths: tuple[int, ...] = (0,) * BUCKETS

    def __add__(self, other: Baseline) -> Baseline:
        lengths = tuple(a + b for a, b in zip(self.answer_lengths, other.answer_lengths, strict=True))
        return Baseline(
            self.runs + other.runs,
            self.tool_calls + other.tool_calls,
            self.tool_errors + other.tool_errors,
            lengths,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**vars(self), "answer_lengths": list(self.answer_lengths)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Baseline:
        """What `to_dict` gave. Raises ValueError for anything else."""
        lengths = stored.get("answer_lengths")
        counts: dict[str, Any] = {name: stored.get(name) for name in ("runs", "tool_calls", "tool_errors")}
        if not isinstance(lengths, Sequence) or len(lengths) != BUCKETS:
            raise ValueError(f"baseline: answer_lengths needs {BUCKETS} counts")
        if any(
            not isinstance(count, int) or isinstance(count, bool) or count < 0 for count in (*counts.values(), *lengths)
        ):
            raise ValueError("baseline: counts are whole numbers, 0 or more")
        return cls(**counts, answer_lengths=tuple(lengths))


def baseline_of(frame: pl.DataFrame) -> Baseline:
    """The baseline that a batch makes, from a frame as `batch_frame` gives it."""
    return Baseline(
        frame.height,
        int(frame["tool_call_count"].sum()),
        int(frame["tool_error_count"].sum()),
        tuple(length_buckets(frame["output_chars"])),
    )
