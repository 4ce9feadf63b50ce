"""Events for benchmarks: runs of a plausible shape, about 700 bytes an event, interleaved as many agents would
publish them."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

STEPS_A_RUN = 5
"""A run is one start, five steps of response, call and result, and one end: 17 events."""

TIME = "2026-01-01T00:00:00.000000Z"

_TEXT = "The agent looked at the invoice and compared its total with the order before it answered the customer. " * 4


def run_events(number: int, steps: int = STEPS_A_RUN) -> list[bytes]:
    """Events of one run, as compact JSON, in order."""
    return [run_event(number, sequence, steps) for sequence in range(1, run_length(steps) + 1)]


def run_length(steps: int = STEPS_A_RUN) -> int:
    """Events of a run of so many steps."""
    return 2 + 3 * steps


def run_event(number: int, sequence: int, steps: int = STEPS_A_RUN) -> bytes:
    """One event of a run, by its 1-based sequence."""
    kind, data = _payload(number, sequence, steps)
    run_id = f"run-{number:08d}"
    return orjson.dumps(
        {
            "specversion": "1.0",
            "id": f"{run_id}:{sequence}",
            "source": "urn:agent:billing",
            "type": kind,
            "time": TIME,
            "tenantid": "acme",
            "runid": run_id,
            "sequence": sequence,
            "data": data,
        }
    )


def _payload(number: int, sequence: int, steps: int) -> tuple[str, dict[str, object]]:
    text = f"{number} {_TEXT}"
    model = {"name": "model-1", "tier": "cheap", "provider": "provider-1"}
    if sequence == 1:
        return "agent.run.started", {
            "agent": {"name": "billing", "version": "7"},
            "skill": {"name": f"skill-{number % 50}", "version": "3"},
            "model": model,
            "task_id": f"task-{number % 1000}",
            "input": text[:420],
        }
    if sequence == run_length(steps):
        return "agent.run.ended", {"end_state": "completed", "success": number % 7 != 0, "output": text[:400]}
    step, part = divmod(sequence - 2, 3)
    call = f"call-{number}-{step}"
    if part == 0:
        return "agent.model.responded", {
            "message": text[:300],
            "tool_calls": [
                {"tool_call_id": call, "function_name": "search", "arguments": f'{{"query":"order {number}"}}'}
            ],
            "model": model,
            "usage": {"input_tokens": 1200 + step, "output_tokens": 44},
            "finish_reason": "tool_calls",
            "latency_ms": 812.5,
        }
    if part == 1:
        return "agent.tool.called", {"tool_call_id": call, "function_name": "search", "arguments": text[:380]}
    return "agent.tool.returned", {
        "tool_call_id": call,
        "content": text[:410],
        "is_error": False,
        "latency_ms": 55.25,
    }


def key(number: int) -> bytes:
    """Kafka key of a run of `run_events`."""
    return b"acme/run-%08d" % number


def interleaved(runs: int, at_once: int, steps: int = STEPS_A_RUN) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of all events of `runs` runs, `at_once` of them open at any time, one event each in turn."""
    live: list[tuple[bytes, list[bytes]]] = []
    started = 0
    while started < runs or live:
        while len(live) < at_once and started < runs:
            live.append((key(started), run_events(started, steps=steps)[::-1]))
            started += 1
        for run_key, events in live:
            yield run_key, events.pop()
        live = [entry for entry in live if entry[1]]
