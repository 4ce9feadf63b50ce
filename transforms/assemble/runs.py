"""Rows of `runs`: a run as it stands when it closes, with its outcome."""

from __future__ import annotations

import copy
import sys
from datetime import datetime
from typing import Any, NamedTuple

from trajlake.expectations.events import Message, Model, RunEnded
from trajlake.expectations.reasons import Gap
from trajlake.transforms.assemble.openrun import gap_notes
from trajlake.transforms.assemble.state import (
    CompactionNote,
    GapNote,
    Head,
    OpenRun,
    RedactionNote,
    StepFinding,
    Totals,
    VerdictNote,
)
from trajlake.transforms.assemble.steps import TEXT_EVIDENCE_CHARS
from trajlake.transforms.classify.classifier import RunEvidence, RunFinding, classify_run
from trajlake.transforms.text import as_text

_SMALL = 2**31 - 1
_MOST_TOKENS = 2**63 - 1
_MOST = {
    "cost_usd": sys.float_info.max,
    **dict.fromkeys(("retry_count", "tool_calls", "tool_errors", "copied_steps"), 2**31 - 1),
}
"""What the table's columns can hold; a sum beyond it stands at the limit."""


class RunRow(NamedTuple):
    """One closed revision of a run: copies of what may still change, references to what may not."""

    head: Head
    revision: int
    offset: int
    closed_us: int
    first_offset: int
    first_time: datetime | None
    last_time: datetime | None
    skew_us: int | None
    event_count: int
    step_count: int
    totals: Totals
    end: RunEnded | None
    end_state: str
    output: Any
    final_messages: list[Message] | None
    model: Model | None
    policy_version_end: str | None
    reward_score: float | None
    finding: RunFinding
    verdicts: list[VerdictNote] | None
    compactions: list[CompactionNote] | None
    duplicates: int
    has_start: bool
    gaps: list[GapNote] | None
    redactions: list[RedactionNote] | None
    late: bool
    failing_tool: str | None = None
    close_offset: int | None = None
    """Of a row that classifies the run again: offset at which the run was closed."""


def run_row(run: OpenRun, offset: int, closed_us: int) -> RunRow:
    """The row of a run that closes at `offset`. Classifies it from what its events say, nothing else."""
    end = run.ended or run.earlier_end
    end_state = end.end_state if end is not None else "abandoned"
    gaps = gap_notes(run)
    if not run.has_start:
        gaps = [*(gaps or ()), (Gap.MISSING_START.value, None)]
    if end is None:
        gaps = [*(gaps or ()), (Gap.MISSING_END.value, None)]
    started = run.head.started
    output = end.output if end is not None and end.output is not None else run.last_output
    finding = _outcome(run, end, end_state, output)
    return RunRow(
        run.head,
        run.revision,
        offset,
        closed_us,
        run.first_offset,
        run.first_time,
        run.last_time,
        run.skew_us,
        run.event_count,
        run.step_count,
        _bounded(run.totals),
        end,
        end_state,
        output,
        end.input_messages if end is not None else None,
        started.model or run.step_model,
        (end.policy_version if end is not None else None) or run.end_policy_version,
        run.reward_score,
        finding,
        list(run.verdicts) if run.verdicts else None,
        list(run.compactions) if run.compactions else None,
        run.duplicates,
        run.has_start,
        gaps,
        run.redactions,
        run.late,
        _failing_tool(run.last_failure, finding),
    )


def _failing_tool(failed: StepFinding | None, finding: RunFinding) -> str | None:
    """Tool whose call failed in the step that the run's failure is laid to."""
    if failed is None or not failed.failed_tools or finding.attributed_step_id != failed.step_id:
        return None
    return failed.failed_tools[0]


def _outcome(run: OpenRun, end: RunEnded | None, end_state: str, output: Any) -> RunFinding:
    totals = run.totals
    failed = run.last_failure
    return classify_run(
        RunEvidence(
            end_state=end_state,
            end_inferred=end is None,
            terminated=end.terminated if end else None,
            truncated=end.truncated if end else None,
            success=end.success if end else None,
            stop_condition=end.stop_condition if end else None,
            error_type=end.error_type if end else None,
            error_message=end.error_message if end else None,
            http_status=end.http_status if end else None,
            provider_code=end.provider_code if end else None,
            retryable=end.retryable if end else None,
            exit_code=end.exit_code if end else None,
            exit_signal=end.exit_signal if end else None,
            reward_score=run.reward_score,
            reward_passed=run.reward_passed,
            last_failure=failed,
            last_failure_step_id=failed.step_id if failed else None,
            last_failure_recovered=failed.recovered if failed else False,
            denied=run.denied,
            step_count=run.step_count,
            output_tokens=totals.output_tokens,
            output=(as_text(output) or "")[:TEXT_EVIDENCE_CHARS],
        )
    )


def _bounded(totals: Totals) -> Totals:
    """A copy of the totals that the table's columns can hold."""
    copied = copy.copy(totals)
    largest = max(
        totals.input_tokens or 0,
        totals.cache_read_input_tokens or 0,
        totals.cache_creation_input_tokens or 0,
        totals.output_tokens or 0,
        totals.reasoning_tokens or 0,
        totals.cost_usd or 0.0,
        totals.retry_count or 0,
        totals.tool_calls,
    )
    if largest < _SMALL:
        return copied
    for name in Totals.__struct_fields__:
        value = getattr(totals, name)
        if value is not None:
            setattr(copied, name, min(value, _MOST.get(name, _MOST_TOKENS)))
    return copied
