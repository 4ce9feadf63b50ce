"""Figures of the lake for Prometheus: tables, what waits for curation, how fresh the statistics are.

The dashboard shows them because it reads the tables anyway and is always there, where curation and upkeep may be jobs
that come and go. Read every half minute in a thread of its own, so that no scrape waits for a store.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import polars as pl
import structlog

from trajlake.dashboard.pulled import PulledLevers
from trajlake.expectations import metrics
from trajlake.expectations.metrics import DASHBOARD
from trajlake.expectations.reasons import Publication
from trajlake.expectations.tables import TABLES
from trajlake.reading.tables import LakeTables, TableInfo
from trajlake.reading.versions import committed_at
from trajlake.streams.curate.commit import RUNS_VERSION
from trajlake.streams.metrics import Readings
from trajlake.transforms.curate.standing import RUN, STANDING_COLUMNS, standing

if TYPE_CHECKING:
    from trajlake.dashboard.board import BoardKeeper
    from trajlake.sinks.lake import Lake

log = structlog.get_logger("trajlake.dashboard")

EVERY_S: Final = 30.0
WINDOW: Final = "24h"


@dataclass(frozen=True)
class Held:
    """What curation holds back. `since`: when the oldest was held, None where nothing is."""

    runs: int = 0
    batches: int = 0
    since: datetime | None = None


@dataclass(frozen=True)
class LakeFigures:
    """The lake at one moment. `unjudged_s`: how long the oldest version of `runs` has waited for curation; None where
    nothing was ever curated."""

    read_at: float
    tables: list[TableInfo] = field(default_factory=list)
    held: Held = field(default_factory=Held)
    unjudged_s: float | None = None


def read_figures(lake: LakeTables, now: float) -> LakeFigures:
    """Read all of it from the newest versions. `now`: seconds since the Unix epoch."""
    # The later table first: what it has seen is in the earlier one then.
    unjudged = unjudged_seconds(lake, now)
    return LakeFigures(now, [lake.describe(name) for name in TABLES], held_back(lake), unjudged)


def held_back(lake: LakeTables) -> Held:
    """Runs whose newest verdict holds them. Only runs that were ever held are looked up."""
    verdicts = lake.frame("curation").select(STANDING_COLUMNS)
    ever = verdicts.filter(pl.col("verdict") == Publication.HELD.value).select(RUN).unique()
    waiting = standing(verdicts.join(ever, on=RUN, how="semi").collect()).filter(
        pl.col("verdict") == Publication.HELD.value
    )
    if waiting.is_empty():
        return Held()
    since = waiting["decided_at"].min()
    return Held(waiting.height, waiting["publication"].n_unique(), since if isinstance(since, datetime) else None)


def unjudged_seconds(lake: LakeTables, now: float) -> float | None:
    """Age of the oldest version of `runs` that curation has not read; 0 when it has read all."""
    curation = lake.delta("curation")
    runs = lake.delta("runs")
    if curation is None or runs is None:
        return None
    judged = curation.transaction_version(RUNS_VERSION)
    seen = -1 if judged is None else judged
    if runs.version() <= seen:
        return 0.0
    # Where the log no longer holds that commit, the oldest one that it holds is younger: at least so long, then.
    for version in range(seen + 1, runs.version() + 1):
        if (made := committed_at(lake.lake, "runs", version)) is not None:
            return max(0.0, now - made.timestamp())
    return 0.0


class LakeWatch:
    """Keeps the newest figures. `metrics` may be called from any thread."""

    def __init__(self, lake: Lake, keeper: BoardKeeper, every_s: float = EVERY_S) -> None:
        self._lake = LakeTables(lake)
        self._keeper = keeper
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lake figures", daemon=True)
        self.figures: LakeFigures | None = None
        self.pulled = PulledLevers()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def refresh(self) -> None:
        """Read the figures anew; where the tables cannot be read, the old ones stay, with their time."""
        try:
            self._lake.reopen()
            self.figures = read_figures(self._lake, time.time())
            self.pulled.refresh(self._lake)
        except Exception as error:
            log.warning("figures of the lake cannot be read", reason=f"{type(error).__name__}: {error}"[:300])

    def metrics(self) -> bytes:
        """What `/metrics` answers."""
        readings = Readings(DASHBOARD)
        board = self._keeper.board
        readings.put(metrics.DASHBOARD_READY, float(board.failure is None))
        told = board.stats["emitted_at"].max() if board.stats.height else None
        readings.put(metrics.LAKE_STATISTICS, _unix(told if isinstance(told, datetime) else None))
        readings.put(metrics.LAKE_CLOSED, _unix(board.data_to))
        states = dict.fromkeys(metrics.LAKE_SKILLS.values, 0)
        for row in board.skills(WINDOW):
            if row.runs:
                states[row.state] = states.get(row.state, 0) + 1
        for state, count in states.items():
            readings.put(metrics.LAKE_SKILLS, count, state)
        if (found := self.figures) is not None:
            _put_lake(readings, found)
        return readings.text()

    def _keep(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self.refresh()
            # A store that answers slowly is not asked again at once.
            self._stop.wait(max(self._every_s, 4 * (time.monotonic() - began)))


def _put_lake(readings: Readings, found: LakeFigures) -> None:
    readings.put(metrics.LAKE_READ, found.read_at)
    readings.put(metrics.LAKE_UNJUDGED, found.unjudged_s)
    readings.put(metrics.LAKE_HELD_RUNS, found.held.runs)
    readings.put(metrics.LAKE_HELD_BATCHES, found.held.batches)
    readings.put(metrics.LAKE_HELD_SINCE, _unix(found.held.since))
    for info in found.tables:
        if info.version is None:
            continue
        readings.put(metrics.LAKE_VERSION, info.version, info.name)
        readings.put(metrics.LAKE_FILES, info.files, info.name)
        readings.put(metrics.LAKE_BYTES, info.bytes, info.name)
        readings.put(metrics.LAKE_ROWS, info.rows, info.name)
        readings.put(metrics.LAKE_COMMITTED, _unix(info.committed_at), info.name)


def _unix(moment: datetime | None) -> float | None:
    if moment is None:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
