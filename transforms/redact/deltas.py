"""Withholds the text of stream deltas that are events of their own.

A delta holds a piece of a message. What a secret is cut into shows in no piece, and rows of earlier pieces have landed
when the rest comes. So no piece of such a stream is kept as text: `[redacted:delta]` stands for each, and the message
comes whole with its last event, where it is redacted like all else. That needs no state, so a restart between two
pieces changes nothing.

Deltas are told by their form, for the contract has no type for them:

    a type of somebody's own that says so       every text of its data, names and ids of things aside
    any other type of somebody's own            what is below `delta` or `partial_json`, wherever that stands
    a type of the contract                      `data.delta` and `data.partial_json`
"""

from __future__ import annotations

import re
from typing import Any, Final

from trajlake.expectations.events import EVENT_TYPES
from trajlake.transforms.records import Redaction

RULE: Final = "delta"
STAND_IN: Final = f"[redacted:{RULE}]"
SIGNS: Final = (
    rb'"(?:type|object)"\s{0,8}:\s{0,8}"[^"]{0,120}(?:delta|chunk|fragment|partial|piece|stream|token)',
    rb'"(?:delta|partial_json)"\s{0,8}:\s{0,8}["{\[]',
)
"""Expressions over raw JSON, caseless: where none matches there is no delta."""
_SIGN: Final = re.compile(b"|".join(SIGNS), re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_STREAMS: Final = frozenset(
    "delta deltas chunk chunks fragment fragments partial piece pieces stream streaming".split()
)
_LAST: Final = frozenset({"token", "tokens"})
_PIECES: Final = ("delta", "partial_json")
_KEPT: Final = frozenset("type role object model id index status event kind finish_reason stop_reason".split())
"""Names, and what says where a piece belongs."""


def may_hold(text: bytes) -> bool:
    """Whether an event may be a delta or hold one; wrong only by excess."""
    return _SIGN.search(text) is not None


def withhold(body: Any) -> list[Redaction]:
    """Replace the text of deltas in the data of an event, in place. Returns where that was done."""
    found: dict[str, int] = {}
    data = body.get("data") if isinstance(body, dict) else None
    if isinstance(data, dict):
        if body.get("type") in EVENT_TYPES:
            for key in _PIECES:
                if key in data:
                    data[key] = _withheld(data[key], f"data.{key}", found)
        elif _says_so(body.get("type")) or _says_so(data.get("object")) or data.get("partial") is True:
            body["data"] = _withheld(data, "data", found)
        else:
            _pieces_in(data, "data", found)
    elif isinstance(data, (str, list)) and body.get("type") not in EVENT_TYPES and _says_so(body.get("type")):
        body["data"] = _withheld(data, "data", found)
    return [Redaction(path, RULE, count) for path, count in sorted(found.items())]


def _says_so(name: object) -> bool:
    if not isinstance(name, str):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    return not _STREAMS.isdisjoint(words) or (bool(words) and words[-1] in _LAST)


def _pieces_in(node: Any, place: str, found: dict[str, int]) -> None:
    if isinstance(node, list):
        for item in node:
            _pieces_in(item, f"{place}[]", found)
    elif isinstance(node, dict):
        for key, item in node.items():
            if key in _PIECES:
                node[key] = _withheld(item, f"{place}.{key}", found)
            else:
                _pieces_in(item, f"{place}.{key}", found)


def _withheld(node: Any, place: str, found: dict[str, int]) -> Any:
    """A value without its texts; numbers and names of things stay."""
    if isinstance(node, str):
        if not node:
            return node
        found[place] = found.get(place, 0) + 1
        return STAND_IN
    if isinstance(node, list):
        return [_withheld(item, f"{place}[]", found) for item in node]
    if isinstance(node, dict):
        return {
            key: item
            if key in _KEPT or (key.endswith(("_id", "Id")) and isinstance(item, str))
            else _withheld(item, f"{place}.{key}", found)
            for key, item in node.items()
        }
    return node
