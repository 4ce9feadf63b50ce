"""Calls and results of a run's open steps: found, added and paired by call id, never by position.

What is kept of an event is added to the `held_bytes` of its step and of its run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from trajlake.expectations.events import ToolCall, ToolReturned
from trajlake.expectations.reasons import Gap
from trajlake.transforms.assemble.openrun import add_gap, sum_redactions
from trajlake.transforms.assemble.state import OpenRun, OpenStep, Result
from trajlake.transforms.assemble.streaming import merge_results

MAX_STEP_NOTES: Final = 1_000
"""Gap notes kept per step."""
_SCANNED_CALLS: Final = 16
"""Up to so many calls of a step are searched one by one; more get an index."""


def find_call(run: OpenRun, call_id: str) -> tuple[OpenStep, int] | None:
    """The call of this id: an unanswered one first, the newest step first; else an answered one."""
    steps = run.steps
    if steps:
        # Nearly always the newest step waits for this one call.
        step = steps[-1]
        if len(step.calls) == 1 and step.results[0] is None and step.calls[0].tool_call_id == call_id:
            return step, 0
    answered = None
    for step in reversed(steps):
        place = _place(step, call_id)
        if place >= 0:
            if step.results[place] is None:
                return step, place
            if answered is None:
                answered = (step, place)
    return answered


def add_call(run: OpenRun, step: OpenStep, call: ToolCall, size: int) -> None:
    """One more call of a step, of `size` bytes; a result that came before it is claimed."""
    if step.places is not None:
        step.places.setdefault(call.tool_call_id, []).append(len(step.calls))
    step.calls.append(call)
    step.results.append(None)
    step.open_calls += 1
    if step.emitted:
        run.totals.tool_calls += 1
    change_step(run, step, size)
    if run.orphans:
        claim_orphans(run, (call,))


def settle(run: OpenRun, step: OpenStep, place: int, result: Result, time: datetime | None) -> None:
    """Put a result in its place. A partial one that is there gives way."""
    earlier = step.results[place]
    if earlier is None:
        change_step(run, step, result.size)
    else:
        result.data = merge_results(earlier.data, result.data)
        grown = max(0, result.size - earlier.size)
        result.size = earlier.size + grown
        change_step(run, step, grown)
    step.results[place] = result
    data = result.data
    if time is not None:
        started = step.called_at.get(data.tool_call_id) if step.called_at else None
        if result.latency_ms is None and started is not None:
            result.latency_ms = max(0.0, (time - started).total_seconds() * 1e3)
        touch(step, time)
    if result.redactions:
        step.redactions = sum_redactions(step.redactions, result.redactions)
        result.redactions = None
    if is_failure(data):
        step.flagged = True
    if not data.partial:
        step.open_calls -= 1
        count_result(run, data)


def count_result(run: OpenRun, data: ToolReturned) -> None:
    """Add a final result to the run's totals."""
    if is_failure(data):
        run.totals.tool_errors += 1
    if data.retry_count:
        run.totals.retry_count = (run.totals.retry_count or 0) + data.retry_count


def is_failure(data: ToolReturned) -> bool:
    """Whether a tool result says by any of its fields that the call failed."""
    return (
        data.is_error
        or data.error_type is not None
        or (data.http_status is not None and data.http_status >= 400)
        or bool(data.exit_code)
        or data.exit_signal is not None
        or data.provider_code is not None
        or bool(data.error_message)
    )


def keep_orphan(run: OpenRun, key: str, result: Result) -> None:
    """Keep a result until a call claims it. `key`: the call's id, or a name of its own where it has none."""
    earlier = run.orphans.get(key)
    if earlier is not None:
        if not earlier.data.partial:
            add_gap(run, Gap.DUPLICATE_TOOL_RESULT, key)
            return
        result.data = merge_results(earlier.data, result.data)
        result.size = max(result.size, earlier.size)
        result.redactions = earlier.redactions
        run.held_bytes -= earlier.size
    run.orphans[key] = result
    run.held_bytes += result.size


def claim_orphans(run: OpenRun, calls: Iterable[ToolCall]) -> None:
    """Results that came before their call."""
    for call in calls:
        result = run.orphans.pop(call.tool_call_id, None)
        if result is None:
            continue
        run.held_bytes -= result.size
        found = find_call(run, call.tool_call_id)
        if found is not None and found[0].results[found[1]] is None:
            settle(run, found[0], found[1], result, None)


def remember_answers(run: OpenRun, step: OpenStep) -> None:
    """A step is not kept any longer: what it held is free, and of its answered calls only a mark stays."""
    run.held_bytes -= step.held_bytes
    for call, result in zip(step.calls, step.results, strict=False):
        if result is not None:
            run.answered += _mark(call.tool_call_id)
            run.held_bytes += 4


def was_answered(run: OpenRun, call_id: str) -> bool:
    """Whether a call of this id was answered in a step that is no longer kept."""
    mark = _mark(call_id)
    at = run.answered.find(mark)
    while at >= 0 and at % 4:
        at = run.answered.find(mark, at + 1)
    return at >= 0


def note_reused_ids(run: OpenRun, calls: Sequence[ToolCall]) -> None:
    """Calls about to be added whose id another call still waits under."""
    for step in run.steps:
        if step.open_calls:
            for call in calls:
                place = _place(step, call.tool_call_id)
                if place >= 0 and step.results[place] is None:
                    add_gap(run, Gap.TOOL_CALL_ID_REUSED, call.tool_call_id)


def change_step(run: OpenRun, step: OpenStep, grown: int) -> None:
    """A step changed, and holds `grown` bytes more; one that has a row already will get another revision."""
    step.held_bytes += grown
    run.held_bytes += grown
    step.dirty = True
    if step.emitted:
        step.late = True


def touch(step: OpenStep, time: datetime) -> None:
    """An event of the step happened at `time`."""
    if step.ended is None or time > step.ended:
        step.ended = time


def note_step(step: OpenStep, code: Gap | str, detail: str | None) -> None:
    """Note a gap on a step, once."""
    note = (str(code), detail)
    if step.gaps is None:
        step.gaps = [note]
    elif len(step.gaps) < MAX_STEP_NOTES and note not in step.gaps:
        step.gaps.append(note)


def _mark(call_id: str) -> bytes:
    return zlib.crc32(call_id.encode()).to_bytes(4, "little")


def _place(step: OpenStep, call_id: str) -> int:
    """Place of a call in a step: the first unanswered one of its id, else the last; -1 where there is none."""
    calls = step.calls
    if len(calls) > _SCANNED_CALLS:
        return _indexed_place(step, call_id)
    place = -1
    for at, call in enumerate(calls):
        if call.tool_call_id == call_id:
            place = at
            if step.results[at] is None:
                break
    return place


def _indexed_place(step: OpenStep, call_id: str) -> int:
    index = step.places
    if index is None:
        index = step.places = {}
        for at, call in enumerate(step.calls):
            index.setdefault(call.tool_call_id, []).append(at)
    places = index.get(call_id)
    if places is None:
        return -1
    while len(places) > 1 and step.results[places[0]] is not None:
        del places[0]
    return places[0]
