"""Which closed runs have got further rows, as far back as that is remembered.

Somebody who has read the tables and asks for a run to be classified again may be late: the run got another row in
between. Of runs that the fold has forgotten only this memory tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

KEPT: Final = 20_000
"""Runs that are remembered; of those before it is only known how far back they go."""


class Restated:
    """Runs with more than one row in `runs`, by the offset of their first event: the offset of the newest row.

    `floor`: highest offset of those that are forgotten; -1 while none is.
    """

    def __init__(self, newest: Iterable[tuple[int, int]] = (), floor: int = -1) -> None:
        self._newest = dict(newest)
        self.floor = floor

    def note(self, first_offset: int, offset: int) -> None:
        """A run got a row at `offset` that is not its first."""
        self._newest.pop(first_offset, None)
        self._newest[first_offset] = offset
        if len(self._newest) > KEPT:
            self.floor = self._newest.pop(next(iter(self._newest)))

    def since(self, first_offset: int, seen: int) -> bool:
        """Whether a run may have got a row behind offset `seen`."""
        return seen < self.floor or self._newest.get(first_offset, -1) > seen

    def entries(self) -> list[tuple[int, int]]:
        """What is remembered, oldest first."""
        return list(self._newest.items())
