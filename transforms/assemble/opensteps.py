"""What events do to a run's open steps: responses open them, calls and results fill them, verdicts stand on them.

Each handler takes `(run, event, offset, size)`: the open run, the event, its offset, and the bytes of its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trajlake.expectations.events import (
    ModelResponded,
    ModelRespondedEvent,
    PolicyDecidedEvent,
    ToolCall,
    ToolCalledEvent,
    ToolReturnedEvent,
)
from trajlake.expectations.reasons import Gap
from trajlake.transforms.assemble.openrun import add_gap, sum_redactions
from trajlake.transforms.assemble.pairing import (
    add_call,
    change_step,
    claim_orphans,
    count_result,
    find_call,
    is_failure,
    keep_orphan,
    note_reused_ids,
    note_step,
    settle,
    touch,
    was_answered,
)
from trajlake.transforms.assemble.state import OpenRun, OpenStep, RedactionNote, Result
from trajlake.transforms.assemble.streaming import merge_calls, merge_responses, weight
from trajlake.transforms.classify.classifier import is_failure_finish
from trajlake.transforms.records import AnyEvent

_EMPTY = ModelResponded()
ENVIRONMENT: Final = "environment"
"""`source` of a step that only holds a result which no call claims."""
_VERDICT_BYTES: Final = 64
MAX_SOURCE_GAPS: Final = 20
"""Gaps that one response may declare; a source that lacks more has said enough."""


def model_responded(run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
    """Open a step, or fold a repeated or streamed message into the step that it belongs to."""
    assert isinstance(event, ModelRespondedEvent)
    data = event.data
    message_id = data.message_id or data.step_id
    steps = run.steps
    if message_id is not None:
        for step in reversed(steps):
            if step.message_id == message_id:
                _merge(run, step, event)
                return
    calls = data.tool_calls
    run.step_count += 1
    step = OpenStep(
        run.step_count,
        data.step_id or data.message_id or str(event.sequence),
        message_id,
        event.sequence,
        offset,
        event.time,
        event.time,
        data,
        list(calls) if calls else [],
        [None] * len(calls) if calls else [],
        len(calls) if calls else 0,
        run.segment,
        size,
    )
    run.held_bytes += size
    if data.source is not None:
        step.source = data.source
    if _failed(data):
        step.flagged = True
    if data.gaps:
        for gap in data.gaps[:MAX_SOURCE_GAPS]:
            note_step(step, gap.code, gap.detail)
            add_gap(run, gap.code, gap.detail)
    if run.revision or event.sequence + 1 != run.next_sequence:
        step.late = True
    if steps and calls:
        note_reused_ids(run, calls)
    steps.append(step)
    if calls and run.orphans:
        claim_orphans(run, calls)


def tool_called(run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
    """A tool starts: time its call, or add the call to the newest step where the response did not list it."""
    assert isinstance(event, ToolCalledEvent)
    data = event.data
    call_id = data.tool_call_id
    found = find_call(run, call_id)
    if found is not None and found[0].results[found[1]] is not None and found[0] is not _newest_agent_step(run):
        # The id of an answered call of an earlier decision is used again.
        found = None
    if found is None:
        step = _newest_agent_step(run) or _step_without_response(run, event, offset)
        add_call(run, step, ToolCall(call_id, data.function_name, data.arguments), size)
    else:
        step, place = found
        call = step.calls[place]
        if call.function_name is None or call.arguments is None:
            step.calls[place] = ToolCall(
                call_id,
                call.function_name or data.function_name,
                call.arguments if call.arguments is not None else data.arguments,
            )
            change_step(run, step, size)
    time = event.time
    if time is not None:
        if step.called_at is None:
            step.called_at = {call_id: time}
        else:
            step.called_at[call_id] = time
        if step.ended is None or time > step.ended:
            step.ended = time


def tool_returned(run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
    """Pair a result with its call; keep it as an orphan until a call claims it."""
    assert isinstance(event, ToolReturnedEvent)
    data = event.data
    call_id = data.tool_call_id
    result = Result(data, offset, data.latency_ms, size)
    if not call_id:
        add_gap(run, Gap.MISSING_TOOL_CALL_ID, None)
        # No producer's id begins so, and no two results share it.
        keep_orphan(run, f"\0{offset}", result)
        return
    found = find_call(run, call_id)
    if found is None:
        if was_answered(run, call_id):
            add_gap(run, Gap.DUPLICATE_TOOL_RESULT, call_id)
        else:
            keep_orphan(run, call_id, result)
        return
    step, place = found
    earlier = step.results[place]
    if earlier is not None and not earlier.data.partial:
        note_step(step, Gap.DUPLICATE_TOOL_RESULT, call_id)
        change_step(run, step, 0)
        return
    settle(run, step, place, result, event.time)


def policy_decided(run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
    """A guardrail spoke: the verdict stands on the run, and on the step whose call it names (else on the newest)."""
    assert isinstance(event, PolicyDecidedEvent)
    data = event.data
    denied = data.verdict == "deny"
    note = (data.policy_id, data.rule_id, data.verdict, data.action, data.tool_call_id)
    run.denied |= denied
    run.held_bytes += size
    if run.verdicts is None:
        run.verdicts = [note]
    else:
        run.verdicts.append(note)
    found = find_call(run, data.tool_call_id) if data.tool_call_id is not None else None
    step = found[0] if found else (run.steps[-1] if run.steps and data.tool_call_id is None else None)
    if step is not None:
        if step.verdicts is None:
            step.verdicts = [note]
        else:
            step.verdicts.append(note)
        step.flagged |= denied
        change_step(run, step, _VERDICT_BYTES)


def orphans_to_steps(run: OpenRun) -> None:
    """At the close: results that no call claimed become steps of source `environment`, with a gap code."""
    for result in run.orphans.values():
        call_id = result.data.tool_call_id or None
        code = Gap.ORPHAN_TOOL_RESULT if call_id else Gap.MISSING_TOOL_CALL_ID
        run.step_count += 1
        step = OpenStep(
            run.step_count, f"orphan-{result.offset}", None, None, result.offset, None, None, _EMPTY, [], [result], 0,
            run.segment, result.size, ENVIRONMENT,
        )  # fmt: skip
        step.flagged = is_failure(result.data)
        step.late = run.revision > 0
        step.gaps = [(code.value, call_id)]
        step.redactions, result.redactions = result.redactions, None
        add_gap(run, code, call_id)
        count_result(run, result.data)
        run.steps.append(step)
    run.orphans = {}


def note_redactions(run: OpenRun, event: AnyEvent, cuts: Iterable[RedactionNote]) -> None:
    """What redaction removed from an event that was just folded stands on its step, or goes with its orphan result."""
    step = None
    if isinstance(event, ModelRespondedEvent):
        message_id = event.data.message_id or event.data.step_id
        step = next((s for s in reversed(run.steps) if message_id is None or s.message_id == message_id), None)
    elif isinstance(event, ToolCalledEvent | ToolReturnedEvent):
        call_id = event.data.tool_call_id
        found = find_call(run, call_id)
        orphan = run.orphans.get(call_id)
        if found is not None:
            step = found[0]
        elif orphan is not None:
            orphan.redactions = sum_redactions(orphan.redactions, cuts)
    if step is not None:
        step.redactions = sum_redactions(step.redactions, cuts)
        step.dirty = True


def count_response(run: OpenRun, data: ModelResponded, calls: int, sign: int = 1) -> None:
    """Add a response and its number of calls to the run's totals or, with sign -1, take it away again."""
    totals = run.totals
    totals.tool_calls += sign * calls
    if data.is_copied_context:
        totals.copied_steps += sign
        return
    usage = data.usage
    if usage is not None:
        # Written out: this runs once a step, and a loop over field names costs four times as much.
        if usage.input_tokens is not None:
            totals.input_tokens = (totals.input_tokens or 0) + sign * usage.input_tokens
        if usage.output_tokens is not None:
            totals.output_tokens = (totals.output_tokens or 0) + sign * usage.output_tokens
        if usage.cache_read_input_tokens is not None:
            totals.cache_read_input_tokens = (
                totals.cache_read_input_tokens or 0
            ) + sign * usage.cache_read_input_tokens
        if usage.cache_creation_input_tokens is not None:
            totals.cache_creation_input_tokens = (
                totals.cache_creation_input_tokens or 0
            ) + sign * usage.cache_creation_input_tokens
        if usage.reasoning_tokens is not None:
            totals.reasoning_tokens = (totals.reasoning_tokens or 0) + sign * usage.reasoning_tokens
    if data.cost_usd is not None:
        totals.cost_usd = (totals.cost_usd or 0.0) + sign * data.cost_usd
    if data.retry_count:
        totals.retry_count = (totals.retry_count or 0) + sign * data.retry_count


def answer_of(run: OpenRun, step: OpenStep) -> None:
    """The newest step's model, weights and message are the run's, until a later step has its own."""
    data = step.response
    if data.is_copied_context:
        return
    if data.model is not None:
        run.step_model = data.model
    if data.policy_version is not None:
        run.end_policy_version = data.policy_version
    message = data.message
    if message is not None:
        size = len(message) if isinstance(message, str) else step.held_bytes
        run.held_bytes += size - run.output_bytes
        run.output_bytes = size
        run.last_output = message


def _failed(data: ModelResponded) -> bool:
    """Whether a response may be evidence of a failure, so that its step has to be classified."""
    return (
        data.error_type is not None
        or data.provider_code is not None
        or (data.http_status is not None and data.http_status >= 400)
        or bool(data.error_message)
        or (data.finish_reason is not None and is_failure_finish(data.finish_reason))
        or (data.usage is not None and data.usage.output_tokens == 0 and bool(data.message))
    )


def _newest_agent_step(run: OpenRun) -> OpenStep | None:
    for step in reversed(run.steps):
        if step.source != ENVIRONMENT:
            return step
    return None


def _step_without_response(run: OpenRun, event: ToolCalledEvent, offset: int) -> OpenStep:
    run.step_count += 1
    step = OpenStep(
        run.step_count, str(event.sequence), None, event.sequence, offset, event.time, event.time, _EMPTY, [], [], 0,
        run.segment, 0,
    )  # fmt: skip
    step.late = run.revision > 0
    note_step(step, Gap.MISSING_MODEL_RESPONSE, None)
    add_gap(run, Gap.MISSING_MODEL_RESPONSE, step.step_id)
    run.steps.append(step)
    return step


def _merge(run: OpenRun, step: OpenStep, event: ModelRespondedEvent) -> None:
    """Fold one more copy of a message into its step."""
    new = event.data
    before = weight(step)
    response = merge_responses(step.response, new)
    if step.emitted:
        count_response(run, step.response, 0, -1)
        count_response(run, response, 0)
    step.response = response
    for call in merge_calls(step.calls, new.tool_calls or ()):
        add_call(run, step, call, 0)
    if new.source is not None and not new.partial:
        step.source = new.source
    if _failed(new):
        step.flagged = True
    change_step(run, step, weight(step) - before)
    if step.emitted and step is run.steps[-1]:
        answer_of(run, step)
    if event.time is not None:
        touch(step, event.time)
