"""Rows of `steps`: a step as it stands when it is emitted, with its classification."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import orjson

from trajlake.expectations.events import PAYLOAD_MARKER, ModelResponded, RunEnded, ToolCall, ToolReturned
from trajlake.expectations.reasons import Gap
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.transforms.assemble.pairing import is_failure
from trajlake.transforms.assemble.state import GapNote, Head, OpenRun, OpenStep, StepFinding
from trajlake.transforms.classify.classifier import StepEvidence, classify_step, outranks, recovers
from trajlake.transforms.text import as_text

TEXT_EVIDENCE_CHARS = 2048
"""Text that the weak rules may look at; longer texts are judged by their beginning."""

NO_FAILURE = StepFinding(OutcomeClass.SUCCESS.value, None, "step.no_failure")


class StepRow(NamedTuple):
    """One emitted revision of a step. `end` is the run's end where this is its last step."""

    step: OpenStep
    head: Head
    offset: int
    is_last: bool
    end: RunEnded | None
    finding: StepFinding
    revision: int
    gaps: list[GapNote] | None


def emit_step(run: OpenRun, step: OpenStep, offset: int, last_index: int | None) -> StepRow:
    """The row of a step at `offset`. `last_index`: index of the run's last step when the run closes, else None.

    What is unanswered or unfinished is a gap of the row. The row shares nothing with the fold that may still change.
    """
    finding = NO_FAILURE
    if step.flagged:
        finding = _classified(run.head, step)
    _judge_run(run, step, finding)
    response = step.response
    gaps = list(step.gaps or ())
    if response.partial:
        gaps.append((Gap.PARTIAL_RESPONSE.value, None))
    if response.completion_token_ids is not None or response.logprobs is not None or response.loss_mask is not None:
        gaps += _token_gaps(response)
    is_last = step.index == last_index
    kept = step
    if step.open_calls:
        gaps += _missing_results(step)
    if step.open_calls or is_last:
        kept = _frozen(step)
    row = StepRow(
        kept,
        run.head,
        offset,
        is_last,
        (run.ended or run.earlier_end) if is_last else None,
        finding,
        step.revision,
        gaps or None,
    )
    step.revision += 1
    step.emitted = True
    step.dirty = False
    step.was_last = is_last
    return row


def _frozen(step: OpenStep) -> OpenStep:
    """A copy for a step that stays in the fold."""
    kept = copy.copy(step)
    kept.results = list(step.results)
    kept.calls = list(step.calls)
    kept.verdicts = list(step.verdicts) if step.verdicts else None
    return kept


def _missing_results(step: OpenStep) -> list[GapNote]:
    return [
        (Gap.MISSING_TOOL_RESULT.value, call.tool_call_id)
        for call, result in zip(step.calls, step.results, strict=True)
        if result is None or result.data.partial
    ]


def _token_gaps(response: ModelResponded) -> list[GapNote]:
    """Why a response's tokens cannot be trained on. A loss mask covers the completion, or the prompt and the
    completion."""
    prompt = len(response.prompt_token_ids or ())
    completion = len(response.completion_token_ids or ())
    wrong = []
    if not completion:
        wrong.append(
            "completion_token_ids is empty" if response.completion_token_ids is not None else "no completion_token_ids"
        )
    if response.prompt_token_ids is not None and not prompt:
        wrong.append("prompt_token_ids is empty")
    if response.logprobs is not None and len(response.logprobs) != completion:
        wrong.append(f"{len(response.logprobs)} logprobs for {completion} completion_token_ids")
    if response.loss_mask is not None and len(response.loss_mask) not in (completion, prompt + completion):
        wrong.append(f"{len(response.loss_mask)} marks of loss_mask for {prompt} + {completion} token ids")
    return [(Gap.TOKENS_UNUSABLE.value, detail) for detail in wrong]


# Classification


def _judge_run(run: OpenRun, step: OpenStep, finding: StepFinding) -> None:
    """Keep track of the step that failed last, and of whether a later one made it good."""
    if finding is NO_FAILURE or finding.outcome_class == NO_FAILURE.outcome_class:
        if step.source == "agent" and not step.open_calls:
            earlier = run.last_failure
            if earlier is not None and not earlier.recovered and step.index > earlier.step_index:
                earlier.recovered = recovers(earlier.basis, earlier.failed_tools, _tools(step, failed=False))
            if step.index > run.last_good_step:
                run.last_good_step = step.index
        return
    if step.response.is_copied_context:
        return
    earlier = run.last_failure
    if earlier is not None and not set(earlier.failed_tools).isdisjoint(_tools(step, failed=False)):
        earlier.recovered = True
    if (
        earlier is None
        or earlier.recovered
        or earlier.step_index == step.index
        or outranks(finding.basis, earlier.basis)
    ):
        finding.step_index = step.index
        finding.failed_tools = _tools(step, failed=True)
        # A late result shows an old failure; the run has gone on since.
        finding.recovered = run.last_good_step > step.index
        run.last_failure = finding


def _tools(step: OpenStep, *, failed: bool) -> list[str]:
    """Names of the functions whose calls failed, or succeeded, in a step."""
    names = {
        name
        for call, result in zip(step.calls, step.results, strict=False)
        if result is not None
        and is_failure(result.data) is failed
        and (name := call.function_name or result.data.function_name)
    }
    return sorted(names)


def _classified(head: Head, step: OpenStep) -> StepFinding:
    response = step.response
    evidence = [
        StepEvidence(
            error_type=response.error_type,
            error_message=response.error_message,
            http_status=response.http_status,
            provider_code=response.provider_code,
            retryable=response.retryable,
            finish_reason=response.finish_reason,
            content=_excerpt(response.message),
            output_tokens=response.usage.output_tokens if response.usage else None,
        )
    ]
    offered = None if head.started.tools is None else {tool.name for tool in head.started.tools}
    calls: list[ToolCall | None] = list(step.calls)
    calls += [None] * (len(step.results) - len(calls))
    evidence += [
        _tool_evidence(call, result.data, offered)
        for call, result in zip(calls, step.results, strict=True)
        if result is not None and is_failure(result.data)
    ]
    if any(verdict == "deny" for _, _, verdict, _, _ in step.verdicts or ()):
        evidence.append(StepEvidence(is_tool=True, denied=True))
    found = classify_step(evidence)
    return StepFinding(
        str(found.outcome_class),
        None if found.failure_kind is None else str(found.failure_kind),
        found.basis,
        found.error_type,
        found.http_status,
        found.provider_code,
        found.retryable,
        step.step_id,
    )


def _tool_evidence(call: ToolCall | None, data: ToolReturned, offered: set[str | None] | None) -> StepEvidence:
    name = (call.function_name if call is not None else None) or data.function_name
    return StepEvidence(
        is_tool=True,
        is_error=data.is_error,
        error_type=data.error_type,
        error_message=data.error_message,
        http_status=data.http_status,
        provider_code=data.provider_code,
        retryable=data.retryable,
        exit_code=data.exit_code,
        exit_signal=data.exit_signal,
        content=_excerpt(data.content),
        tool_known=None if offered is None or name is None else name in offered,
        arguments_valid=None if call is None else _is_object(call.arguments),
    )


def _is_object(arguments: Any) -> bool | None:
    """Whether a call's arguments are a JSON object; None where they are absent or stored elsewhere."""
    if arguments is None or isinstance(arguments, dict):
        return None if arguments is None else True
    if not isinstance(arguments, str):
        return False
    if arguments.startswith(PAYLOAD_MARKER):
        return None
    try:
        return isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        return False


def _excerpt(value: object) -> str | None:
    text = as_text(value)
    return None if text is None else text[:TEXT_EVIDENCE_CHARS]
