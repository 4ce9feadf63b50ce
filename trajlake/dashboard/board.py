"""The board: the newest statistics of every skill and the newest advice, held in memory.

A board never changes; `BoardKeeper` makes the next one when the tables have grown. Its number grows with each, and the
`boot` id tells a reader that a board of that number is of another process.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import structlog

from trajlake.dashboard.trends import Trend, Trends
from trajlake.expectations.taxonomy import OutcomeClass

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

log = structlog.get_logger("trajlake.dashboard")

REFRESH_S: Final = 2.0
SKILL_KEY: Final = ("tenant_id", "skill_name", "window_name")
STATES: Final = ("degraded", "watch", "not_enough_data", "ok")
"""Standings, the worst first."""


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A skill in one window. Rates are within 0..1 and None where nothing is scorable; `counts` by outcome class."""

    tenant: str
    skill: str
    version: str | None
    tier: str | None
    as_of: datetime
    runs: int
    scorable: int
    successes: int
    rate: float | None
    low: float | None
    high: float | None
    open_low: float | None
    open_high: float | None
    baseline: float | None
    state: str
    code: str | None
    reason: str | None
    streak: int
    counts: Mapping[str, int]
    causes: Sequence[Mapping[str, Any]]
    changed_at: datetime | None
    latency_p95_ms: float | None
    cost_usd: float

    @property
    def excluded(self) -> int:
        """Runs that do not speak of quality."""
        return self.runs - self.scorable

    @property
    def impact(self) -> float:
        """Failures in the window that are more than the baseline explains, at least: (baseline - upper bound of the
        rate) x scorable runs, which is (lower bound of the failure rate - its baseline) x scorable runs."""
        if self.baseline is None or self.high is None:
            return 0.0
        return (self.baseline - self.high) * self.scorable


@dataclass(frozen=True)
class Board:
    """What all pages show. `failure`: why the tables could not be read at the last try; the rest is older then."""

    number: int
    boot: str
    read_at: datetime
    root: str
    stats: pl.DataFrame
    decisions: Sequence[Mapping[str, Any]]
    failure: str | None = None
    trends: Mapping[tuple[str, str], Trend] = field(default_factory=dict, repr=False)
    """The last week of each skill, by tenant and name."""
    _rows: dict[str, list[SkillRow]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def data_to(self) -> datetime | None:
        """Event time of the newest run in the statistics."""
        newest = self.stats["as_of"].max() if self.stats.height else None
        return newest if isinstance(newest, datetime) else None

    @property
    def cursor(self) -> str:
        return f"{self.boot}:{self.number}"

    def tenants(self) -> list[str]:
        return sorted(self.stats["tenant_id"].unique().to_list())

    def skills(self, window: str) -> list[SkillRow]:
        """Rows of one window, in no particular order; made once a board."""
        if window not in self._rows:
            part = self.stats.filter(pl.col("window_name") == window)
            self._rows[window] = [skill_row(row) for row in part.iter_rows(named=True)]
        return self._rows[window]

    @cached_property
    def superseded(self) -> frozenset[str]:
        """Decisions that others took the place of."""
        return frozenset(row["supersedes"] for row in self.decisions if row["supersedes"] is not None)

    def of_skill(self, tenant: str, skill: str, window: str = "24h") -> SkillRow | None:
        """The row of one skill; None where nothing is known of it."""
        return next((row for row in self.skills(window) if (row.tenant, row.skill) == (tenant, skill)), None)

    def of_tenant(self, tenant: str | None) -> Board:
        """The same board with nothing of other tenants in it."""
        if tenant is None:
            return self
        return Board(
            self.number,
            self.boot,
            self.read_at,
            self.root,
            self.stats.filter(pl.col("tenant_id") == tenant),
            [row for row in self.decisions if row["tenant_id"] == tenant],
            self.failure,
            self.trends,
        )


def skill_row(row: Mapping[str, Any]) -> SkillRow:
    """A row of `skill_stats` as pages need it."""
    return SkillRow(
        tenant=row["tenant_id"],
        skill=row["skill_name"],
        version=row["skill_version"],
        tier=row["model_tier"],
        as_of=row["as_of"],
        runs=row["runs"],
        scorable=row["scorable"],
        successes=row["successes"],
        rate=row["rate"],
        low=row["rate_low"],
        high=row["rate_high"],
        open_low=row["open_low"],
        open_high=row["open_high"],
        baseline=row["baseline_rate"] if row["baseline_rate"] is not None else row["change_before"],
        state=row["state"] or "not_enough_data",
        code=row["state_code"],
        reason=row["state_reason"],
        streak=row["streak"],
        counts={member.value: row[member.value] for member in OutcomeClass if row[member.value]},
        causes=row["causes"] or [],
        changed_at=row["change_since"],
        latency_p95_ms=row["latency_p95_ms"],
        cost_usd=row["cost_usd"],
    )


class _Newest:
    """The newest row of each key of a table that only grows: each file is read once."""

    def __init__(self, name: str, keys: Sequence[str], order: Sequence[str]) -> None:
        self.name = name
        self._keys = list(keys)
        self._order = list(order)
        self._seen: set[str] = set()
        self.rows: pl.DataFrame | None = None

    def refresh(self, lake: LakeTables) -> bool:
        """Read what is new. Returns whether anything was."""
        paths = lake.file_paths(self.name)
        new = [path for path in paths if path not in self._seen]
        if self.rows is not None and not new:
            return False
        found = lake.rows_of(self.name, new)
        if self.rows is not None:
            found = pl.concat([self.rows.lazy(), found])
        self.rows = found.sort(self._order).unique(self._keys, keep="last", maintain_order=True).collect()
        self._seen = set(paths)
        return True


class BoardKeeper:
    """Keeps the newest board in a thread of its own. `board` may be read from any thread."""

    def __init__(self, lake: LakeTables, refresh_s: float = REFRESH_S) -> None:
        self._lake = lake
        self._refresh_s = refresh_s
        self._stats = _Newest("skill_stats", SKILL_KEY, ["emitted_at", "offset"])
        self._decisions = _Newest("decisions", ["decision_id"], ["revision", "offset"])
        self._trends = Trends()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="board", daemon=True)
        empty = pl.DataFrame(schema=lake.rows_of("skill_stats", []).collect_schema())
        self.board = Board(0, uuid.uuid4().hex[:8], datetime.now(UTC), lake.root, empty, [])

    def start(self) -> None:
        """Read once, then keep reading until `stop`."""
        self.refresh()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def refresh(self) -> None:
        """Make the next board if there is anything new; note why where the tables cannot be read."""
        try:
            self._lake.reopen()
            changed = self._stats.refresh(self._lake) | self._decisions.refresh(self._lake)
            self._trends.refresh(self._lake)
        except Exception as error:
            self._fail(error)
            return
        if changed or self.board.failure:
            stats, decisions = self._stats.rows, self._decisions.rows
            assert stats is not None
            assert decisions is not None
            rows = decisions.sort("made_at", descending=True).to_dicts()
            number = self.board.number + 1
            self.board = Board(
                number, self.board.boot, datetime.now(UTC), self._lake.root, stats, rows, None, self._trends.by_skill()
            )

    def _fail(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if self.board.failure != reason:
            log.error("tables cannot be read", reason=reason)
            board = self.board
            self.board = replace(board, number=board.number + 1, failure=reason)

    def _keep(self) -> None:
        while not self._stop.wait(self._refresh_s):
            began = time.monotonic()
            self.refresh()
            # A store that answers slowly is not asked again at once.
            self._stop.wait(min(30.0, 2 * (time.monotonic() - began)))
