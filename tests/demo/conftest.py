"""What the tests of the demo share: the command as a process of its own, and a look at what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.landkit.processes import processes_of

COMMAND = [sys.executable, "-P", "-m", "trajlake"]


@dataclass
class Done:
    """A demo that has ended."""

    code: int
    stdout: str
    stderr: str
    said: dict[str, Any] = field(default_factory=dict)


class Place:
    """A folder with a lake in it, and the demos that ran there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "lake"

    def start(self, *options: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "demo", "--root", str(self.root), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
        )

    def demo(self, *options: str, environment: dict[str, str] | None = None) -> Done:
        """Run a demo to its end."""
        with self.start(*options, environment=environment) as process:
            stdout, stderr = process.communicate(timeout=120)
        said = json.loads(stdout) if "--json" in options and stdout else {}
        return Done(process.returncode, stdout, stderr, said)

    def trajlake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Any other command, here."""
        return subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=60, check=False
        )

    def processes(self) -> list[psutil.Process]:
        """Everything that runs and has to do with this folder: Kafka, land workers and their children, scripts."""
        return processes_of(self.folder)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read what a demo says until it says this."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"ended without saying {text!r}")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place of its own; whatever a failed test left running there is ended."""
    made = Place(tmp_path)
    yield made
    for process in made.processes():
        process.kill()


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("demo"))
    yield made
    for process in made.processes():
        process.kill()
