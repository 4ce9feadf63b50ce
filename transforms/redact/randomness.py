"""How random a text looks: entropy, masks, runs, words. The evidence for secrets that have no fixed shape."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import log2
from typing import Final

_MASK: Final = re.compile(r"([xX*#.•●_\-?])\1{3,}")
_COVER: Final = re.compile(r"([*#•●.])\1{5,}")
_ALNUM_RUN: Final = re.compile(r"[A-Za-z]+|[0-9]+")
_CLASS_CHANGES: Final = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z])(?=[0-9])")
_SWITCH: Final = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_VOWELS: Final = frozenset("aeiouyAEIOUY")


def entropy(text: str) -> float:
    """Shannon entropy in bits per character (0 for a text of one letter, about 4 for random hex)."""
    if not text:
        return 0.0
    size = len(text)
    return -sum(n / size * log2(n / size) for n in Counter(text).values())


def is_masked(text: str) -> bool:
    """Whether somebody has hidden the value already: nearly all of it is one mask character.

    What still shows beside the mask is at most eight characters or a quarter, so that a short mask cannot shield a
    secret; characters that no issuer uses in rows (`####`, `....`) need to hide only an eighth.
    """
    if any(len(run.group()) * 8 >= len(text) for run in _COVER.finditer(text)):
        return True
    hidden = sum(len(run.group()) for run in _MASK.finditer(text))
    return hidden > 0 and (len(text) - hidden <= 8 or hidden * 4 >= len(text) * 3) and hidden * 2 >= len(text)


def is_sequence(text: str) -> bool:
    """Whether most neighbours follow each other in the alphabet or in counting (`abc123xyz`): typed by a person."""
    letters = [char for char in text.casefold() if char.isalnum()]
    if len(letters) < 8:
        return False
    steps = sum(1 for a, b in pairwise(letters) if ord(b) - ord(a) == 1)
    return steps * 20 > len(letters) * 11


def is_wordlike(run: str) -> bool:
    """Whether a run of letters could be a word or a name: one casing, vowels as words have them."""
    if len(run) <= 2:
        return True
    if len(run) > 24 or len(set(run.lower())) == 1:
        return False
    if not (run.islower() or run.isupper() or run.istitle()):
        return False
    vowels = sum(char in _VOWELS for char in run)
    if vowels == 0:
        return len(run) <= 4
    return vowels * 5 >= len(run) and _longest_without_vowel(run) <= 4


def _longest_without_vowel(run: str) -> int:
    longest = here = 0
    for char in run:
        here = 0 if char in _VOWELS else here + 1
        longest = max(longest, here)
    return longest


def is_wordy(text: str) -> bool:
    """Whether a text is made of words, short numbers and separators: an identifier, a sentence, a path."""
    runs = _ALNUM_RUN.findall(_CLASS_CHANGES.sub(" ", text) if not text.isalnum() or _camel(text) else text)
    letters = [run for run in runs if run[0].isalpha()]
    digits = sum(len(run) for run in runs if run[0].isdigit())
    if not letters or len(_SWITCH.findall(text)) > 3:
        return False
    known = sum(len(run) for run in letters if len(run) > 2 and is_wordlike(run))
    return all(is_wordlike(run) for run in letters) and digits <= max(4, known // 4) and known * 2 >= len(text) - digits


def _camel(text: str) -> bool:
    """`someCamelCase`: every part long enough to be a word."""
    parts = re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|\d+", text)
    return "".join(parts) == text


def is_random(text: str, least: int = 8) -> bool:
    """Whether a text looks drawn by a machine: letters and digits mixed, or mixed case without words, and not a
    mask."""
    if len(text) < least or is_masked(text) or is_wordy(text):
        return False
    bits = entropy(text)
    has_digit = any(char.isdigit() for char in text)
    has_alpha = any(char.isalpha() for char in text)
    if has_digit and has_alpha:
        return bits >= 2.3
    if has_alpha and len(text) >= 12:
        return bits >= 3.2
    return False
