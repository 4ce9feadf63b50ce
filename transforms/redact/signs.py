"""Signs: what the fast pass looks for, and the look at the bytes around one that is too common by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

Confirm = Callable[[bytes, int], bool]
"""Given the bytes and the end of the sign in them: does it call?"""


class Where(IntEnum):
    """What a sign is looked for in. Signs of a kind are compiled together; together with others they would be slow."""

    BYTES = 0
    """The bytes: literals, with single characters around them."""
    RUNS = 1
    """The bytes: automata without a literal."""
    CLASSES = 2
    """What the bytes are (`CLASSES`), where a shape such as 000-00-0000 is a literal."""
    ODD = 3
    """The bytes of texts that hold more than ASCII, or escapes of it."""


class Sign(NamedTuple):
    """A Hyperscan expression with what confirms it."""

    expression: str
    confirm: Confirm | None = None
    where: Where = Where.BYTES


CLASSES: Final = bytes.maketrans(
    bytes(range(256)),
    bytes(
        ord("0")
        if 48 <= byte <= 57
        else ord("A")
        if 65 <= byte <= 90
        else ord("a")
        if 97 <= byte <= 122 or byte == 95
        else ord("q")
        if byte in b"\"'"
        else byte
        if byte in b" -.:/()+\\"
        else ord("h")
        if byte >= 128
        else ord("x")
        for byte in range(256)
    ),
)
"""What a byte is: a digit, an upper-case letter, a lower-case letter, …"""


_FURTHEST: Final = 4096
"""Bytes that a pattern is followed behind its sign."""


def after(pattern: str) -> Confirm:
    """Confirmed where the pattern matches right behind the sign."""
    matches = re.compile(pattern.encode()).match
    return lambda raw, end: matches(raw, end) is not None


def around(pattern: str, back: int = 64, ahead: int = 96) -> Confirm:
    """Confirmed where the pattern matches within so many bytes before and behind the end of the sign."""
    search = re.compile(pattern.encode()).search
    return lambda raw, end: search(raw, max(0, end - back), end + ahead) is not None


def at_start(pattern: str, size: int) -> Confirm:
    """Confirmed where the pattern matches from the start of a sign of so many bytes, within a bound: a run without an
    end must not be read again from each of its bytes."""
    matches = re.compile(pattern.encode()).match
    return lambda raw, end: matches(raw, end - size, end + _FURTHEST) is not None


def escaped(words: str) -> str:
    """Words outside ASCII as UTF-8 and as JSON escapes."""
    forms = []
    for word in words.split("|"):
        forms.append(word)
        forms.append("".join(rf"\\+u{ord(char):04x}" if ord(char) > 127 else char for char in word))
    return "|".join(forms)


def is_odd(raw: bytes) -> bool:
    """Whether signs of `Where.ODD` can be in these bytes: something outside ASCII, plain or escaped."""
    return not raw.isascii() or b"\\u" in raw


def odd_parts(raw: bytes, parts: Sequence[bytes], ends: Sequence[int]) -> list[int]:
    """The numbers of the parts that are odd. `raw` are the parts joined by one byte each, `ends` where each is over."""
    codes = np.frombuffer(raw, dtype=np.uint8)
    odd = (codes[:-1] == 92) & (codes[1:] == 117)
    if not raw.isascii():
        odd |= codes[:-1] > 127
    places = np.flatnonzero(odd)
    if not len(places):
        return []
    flags = np.zeros(len(parts), dtype=bool)
    flags[np.searchsorted(np.array(ends), places, side="right")] = True
    found: list[int] = np.flatnonzero(flags).tolist()
    return found
