"""Runs a suite on one batch by a real checkpoint of Great Expectations, in this process, and scrubs what it says.

Every result format of Great Expectations but BOOLEAN_ONLY carries values of failing rows, and its exceptions may quote
them. Only what is on the list below gets out: counts, and observed values that are no row's value.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import polars as pl

from trajlake.expectations.suites.suite import Expectation, Suite, SuiteError
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.streams.checkpoints.reads import columns_read
from trajlake.streams.checkpoints.results import CheckpointReport, ExpectationResult, Number
from trajlake.transforms.gate.batchframe import Baseline

OWN: Final = frozenset(
    {
        "expect_tool_error_share_to_be_at_most",
        "expect_answer_length_drift_to_be_at_most",
        "expect_missing_end_share_to_be_at_most",
        "expect_self_graded_share_to_be_at_most",
        "expect_unfinished_share_to_be_at_most",
        "expect_groups_to_be_complete",
        "expect_exclusion_to_be_even_over_outcomes",
    }
)
"""trajlake's own types: their details are numbers and codes."""
AGGREGATES: Final = OWN | {
    "expect_table_row_count_to_be_between",
    "expect_table_row_count_to_equal",
    "expect_table_column_count_to_be_between",
    "expect_table_column_count_to_equal",
    "expect_column_mean_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
    "expect_column_unique_value_count_to_be_between",
    "expect_column_proportion_of_unique_values_to_be_between",
    "expect_column_proportion_of_non_null_values_to_be_between",
    "expect_column_kl_divergence_to_be_less_than",
}
"""Types whose observed value is a count, mean, share or distance. A minimum, maximum, median, quantile or mode is some
row's value and does not get out."""

_OF_VALUES: Final = frozenset({"expect_column_mean_to_be_between", "expect_column_sum_to_be_between"})
_LEAST_VALUES: Final = 5
"""The mean or sum of fewer values is not shown: of one value it is that value."""
_CODES: Final = frozenset(OutcomeClass)


def run_checkpoint(
    frame: pl.DataFrame,
    suite: Suite,
    *,
    batch: str = "batch",
    baseline: Baseline | None = None,
    excluded: Mapping[str, int] | None = None,
) -> CheckpointReport:
    """Judge a batch of runs that are to be published.

    `frame`: one row a run, as `transforms.gate.batchframe.batch_frame` gives it. `batch`: name of the batch in the
    report. `baseline`: what earlier batches looked like; rules of change hold without one. `excluded`: runs that were
    left out of the batch, by outcome class.

    The same frame, suite and baseline give the same report. A rule that raises counts as failed. Raises `SuiteError`
    when Great Expectations cannot read the suite. The first call in a process imports Great Expectations (seconds);
    after that a call costs about a tenth of a second. Not for several threads at once.
    """
    gx = import_great_expectations()
    parameters = suite_parameters(baseline, excluded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _validate(gx, frame, suite, parameters)
    results = tuple(
        scrub(expectation, result, _values(frame, expectation))
        for expectation, result in zip(suite.expectations, found, strict=True)
    )
    return CheckpointReport(
        batch, suite.name, suite.revision, f"great_expectations {gx.__version__}", frame.height, results
    )


def suite_parameters(baseline: Baseline | None, excluded: Mapping[str, int] | None) -> dict[str, Any]:
    """What suites may name by `{"$PARAMETER": ...}`."""
    known = baseline or Baseline()
    return {
        "baseline_tool_calls": [known.tool_errors, known.tool_calls],
        "baseline_answer_lengths": list(known.answer_lengths),
        "excluded_outcomes": dict(excluded or {}),
    }


def import_great_expectations() -> Any:
    """Great Expectations with our own expectations registered, and with its analytics off whatever is configured.

    What it brings into memory stays for good, so the garbage collector need not look at it again: else each of its
    rounds costs a batch a tenth of its time.
    """
    is_new = "great_expectations" not in sys.modules
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # What it logs of a rule that raises quotes the exception, and that may quote a row.
    logging.getLogger("great_expectations").setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx

        import trajlake.streams.checkpoints.custom  # noqa: F401  # registers
    if is_new:
        gc.collect()
        gc.freeze()
    return gx


def _validate(gx: Any, frame: pl.DataFrame, suite: Suite, parameters: dict[str, Any]) -> list[Any]:
    """Results of Great Expectations in the suite's order."""
    context = gx_context(gx)
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(
            name="batch",
            data=context.data_sources.add_pandas("batch")
            .add_dataframe_asset("runs")
            .add_batch_definition_whole_dataframe("runs"),
            suite=context.suites.add(gx_suite(gx, suite)),
        )
    )
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(
            name="batch",
            validation_definitions=[definition],
            result_format={"result_format": "BASIC", "partial_unexpected_count": 0},
        )
    )
    outcome = checkpoint.run(
        batch_parameters={"dataframe": _for_pandas(frame, suite)}, expectation_parameters=parameters
    )
    (validation,) = outcome.run_results.values()
    by_place = {result.expectation_config.meta["place"]: result for result in validation.results}
    return [by_place.get(expectation.place) for expectation in suite.expectations]


def gx_context(gx: Any) -> Any:
    """A context in memory that keeps no results: no folder for Data Docs, no analytics, no progress bars."""
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    from trajlake.streams.checkpoints.resultstore import KeepsNothing

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    context.stores[context.validation_results_store_name] = KeepsNothing()
    return context


def gx_suite(gx: Any, suite: Suite) -> Any:
    """The suite as Great Expectations has it, each expectation carrying its place in `meta`. Raises `SuiteError`."""
    # Not added one by one: that replaces a rule of the same type on the same column.
    return gx.ExpectationSuite(name=suite.name, expectations=[_made(rule) for rule in suite.expectations])


def suite_problems(suite: Suite) -> list[SuiteError]:
    """What Great Expectations does not take of a suite, rule by rule. Imports Great Expectations."""
    import_great_expectations()
    problems = []
    for expectation in suite.expectations:
        try:
            _made(expectation)
        except SuiteError as problem:
            problems.append(problem)
    return problems


def _made(expectation: Expectation) -> Any:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    configuration = ExpectationConfiguration(
        type=expectation.type,
        kwargs={key: value for key, value in expectation.kwargs.items() if key != "batch_id"},
        meta={"place": expectation.place},
        severity=FailureSeverity(expectation.severity.value),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return configuration.to_domain_obj()
        except Exception as error:
            problem = f"Great Expectations does not take it: {_first_line(error)}"
            raise SuiteError(expectation.suite, problem, expectation.rule_id) from None


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _for_pandas(frame: pl.DataFrame, suite: Suite) -> Any:
    """The columns that can be judged, flat ones, as far as rules read them: each costs Great Expectations a hash, and a
    look-up a rule. Long texts that no rule names stay behind in any case."""
    read = columns_read(suite)
    if read is None:
        named = {column for expectation in suite.expectations for column in expectation.columns}
        read = set(frame.columns) - ({"input", "output"} - named)
    kept = [name for name, kind in frame.schema.items() if not kind.is_nested() and name in read]
    return frame.select(kept or frame.columns[:1]).to_pandas()


def scrub(expectation: Expectation, result: Any, values: int) -> ExpectationResult:
    """What may be kept of a result of Great Expectations; None, where it gave none, counts as failed.

    `values`: how many values at least stand behind an aggregate.
    """
    error = "NotJudged" if result is None else _error_of(result)
    found: Mapping[str, Any] = {} if result is None or error else (result.result or {})
    counts = [_count(found.get(name)) for name in ("element_count", "missing_count", "unexpected_count")]
    judged = None if counts[0] is None else counts[0] - (counts[1] or 0)
    observed = _number(found.get("observed_value")) if expectation.type in AGGREGATES else None
    if expectation.type in _OF_VALUES and values < _LEAST_VALUES:
        observed = None
    own = expectation.type in OWN and isinstance(found.get("details"), Mapping)
    return ExpectationResult(
        rule_id=expectation.rule_id,
        type=expectation.type,
        columns=expectation.columns,
        severity=expectation.severity,
        success=error is None and result is not None and bool(result.success),
        description=expectation.description,
        element_count=judged,
        unexpected_count=counts[2],
        observed_value=observed,
        details=_scrubbed(found["details"]) if own else {},
        error=error,
    )


def _values(frame: pl.DataFrame, expectation: Expectation) -> int:
    """Values that a rule of one column judges at least; 0 where it says on which rows."""
    column = expectation.kwargs.get("column")
    if column not in frame.columns or expectation.kwargs.get("row_condition"):
        return 0
    return int(frame[column].count())


def _error_of(result: Any) -> str | None:
    """Type of the exception that a rule raised. Its message may quote a row."""
    info = result.exception_info or {}
    entries = [info] if "raised_exception" in info else [entry for entry in info.values() if isinstance(entry, dict)]
    for entry in entries:
        if entry.get("raised_exception"):
            last = (entry.get("exception_traceback") or "").strip().rpartition("\n")[2]
            name = last.partition(":")[0].rpartition(".")[2].strip()
            return name if name.isidentifier() else "Exception"
    return None


def _scrubbed(details: Mapping[str, Any]) -> dict[str, Number | str | None]:
    kept: dict[str, Number | str | None] = {}
    for name, value in details.items():
        if isinstance(value, str):
            kept[name] = value if value in _CODES else None
        else:
            kept[name] = _number(value)
    return {name: value for name, value in kept.items() if value is not None}


def _number(value: Any) -> Number | None:
    if isinstance(value, bool):
        return None
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, int | float) and isfinite(value) else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
