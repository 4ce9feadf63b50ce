"""Rows of `trajectories`: a pure function of a run's rows and of the verdict that let it in."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.tables import RUNS, TIME, TRAJECTORIES
from trajlake.transforms.curate.fieldactions import Actions
from trajlake.transforms.curate.scores import Scores, nested_rewards, scores_of
from trajlake.transforms.curate.steps import Membership, members_of, nested_steps

FROM_VERDICT: Final = (
    "publication", "verdict_id", "policy_revision", "suite_revision", "code_revision", "consent_basis", "purposes",
    "quality", "reward_offset", "run_revision", "detector_revision",
)  # fmt: skip
"""Columns that a row takes over from its verdict in `curation`."""
_FROM_RUN: Final = tuple(name for name in TRAJECTORIES.names if name in RUNS.names)


def build(runs: pa.Table, steps: pa.Table, rewards: pa.Table, verdicts: pa.Table) -> pa.Table:
    """Published rows, one for each row of `runs` and in its order.

    `verdicts`: rows of `curation`, one for each run and in the same order. `steps`, `rewards`: rows that hold at least
    those of the runs. Nothing else decides: the same rows in give the same rows out.
    """
    left_out = [ids or [] for ids in verdicts.column("left_out_rewards").to_pylist()]
    up_to = verdicts.column("reward_offset").to_numpy()
    scores = scores_of(runs, rewards, up_to, left_out)
    return assemble(runs, steps, rewards, verdicts, members_of(runs, steps), scores)


def assemble(
    runs: pa.Table, steps: pa.Table, rewards: pa.Table, verdicts: pa.Table, members: Membership, scores: Scores
) -> pa.Table:
    """`build` where it is known already which steps and rewards belong to which run."""
    actions = Actions.of(verdicts.column("field_actions"))
    shown_runs = actions.on_runs(runs)
    shown_steps = actions.on_members("steps", steps, members)
    shown_rewards = actions.on_members("rewards", rewards, scores.members)
    columns: dict[str, Any] = {name: shown_runs.column(name) for name in _FROM_RUN}
    columns |= {name: verdicts.column(name) for name in FROM_VERDICT}
    nested = nested_steps(shown_steps, members)
    columns |= {
        "withdrawn": pa.repeat(pa.scalar(False), runs.num_rows),
        "as_of": _later(runs.column("closed_at"), scores.last_time),
        "reward": scores.score,
        "reward_passed": scores.passed,
        "trained_step_count": _trained(nested, members),
        "rewards": nested_rewards(shown_rewards, scores),
        "steps": nested,
    }
    return in_contract(columns, runs.num_rows)


def tombstones(verdicts: pa.Table) -> pa.Table:
    """Rows that take runs out: identity, the codes, the verdict, and nothing of the run."""
    count = verdicts.num_rows
    codes = [[reason["code"] for reason in reasons or ()] for reasons in verdicts.column("reasons").to_pylist()]
    columns = {name: verdicts.column(name) for name in ("tenant_id", "run_id", "publication", "verdict_id")}
    columns |= {name: verdicts.column(name) for name in ("topic", "partition")}
    columns["withdrawn"] = pa.repeat(pa.scalar(True), count)
    columns["reasons"] = pa.array(codes, TRAJECTORIES.schema.field("reasons").type)
    return in_contract(columns, count)


def in_contract(columns: dict[str, Any], count: int) -> pa.Table:
    """Columns in the contract's order and types; those that are absent are null."""
    arrays = []
    for field in TRAJECTORIES.schema:
        column = columns.get(field.name)
        if column is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.table(arrays, schema=TRAJECTORIES.schema)


def _later(closed: pa.ChunkedArray, rewarded: pa.Array) -> pa.Array:
    """The later of two times, µs; Arrow compares them as numbers only."""
    numbers = pc.max_element_wise(closed.combine_chunks().cast(pa.int64()), rewarded.cast(pa.int64()))
    return numbers.cast(TIME)


def _trained(nested: pa.ListArray, members: Membership) -> pa.Array:
    trains = nested.values.field("trains").to_numpy(zero_copy_only=False).astype(np.int64)
    sums = np.concatenate(([0], np.cumsum(trains)))
    ends = np.cumsum(members.counts)
    return pa.array(sums[ends] - sums[ends - members.counts], pa.int32())
