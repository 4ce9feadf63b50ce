"""How far work is: what the layers that do it tell, and whoever runs it may show. Nothing is shown by default."""

from __future__ import annotations

from typing import Final, Protocol


class Progress(Protocol):
    """Who is told how far work is. May be told from several threads."""

    def stage(self, text: str, total: int | None = None, unit: str = "") -> None:
        """Something begins, and what came before has ended.

        text: what is done, such as "reading steps". total: how many of `unit` it has; None where that cannot be known
        before it is done. unit: in the plural; `bytes` are shown as kB and MB.
        """
        ...

    def name(self, text: str) -> None:
        """The stage goes on under another text: the table or file that it is at."""
        ...

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        ...

    def reach(self, done: int, total: int | None = None) -> None:
        """So many are done in all; `total` where it has become known or is another by now."""
        ...


class Silent:
    """Progress that nobody is shown."""

    def stage(self, text: str, total: int | None = None, unit: str = "") -> None:
        return None

    def name(self, text: str) -> None:
        return None

    def advance(self, count: int = 1) -> None:
        return None

    def reach(self, done: int, total: int | None = None) -> None:
        return None


SILENT: Final[Progress] = Silent()
