"""Readers for single fields of foreign records: the value where it is what the contract takes, else None.

None of them invents: a missing or unusable value stays absent.
"""

from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Any, Final

from trajlake.expectations.events import Named
from trajlake.transforms.decode.timestamps import BadTime, normalise_time

TEXT_MAX: Final = 1024
"""Longest `Text` of the contract, in characters."""


def text(value: object) -> str | None:
    """A short text of the contract; longer ones are cut, numbers written out, anything else and "" is None."""
    if isinstance(value, str):
        return value[:TEXT_MAX] or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def count(value: object) -> int | None:
    """A whole number >= 0 that fits 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < 2**63 or value != int(value):
        return None
    return int(value)


def number(value: object) -> float | None:
    """A finite number; never a boolean, never a number in a string."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None


def moment(value: object) -> datetime | None:
    """A time in UTC, from RFC 3339 text or an epoch number; None where there is none or it cannot be read."""
    if value is None:
        return None
    try:
        return normalise_time(value)[0]
    except BadTime:
        return None


def http_status(value: object) -> int | None:
    """An HTTP status, 100 to 999."""
    status = count(value)
    return status if status is not None and 100 <= status <= 999 else None


def named(name: object, version: object = None) -> Named | None:
    """A versioned thing, or None where it has no name."""
    known = text(name)
    return Named(known, text(version)) if known is not None else None


def mapping(value: object) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """The value where it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def flat(content: Any) -> Any:
    """Content as one text where it is only text: a string, or blocks `{"type": "text", "text": ...}` joined by line
    ends.

    Blocks that hold anything else (images, references) stay as they are; nothing stays None.
    """
    if content is None or content == "" or content == []:
        return None
    if isinstance(content, list) and all(is_text_block(block) for block in content):
        return "\n".join(block["text"] for block in content)
    return content


def is_text_block(block: object) -> bool:
    """Whether a content block is plain text."""
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
