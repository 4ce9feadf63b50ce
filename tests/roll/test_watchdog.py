"""A worker whose loop does not turn: not ready first, and ended when it will not turn again."""

from __future__ import annotations

import subprocess
import sys
import time

from trajlake.streams.roll.app import STUCK_S, RollApp
from trajlake.streams.settings import load_settings

WATCHED = """
import os, time
from types import SimpleNamespace
from trajlake.streams.roll.worker import DEAD_S, _watch
_watch(SimpleNamespace(turned_at=time.monotonic() - {share} * DEAD_S), os.getppid())
"""


def test_a_loop_that_stands_still_makes_the_worker_unready() -> None:
    roll = RollApp(load_settings(root="unused"), 8799)
    roll.recovered = True
    assert roll.problems() == []
    roll.turned_at = time.monotonic() - STUCK_S - 1
    assert len(roll.problems()) == 1
    assert "has not turned" in roll.problems()[0]


def test_the_watchdog_ends_a_process_whose_loop_is_stuck_for_good() -> None:
    command = [sys.executable, "-c", WATCHED.format(share=1.1)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "has not turned" in done.stdout + done.stderr


def test_the_watchdog_leaves_a_slow_loop_alone() -> None:
    process = subprocess.Popen([sys.executable, "-c", WATCHED.format(share=0.3)])
    try:
        time_over = False
        try:
            process.wait(6)
        except subprocess.TimeoutExpired:
            time_over = True
        assert time_over, process.returncode
    finally:
        process.kill()
        process.wait()
