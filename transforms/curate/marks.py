"""Marks of row rules: what the expectations of the row suites said of a run's row and of its steps when they landed.

A mark of severity critical holds the run until an operator has looked; the others go along with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from trajlake.expectations.reasons import Exclusion
from trajlake.transforms.curate.soundness import Reason
from trajlake.transforms.curate.steps import QUALITY, Membership

CRITICAL = "critical"


def marks_of(runs: pa.Table, steps: pa.Table, members: Membership) -> dict[int, list[tuple[str, Reason]]]:
    """Marks by place of the run: severity, and the rule with the row that it is about."""
    found: dict[int, list[tuple[str, Reason]]] = {}
    for place, marks in _marked(runs, np.arange(runs.num_rows)):
        found.setdefault(place, []).extend(_reasons(marks, "run"))
    owners = members.runs_of_rows()
    numbers = steps.column("step_index").to_numpy() if steps.num_rows else np.empty(0, np.int64)
    for row, marks in _marked(steps, members.rows):
        place, number = int(owners[row]), int(numbers[members.rows[row]])
        found.setdefault(place, []).extend(_reasons(marks, f"step {number}"))
    return found


def _marked(table: pa.Table, rows: np.ndarray) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """Rows that have marks, by their place in `rows`."""
    if QUALITY not in table.column_names or table.column(QUALITY).null_count == table.num_rows:
        return
    column = table.column(QUALITY).take(pa.array(rows)).combine_chunks()
    for place in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist():
        if marks := column[place].as_py():
            yield place, marks


def _reasons(marks: list[dict[str, str]], where: str) -> list[tuple[str, Reason]]:
    return [(mark["severity"], Reason(Exclusion.ROW_RULE.value, mark["rule_id"], where)) for mark in marks]
