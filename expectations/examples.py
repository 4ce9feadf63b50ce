"""One example of every event type, as a producer may publish it. Docs print them, the schema carries them."""

from __future__ import annotations

from typing import Any, Final


def _event(kind: str, sequence: int | None, data: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"3f0c-{sequence or kind.rpartition('.')[2]}",
        "source": "billing/agents/invoice-reader",
        "type": kind,
        "time": f"2026-05-04T09:30:{sequence or 59:02d}.125Z",
        "tenantid": "acme",
        "runid": "run-7",
    }
    if sequence is not None:
        event["sequence"] = sequence
    return event | attributes | {"data": data}


_EXAMPLES: Final = (
    _event(
        "agent.run.started",
        1,
        {
            "agent": {"name": "invoice-reader", "version": "4.2.0"},
            "skill": {"name": "read-invoice", "version": "12"},
            "model": {"name": "small-model-3", "tier": "cheap", "provider": "example"},
            "task_id": "invoice-881",
            "group_id": "invoice-881",
            "attempt_id": "1",
            "purpose": ["training"],
            "residency": "eu",
            "input": "Read the total of invoice 881.",
        },
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
    _event(
        "agent.model.responded",
        2,
        {
            "step_id": "s1",
            "message": "I look the invoice up.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "read_file", "arguments": '{"path": "881.txt"}'}],
            "model": {"name": "small-model-3", "tier": "cheap", "provider": "example"},
            "finish_reason": "tool_calls",
            "usage": {"input_tokens": 412, "output_tokens": 31},
            "cost_usd": 0.00019,
            "latency_ms": 640.5,
        },
    ),
    _event(
        "agent.tool.called",
        3,
        {"tool_call_id": "c1", "function_name": "read_file", "tool": {"name": "files", "version": "2.1"}},
    ),
    _event(
        "agent.policy.decided",
        4,
        {"policy_id": "paths", "rule_id": "inside-workspace", "verdict": "allow", "tool_call_id": "c1"},
    ),
    _event(
        "agent.tool.returned",
        5,
        {"tool_call_id": "c1", "function_name": "read_file", "content": "Total: 118.40 EUR", "latency_ms": 3.2},
    ),
    _event(
        "agent.context.compacted",
        6,
        {
            "summary": "Invoice 881 says 118.40 EUR.",
            "trigger": "token_limit",
            "tokens_before": 9200,
            "tokens_after": 310,
        },
    ),
    _event(
        "agent.run.ended",
        7,
        {"end_state": "completed", "terminated": True, "truncated": False, "exit_code": 0, "output": "118.40 EUR"},
    ),
    _event(
        "agent.reward.assigned",
        None,
        {
            "name": "total-matches",
            "score": 1.0,
            "passed": True,
            "annotator_kind": "code",
            "annotator_id": "checks/total",
            "annotator_version": "3",
        },
    ),
    _event(
        "agent.feedback.given",
        None,
        {"label": "helpful", "comment": "Right amount.", "annotator_id": "reviewer-2"},
    ),
    _event(
        "agent.consent.changed",
        None,
        {
            "subject_id": "s-91c2",
            "purpose": "training",
            "state": "withdrawn",
            "effective_at": "2026-05-04T00:00:00Z",
            "consent_revision": "8",
        },
    ),
    _event(
        "agent.lever.applied",
        None,
        {
            "lever": "prompt",
            "skill": {"name": "read-invoice", "version": "13"},
            "change_from": "prompt 11",
            "change_to": "prompt 12",
            "applied_by": "ops",
        },
    ),
    _event(
        "trajlake.tick",
        None,
        {
            "close_idle_after_us": 3600000000,
            "release_held_after_us": 60000000,
            "forget_closed_after_us": 86400000000,
        },
        source="trajlake/land",
    ),
    _event(
        "trajlake.reclassify",
        None,
        {
            "classifier_revision": "15bf7f4a4a6fdbde",
            "first_offset": 1204,
            "offset": 1251,
            "revision": 0,
            "steps": [{"step_index": 3, "revision": 0}],
            "seen": 90112,
            "requested_by": "ops",
        },
        source="trajlake/reclassify",
    ),
)

EVENT_EXAMPLES: Final[dict[str, dict[str, Any]]] = {event["type"]: event for event in _EXAMPLES}
"""Event type -> one whole event. Do not change them in place."""
