"""What a checkpoint found: aggregates and codes, never a value of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trajlake.expectations.suites.suite import Severity

Number = float | int


@dataclass(frozen=True)
class ExpectationResult:
    """One rule's result.

    `columns`: columns that it names. `arguments`: limits as the suite has them. `element_count`: elements that were
    judged, nulls left out; `unexpected_count`: those of them that failed; None where the rule counts none.
    `observed_value`: where it is an aggregate that is no row's value (a count, mean, share or distance), else None.
    `details`: further numbers and codes of closed sets. `error`: type of the exception when the rule could not be
    judged; it counts as failed then.
    """

    rule_id: str
    type: str
    columns: tuple[str, ...]
    severity: Severity
    success: bool
    description: str | None = None
    element_count: int | None = None
    unexpected_count: int | None = None
    observed_value: Number | None = None
    details: Mapping[str, Number | str | None] = field(default_factory=dict)
    error: str | None = None

    @property
    def unexpected_share(self) -> float | None:
        """Share of judged elements that failed; None where nothing was counted."""
        if not self.element_count or self.unexpected_count is None:
            return None
        return self.unexpected_count / self.element_count


@dataclass(frozen=True)
class CheckpointReport:
    """All results of a suite on one batch, in the suite's order.

    `batch`: the caller's name for it. `row_count`: runs in the batch. `engine`: name and version of what judged.
    """

    batch: str
    suite: str
    suite_revision: str
    engine: str
    row_count: int
    results: tuple[ExpectationResult, ...]

    @property
    def failed(self) -> tuple[ExpectationResult, ...]:
        """Results that failed, of any severity."""
        return tuple(result for result in self.results if not result.success)

    @property
    def blocking(self) -> tuple[ExpectationResult, ...]:
        """Failed results of critical rules: the batch has to be held because of them."""
        return tuple(result for result in self.failed if result.severity is Severity.CRITICAL)

    @property
    def success(self) -> bool:
        """Whether the batch may be published: no critical rule failed."""
        return not self.blocking

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, with `success` beside the results."""
        results = [{**asdict(result), "columns": list(result.columns)} for result in self.results]
        return {**{name: getattr(self, name) for name in _HEAD}, "success": self.success, "results": results}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> CheckpointReport:
        """What `to_dict` gave, after JSON."""
        results = tuple(
            ExpectationResult(
                **{**result, "columns": tuple(result["columns"]), "severity": Severity(result["severity"])}
            )
            for result in stored["results"]
        )
        return cls(**{name: stored[name] for name in _HEAD}, results=results)


_HEAD = ("batch", "suite", "suite_revision", "engine", "row_count")
