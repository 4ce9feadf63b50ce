"""Regular expressions that mean the same in every engine that a suite may meet.

Great Expectations hands a pattern to pandas, which uses RE2 or Python's `re` depending on its version; the land path
uses Rust's `regex`. Their common language is large, but what lies outside it is not refused by all of them: `\\d` takes
other digits in one than in the next. So everything that is not known to be the same is refused, with what to write.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

MAX_REPEAT: Final = 1000
"""RE2 takes no more."""

_ESCAPED: Final = frozenset(".^$*+?()[]{}|\\-/#&~")
_CONTROL: Final = frozenset("nrtfv")
_CLASSES: Final = frozenset("dDwWsSbB")
_REPEAT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_HEX: Final = re.compile(r"[0-7][0-9A-Fa-f]")
_GROUP: Final = re.compile(r"\?(?::|P<[A-Za-z_][A-Za-z0-9_]*>)")


def portable(pattern: str) -> str:
    """The pattern for Rust's `regex`, of one that means the same in RE2, in Python's `re` and there.

    Raises ValueError saying what to write instead.
    """
    text = "".join(_parts(pattern))
    try:
        re.compile(pattern)
        pc.match_substring_regex(pa.array(["a"]), re.sub(r"(?<!\\)((?:\\\\)*)\\Z", r"\1\\z", pattern))
        pl.select(pl.lit("a").str.contains(text))
    except (re.error, pa.ArrowInvalid, pl.exceptions.ComputeError) as error:
        raise ValueError(f"is no regular expression: {' '.join(str(error).split())[:120]}") from None
    return text


def _parts(pattern: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            part, length = _escape(pattern, at, in_class=False)
        elif char == "[":
            part, length = _class(pattern, at)
        elif char == "(":
            part, length = _group(pattern, at)
        elif char in "*+?{":
            part, length = _repeat(pattern, at)
        elif char in "}]":
            raise ValueError(f"write \\{char} for {char}")
        elif char == "$":
            raise ValueError("$ lets a newline follow in one engine and not in the next: write \\Z")
        else:
            part, length = char, 1
        parts.append(part)
        at += length
    return parts


def _escape(pattern: str, at: int, *, in_class: bool) -> tuple[str, int]:
    char = pattern[at + 1 : at + 2]
    if char in _ESCAPED and char:
        return f"\\{char}", 2
    if char in _CONTROL and char:
        return f"\\{char}", 2
    if char == "x" and (digits := _HEX.match(pattern, at + 2)):
        return f"\\x{digits.group()}", 4
    if char == "Z" and not in_class:
        return "\\z", 2
    if char in _CLASSES and char:
        raise ValueError(
            f"\\{char} is ASCII in one engine and Unicode in the next: write the characters, such as [0-9]"
        )
    if char.isdigit():
        raise ValueError("refers back to a group, which RE2 and Rust cannot")
    raise ValueError(f"\\{char} does not mean the same everywhere: write the character itself")


def _class(pattern: str, at: int) -> tuple[str, int]:
    start = at
    parts = ["["]
    at += 1
    if pattern[at : at + 1] == "^":
        parts.append("^")
        at += 1
    first = at
    while at < len(pattern):
        char = pattern[at]
        if char == "]":
            if at == first:
                raise ValueError("write \\] for ] in a class")
            parts.append("]")
            return "".join(parts), at + 1 - start
        if char == "[":
            raise ValueError("write \\[ for [ in a class: Rust nests classes")
        if pattern[at : at + 2] in ("&&", "--", "~~"):
            raise ValueError(f"{pattern[at : at + 2]} in a class is an operator in Rust: write \\{char}")
        part, length = _escape(pattern, at, in_class=True) if char == "\\" else (char, 1)
        parts.append(part)
        at += length
    raise ValueError("a class is not closed by ]")


def _group(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at + 1 : at + 2] != "?":
        return "(", 1
    head = _GROUP.match(pattern, at + 1)
    if head is None:
        raise ValueError("flags and look-around differ between engines: of (?…) only (?:…) and (?P<name>…) may be used")
    return f"({head.group()}", 1 + len(head.group())


def _repeat(pattern: str, at: int) -> tuple[str, int]:
    part = pattern[at]
    if part == "{":
        found = _REPEAT.match(pattern, at)
        if found is None:
            raise ValueError("write \\{ for {, and {0,5} for {,5}")
        part = found.group()
        if any(int(number) > MAX_REPEAT for number in (found.group(1), found.group(3)) if number):
            raise ValueError(f"repeats more than {MAX_REPEAT} times, which RE2 cannot")
    after = pattern[at + len(part) : at + len(part) + 1]
    if after and after in "*+{":
        raise ValueError("repeats what is repeated: put it in a group; possessive forms are not the same everywhere")
    if after == "?":
        part += "?"
        if pattern[at + len(part) : at + len(part) + 1] in tuple("*+?{"):
            raise ValueError("repeats what is repeated: put it in a group")
    return part, len(part)
