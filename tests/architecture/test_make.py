"""A newcomer's commands: listed, explained, and the same in CI."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
NEWCOMER = ("setup", "demo", "test", "check", "bench", "chaos", "clean")


def make(*args: str) -> subprocess.CompletedProcess[str]:
    # Make's own variables would make a test inside `make test` part of that run.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *args], cwd=REPO, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def test_make_alone_lists_every_target_with_a_line_each() -> None:
    listed = make().stdout
    for target in NEWCOMER:
        assert re.search(rf"^  make {target} +\w.+$", listed, re.MULTILINE), target


def test_a_python_that_is_too_old_or_absent_is_named_in_one_sentence(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.9.18"; exit 1\n')
    old.chmod(0o755)
    for python, told in ((str(old), "is Python 3.9.18"), ("no-such-python", 'there is no "no-such-python" here')):
        done = make("setup", f"PYTHON={python}", f"VENV={tmp_path / 'env'}")
        assert done.returncode != 0
        assert "trajlake needs Python 3.11 or newer; " in done.stderr
        assert told in done.stderr
        assert not (tmp_path / "env").exists()


def test_ci_runs_what_a_newcomer_runs() -> None:
    script = (REPO / ".ci" / "run").read_text()
    commands = [line for line in script.splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make test"]
