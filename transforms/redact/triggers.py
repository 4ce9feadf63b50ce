"""Turns the pattern of a form into a trigger: a Hyperscan expression over raw JSON bytes that matches wherever the
form can.

Edges are dropped, long repetitions are cut (the start of a token is enough to call), characters that JSON or a log may
escape are allowed to be escaped any number of times, and characters outside ASCII become any bytes outside ASCII or
their escapes. Every step can only widen what matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from trajlake.transforms.redact.syntax import op, parse

CUT: Final = 16
"""A repetition of more than this is cut to this, and what follows it is dropped."""

_ESCAPABLE: Final = {
    '"': r"\\*\"",
    "'": r"\\*'",
    "/": r"\\*/",
    "\\": r"\\+",
    "\n": r"(?:\n|\\+n)",
    "\r": r"(?:\r|\\+r)",
    "\t": r"(?:\t|\\+t)",
    "&": r"(?:&|\\+u0026)",
    "=": r"(?:=|\\+u003d)",
    "<": r"(?:<|\\+u003c)",
    ">": r"(?:>|\\+u003e)",
    "+": r"(?:\+|\\+u002b)",
}
_WIDE: Final = r"(?:[\x80-\xff]{1,4}|\\+u[0-9a-fA-F]{4})"
CATEGORY: Final = {
    op.CATEGORY_DIGIT: "0-9",
    op.CATEGORY_WORD: "0-9A-Za-z_",
    op.CATEGORY_SPACE: " \\t\\r\\n\\f\\v",
}


class _Cut(Exception):
    """The expression is long enough; what was written so far is the trigger."""


def trigger_for(pattern: str, nocase: bool = False) -> str:
    """The trigger for a pattern of `re`: over raw JSON bytes."""
    return _Writer(escapes=True).written(pattern, nocase)


def plain_for(pattern: str, nocase: bool = False) -> str:
    """The same over the bytes of a decoded text, with the edges of the pattern: it matches wherever the pattern
    does."""
    return _Writer(escapes=False).written(pattern, nocase)


class _Writer:
    """Writes a parsed pattern anew, for Hyperscan."""

    def __init__(self, *, escapes: bool) -> None:
        self._escapes = escapes
        self._writers: dict[Any, Any] = {
            op.LITERAL: self._literal,
            op.NOT_LITERAL: self._not_literal,
            op.IN: self._class,
            op.ANY: self._any,
            op.MAX_REPEAT: self._repeat,
            op.MIN_REPEAT: self._repeat,
            op.BRANCH: self._branch,
            op.SUBPATTERN: self._group,
            op.GROUPREF: self._reference,
        }

    def written(self, pattern: str, nocase: bool) -> str:
        out: list[str] = []
        with suppress(_Cut):
            self._write_all(list(parse(pattern)), out)
        text = "".join(out)
        return f"(?i:{text})" if nocase else text

    def _write_all(self, tree: list[Any], out: list[str]) -> None:
        """The whole pattern: one edge at each end is kept where it is a single class, as a character that may be
        there."""
        first = next(
            (place for place, (code, _) in enumerate(tree) if code not in (op.AT, op.ASSERT, op.ASSERT_NOT)), len(tree)
        )
        if not self._escapes and (edge := self._edge(tree[:first], -1)):
            out.append(f"(?:^|{edge})")
        self._write(tree, out)
        last = next(
            (place for place in range(len(tree), 0, -1) if tree[place - 1][0] not in (op.AT, op.ASSERT, op.ASSERT_NOT)),
            0,
        )
        if not self._escapes and (edge := self._edge(tree[last:], 1)):
            out.append(f"(?:{edge}|$)")

    def _edge(self, tree: list[Any], direction: int) -> str:
        for code, argument in tree:
            if (
                code is op.ASSERT_NOT
                and argument[0] == direction
                and len(argument[1]) == 1
                and argument[1][0][0] is op.IN
            ):
                out: list[str] = []
                items = argument[1][0][1]
                if items[0][0] is not op.NEGATE:
                    self._class([(op.NEGATE, None), *items], out)
                    return "".join(out)
        return ""

    def _write(self, tree: Iterable[Any], out: list[str]) -> None:
        for code, argument in tree:
            # Edges and look-around only narrow; a trigger may do without.
            if code not in (op.AT, op.ASSERT, op.ASSERT_NOT):
                self._writers[code](argument, out)

    def _literal(self, code: int, out: list[str]) -> None:
        char = chr(code)
        if self._escapes and char in _ESCAPABLE:
            out.append(_ESCAPABLE[char])
        elif code < 128:
            out.append(re.escape(char))
        else:
            encoded = "".join(f"\\x{byte:02x}" for byte in char.encode())
            if self._escapes:
                out.append(f"(?:{encoded}|\\\\+u(?i:{code:04x}))" if code < 0x10000 else _WIDE)
            else:
                out.append(f"(?:{encoded})")

    def _not_literal(self, code: int, out: list[str]) -> None:
        self._class([(op.NEGATE, None), (op.LITERAL, code)], out)

    def _class(self, items: Any, out: list[str]) -> None:
        body, wide, negated = "", False, False
        for code, argument in items:
            if code is op.NEGATE:
                negated = True
            elif code is op.LITERAL:
                wide |= argument > 127
                body += in_class(argument) if argument < 128 else ""
            elif code is op.RANGE:
                low, high = argument
                wide |= high > 127
                if low < 128:
                    body += f"{in_class(low)}-{in_class(min(high, 127))}"
            elif code is op.CATEGORY:
                if argument not in CATEGORY:
                    wide = True
                    body += "\\x00-\\x7f"
                    continue
                wide |= argument in (op.CATEGORY_WORD, op.CATEGORY_SPACE)
                body += CATEGORY[argument]
        out.append(self._written_class(body, wide, negated))

    def _written_class(self, body: str, wide: bool, negated: bool) -> str:
        if negated:
            # A negated class may be met by an escape, which is made of characters that the class may refuse.
            if self._escapes and body:
                return f"(?:[^{body}]|\\\\+[^u]|\\\\+u[0-9a-fA-F]{{4}})"
            return f"[^{body}]" if body else "."
        escaped = "|\\\\+u[0-9a-fA-F]{4}" if self._escapes else ""
        spaces = "|\\\\+[nrtfv]" if self._escapes and ("\n" in body or " \\t" in body) else ""
        if wide:
            return (
                f"(?:[{body}]|[\\x80-\\xff]{{1,4}}{spaces}{escaped})" if body else f"(?:[\\x80-\\xff]{{1,4}}{escaped})"
            )
        return f"(?:[{body}]{spaces})" if spaces else f"[{body}]"

    def _repeat(self, argument: Any, out: list[str]) -> None:
        least, most, tree = argument
        inner: list[str] = []
        self._write(tree, inner)
        body = "".join(inner)
        if least > CUT:
            out.append(f"(?:{body}){{{CUT}}}")
            raise _Cut
        high = "" if most is op.MAXREPEAT or most > 60 else str(most)
        out.append(f"(?:{body}){{{least},{high}}}")

    def _branch(self, argument: Any, out: list[str]) -> None:
        parts = []
        cut = False
        for tree in argument[1]:
            inner: list[str] = []
            try:
                self._write(tree, inner)
            except _Cut:
                cut = True
            parts.append("".join(inner))
        out.append("(?:" + "|".join(parts) + ")")
        if cut:
            raise _Cut

    def _group(self, argument: Any, out: list[str]) -> None:
        _, add, _, tree = argument
        out.append("(?i:" if add & re.IGNORECASE else "(?:")
        try:
            self._write(tree, out)
        finally:
            out.append(")")

    def _any(self, argument: Any, out: list[str]) -> None:
        out.append(".")

    def _reference(self, argument: Any, out: list[str]) -> None:
        # What the group matched is not known here; the separators that forms repeat are these.
        out.append(r"[ .:-]?")


def in_class(code: int) -> str:
    """A character as it may stand in a class of an expression."""
    return f"\\x{code:02x}"
