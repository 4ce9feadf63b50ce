"""The installed wheel where there is no network at all: every page loads, and nothing is asked of anybody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dashboard.browser import CHROMIUM, FLAGS, PATHS, WITH_CHROMIUM

NO_NETWORK = ["unshare", "--map-root-user", "--net"]


def may_unshare() -> bool:
    try:
        return subprocess.run([*NO_NETWORK, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = [
    *WITH_CHROMIUM,
    pytest.mark.skipif(not may_unshare(), reason="no network namespace of one's own on this machine"),
]


def test_the_installed_wheel_shows_every_page_without_a_network(lake: Path, tmp_path: Path, repo: Path) -> None:
    made, target = tmp_path / "made", tmp_path / "target"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(made), str(repo)]
    subprocess.run(build, capture_output=True, check=True, cwd=tmp_path)
    [wheel] = made.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True)
    words = [str(lake), str(CHROMIUM), json.dumps(FLAGS), json.dumps(PATHS)]
    done = subprocess.run(
        [*NO_NETWORK, sys.executable, "-P", str(repo / "tests" / "dashboard" / "alone.py"), *words],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)}, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["installed"].startswith(str(target))
    assert (told["elsewhere"], told["complaints"]) == ([], [])
    assert len(told["titles"]) == len(PATHS)
