"""What the rules of a suite read of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajlake.expectations.suites.suite import Suite
from trajlake.transforms.gate.conditions import condition_columns

_ROW_COUNTS: Final = frozenset({"expect_table_row_count_to_be_between", "expect_table_row_count_to_equal"})
"""Rules on a table that read none of its columns."""


def columns_read(suite: Suite) -> set[str] | None:
    """Columns that the rules of a suite read; None where they may read any, because a rule is about the table's columns
    themselves or has a condition in another engine's words. Imports Great Expectations."""
    from trajlake.streams.checkpoints.custom import OWN

    # "column" stands for the column that the rule names.
    own = {rule.expectation_type: {*rule.reads} - {"column"} for rule in OWN}
    read: set[str] = set()
    for rule in suite.expectations:
        columns = {*rule.columns, *own.get(rule.type, ())}
        condition = _condition_columns(rule.kwargs.get("row_condition"))
        if condition is None or (not columns and rule.type not in _ROW_COUNTS):
            return None
        read |= columns | condition
    return read


def _condition_columns(condition: Any) -> set[str] | None:
    if condition is None:
        return set()
    if isinstance(condition, Mapping) and condition.get("type") in ("and", "or"):
        parts = [_condition_columns(part) for part in condition.get("conditions", ())]
        return None if None in parts else set().union(*filter(None, parts))
    return condition_columns(condition) or None
