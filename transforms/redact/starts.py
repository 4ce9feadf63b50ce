"""How a trigger can begin, and which literals it cannot do without: what Hyperscan finds at gigabytes a second."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from trajlake.transforms.redact.syntax import op, parse
from trajlake.transforms.redact.triggers import CATEGORY, CUT, in_class

MOST: Final = 160
"""A trigger that would become more expressions than this becomes its own sign."""
_LONG: Final = 5
"""A literal of so many characters is rare enough to stand alone."""
_BEHIND: Final = 8
"""Characters kept behind a literal: where a literal was found, they are looked at for nothing."""
_FEW: Final = 4


class Start(NamedTuple):
    """An expression of fixed size that a trigger begins with, and the longest literal in it."""

    expression: str
    size: int
    literal: int

    @property
    def rare(self) -> bool:
        return self.literal >= _LONG or self.size >= self.literal + (_FEW if self.literal > 2 else _BEHIND)


class _Piece(NamedTuple):
    """What is known of a start while it is made: its longest literal, the literal it ends in, and what stands behind
    one."""

    expression: str = ""
    size: int = 0
    longest: int = 0
    running: int = 0
    behind: int = 0
    open: bool = True

    def then(self, written: str, literal: bool) -> _Piece:
        running = self.running + 1 if literal else 0
        behind = 0 if literal else self.behind + 1
        return _Piece(self.expression + written, self.size + 1, max(self.longest, running), running, behind)

    @property
    def enough(self) -> bool:
        return self.size >= CUT or (self.longest > 0 and self.behind >= _BEHIND)


def starts_of(trigger: str) -> tuple[Start, ...] | None:
    """All ways in which what a trigger matches can begin, one of which is in everything that it matches; None where
    there are too many, or where they hold no literal to look for."""
    pieces = _extend([_Piece()], parse(trigger), False)
    if pieces is None or any(not piece.longest for piece in pieces):
        return None
    return tuple(dict.fromkeys(Start(piece.expression, piece.size, piece.longest) for piece in pieces))


def _extend(pieces: list[_Piece], tree: Any, nocase: bool) -> list[_Piece] | None:
    for code, argument in tree:
        if not any(piece.open and not piece.enough for piece in pieces):
            break
        done = [piece for piece in pieces if not piece.open or piece.enough]
        more = _step([piece for piece in pieces if piece.open and not piece.enough], code, argument, nocase)
        if more is None or len(done) + len(more) > MOST:
            return None
        pieces = done + more
    return pieces


def _step(pieces: list[_Piece], code: Any, argument: Any, nocase: bool) -> list[_Piece] | None:
    """The pieces with one more element of the expression behind them."""
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return pieces
    if code is op.LITERAL and argument < 128:
        written = f"(?i:{re.escape(chr(argument))})" if nocase and chr(argument).isalpha() else re.escape(chr(argument))
        return [piece.then(written, True) for piece in pieces]
    if code is op.IN:
        return _step_class(pieces, argument, nocase)
    if code is op.SUBPATTERN:
        return _extend(pieces, argument[3], nocase or bool(argument[1] & re.IGNORECASE))
    if code is op.BRANCH:
        joined: list[_Piece] = []
        for branch in argument[1]:
            more = _extend(pieces, branch, nocase)
            if more is None or len(joined) + len(more) > MOST:
                return None
            joined += more
        return joined
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _step_repeat(pieces, argument, nocase)
    return [piece._replace(open=False) for piece in pieces]


def _step_class(pieces: list[_Piece], items: Any, nocase: bool) -> list[_Piece] | None:
    if all(code is op.LITERAL and char < 128 for code, char in items) and len(items) <= _FEW:
        return [more for _, char in items for more in _step(pieces, op.LITERAL, char, nocase) or ()]
    body = ""
    for code, argument in items:
        if code is op.NEGATE:
            return [piece._replace(open=False) for piece in pieces]
        if code is op.LITERAL and argument < 256:
            body += in_class(argument)
        elif code is op.RANGE and argument[1] < 256:
            body += f"{in_class(argument[0])}-{in_class(argument[1])}"
        elif code is op.CATEGORY and argument in CATEGORY:
            body += CATEGORY[argument]
        else:
            return [piece._replace(open=False) for piece in pieces]
    written = f"(?i:[{body}])" if nocase else f"[{body}]"
    return [piece.then(written, False) for piece in pieces]


def _step_repeat(pieces: list[_Piece], argument: Any, nocase: bool) -> list[_Piece] | None:
    least, most, tree = argument
    grown: list[_Piece] = pieces
    for _ in range(max(min(least, CUT), 1 if most == 1 else 0)):
        more = _extend(grown, tree, nocase)
        if more is None:
            return None
        grown = more
    if least == most:
        return grown
    if most == 1:
        return grown + pieces
    return [piece._replace(open=False) for piece in grown]


def literals_of(trigger: str) -> tuple[str, ...] | None:
    """The rarest literals that a trigger cannot do without, wherever they stand in it; None where there are none."""
    found = _required(parse(trigger), False)
    if not found or any(len(text) < 3 for text, _ in found):
        return None
    return tuple(f"(?i:{re.escape(text)})" if nocase else re.escape(text) for text, nocase in sorted(found))


def _required(tree: Any, nocase: bool) -> set[tuple[str, bool]] | None:
    """The best set of literals of a sequence: of all places to start, that whose shortest literal is longest."""
    items = list(tree)
    best: set[tuple[str, bool]] | None = None
    for place, (code, argument) in enumerate(items):
        heads, _ = _heads(items[place:])
        if heads and "" not in heads:
            best = _better(best, {(head, nocase) for head in heads})
        if code is op.SUBPATTERN:
            best = _better(best, _required(argument[3], nocase or bool(argument[1] & re.IGNORECASE)))
        elif code is op.BRANCH:
            branches = [_required(branch, nocase) for branch in argument[1]]
            if all(branches):
                best = _better(best, set[tuple[str, bool]]().union(*(branch for branch in branches if branch)))
        elif code is op.MAX_REPEAT and argument[0] >= 1:
            best = _better(best, _required(argument[2], nocase))
    return best


def _heads(tree: Any) -> tuple[set[str], bool]:
    """All literal texts that a sequence can begin with, and whether they are the whole of it."""
    heads = {""}
    for code, argument in tree:
        more, whole = _first(code, argument)
        if len(heads) * len(more) > MOST:
            return heads, False
        heads = {head + tail for head in heads for tail in more}
        if not whole:
            return heads, False
    return heads, True


def _first(code: Any, argument: Any) -> tuple[set[str], bool]:
    if code is op.LITERAL and argument < 128:
        return {chr(argument)}, True
    if code is op.IN and all(item is op.LITERAL and char < 128 for item, char in argument) and len(argument) <= 8:
        return {chr(char) for _, char in argument}, True
    if code is op.SUBPATTERN and not argument[1]:
        return _heads(argument[3])
    if code is op.BRANCH:
        parts = [_heads(branch) for branch in argument[1]]
        joined = set[str]().union(*(part for part, _ in parts))
        return (joined, all(whole for _, whole in parts)) if len(joined) <= MOST else ({""}, False)
    if code is op.MAX_REPEAT and argument[0] >= 1:
        heads, whole = _heads(argument[2])
        if whole and len(heads) == 1:
            return {next(iter(heads)) * argument[0]}, argument[0] == argument[1]
        return heads, False
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return {""}, True
    return {""}, False


def _better(one: set[tuple[str, bool]] | None, other: set[tuple[str, bool]] | None) -> set[tuple[str, bool]] | None:
    if not one or not other:
        return one or other
    return max(one, other, key=lambda found: (min(6, *(len(text) for text, _ in found)), -len(found)))
