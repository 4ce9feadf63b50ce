"""Faults of what is around the program, made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import pytest


class FaultyStore:
    """Stands in front of every write to an object store; `before` and `after` get its path and may raise.

    A store that fails on demand is no part of this program: this is where it is made to fail.
    """

    def __init__(self, put: Callable[..., Any]) -> None:
        self._put = put
        self.before: Callable[[str], None] = lambda path: None
        self.after: Callable[[str], None] = lambda path: None

    def __call__(self, store: Any, path: str, *args: Any, **options: Any) -> Any:
        self.before(path)
        result = self._put(store, path, *args, **options)
        self.after(path)
        return result

    def heal(self) -> None:
        """Fail no more."""
        self.before = self.after = lambda path: None


def faulty_store(monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    """Put every write of the sinks behind a `FaultyStore`, until the test is over."""
    faults = FaultyStore(obstore.put)
    monkeypatch.setattr(obstore, "put", faults)
    return faults


@contextmanager
def blocked(table: Path) -> Iterator[None]:
    """A table whose log folder is a file for as long as the block lasts: no right and no owner helps a writer then."""
    log, aside = table / "_delta_log", table / "aside"
    log.rename(aside)
    log.write_text("in the way")
    try:
        yield
    finally:
        log.unlink()
        aside.rename(log)
