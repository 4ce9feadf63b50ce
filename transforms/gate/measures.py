"""What no built-in expectation measures: properties of a batch of runs as a training set will see it.

Each takes a frame as `batch_frame` gives it, of the runs that are to be published, and the limits of its rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from trajlake.transforms.gate.drift import drift, length_buckets
from trajlake.transforms.gate.shares import Measured, at_least, at_most, wilson_lower, wilson_upper


def tool_error_share(
    frame: pl.DataFrame, max_share: float, max_rise: float | None = None, baseline: Sequence[int] | None = None
) -> Measured:
    """Tool calls whose result was an error. `baseline`: failed calls and calls of earlier batches; with it, the share
    may not be more than `max_rise` above theirs."""
    calls = int(frame["tool_call_count"].sum())
    errors = min(int(frame["tool_error_count"].sum()), calls)
    limit = max_share
    known: float | None = None
    if baseline is not None and max_rise is not None and baseline[1] > 0:
        known = baseline[0] / baseline[1]
        limit = min(limit, known + max_rise)
    found = at_most(errors, calls, limit)
    return Measured(found.value, found.holds, errors, calls, {**found.details, "limit": limit, "baseline_share": known})


def answer_length_drift(
    frame: pl.DataFrame, column: str, max_drift: float, baseline: Sequence[int] | None = None
) -> Measured:
    """How far the lengths of answers have moved from a baseline (counts by bucket, see `drift`)."""
    return drift(length_buckets(frame[column]), baseline or (), max_drift)


def missing_end_share(frame: pl.DataFrame, max_share: float) -> Measured:
    """Runs whose end no event told."""
    return at_most(_count(frame, pl.col("end_inferred")), frame.height, max_share)


def self_graded_share(frame: pl.DataFrame, max_share: float) -> Measured:
    """Of the runs with a reward, those whose only rewards the agent gave itself."""
    graded = _count(frame, pl.col("reward_count") > 0)
    alone = _count(frame, (pl.col("reward_count") > 0) & (pl.col("self_reward_count") == pl.col("reward_count")))
    return at_most(alone, graded, max_share)


def unfinished_share(frame: pl.DataFrame, max_share: float) -> Measured:
    """Runs that were abandoned or timed out, by how they ended: a slow tool that kills a sandbox counts as well."""
    abandoned = _count(frame, (pl.col("end_state") == "abandoned") | (pl.col("outcome_class") == "abandoned"))
    timeout = _count(frame, (pl.col("end_state") == "timeout") | (pl.col("outcome_class") == "timeout"))
    classes = ["abandoned", "timeout"]
    both = _count(frame, pl.col("end_state").is_in(classes) | pl.col("outcome_class").is_in(classes))
    found = at_most(both, frame.height, max_share)
    details = {**found.details, "abandoned": abandoned, "timeout": timeout}
    return Measured(found.value, found.holds, both, frame.height, details)


def group_completeness(frame: pl.DataFrame, min_share: float, attempts: int | None = None) -> Measured:
    """Groups that have all their attempts: `attempts` of them, or as many as most groups of the batch have."""
    sizes = frame.drop_nulls("group_id").group_by("tenant_id", "group_id").agg(pl.col("run_id").n_unique())["run_id"]
    if sizes.is_empty():
        return Measured(None, True, 0, 0, {"attempts": attempts})
    wanted = attempts if attempts is not None else max(sizes.mode().to_list())
    found = at_least(int((sizes >= wanted).sum()), len(sizes), min_share)
    return Measured(found.value, found.holds, found.count, found.of, {**found.details, "attempts": wanted})


def exclusion_gap(frame: pl.DataFrame, max_gap: float, excluded: Mapping[str, int] | None = None) -> Measured:
    """How much more often the runs of one outcome were left out than those of all others.

    `excluded`: runs left out of the batch, by outcome class. Leaving out time-outs and failures silently teaches that
    they do not happen. Fails when the lower bound of a class's share is more than `max_gap` above the upper bound of
    the others'. `value`: the largest gap; `details`: the class that it is of.
    """
    out = {name: count for name, count in (excluded or {}).items() if count > 0}
    kept: dict[str, int] = dict(frame["outcome_class"].drop_nulls().value_counts().iter_rows())
    total_out, total = sum(out.values()), sum(out.values()) + sum(kept.values())
    worst: tuple[float, str] | None = None
    holds = True
    for name in sorted(out):
        own = out[name] + kept.get(name, 0)
        rest = total - own
        if not rest:
            continue
        gap = out[name] / own - (total_out - out[name]) / rest
        worst = max(worst, (gap, name)) if worst else (gap, name)
        holds &= wilson_lower(out[name], own) - wilson_upper(total_out - out[name], rest) <= max_gap
    details: dict[str, float | int | str | None] = {"outcome_class": worst[1] if worst else None}
    return Measured(worst[0] if worst else 0.0, holds, total_out, total, details)


def _count(frame: pl.DataFrame, condition: pl.Expr) -> int:
    return int(frame.select(condition.fill_null(value=False).sum()).item()) if frame.height else 0
