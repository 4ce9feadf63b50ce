"""A lake in a folder of its own with some batches in it, landed by the program's own ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.landkit.events import Sent, mixture
from tests.landkit.stretches import TOPIC, Batches
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger

APP = "trajlake-land"


class Landed:
    """A lake and the fold that fills it, batch by batch."""

    def __init__(self, root: Path | str, **options: Any) -> None:
        self.lake = Lake(str(root))
        self.ledger = Ledger(self.lake, APP)
        self.ledger.open()
        self.ledger.landed(TOPIC, 0)
        self.batches = Batches(**options)

    def land(self, sent: Sequence[Sent], per_batch: int = 20) -> None:
        """Land records in batches of a size."""
        for start in range(0, len(sent), per_batch):
            self.ledger.commit([self.batches.take(sent[start : start + per_batch])])

    @property
    def root(self) -> str:
        return self.lake.uri


@pytest.fixture
def landed(tmp_path: Path) -> Iterator[Landed]:
    """An empty lake."""
    one = Landed(tmp_path / "lake")
    yield one
    one.ledger.close()


@pytest.fixture
def filled(landed: Landed) -> Landed:
    """Some runs, poison and repeated events, in many small files."""
    landed.land(mixture(24), per_batch=20)
    return landed


@dataclass
class Said:
    """What a command said and how it ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class RunCommand(Protocol):
    """`run_command("forget", "--json")`: the command line in this process."""

    def __call__(self, *arguments: str) -> Said: ...


@pytest.fixture
def run_command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    from trajlake.cli import main

    def run(*arguments: str) -> Said:
        capfdbinary.readouterr()
        monkeypatch.setattr("sys.argv", ["trajlake", *arguments])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        out, errors = capfdbinary.readouterr()
        return Said(code, out.decode(), errors.decode())

    return run
