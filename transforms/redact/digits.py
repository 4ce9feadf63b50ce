"""Cuts out the parts of a text in which numbers stand, and tells which forms of the rule table are there.

Without this, a text with one telephone number would be searched by every form of every country.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from trajlake.transforms.redact.hyper import Expressions
from trajlake.transforms.redact.triggers import plain_for

_GROUPS: Final = re.compile(r"[0-9]+(?:[^0-9\n]{1,6}[0-9]+)*")
_NOT_DIGITS: Final = re.compile(r"[^0-9]+")
_MARGIN: Final = 8
MAX_WINDOW: Final = 2048
"""Longest window in characters; longer rows of digits are cut, with an overlap longer than any number."""
_OVERLAP: Final = 64


class Window(NamedTuple):
    """A part of a text: digits with what stands beside them."""

    start: int
    end: int


def windows_of(text: str) -> Iterator[Window]:
    """Yield the parts of a text in which a number of three or more digits may stand."""
    for found in _GROUPS.finditer(text):
        start, end = found.span()
        if end - start < 3 or len(_NOT_DIGITS.sub("", found.group())) < 3:
            continue
        start, end = max(0, start - _MARGIN), min(len(text), end + _MARGIN)
        while True:
            stop = min(end, start + MAX_WINDOW)
            yield Window(start, stop)
            if stop == end:
                break
            start = stop - _OVERLAP


_TOGETHER: Final = 24
"""Forms compiled together: more would take much longer to compile and be no faster to run."""


class NumberForms:
    """All forms that numbers are written in, asked at once which of them a text may hold."""

    def __init__(self, forms: Sequence[tuple[str, bool]]) -> None:
        """`forms` are patterns of `re`, each with whether case is ignored in it."""
        plain = [plain_for(pattern, nocase) for pattern, nocase in forms]
        self._groups = [
            (first, Expressions(plain[first : first + _TOGETHER])) for first in range(0, len(plain), _TOGETHER)
        ]

    def seen(self, text: str, windows: Sequence[Window]) -> dict[int, list[Window]]:
        """The forms that may match, by their number, with the windows of the text in which they may: a few too many,
        never too few."""
        if not windows:
            return {}
        parts = [text[window.start : window.end].encode("utf-8", "surrogatepass") for window in windows]
        raw = b"\n".join(parts)
        ends = list(accumulate(len(part) + 1 for part in parts))
        found: dict[int, set[int]] = {}
        for first, group in self._groups:
            for number, end in group.scan(raw):
                found.setdefault(first + number, set()).add(bisect_right(ends, end - 1))
        return {number: [windows[place] for place in sorted(places)] for number, places in found.items()}
