"""A lake in a folder of its own, and a ledger that writes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.landkit.faults import FaultyStore, faulty_store
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger

APP = "land"


class MakeLedger(Protocol):
    """`make_ledger(on_step)`: a ledger of this lake, opened."""

    def __call__(self, on_step: Callable[[str], None] = ...) -> Ledger: ...


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def make_ledger(lake: Lake) -> Iterator[MakeLedger]:
    made: list[Ledger] = []

    def make(on_step: Callable[[str], None] = lambda step: None) -> Ledger:
        ledger = Ledger(lake, APP, on_step)
        made.append(ledger)
        ledger.open()
        return ledger

    yield make
    for ledger in made:
        ledger.close()


@pytest.fixture
def store_faults(monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    """Every put of the sinks goes through this."""
    return faulty_store(monkeypatch)
