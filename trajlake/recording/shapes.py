"""From what agents have at hand to the shapes of the event contract: short forms, providers' tool calls, exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

_NAMED: Final = ("agent", "skill", "prompt", "memory", "framework", "environment", "tool")
_PARTS: Final[dict[str, tuple[str, str]]] = {
    **{f"{name}_version": (name, "version") for name in _NAMED},
    "model_tier": ("model", "tier"),
    "model_provider": ("model", "provider"),
}
"""Flat field -> the field it is a part of, and the part."""
_WITH_NAME: Final = frozenset((*_NAMED, "model"))
_SHORT_FORMS: Final = _WITH_NAME | _PARTS.keys() | {"tools"}
_PROVIDER_USAGE: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_CANCELLING: Final = frozenset({"CancelledError", "Cancelled", "KeyboardInterrupt", "GeneratorExit"})
MAX_MESSAGE_CHARS: Final = 8192


def gather(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as the contract nests them: `skill="a", skill_version="2"` becomes `skill={"name": "a", "version": "2"}`.

    Fields that are None are left out.
    """
    data = {name: value for name, value in fields.items() if value is not None}
    if _SHORT_FORMS.isdisjoint(data):
        return data
    parts = [(*_PARTS[name], data.pop(name)) for name in _PARTS.keys() & data.keys()]
    for name in _WITH_NAME & data.keys():
        if isinstance(data[name], str):
            data[name] = {"name": data[name]}
    for base, part, value in parts:
        whole = data.get(base)
        if whole is None or isinstance(whole, Mapping):
            data[base] = {**(whole or {}), part: str(value)}
        else:
            data[base] = {"name": getattr(whole, "name", str(whole)), part: str(value)}
    if "tools" in data:
        with suppress(TypeError):
            data["tools"] = [{"name": tool} if isinstance(tool, str) else tool for tool in data["tools"]]
    return data


def shape_usage(usage: Any) -> Any:
    """Token counts under the contract's names beside the provider's own (OpenAI says `prompt_tokens`)."""
    if type(usage) is dict and _PROVIDER_USAGE.keys().isdisjoint(usage):
        return usage
    whole = as_mapping(usage)
    if whole is None:
        return usage
    named = {ours: whole[theirs] for theirs, ours in _PROVIDER_USAGE.items() if theirs in whole and ours not in whole}
    return {**whole, **named}


def shape_call(call: Any, make_id: Callable[[], str]) -> dict[str, Any]:
    """A tool call as the contract has it, from ours, OpenAI's or Anthropic's form. One without an id gets one."""
    if type(call) is dict and call.get("tool_call_id"):
        return call
    whole = as_mapping(call)
    if whole is None:
        return {"tool_call_id": make_id(), "arguments": call}
    if whole.get("tool_call_id"):
        return dict(whole)
    function = as_mapping(whole.get("function")) or {}
    shaped = {
        "tool_call_id": whole.get("id") or whole.get("call_id") or make_id(),
        "function_name": whole.get("function_name") or function.get("name") or whole.get("name"),
        "arguments": next(
            (
                value
                for value in (whole.get("arguments"), function.get("arguments"), whole.get("input"))
                if value is not None
            ),
            None,
        ),
    }
    return {name: value for name, value in shaped.items() if value is not None}


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """A mapping, or the public attributes of a struct or model object; None for everything else."""
    if value is None or isinstance(value, Mapping):
        return value
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        dumped = dump(value)
        return dumped if isinstance(dumped, Mapping) else None
    names = getattr(type(value), "__struct_fields__", None) or getattr(value, "__dict__", None)
    if names is None or isinstance(value, type):
        return None
    return {name: getattr(value, name) for name in names if not name.startswith("_")}


def is_cancellation(error: BaseException) -> bool:
    """Whether somebody outside ended the work: Ctrl-C, a cancelled task (asyncio, trio), a closed generator."""
    return any(kind.__name__ in _CANCELLING for kind in type(error).__mro__)


def failure_of(error: BaseException) -> dict[str, Any]:
    """Evidence of an exception, in the contract's failure fields. Never raises.

    `http_status` and `provider_code` are read where HTTP clients keep them: `status_code`, `status`, `code`,
    `response`.
    """
    found: dict[str, Any] = {"error_type": type(error).__qualname__}
    with suppress(Exception):
        text = str(error)
        if text:
            found["error_message"] = text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"
    with suppress(Exception):
        response = getattr(error, "response", None)
        for status in (
            getattr(error, "status_code", None),
            getattr(error, "status", None),
            getattr(response, "status_code", None),
            getattr(response, "status", None),
            getattr(error, "code", None),
        ):
            if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:
                found["http_status"] = int(status)
                break
    with suppress(Exception):
        code = getattr(error, "code", None)
        if isinstance(code, str) and code:
            found["provider_code"] = code
    return found


def end_of(error: BaseException | None) -> dict[str, Any]:
    """End state and evidence of a run that was left with this exception, or with none. Never raises."""
    if error is None:
        return {"end_state": "completed"}
    if is_cancellation(error):
        return {"end_state": "cancelled", **failure_of(error)}
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if code == 0:
            return {"end_state": "completed", "exit_code": 0}
        return {"end_state": "failed", "exit_code": code, **failure_of(error)}
    return {"end_state": "failed", **failure_of(error)}
