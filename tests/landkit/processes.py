"""Processes that a test's commands started, found by the folder that they work in."""

from __future__ import annotations

import os
from pathlib import Path

import psutil


def processes_of(folder: Path) -> list[psutil.Process]:
    """Everything that runs and has to do with a folder: Kafka, workers and their children, scripts."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            found.append(process)
    return found
