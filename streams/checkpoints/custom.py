"""trajlake's own expectations for Great Expectations. Importing this module registers them.

Each reads the batch once and measures it with the pure function of the same name in `transforms/gate/measures.py`.
They work in Great Expectations' pandas engine, and its tools load, show and save suites that hold them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import great_expectations.expectations as gxe
import polars as pl
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.expectations.row_conditions import RowConditionType

from trajlake.transforms.gate import measures
from trajlake.transforms.gate.shares import Measured

ROWS = "table.trajlake_rows"

Parameter = dict[str, Any]
"""`{"$PARAMETER": name}`: a value that `run_checkpoint` gives for each batch."""


class TrajlakeRows(TableMetricProvider):
    """The batch itself, after the row condition."""

    metric_name = ROWS

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> Any:
        rows, _, _ = execution_engine.get_compute_domain(
            domain_kwargs=metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE
        )
        return rows


class MeasuredExpectation(BatchExpectation, ABC):
    """Base of the expectations that measure a whole batch."""

    row_condition: RowConditionType = None
    condition_parser: str | None = None

    metric_dependencies = (ROWS,)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "row_condition", "condition_parser")
    reads: ClassVar[tuple[str, ...]] = ()
    """Columns of the batch that it measures."""

    @abstractmethod
    def measure(self, frame: pl.DataFrame) -> Measured:
        """Measure the columns named by `reads`."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        columns = [getattr(self, name, name) if name == "column" else name for name in self.reads]
        found = self.measure(pl.from_pandas(metrics[ROWS][columns]))
        return {
            "success": found.holds,
            "result": {
                "observed_value": found.value,
                "element_count": found.of,
                "unexpected_count": found.count,
                "details": found.details,
            },
        }


class ExpectToolErrorShareToBeAtMost(MeasuredExpectation):
    """Expect the share of tool calls that fail to be at most a limit, and at most a rise above a baseline."""

    max_share: float
    max_rise: float | None = None
    baseline: list[int] | Parameter | None = None
    """Failed calls and calls of earlier batches."""

    success_keys = ("max_share", "max_rise", "baseline")
    reads = ("tool_call_count", "tool_error_count")

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.tool_error_share(frame, self.max_share, self.max_rise, _given(self.baseline))


class ExpectAnswerLengthDriftToBeAtMost(MeasuredExpectation):
    """Expect the lengths of answers to be distributed as in a baseline (population stability index)."""

    column: str
    max_drift: float
    baseline: list[int] | Parameter | None = None
    """Counts by length bucket of earlier batches."""

    success_keys = ("column", "max_drift", "baseline")
    reads = ("column",)

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.answer_length_drift(frame, self.column, self.max_drift, _given(self.baseline))


class ExpectMissingEndShareToBeAtMost(MeasuredExpectation):
    """Expect the share of runs whose end no event told to be at most a limit."""

    max_share: float

    success_keys = ("max_share",)
    reads = ("end_inferred",)

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.missing_end_share(frame, self.max_share)


class ExpectSelfGradedShareToBeAtMost(MeasuredExpectation):
    """Expect the share of graded runs that only the agent itself graded to be at most a limit."""

    max_share: float

    success_keys = ("max_share",)
    reads = ("reward_count", "self_reward_count")

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.self_graded_share(frame, self.max_share)


class ExpectUnfinishedShareToBeAtMost(MeasuredExpectation):
    """Expect the share of runs that were abandoned or timed out to be at most a limit."""

    max_share: float

    success_keys = ("max_share",)
    reads = ("end_state", "outcome_class")

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.unfinished_share(frame, self.max_share)


class ExpectGroupsToBeComplete(MeasuredExpectation):
    """Expect groups to have all their attempts: so many, or as many as most groups have."""

    min_share: float
    attempts: int | None = None

    success_keys = ("min_share", "attempts")
    reads = ("tenant_id", "run_id", "group_id")

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.group_completeness(frame, self.min_share, self.attempts)


class ExpectExclusionToBeEvenOverOutcomes(MeasuredExpectation):
    """Expect no outcome to be left out of publication much more often than the others."""

    max_gap: float
    excluded: dict[str, Any]
    """Runs left out, by outcome class; or `{"$PARAMETER": "excluded_outcomes"}`."""

    success_keys = ("max_gap", "excluded")
    reads = ("outcome_class",)

    def measure(self, frame: pl.DataFrame) -> Measured:
        return measures.exclusion_gap(frame, self.max_gap, _given(self.excluded))


OWN: tuple[type[MeasuredExpectation], ...] = (
    ExpectToolErrorShareToBeAtMost,
    ExpectAnswerLengthDriftToBeAtMost,
    ExpectMissingEndShareToBeAtMost,
    ExpectSelfGradedShareToBeAtMost,
    ExpectUnfinishedShareToBeAtMost,
    ExpectGroupsToBeComplete,
    ExpectExclusionToBeEvenOverOutcomes,
)

for _own in OWN:
    # Found beside the built-in ones: `gx.expectations.ExpectToolErrorShareToBeAtMost(max_share=0.1)`.
    setattr(gxe, _own.__name__, _own)


def _given(value: Any) -> Any:
    """A parameter's value; None where none was given for it."""
    return None if isinstance(value, dict) and "$PARAMETER" in value else value
