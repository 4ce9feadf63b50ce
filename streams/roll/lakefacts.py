"""What the advisor takes from the lake: table versions, published trajectories by skill, and the lever table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

import structlog

from trajlake.expectations.decisions import TierEntry
from trajlake.expectations.levers import LeverTable
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake
from trajlake.sinks.tierfiles import load_tier_file
from trajlake.streams.levers import read_lever_file
from trajlake.streams.settings import Settings
from trajlake.transforms.levers.tierfile import read_tier_file

log = structlog.get_logger("trajlake.roll")

REFRESH_S: Final = 30.0
_VERSIONED: Final = ("runs", "trajectories")


class LakeFacts:
    """Facts as of the last refresh. The lever table is read once: a changed one counts from the next start on.

    Raises `LeverError` or OSError where the setting `levers_file` cannot be used.
    """

    def __init__(self, lake: Lake, settings: Settings) -> None:
        self.lake = lake
        self.versions: dict[str, int] = {}
        self.trajectories: dict[tuple[str, str], int] = {}
        self.table: LeverTable = read_lever_file(settings.levers_file)
        self._tiers: dict[str, dict[str, TierEntry]] = {}
        self._asked: set[str] = set()
        """Tenants whose tier file has been asked for, in vain or not."""
        self._due = 0.0

    def knows(self, tenant_id: str) -> bool:
        """Whether the tenant's tier file has been read, or there is none."""
        return tenant_id in self._tiers

    def tier_entry(self, tenant_id: str, skill_name: str) -> TierEntry | None:
        """What the tenant's own tier file says of a skill."""
        return self._tiers.get(tenant_id, {}).get(skill_name)

    async def refresh(self, tenants: Iterable[str]) -> None:
        """Read anew where it is time, in a thread; a lake that does not answer leaves what is known."""
        tenants = list(tenants)
        if time.monotonic() < self._due and self._asked.issuperset(tenants):
            return
        self._asked.update(tenants)
        self._due = time.monotonic() + REFRESH_S
        await asyncio.get_running_loop().run_in_executor(None, self._read, tenants)

    def _read(self, tenants: list[str]) -> None:
        for tenant_id in tenants:
            try:
                text = load_tier_file(self.lake, tenant_id)
                self._tiers[tenant_id] = {} if text is None else dict(read_tier_file(text).entries)
            except Exception as error:
                log.warning("tier file not read", tenant=tenant_id, reason=str(error)[:200])
        for name in _VERSIONED:
            if name not in TABLES:
                continue
            try:
                stored = self.lake.open(name)
                self.versions[name] = stored.version()
                if name == "trajectories":
                    self.trajectories = _by_skill(stored)
            except Exception as error:
                if type(error).__name__ != "TableNotFoundError":
                    log.warning(
                        "table not read; advice goes by what was known", table=name, reason=type(error).__name__
                    )


def _by_skill(stored: Any) -> dict[tuple[str, str], int]:
    """Published trajectories by tenant and skill: the newest publication of each run, unless it was withdrawn."""
    import polars as pl

    columns = ["tenant_id", "run_id", "publication", "withdrawn", "skill_name"]
    rows = pl.DataFrame(pl.from_arrow(stored.to_pyarrow_dataset().to_table(columns=columns)))
    newest = rows.sort("publication").unique(["tenant_id", "run_id"], keep="last").filter(~pl.col("withdrawn"))
    counted = newest.group_by("tenant_id", pl.col("skill_name").fill_null("")).len()
    return {(tenant_id, skill): count for tenant_id, skill, count in counted.iter_rows()}
