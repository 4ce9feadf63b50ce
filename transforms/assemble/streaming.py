"""Copies of one message, united: what a stream publishes again and again under one id, and what is written block by
block.

The whole copy beats a partial one, the later beats the earlier, the fuller text beats the shorter; content blocks and
calls that only one copy has are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from trajlake.expectations.events import ModelResponded, ToolCall, ToolReturned, Usage
from trajlake.transforms.assemble.state import OpenStep
from trajlake.transforms.text import as_text

_TEXTS = ("text", "thinking", "content", "input_json", "arguments")
"""Fields of a content block that grow while it streams."""


def merge_responses(old: ModelResponded, new: ModelResponded) -> ModelResponded:
    """One response of two copies of it. `tool_calls` is left out: the step holds them."""
    if new.partial and not old.partial:
        old, new = new, old
    fields: dict[str, Any] = {}
    for field in ModelResponded.__struct_fields__:
        value = getattr(new, field)
        fields[field] = value if value is not None else getattr(old, field)
    fields.update(
        message=fuller(old.message, new.message),
        reasoning_content=fuller(old.reasoning_content, new.reasoning_content),
        usage=_merge_usage(old.usage, new.usage),
        is_copied_context=old.is_copied_context or new.is_copied_context,
        tool_calls=None,
    )
    return ModelResponded(**fields)


def merge_calls(known: list[ToolCall], copies: Sequence[ToolCall]) -> list[ToolCall]:
    """Fold copies of calls into the known ones, in place. Returns those that were not known."""
    if not copies:
        return []
    places: dict[str, int] = {}
    for at, call in enumerate(known):
        places.setdefault(call.tool_call_id, at)
    new: list[ToolCall] = []
    for call in copies:
        place = places.get(call.tool_call_id)
        if place is None:
            new.append(call)
        else:
            old = known[place]
            known[place] = ToolCall(
                call.tool_call_id,
                call.function_name or old.function_name,
                fuller(old.arguments, call.arguments),
            )
    return new


def merge_results(old: ToolReturned, new: ToolReturned) -> ToolReturned:
    """One result of a partial one and what came after it: the later counts, its content where it has some."""
    if new.content is None and old.content is not None:
        return msgspec.structs.replace(new, content=old.content)
    return new


def fuller(old: Any, new: Any) -> Any:
    """The fuller of two versions of streamed content, the later where they are equally full; lists of blocks are
    united."""
    if new is None or old is None:
        return old if new is None else new
    if isinstance(old, list) and isinstance(new, list):
        return _unite(old, new)
    return new if len(as_text(new) or "") >= len(as_text(old) or "") else old


def weight(step: OpenStep) -> int:
    """Bytes of a step's response and calls as JSON."""
    return len(msgspec.json.encode(step.response)) + len(msgspec.json.encode(step.calls))


def _unite(old: list[Any], new: list[Any]) -> list[Any]:
    """Blocks of both in order. A block that continues the one at its place replaces it; equal ones stand once."""
    blocks = list(old)
    known = {orjson.dumps(block) for block in old}
    for at, block in enumerate(new):
        if at < len(blocks) and _continues(blocks[at], block):
            blocks[at] = block
        elif orjson.dumps(block) not in known:
            blocks.append(block)
    return blocks


def _continues(old: Any, new: Any) -> bool:
    """Whether a block is the same block, streamed further."""
    if not isinstance(old, dict) or not isinstance(new, dict) or old.get("type") != new.get("type"):
        return False
    for name in _TEXTS:
        earlier, later = old.get(name), new.get(name)
        if isinstance(earlier, str) and isinstance(later, str):
            return later.startswith(earlier)
    return False


def _merge_usage(old: Usage | None, new: Usage | None) -> Usage | None:
    if old is None or new is None:
        return old if new is None else new
    counts = []
    for field in Usage.__struct_fields__:
        value = getattr(new, field)
        counts.append(value if value is not None else getattr(old, field))
    return Usage(*counts)
