"""Waiting until everything that was published has landed, and every run has come to its end in the tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import polars as pl

from trajlake.demo.log import LogView
from trajlake.reading.tables import LakeTables
from trajlake.streams.importing.published import landed_offsets
from trajlake.streams.settings import Settings

STALL_S: Final = 120.0
"""How long nothing may move before the wait is given up."""

_LOOK_S: Final = 0.3


class Arrival:
    """Compares the log with the tables. `settings` name the topic and the application id."""

    def __init__(self, settings: Settings, lake: LakeTables, log: LogView) -> None:
        self._topic = settings.events_topic
        self._app_id = settings.app_id
        self._lake = lake
        self._log = log

    def wait(
        self, runs: set[tuple[str, str]], check: Callable[[], None], on_look: Callable[[int, int], None]
    ) -> tuple[int, int]:
        """Wait until these runs, (tenant, run id), have closed and all offsets have landed.

        on_look: told how many runs are open and how many offsets have not landed. check: may raise to end the wait.
        Returns both numbers as they are at the end: 0 and 0, or what is missing when nothing moved for `STALL_S`.
        """
        seen, moved_at = (-1, -1), time.monotonic()
        while True:
            check()
            waiting = len(self._open(runs)), self._behind()
            on_look(*waiting)
            if waiting == (0, 0):
                return waiting
            if waiting != seen:
                seen, moved_at = waiting, time.monotonic()
            elif time.monotonic() - moved_at > STALL_S:
                return waiting
            time.sleep(_LOOK_S)

    def _behind(self) -> int:
        ends = self._log.ends(self._topic)
        landed = landed_offsets(self._lake.lake, self._app_id, self._topic, ends)
        return sum(max(0, end - landed.get(partition, -1) - 1) for partition, end in ends.items())

    def _open(self, runs: set[tuple[str, str]]) -> set[tuple[str, str]]:
        self._lake.reopen()
        wanted = pl.Series(sorted({run_id for _, run_id in runs}), dtype=pl.String)
        found = self._lake.runs().select("tenant_id", "run_id").filter(pl.col("run_id").is_in(wanted.implode()))
        return runs - set(found.unique().collect().iter_rows())
