"""ATIF documents (Agent Trajectory Interchange Format, Harbor RFC 0001), version 1.8, one a line.

Copied steps carry `is_copied_context`, which consumers must filter out of training data by that RFC. What ATIF has no
field for is in `extra` under our names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Made, Omission, Run, answered, run_key

VERSION: Final = "ATIF-v1.8"


def _rows(runs: Sequence[Run]) -> Iterator[Made]:
    for run in runs:
        if not run["steps"]:
            yield Omission(LeftOut.NO_DECISION)
            continue
        yield _document(run)


def _document(run: Run) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []

    def add(source: str, message: str, **more: Any) -> None:
        entry = {"step_id": len(steps) + 1, "source": source, "message": message}
        steps.append(entry | {name: value for name, value in more.items() if value is not None})

    said = [m for step in run["steps"] for m in step["input_messages"] or ()]
    if run["input"] and not any(message["role"] == "user" for message in said):
        add("user", run["input"], timestamp=_time(run["started_at"]))
    for step in run["steps"]:
        copied = True if step["is_copied_context"] else None
        for message in step["input_messages"] or ():
            add(_source(message["role"]), message["content"] or "", timestamp=_time(step["started_at"]),
                is_copied_context=copied)  # fmt: skip
        if step["source"] == "agent":
            add("agent", step["message"] or "", **_decision(step), is_copied_context=copied)
        elif step["observations"]:
            add("system", step["message"] or "", observation=_observation(step, set()), is_copied_context=copied)
    for message in run["final_messages"] or ():
        add(_source(message["role"]), message["content"] or "", timestamp=_time(run["ended_at"]))
    agent = {"name": run["agent_name"] or run["skill_name"] or "agent", "version": run["agent_version"] or "unknown"}
    if run["model_name"]:
        agent["model_name"] = run["model_name"]
    return {
        "schema_version": VERSION,
        "session_id": run["session_id"] or run["run_id"],
        "trajectory_id": run["run_id"],
        "agent": agent,
        "steps": steps,
        "final_metrics": _totals(run, len(steps)),
        "extra": _extra(run),
    }


def _source(role: str | None) -> str:
    return "system" if role in ("system", "developer", "environment") else "user"


def _decision(step: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {
            "tool_call_id": call["tool_call_id"],
            "function_name": call["function_name"] or "",
            "arguments": _arguments(call["arguments"]),
        }
        for call in step["tool_calls"] or ()
    ]
    return {
        "timestamp": _time(step["started_at"]),
        "model_name": step["model_name"],
        "reasoning_content": step["reasoning_content"],
        "tool_calls": calls or None,
        "observation": _observation(step, {call["tool_call_id"] for call in calls}) if step["observations"] else None,
        "metrics": _metrics(step),
        "extra": _marks(step),
    }


def _marks(step: dict[str, Any]) -> dict[str, Any] | None:
    """What keeps a decision out of training, or apart from those before it: ATIF has no fields for it."""
    marks = {"context_segment": step["context_segment"]} if step["context_segment"] else {}
    if not answered(step):
        marks |= {"trains": False, "outcome_class": step["outcome_class"], "failure_kind": step["failure_kind"]}
    return marks or None


def _arguments(text: str | None) -> dict[str, Any]:
    """ATIF wants an object; text that is none, or says more than one can hold, is kept under `_raw`."""
    try:
        value = json.loads(
            text or "{}", object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_finite
        )
        orjson.dumps(value)
    except (ValueError, TypeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"_raw": text or ""}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(value := dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return value


def _whole(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**64:
        raise ValueError("more than 64 bits")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("no number, or more than 64 bits")
    return value


def _observation(step: dict[str, Any], calls: set[str]) -> dict[str, Any]:
    results = []
    for result in step["observations"]:
        entry: dict[str, Any] = {"content": result["content"] if result["content"] is not None else ""}
        if result["source_call_id"] in calls:
            entry["source_call_id"] = result["source_call_id"]
        extra = {
            name: result[name]
            for name in ("is_error", "error_type", "exit_code", "http_status")
            if result[name] is not None
        }
        results.append(entry | ({"extra": extra} if extra else {}))
    return {"results": results}


def _metrics(step: dict[str, Any]) -> dict[str, Any] | None:
    names = {
        "prompt_tokens": step["input_tokens"],
        "completion_tokens": step["output_tokens"],
        "cached_tokens": step["cache_read_input_tokens"],
        "cost_usd": step["cost_usd"],
    }
    if step["tokens_usable"]:
        names |= {name: step[name] for name in ("prompt_token_ids", "completion_token_ids", "logprobs")}
    found = {name: value for name, value in names.items() if value is not None}
    return found or None


def _totals(run: Run, steps: int) -> dict[str, Any]:
    totals = {
        "total_prompt_tokens": run["input_tokens"],
        "total_completion_tokens": run["output_tokens"],
        "total_cached_tokens": run["cache_read_input_tokens"],
        "total_cost_usd": run["cost_usd"],
        "total_steps": steps,
    }
    return {name: value for name, value in totals.items() if value is not None}


def _extra(run: Run) -> dict[str, Any]:
    names = (
        "task_id", "group_id", "attempt_id", "parent_run_id", "spawned_by_tool_call_id", "forked_from_id", "end_state",
        "end_inferred", "outcome_class", "failure_kind", "failure_basis", "reward", "license", "policy_revision",
        "consent_basis", "verdict_id",
    )  # fmt: skip
    rewards = [
        {name: value for name, value in given.items() if name != "time" and value is not None}
        for given in run["rewards"] or ()
    ]
    return {**run_key(run), **{name: run[name] for name in names if run[name] is not None}, "rewards": rewards}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


FORMAT = ExportFormat("atif", "ATIF 1.8 documents, one a line", "ATIF", "run", _rows)
