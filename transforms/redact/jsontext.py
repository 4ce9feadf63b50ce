"""Reads JSON that stands in a string, keeping where every literal is, so that it can be changed in place.

Rewriting such text by decode and encode would change what the model emitted (spaces, escapes, order, number format);
replacing inside the literals changes nothing else, and the result parses because markers need no escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from trajlake.transforms.redact.errors import DepthLimit
from trajlake.transforms.redact.views import View, substitute

_TOKEN: Final = re.compile(r'[ \t\r\n]*(?:"((?:[^"\\]|\\.)*)"|([{}\[\],:])|([^\s{}\[\],:"]+))', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)
_SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class Literal(str):
    """A string of JSON text: its decoded value, and where its content (without quotes) stands in the text."""

    __slots__ = ("end", "start", "view")
    start: int
    end: int
    view: View | None

    def outer(self, low: int, high: int) -> tuple[int, int]:
        """The range of the JSON text that holds characters `low` to `high` of the value."""
        if self.view is None:
            return self.start + low, self.start + high
        inner_low, inner_high = self.view.outer(low, high)
        return self.start + inner_low, self.start + inner_high


class Number(int):
    """An integer of JSON text and where it stands."""

    start: int
    end: int


def literal_of(raw: str, start: int = 0) -> Literal:
    """The string whose content, without quotes, is `raw` at `start` of the JSON text."""
    view = substitute(raw, _ESCAPE, _decode) if "\\" in raw else None
    literal = Literal(view.text if view else raw)
    literal.start, literal.end, literal.view = start, start + len(raw), view
    return literal


@lru_cache(maxsize=4096)
def _decode(token: str) -> str:
    if token[1] == "u":
        if len(token) == 12:
            return chr(0x10000 + ((int(token[2:6], 16) - 0xD800) << 10) + (int(token[8:12], 16) - 0xDC00))
        code = int(token[2:], 16)
        return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
    return _SIMPLE.get(token[1], token[1])


def looks_like_json(text: str) -> bool:
    """A cheap guess that a text is one JSON object, array or string."""
    stripped = text.strip(" \t\r\n")
    return len(stripped) > 1 and (stripped[0] + stripped[-1]) in ("{}", "[]", '""')


def is_json(text: str, max_depth: int) -> bool:
    """Whether a text is one JSON object, array or string. Raises DepthLimit where it nests deeper than can be read."""
    if not looks_like_json(text):
        return False
    try:
        msgspec.json.decode(str(text))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    except RecursionError:
        raise DepthLimit("max_depth", max_depth) from None
    return True


def names_twice(raw: bytes) -> bool:
    """Whether any object of a JSON text names a key twice. Raises ValueError where it is no JSON."""

    class Twice(Exception):
        pass

    def look(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) < len(pairs):
            raise Twice

    try:
        json.loads(raw, object_pairs_hook=look)
    except Twice:
        return True
    return False


def within_literals(text: str, low: int, high: int) -> Iterator[tuple[int, int, bool]]:
    """The parts of a range of JSON text that lie in its literals, so that replacing them leaves its structure: content
    of strings, and whole numbers (True)."""
    for found in _TOKEN.finditer(text):
        group = 1 if found[1] is not None else 3
        start, end = found.span(group)
        if start >= high and found[2] is None:
            return
        if found[2] is None and end > low:
            if group == 1:
                if max(start, low) < min(end, high):
                    yield max(start, low), min(end, high), False
            elif found[3][:1] in "-0123456789":
                yield start, end, True


def read(text: str, max_depth: int) -> Any | None:
    """Read JSON text to dicts, lists and scalars, whose strings are `Literal` and whose integers are `Number`.

    None where the text is no JSON object, array or string, or where an object names a key twice (a dict could not hold
    both, so the caller searches such text as plain text). Raises DepthLimit above `max_depth` levels.
    """
    return build(text, max_depth) if is_json(text, max_depth) else None


def build(text: str, max_depth: int) -> Any | None:
    """Build the value of valid JSON text without recursion; None where an object names a key twice."""
    root: list[Any] = []
    stack: list[Any] = [root]
    keys: list[Literal | None] = [None]
    for found in _TOKEN.finditer(text):
        string, mark, scalar = found.groups()
        here = stack[-1]
        if mark:
            if mark in "{[":
                child: Any = {} if mark == "{" else []
                if not _put(here, keys, child):
                    return None
                if len(stack) > max_depth:
                    raise DepthLimit("max_depth", max_depth)
                stack.append(child)
                keys.append(None)
            elif mark in "}]":
                stack.pop()
                keys.pop()
            continue
        if string is not None:
            value: Any = literal_of(string, found.start(1))
            if isinstance(here, dict) and keys[-1] is None:
                keys[-1] = value
                continue
        else:
            value = _scalar(scalar, found.start(3))
        if not _put(here, keys, value):
            return None
    return root[0] if root else None


def _put(here: Any, keys: list[Literal | None], value: Any) -> bool:
    if isinstance(here, dict):
        key = keys[-1]
        keys[-1] = None
        if key in here:
            return False
        here[key] = value
    else:
        here.append(value)
    return True


def _scalar(token: str, start: int) -> Any:
    if token.lstrip("-").isdigit() and len(token) < 4000:
        number = Number(token)
        number.start, number.end = start, start + len(token)
        return number
    return None
