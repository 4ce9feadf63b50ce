"""A compiled rule fails exactly the rows that Great Expectations finds to fail."""

from __future__ import annotations

import polars as pl
from hypothesis import HealthCheck, Phase, given, settings

from tests.gate.drawing import ARROW, Entry, entries, frames
from tests.gate.reference import failing_rows, suite_of
from trajlake.transforms.gate.columntypes import kinds_of
from trajlake.transforms.gate.rules import compile_rule


# Not shrunk: each try costs Great Expectations a tenth of a second.
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(frames(), entries)
def test_compiled_rules_and_great_expectations_find_the_same_rows(frame: pl.DataFrame, entries: list[Entry]) -> None:
    suite = suite_of(entries)
    wanted = failing_rows(frame, suite)
    for expectation, rows in zip(suite.expectations, wanted, strict=True):
        compiled = compile_rule(expectation, kinds_of(ARROW), landing=False)
        found = frame.select(compiled.fails.alias("fails"))["fails"]
        assert found.null_count() == 0
        assert found.arg_true().to_list() == rows, (expectation.type, dict(expectation.kwargs), frame.to_dicts())
