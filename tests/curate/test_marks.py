"""Marks of row rules: grave ones hold a run, the others go along with it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.curate.lab import Lab, story
from trajlake.streams.curate.batch import KEY_COLUMNS, Reader
from trajlake.transforms.curate.judging import judge
from trajlake.transforms.curate.marks import marks_of
from trajlake.transforms.curate.steps import Membership
from trajlake.transforms.policy.consents import Consents

QUALITY = pa.list_(pa.struct([("rule_id", pa.string()), ("severity", pa.string())]))


def quality(*rows: list[tuple[str, str]] | None) -> pa.Array:
    return pa.array(
        [None if row is None else [{"rule_id": rule, "severity": severity} for rule, severity in row] for row in rows],
        QUALITY,
    )


def with_marks(table: pa.Table, marks: pa.Array) -> pa.Table:
    if "quality" in table.column_names:
        table = table.drop_columns("quality")
    return table.append_column("quality", marks)


def test_marks_are_laid_to_the_run_whose_step_bears_them() -> None:
    runs = pa.table({"run_id": ["a", "b"], "quality": quality([("run.short", "warning")], None)})
    steps = pa.table({"step_index": [2, 1, 1], "quality": quality([("step.empty", "critical")], None, [])})
    found = marks_of(runs, steps, Membership(np.array([1, 2, 0]), np.array([1, 2])))
    assert {run: [(severity, tuple(reason)) for severity, reason in marks] for run, marks in found.items()} == {
        0: [("warning", ("row_rule", "run.short", "run"))],
        1: [("critical", ("row_rule", "step.empty", "step 2"))],
    }


def test_a_grave_mark_holds_a_run_and_a_light_one_goes_with_it(lab: Lab) -> None:
    lab.land([*story("run-a", steps=1), *story("run-b", steps=1), *story("run-c", steps=0)])
    reader = Reader(lab.lake)
    reader.refresh({})
    keys = next(reader.runs.new_keys(-1, KEY_COLUMNS, 1000)).sort("offset")
    loaded = reader.load(keys, 1 << 30)
    grave, light = [("run.odd", "critical")], [("run.long", "info")]
    judged = judge(
        with_marks(loaded.runs, quality(grave, light, grave)), loaded.steps, loaded.rewards, loaded.members,
        loaded.scores, lab.rules.policies, Consents(), lab.now_us,
    )  # fmt: skip
    assert [one.verdict.value for one in judged] == ["held", "published", "refused"]
    assert [[reason.rule for reason in one.quality] for one in judged] == [[], ["run.long"], []]
