"""Content as text: what the tables store where an event may carry a string or any JSON value."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from trajlake.expectations.events import PAYLOAD_MARKER

REFERENCE: Final = re.compile(re.escape(PAYLOAD_MARKER) + r"([0-9a-f]{64}):([0-9]{1,18})\Z")
"""A string that is exactly a reference to stored content."""
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+!|<>&~-])")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def as_text(value: Any) -> str | None:
    """A string as it is; null as null; any other JSON value as compact JSON."""
    if value is None or type(value) is str:
        return value
    return orjson.dumps(value).decode()


def payload_reference(text: str | None) -> str | None:
    """The reference, if the text is one that stands for content stored elsewhere."""
    if text is not None and text.startswith(PAYLOAD_MARKER) and REFERENCE.match(text):
        return text
    return None


def markdown_plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line; what moves a terminal's cursor or turns its writing is a `?`."""
    return _MARKUP.sub(r"\\\1", _CONTROLS.sub("?", " ".join(text.split())))
