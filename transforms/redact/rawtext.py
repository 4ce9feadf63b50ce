"""Finds in raw JSON the strings that hold a sign, so that they are searched and replaced where they stand.

That is the common case, and much faster than to lay the value out; everything else stays byte for byte. Whatever needs
more than one string to be judged (lists that may be pieces of one text, private keys, objects under a telling name,
keys that are themselves secrets) is left to the careful walk.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from trajlake.transforms.redact.names import NAME_FIELDS, Strength, strength_of
from trajlake.transforms.redact.prefilter import Call

_STRING_END: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_KEY_MARK: Final = re.compile(rb"\s*:\s*").match
_SPACE: Final = b" \t\r\n"


class Place(NamedTuple):
    """A string of an event that is to be searched: where its content stands, its field, and what called it."""

    start: int
    end: int
    name: str
    strength: Strength
    called: frozenset[int]

    def text(self, raw: bytes) -> str:
        """The string itself, escapes undone."""
        content = raw[self.start : self.end]
        return (
            content.decode()
            if b"\\" not in content
            else msgspec.json.decode(raw[self.start - 1 : self.end + 1], type=str)
        )


class NeedsWalk(Exception):
    """The event cannot be judged string by string."""


def places_of(raw: bytes, calls: list[Call], names: frozenset[int]) -> list[Place]:
    """The strings of a JSON document that hold the calls, in order. `calls` are ascending ends of signs; `names` are
    the rules that a key calls for its value.

    Raises NeedsWalk where a call is in no string, in an element of a list, in a key that may hold a finding itself or
    whose value is no string, or where what stands beside it decides.
    """
    found: dict[int, Place] = {}
    start = end = -1
    for position, called in calls:
        at = position - 1
        if not (start - 1 <= at <= end):
            if (plain := _plain_value(raw, at)) is not None:
                start, end, field = plain
                if field.strength or not (field.is_name and end - start <= 80):
                    found[start] = Place(start, end, field.name, field.strength, called)
                    continue
            start, end = _string_around(raw, at)
        elif start in found:
            found[start] = found[start]._replace(called=found[start].called | called)
            continue
        mark = _KEY_MARK(raw, end + 1)
        if mark is None:
            place = _value_place(raw, start, end, called)
        else:
            value = mark.end()
            if raw[value : value + 1] != b'"' or not called <= names:
                raise NeedsWalk
            place = _value_place(raw, value + 1, _end_of_string(raw, value + 1), called)
        known = found.get(place.start)
        found[place.start] = place if known is None else known._replace(called=known.called | called)
    return [found[key] for key in sorted(found)]


class _Field(NamedTuple):
    name: str
    strength: Strength
    is_name: bool


@lru_cache(maxsize=4096)
def _field(key: bytes) -> _Field:
    name = key.decode("utf-8", "replace")
    return _Field(name, strength_of(name), name.lower() in NAME_FIELDS)


def _plain_value(raw: bytes, at: int) -> tuple[int, int, _Field] | None:
    """The string value that holds a position, with its field, in JSON without spaces; None where it is not that
    simple. A quote behind `":` can only open a value."""
    quote = raw.rfind(b'"', 0, at + 1)
    if raw[quote - 2 : quote] != b'":' or raw[quote - 3 : quote - 2] == b"\\":
        return None
    key = raw.rfind(b'"', 0, quote - 2)
    if key < 1 or raw[key - 1] not in b"{,":
        return None
    found = _STRING_END.match(raw, quote + 1)
    if found is None or raw[found.end() : found.end() + 1] not in (b",", b"}"):
        return None
    return quote + 1, found.end() - 1, _field(raw[key + 1 : quote - 2])


def _string_around(raw: bytes, at: int) -> tuple[int, int]:
    """The content of the string that holds a position (its closing quote counts), found from the quotes that are not
    escaped. Raises NeedsWalk where what is found does not look like a string between structure."""
    if raw[at : at + 1] == b'"' and not _escaped(raw, at) and _opens(raw, at) and not _closes(raw, at):
        at += 1
    quote = at
    while True:
        quote = raw.rfind(b'"', 0, quote)
        if quote < 0:
            raise NeedsWalk
        if not _escaped(raw, quote):
            break
    end = _end_of_string(raw, quote + 1)
    if end < at or not _opens(raw, quote) or not _closes(raw, end):
        raise NeedsWalk
    return quote + 1, end


def _escaped(raw: bytes, quote: int) -> bool:
    backslashes = 0
    while quote - backslashes > 0 and raw[quote - backslashes - 1] == 92:
        backslashes += 1
    return backslashes % 2 == 1


def _opens(raw: bytes, quote: int) -> bool:
    before = raw[max(0, quote - 64) : quote].rstrip(_SPACE)[-1:]
    return before in (b"{", b"[", b",", b":")


def _closes(raw: bytes, quote: int) -> bool:
    after = raw[quote + 1 : quote + 65].lstrip(_SPACE)[:1]
    return after in (b",", b":", b"}", b"]")


def _end_of_string(raw: bytes, start: int) -> int:
    """The closing quote of the string whose content starts here."""
    found = _STRING_END.match(raw, start)
    if found is None:
        raise NeedsWalk
    return found.end() - 1


def _value_place(raw: bytes, start: int, end: int, called: frozenset[int]) -> Place:
    before = raw[max(0, start - 200) : start - 1].rstrip(_SPACE)
    if not before.endswith(b":"):
        raise NeedsWalk  # an element of a list
    before = before[:-1].rstrip(_SPACE)
    if not before.endswith(b'"'):
        raise NeedsWalk
    opening = len(before) - 1
    while True:
        opening = before.rfind(b'"', 0, opening)
        if opening < 0:
            raise NeedsWalk
        if not _escaped(before, opening):
            break
    key = before[opening + 1 : -1]
    if b"\\" in key:
        raise NeedsWalk
    name = key.decode("utf-8", "replace")
    strength = strength_of(name)
    if (
        not strength
        and name.lower() in NAME_FIELDS
        and end - start <= 80
        and strength_of(raw[start:end].decode("utf-8", "replace"))
    ):
        raise NeedsWalk  # the name that a sibling's value goes by
    return Place(start, end, name, strength, called)


def paths_of(value: Any, texts: list[str]) -> list[str] | None:
    """Where string values stand, as `leaves.pathname` writes it; None where two are alike, or one is not found."""
    if len(texts) > 1 and len(set(texts)) < len(texts):
        return None
    paths = []
    for text in texts:
        path = _path_of(value, text)
        if path is None:
            return None
        paths.append(path.removeprefix("."))
    return paths


def _path_of(node: Any, text: str) -> str | None:
    if node.__class__ is dict:
        for key, item in node.items():
            kind = item.__class__
            if kind is str:
                if item == text:
                    return f".{key}"
            elif (kind is dict or kind is list) and (path := _path_of(item, text)) is not None:
                return f".{key}{path}"
    elif node.__class__ is list:
        for item in node:
            if item.__class__ is str:
                if item == text:
                    return "[]"
            elif (path := _path_of(item, text)) is not None:
                return f"[]{path}"
    return None
