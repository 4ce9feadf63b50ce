"""The files of the project."""

from __future__ import annotations

import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Files that git has or would take; none outside a work tree."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns]
    done = subprocess.run(command, cwd=REPO, capture_output=True, check=False)
    return sorted(REPO / name for name in done.stdout.decode().split("\0") if name and (REPO / name).is_file())
