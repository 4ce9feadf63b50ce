"""Levers that were pulled, and how the skill did before and does now: from the ledger's few `agent.lever.applied`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson
import polars as pl

if TYPE_CHECKING:
    from trajlake.dashboard.board import Board, SkillRow
    from trajlake.reading.tables import LakeTables

TYPE: Final = "agent.lever.applied"
MOST: Final = 500
"""The newest so many are kept."""
_FILES: Final = 64
"""Files that are looked into at a time."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """One lever that somebody pulled. `skill` is empty for one that was pulled on no skill in particular."""

    at: datetime
    tenant: str
    skill: str
    lever: str
    change_from: str | None
    change_to: str | None
    applied_by: str | None
    decision_id: str | None


class PulledLevers:
    """Keeps the levers that were pulled: each file of `events` is read once, its narrow columns first."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._found: list[Pulled] = []

    def refresh(self, lake: LakeTables) -> None:
        """Read what is new."""
        paths = lake.file_paths("events")
        new = [path for path in paths if path not in self._seen]
        if not new:
            return
        found: list[Pulled] = []
        for first in range(0, len(new), _FILES):
            rows = lake.rows_of("events", new[first : first + _FILES])
            # Hardly any file holds one: the text of its events is not read then.
            if rows.select((pl.col("type") == TYPE).any()).collect().item():
                found += _read(rows)
        with self._lock:
            # Files that upkeep joined hold levers that are known.
            self._found = sorted({*self._found, *found}, key=lambda each: each.at, reverse=True)[:MOST]
        self._seen = set(paths)

    def newest(self, tenant: str | None, skill: str | None = None) -> list[Pulled]:
        """Levers of a tenant, or of all, the newest first."""
        with self._lock:
            found = list(self._found)
        return [each for each in found if tenant in (None, each.tenant) and (skill is None or each.skill == skill)]


@dataclass(frozen=True, slots=True)
class Since:
    """What a skill's rate over 24 hours was when a lever was pulled, and what it is now; None where it is not known."""

    then: float | None
    then_scorable: int | None
    now: SkillRow | None


def what_came(lake: LakeTables, board: Board, pulled: Sequence[Pulled]) -> list[tuple[Pulled, Since]]:
    """Each lever with the skill's rate as it was told last before it, and as it is told now. One scan of
    `skill_stats`."""
    now = {(row.tenant, row.skill): row for row in board.skills("24h")}
    keys = pl.DataFrame(
        [(number, each.tenant, each.skill, each.at) for number, each in enumerate(pulled) if each.skill],
        {"number": pl.UInt32, "tenant_id": pl.String, "skill_name": pl.String, "pulled_at": pl.Datetime("us", "UTC")},
        orient="row",
    )
    then: dict[int, tuple[float | None, int]] = {}
    if not keys.is_empty():
        told = (
            lake.frame("skill_stats")
            .filter(pl.col("window_name") == "24h")
            .select("tenant_id", "skill_name", "as_of", "offset", "rate", "scorable")
            .join(keys.lazy(), on=["tenant_id", "skill_name"])
            .filter(pl.col("as_of") <= pl.col("pulled_at"))
            .sort("as_of", "offset")
            .unique("number", keep="last")
            .collect()
        )
        then = {number: (rate, scorable) for number, rate, scorable in told.select("number", "rate", "scorable").rows()}
    found = []
    for number, each in enumerate(pulled):
        rate, scorable = then.get(number, (None, None))
        found.append((each, Since(rate, scorable, now.get((each.tenant, each.skill)))))
    return found


def _read(rows: pl.LazyFrame) -> list[Pulled]:
    at = pl.coalesce("time", "append_time").alias("at")
    found = rows.filter(pl.col("type") == TYPE).select("tenant_id", at, "event").collect()
    return [_pulled(row) for row in found.iter_rows(named=True)]


def _pulled(row: Mapping[str, Any]) -> Pulled:
    data = orjson.loads(row["event"]).get("data") or {}
    skill = (data.get("skill") or {}).get("name")
    named = ("change_from", "change_to", "applied_by", "decision_id")
    return Pulled(row["at"], row["tenant_id"], skill or "", str(data.get("lever")), *(data.get(name) for name in named))
