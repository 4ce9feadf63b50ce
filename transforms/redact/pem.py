"""Private keys in armour: PEM, PGP, SSH2 and PuTTY, whole, cut off, on one line, or split over fields.

A block is removed with its armour. A block that has lost an end loses the lines beside the remaining end that look like
key material; prose before, between and after stays.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

_LABEL: Final = r"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?"
BEGIN: Final = re.compile(rf"-{{4,5}} ?BEGIN {_LABEL} ?-{{4,5}}")
END: Final = re.compile(rf"-{{4,5}} ?END {_LABEL} ?-{{4,5}}")
_MATERIAL: Final = re.compile(r"[A-Za-z0-9+/=]{16,}")
_BODY_LINE: Final = re.compile(
    r"[^\n]{0,60}?[A-Za-z0-9+/]{16,}={0,2}[^\nA-Za-z0-9]{0,12}|[ \t>|#*+\d.\-\"']{0,40}(?:Proc-Type|DEK-Info"
    r"|Version|Comment|Subject|X-[\w-]+)\b[^\n]*|[\s\"'+,]*"
)
_LAST_LINE: Final = re.compile(r"[ \t>|#*+\"']{0,20}[A-Za-z0-9+/]{1,64}={0,2}[\"'\s+,;)]{0,6}")
_PURE: Final = re.compile(r"\s*[A-Za-z0-9+/]{16,76}={0,2}(?:\s+[A-Za-z0-9+/]{1,76}={0,2})*\s*")
_PUTTY: Final = re.compile(r"Private-Lines: \d{1,3}\r?\n((?:[A-Za-z0-9+/]{1,76}={0,2}\r?\n?){1,200})")
MAX_BLOCK: Final = 64 * 1024
"""Longest text between the ends of a block, in characters: RSA 16384 and post-quantum keys fit several times."""


def find_private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of private keys. An END without its BEGIN counts too: the text may be the tail of a cut one."""
    at = 0
    begins, ends = list(BEGIN.finditer(text)), list(END.finditer(text))
    starts = [end.start() for end in ends]
    for place, begin in enumerate(begins):
        if begin.start() < at:
            continue
        end = _next(ends, starts, begin.end())
        other = begins[place + 1] if place + 1 < len(begins) else None
        if end and (other is None or other.start() > end.start()):
            if _MATERIAL.search(text, begin.end(), end.start()):
                yield begin.start(), end.end()
            at = end.end()
        else:
            stop = _material_after(text, begin.end())
            if stop > begin.end():
                yield begin.start(), stop
            at = max(stop, begin.end())
    openings = [begin.end() for begin in begins]
    for place, end in enumerate(ends):
        opened = bisect_right(openings, end.start()) - 1
        closed = starts[place - 1] if place else -1
        if opened >= 0 and end.start() - openings[opened] <= MAX_BLOCK and closed < openings[opened]:
            continue
        start = _material_before(text, end.start())
        if start < end.start():
            yield start, end.end()
    for found in _PUTTY.finditer(text):
        yield found.span(1)


def _next(ends: list[re.Match[str]], starts: list[int], at: int) -> re.Match[str] | None:
    """The first END within a block's length behind a position."""
    place = bisect_left(starts, at)
    return ends[place] if place < len(ends) and starts[place] <= at + MAX_BLOCK else None


def _material_after(text: str, at: int) -> int:
    """The end of the lines of key material that follow `at` (which may begin on the same line)."""
    stop = at
    one_line = re.compile(r"(?:\\n|\s)*([A-Za-z0-9+/=]{16,}(?:(?:\\r)?\\n[A-Za-z0-9+/=]+)*)").match(text, at)
    if one_line:
        stop = one_line.end()
    line = text.find("\n", stop if one_line else at)
    if one_line and text[one_line.end() : one_line.end() + 1] not in ("", "\n", "\r", " ", '"', "'"):
        return stop
    while line >= 0:
        end = text.find("\n", line + 1)
        content = text[line + 1 : end if end >= 0 else len(text)]
        if content.strip() and _BODY_LINE.fullmatch(content):
            stop = line + 1 + len(content)
        elif stop > at and _LAST_LINE.fullmatch(content) and any(char in "+/=0123456789" for char in content):
            return line + 1 + len(content)
        elif content.strip():
            break
        line = end
    return stop


def _material_before(text: str, at: int) -> int:
    """The start of the lines of key material that end at `at`."""
    start = at
    edge = at
    while edge > 0:
        line = text.rfind("\n", 0, edge)
        content = text[line + 1 : edge]
        if content.strip() and (_BODY_LINE.fullmatch(content) or (start == at and _LAST_LINE.fullmatch(content))):
            found = _MATERIAL.search(content) or re.search(r"[A-Za-z0-9+/]", content)
            start = line + 1 + (found.start() if found and line < 0 else 0)
        elif content.strip():
            break
        if line < 0:
            break
        edge = line
    return start


def opens_key(text: str) -> bool:
    """Whether a text holds a BEGIN that no END follows: the key goes on in another field."""
    last = max((found.end() for found in BEGIN.finditer(text)), default=-1)
    return last >= 0 and END.search(text, last) is None


def closes_key(text: str) -> bool:
    """Whether a text holds an END that no BEGIN precedes."""
    first = END.search(text)
    return first is not None and BEGIN.search(text, 0, first.start()) is None


def is_pure_material(text: str) -> bool:
    """Whether a text is nothing but lines of base64 as between the ends of a key."""
    return len(text) <= MAX_BLOCK and _PURE.fullmatch(text) is not None
