"""Content of Claude Code records: blocks of the Anthropic Messages API, usage, and errors of the API written as
messages.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from trajlake.expectations.events import ToolCall, Usage
from trajlake.transforms.importers import fields

SYNTHETIC: Final = "<synthetic>"
"""`message.model` of what the harness wrote in the model's name."""

_STATED_STATUS = re.compile(r"\bAPI Error:?\s*\(?(\d{3})\b")
_ERROR_BODY = re.compile(r"\{.*\}", re.DOTALL)
_LIMIT_REACHED = re.compile(
    r"\b(?:hit your|reached your|usage|session|weekly|rate)\b[^.\n]{0,40}\blimit\b", re.IGNORECASE
)
_EXIT_CODE = re.compile(r"\s*Exit code (-?\d{1,9})\b")


def unite(known: list[Any], new: list[Any]) -> list[Any]:
    """Blocks of one message from two of its records, in order: a block that grew replaces its shorter self."""
    united = list(known)
    for block in new:
        place = next((index for index, old in enumerate(united) if _grew(old, block)), None)
        if place is None:
            united.append(block)
        elif len(_text(block)) >= len(_text(united[place])):
            united[place] = block
    return united


def _grew(old: Any, new: Any) -> bool:
    """Whether two blocks are the same one, at two moments of a stream."""
    if old == new:
        return True
    if not isinstance(old, dict) or not isinstance(new, dict) or old.get("type") != new.get("type"):
        return False
    if old.get("id") is not None or new.get("id") is not None:
        return old.get("id") == new.get("id")
    before, after = _text(old), _text(new)
    return bool(before and after) and (after.startswith(before) or before.startswith(after))


def _text(block: Any) -> str:
    if not isinstance(block, dict):
        return str(block)
    value = block.get("text", block.get("thinking", block.get("input")))
    return value if isinstance(value, str) else repr(value) if value else ""


def split(blocks: list[Any]) -> tuple[Any, str | None, list[ToolCall]]:
    """A response's blocks as message, reasoning and tool calls.

    The message is text where all of it is text, else the list of its blocks. Signatures and redacted thinking are
    opaque and left out. `arguments` keeps the parsed input, because the file holds no other form.
    """
    thinking: list[str] = []
    calls: list[ToolCall] = []
    rest: list[Any] = []
    for block in blocks:
        kind = fields.mapping(block).get("type")
        if kind == "thinking":
            if isinstance(block.get("thinking"), str) and block["thinking"]:
                thinking.append(block["thinking"])
        elif kind == "tool_use" and isinstance(block.get("id"), str):
            calls.append(ToolCall(block["id"], fields.text(block.get("name")), block.get("input")))
        elif kind != "redacted_thinking":
            rest.append(block)
    return fields.flat(rest), "\n".join(thinking) or None, calls


def blocks_of(content: Any) -> list[Any]:
    """A message's content as blocks; a string is one block of text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return fields.sequence(content)


def usage_of(value: Any) -> Usage | None:
    """Token counts as the API billed them: `input_tokens` leaves out what was read from or written to the cache."""
    given = fields.mapping(value)
    usage = Usage(
        input_tokens=fields.count(given.get("input_tokens")),
        output_tokens=fields.count(given.get("output_tokens")),
        cache_read_input_tokens=fields.count(given.get("cache_read_input_tokens")),
        cache_creation_input_tokens=fields.count(given.get("cache_creation_input_tokens")),
    )
    return None if usage == Usage() else usage


def fuller_usage(known: Usage | None, new: Usage | None) -> Usage | None:
    """Two counts of one message as one: a stream counts upwards, so of each number the larger one is the later."""
    if known is None or new is None:
        return new or known
    larger: dict[str, int | None] = {}
    for name in Usage.__struct_fields__:
        counts = [count for count in (getattr(known, name), getattr(new, name)) if count is not None]
        larger[name] = max(counts, default=None)
    return Usage(**larger)


def api_error(record: dict[str, Any], text: str) -> dict[str, Any]:
    """Fields of `Failure` that a record with `isApiErrorMessage` states, in fields of its own or in its text."""
    nested = fields.mapping(record.get("apiError"))
    status = fields.http_status(record.get("apiErrorStatus", nested.get("status")))
    if status is None and (stated := _STATED_STATUS.search(text)):
        status = fields.http_status(int(stated.group(1)))
    kind = fields.text(record.get("error")) if isinstance(record.get("error"), str) else None
    kind = kind or _kind_in_body(text) or fields.text(nested.get("type"))
    if kind is None and _LIMIT_REACHED.search(text):
        kind = "rate_limit"
    if kind is None and isinstance(record.get("apiError"), str):
        kind = fields.text(record["apiError"])
    return {"error_type": kind or "api_error", "error_message": text or None, "http_status": status}


def _kind_in_body(text: str) -> str | None:
    """`error.type` of the API's JSON answer, where the text quotes it."""
    body = _ERROR_BODY.search(text)
    if body is None:
        return None
    try:
        answer = fields.mapping(orjson.loads(body.group()))
    except orjson.JSONDecodeError:
        return None
    return fields.text(fields.mapping(answer.get("error")).get("type"))


def exit_code(content: Any) -> int | None:
    """Exit code that a failed command's result begins with."""
    found = _EXIT_CODE.match(content) if isinstance(content, str) else None
    return int(found.group(1)) if found else None
