"""Cuts the unfinished ends off texts that still stream: they may be parts of a secret.

A response that streams is published several times, each copy fuller than the last (`partial` until the whole one), so a
copy may end in half a token, which no rule knows. What is cut here comes whole with a later copy, and is redacted there
like all else; no state of earlier copies is needed. The cut part leaves no marker, because the fuller of two copies
counts, and a copy must not grow by what was taken from it.

A producer that publishes pieces in the place of copies breaks the contract; for its sake a copy's first word goes too,
where it is no plain word and may be the end of what the piece before began. Deltas as such: `deltas`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from trajlake.transforms.records import Redaction
from trajlake.transforms.redact.names import strength_of

RULE: Final = "unfinished"
FIELDS: Final = frozenset(
    "message reasoning_content content text thinking arguments input_json partial_json output delta".split()
)
"""Fields of an event's data that grow while they stream, and the same in content blocks."""

_END: Final = re.compile(r"(?:[+(]?\d[\d\s().+-]*\S{0,64}|[^\s\"'`:,;{}\[\]()<>=|]{1,512})\Z")
_START: Final = re.compile(r"\s{0,8}(?:[+(]?\d[\d\s().+-]*\S*|[^\s\"'`:,;{}\[\]()<>=|]+)")
_WORD: Final = re.compile(r"[^\W\d_]{1,24}(?:['’-][^\W\d_]{1,24})?[.!?…]{0,3}")
_NAME_BEFORE: Final = re.compile(r"([\w.-]{2,60})[\"'`]?\s{0,3}(?:[:=]|=>|\bis\b)\s{0,3}[\"'`]?\Z")
_SOME: Final = 512


def trim(body: Any) -> list[Redaction]:
    """Cut unfinished ends in the data of a partial event, in place. Returns where that was done."""
    cut: dict[str, int] = {}
    data = body.get("data") if isinstance(body, dict) else None
    if isinstance(data, dict):
        _trim(data, "data", cut)
    return [Redaction(path, RULE, count) for path, count in sorted(cut.items())]


def _trim(node: Any, place: str, cut: dict[str, int]) -> None:
    if isinstance(node, list):
        for item in node:
            _trim(item, f"{place}[]", cut)
        return
    if not isinstance(node, dict):
        return
    for key, item in node.items():
        path = f"{place}.{key}"
        if isinstance(item, str) and key in FIELDS:
            first, whole = start_of(item), end_of(item)
            if first or whole < len(item):
                node[key] = item[first : max(first, whole)]
                cut[path] = cut.get(path, 0) + 1
        elif isinstance(item, (dict, list)):
            _trim(item, path, cut)


def start_of(text: str) -> int:
    """Where what may be the end of something cut ends; 0 where the text begins with a plain word or a mark."""
    found = _START.match(text)
    if found is None:
        return 0
    word = found.group().strip()
    plain = _WORD.fullmatch(word) is not None and (word[1:].islower() or word.isupper() or len(word) == 1)
    return 0 if plain or not word.isascii() else found.end()


def end_of(text: str) -> int:
    """Where the unfinished end of a text begins; its length where it ends in a plain word or in nothing open."""
    found = _END.search(text, max(0, len(text) - _SOME))
    if found is None:
        return len(text)
    if not _WORD.fullmatch(found.group()):
        return found.start()
    named = _NAME_BEFORE.search(text, max(0, found.start() - 80), found.start())
    return found.start() if named is not None and strength_of(named[1]) else len(text)
