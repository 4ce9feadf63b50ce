"""The fast pass: which events, and which rules, call for a careful search.

Hyperscan reads a micro-batch in large blocks and reports signs (`gates`); a sign that is too common is confirmed by a
look at the bytes around it. The careful search asks the same questions about one text. Both may be too wide, never too
narrow.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from trajlake.transforms.redact.errors import InvalidRules
from trajlake.transforms.redact.gates import GATES, SPLIT
from trajlake.transforms.redact.hyper import Expressions
from trajlake.transforms.redact.media import blank_media_bytes
from trajlake.transforms.redact.model import Action, Rule
from trajlake.transforms.redact.signs import (
    CLASSES,
    Confirm,
    Sign,
    Where,
    around,
    at_start,
    is_odd,
    odd_parts,
)
from trajlake.transforms.redact.starts import literals_of, starts_of
from trajlake.transforms.redact.triggers import trigger_for

BLOCK_BYTES: Final = 128 * 1024
"""Events are scanned joined, in blocks of about this size: one call costs 0.4 µs, and a block stays in the cache."""
_ENOUGH: Final = 4
"""A literal of so many characters at the start of a trigger is preferred to a longer one further inside."""
_BACK: Final = 256
_AHEAD: Final = 256
_BETWEEN_STRINGS: Final = re.compile(rb"\\*\"(?:\s|\\+[nrt])*,(?:\s|\\+[nrt])*\\*\"")
Call = tuple[int, frozenset[int]]
"""The end of a sign in the bytes, and what it calls: rules by their index, gates as negative numbers."""


def triggers_of(rule: Rule) -> tuple[str, ...]:
    """The expressions and names of gates that call a rule."""
    found = list(rule.triggers)
    for form in rule.forms:
        found.extend(form.triggers if form.triggers is not None else (trigger_for(form.pattern, form.nocase),))
    return tuple(dict.fromkeys(found))


def signs_of(trigger: str) -> tuple[Sign, ...]:
    """The signs of a trigger: those of the gate it names; else how it can begin, literals that it holds, or itself."""
    if trigger.startswith("#"):
        return GATES[trigger]
    starts = starts_of(trigger)
    if starts is not None and all(start.rare or start.literal >= _ENOUGH for start in starts):
        return tuple(Sign(start.expression, at_start(trigger, start.size)) for start in starts)
    if literals := literals_of(trigger):
        return tuple(Sign(literal, around(trigger, _BACK, _AHEAD)) for literal in literals)
    if starts is not None and all(start.literal > 2 for start in starts):
        return tuple(Sign(start.expression, at_start(trigger, start.size)) for start in starts)
    return (Sign(trigger, None, Where.RUNS),)


def _signs_of_rule(rule: Rule) -> list[Sign]:
    try:
        return [sign for trigger in triggers_of(rule) for sign in signs_of(trigger)]
    except (re.error, KeyError) as error:
        raise InvalidRules(f"the triggers of rule {rule.id!r} cannot be read: {error}") from None


_TIME_BYTES: Final = len("T00:00:00.000000Z")
_ZULU: Final = ord("Z")
_is_time: Final = re.compile(rb"T\d\d:\d\d:\d\d\.\d{6}Z").match


class _Scanner:
    """One compiled set of signs."""

    def __init__(self, where: Where) -> None:
        self._over_classes = where is Where.CLASSES
        self._signs: dict[str, dict[Confirm | None, set[int]]] = {}
        self._calls: list[list[tuple[Confirm | None, frozenset[int]]]] = []
        self._expressions: Expressions

    def add(self, sign: Sign, called: int) -> None:
        self._signs.setdefault(sign.expression, {}).setdefault(sign.confirm, set()).add(called)

    def compile(self) -> None:
        self._calls = [
            [(confirm, frozenset(called)) for confirm, called in found.items()] for found in self._signs.values()
        ]
        self._expressions = Expressions(list(self._signs))

    def calls_in(self, raw: bytes) -> list[Call]:
        """What is called in these bytes, each with the end of its sign."""
        seen = self._signs_in(raw)
        if not seen:
            return []
        calls = self._calls
        return [
            (end, called)
            for sign, end in seen
            for confirm, called in calls[sign]
            if confirm is None or confirm(raw, end)
        ]

    def rules_in(self, raw: bytes) -> set[int]:
        """What is called anywhere in these bytes: each once, so a table of numbers confirms few of its signs."""
        found: set[int] = set()
        calls = self._calls
        for sign, end in self._signs_in(raw):
            for confirm, called in calls[sign]:
                if not called <= found and (confirm is None or confirm(raw, end)):
                    found |= called
        return found

    def _signs_in(self, raw: bytes) -> list[tuple[int, int]]:
        seen = self._expressions.scan(raw.translate(CLASSES) if self._over_classes else raw)
        if self._over_classes:
            # Every event has a time, and its microseconds look like a number: told from one before anything dear.
            seen = [(sign, end) for sign, end in seen if raw[end - 1] != _ZULU or not _is_time(raw, end - _TIME_BYTES)]
        return seen


class Prefilter:
    """Compiled once per rule table. Use one instance per thread: a database has one scratch space."""

    def __init__(self, rules: Sequence[Rule], actions: Sequence[Action]) -> None:
        self._gates = {name: -1 - place for place, name in enumerate(GATES)}
        self._scanners = {where: _Scanner(where) for where in Where}
        for index, rule in enumerate(rules):
            if actions[index] is not Action.KEEP:
                for sign in _signs_of_rule(rule):
                    self._scanners[sign.where].add(sign, index)
        for name, signs in GATES.items():
            for sign in signs:
                self._scanners[sign.where].add(sign, self._gates[name])
        for scanner in self._scanners.values():
            scanner.compile()
        self._always = [scanner for where, scanner in self._scanners.items() if where is not Where.ODD]
        self._odd = self._scanners[Where.ODD]
        self._split = self._gates[SPLIT]
        self._seen: dict[int, tuple[bytes | None, list[Call]]] = {}

    def gate(self, name: str) -> int:
        """The number that stands for a gate in the sets that `rules_in` returns; rules are their own index."""
        return self._gates[name]

    def scan(self, buffers: Sequence[bytes]) -> list[int]:
        """Indices, ascending, of the buffers that may hold something to redact."""
        self._seen.clear()
        called: list[int] = []
        first, size = 0, 0
        for index, buffer in enumerate(buffers):
            size += len(buffer)
            if size >= BLOCK_BYTES:
                self._scan_block(buffers, first, index + 1, called)
                first, size = index + 1, 0
        self._scan_block(buffers, first, len(buffers), called)
        return called

    def _scan_block(self, buffers: Sequence[bytes], first: int, last: int, called: list[int]) -> None:
        if first >= last:
            return
        block = buffers[first:last]
        searched = [blank_media_bytes(buffer) for buffer in block]
        raw = b"\n".join(searched)
        ends = list(accumulate(len(buffer) + 1 for buffer in block))
        found: dict[int, list[Call]] = {}
        for scanner in self._always:
            for end, rules in scanner.calls_in(raw):
                index = bisect_right(ends, end - 1)
                found.setdefault(index, []).append((end - (ends[index - 1] if index else 0), rules))
        for index in odd_parts(raw, searched, ends):
            if calls := self._odd.calls_in(searched[index]):
                found.setdefault(index, []).extend(calls)
        for index in sorted(found):
            if calls := self._less_lists(searched[index], found[index]):
                called.append(first + index)
                self._seen[id(block[index])] = (block[index], calls)

    def calls_at(self, raw: bytes) -> list[Call]:
        """Where something is called: the end of each confirmed sign, ascending, with what it calls."""
        # What a batch was called for is kept until the next batch: the events that are redacted now are those.
        buffer, found = self._seen.pop(id(raw), (None, []))
        if buffer is not raw:
            raw = blank_media_bytes(raw)
            found = self._less_lists(
                raw, [call for scanner in self._scanners_for(raw) for call in scanner.calls_in(raw)]
            )
        found.sort(key=_end_of)
        return found

    def _less_lists(self, raw: bytes, calls: list[Call]) -> list[Call]:
        """The calls, without those of lists whose strings show nothing more when they are joined."""
        if not any(self._split in called for _, called in calls):
            return calls
        others = [call for call in calls if self._split not in call[1]]
        return calls if self.rules_in(_BETWEEN_STRINGS.sub(b"", raw)) - {self._split} else others

    def rules_in(self, raw: bytes) -> frozenset[int]:
        """The rules, and the gates as negative numbers, that these bytes call."""
        raw = blank_media_bytes(raw)
        return frozenset().union(*(scanner.rules_in(raw) for scanner in self._scanners_for(raw)))

    def _scanners_for(self, raw: bytes) -> list[_Scanner]:
        return [*self._always, self._odd] if is_odd(raw) else self._always


def _end_of(call: Call) -> int:
    return call[0]
