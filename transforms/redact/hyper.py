"""Hyperscan: many expressions, one pass over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import hyperscan

from trajlake.transforms.redact.errors import InvalidRules


class Expressions:
    """Expressions compiled together. For one thread: a database has one scratch space."""

    def __init__(self, expressions: Sequence[str]) -> None:
        """Raises InvalidRules for what is no Hyperscan expression."""
        self._database: Any = hyperscan.loadb(_compiled(tuple(expressions)), mode=hyperscan.HS_MODE_BLOCK)
        self._database.scratch = hyperscan.Scratch(self._database)

    def scan(self, raw: bytes) -> list[tuple[int, int]]:
        """What matches: (number of the expression, end of the match), once for every end."""
        seen: list[tuple[int, int]] = []
        append = seen.append
        self._database.scan(raw, match_event_handler=lambda number, _from, to, _flags, _context: append((number, to)))
        return seen


@lru_cache(maxsize=64)
def _compiled(expressions: tuple[str, ...]) -> bytes:
    """A database as bytes. Compiling takes most of the time of making a redactor, and a process may make several."""
    database: Any = hyperscan.Database()
    count = len(expressions)
    try:
        database.compile(
            expressions=[expression.encode() for expression in expressions],
            ids=list(range(count)),
            elements=count,
            flags=[0] * count,
        )
    except hyperscan.error as error:
        raise InvalidRules(f"a trigger of the rule table is not a Hyperscan expression: {error}") from None
    content: bytes = hyperscan.dumpb(database)
    return content
