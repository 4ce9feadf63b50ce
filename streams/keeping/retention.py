"""Retention: what is older than its time goes, by the same path as an erasure, and is not suppressed afterwards.

    runs        a closed run goes whole, with its events, steps, rewards and all that was decided of it: the ledger
                keeps an empty row for each event, so the accounting still closes
    quarantine  content of refused records goes; place and verdict stay

A run counts from its last close, a refused record from its append time. Killed anywhere, the next round goes on: what
is due is found anew, and rows of `runs` go last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.erasures import Entry, ErasureLedger
from trajlake.sinks.lake import Lake
from trajlake.streams.keeping.forget import Erasure, table_rows
from trajlake.streams.keeping.quarantine import Wanted, listed, purge
from trajlake.transforms.landing.erasure import Eraser
from trajlake.transforms.landing.suppression import Suppression

KINDS: Final = ("runs", "quarantine")


@dataclass
class Expired:
    """What a round took away: runs, rows by table, refused records whose content went."""

    runs: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0


def expire(
    lake: Lake,
    days: Mapping[str, float],
    now: datetime,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Expired:
    """Take away what is older than its days. `days` by kind, see `KINDS`; a kind that is not named is kept for good.

    Raises ValueError for a kind that there is not, `SinkUnavailable`.
    """
    unknown = sorted(set(days) - set(KINDS))
    if unknown:
        raise ValueError(f"no retention for {unknown[0]!r}; there is one for {' and '.join(KINDS)}")
    done = Expired()
    if "quarantine" in days:
        due = Wanted(until=now - timedelta(days=days["quarantine"]))
        if any(row["state"] not in ("purged", "erased") for row in listed(lake, due)):
            done.quarantined = purge(lake, due, by="retention", on_step=on_step, progress=progress)
    if "runs" in days:
        runs = closed_before(lake, now - timedelta(days=days["runs"]), progress)
        if runs:
            entry = ErasureLedger(lake).append("expired", "retention", None, detail={"runs": len(runs)})
            forgotten = _Expiry(lake, entry, on_step, progress, runs).run()
            done.runs, done.rows = forgotten.runs, forgotten.rows
    return done


def closed_before(lake: Lake, moment: datetime, progress: Progress = SILENT) -> set[tuple[str, str]]:
    """(tenant, run) of runs whose last close lies before a moment. Raises `SinkUnavailable`."""
    newest: dict[tuple[str, str], datetime] = {}
    for rows in table_rows(lake, "runs", ("tenant_id", "run_id", "closed_at"), progress):
        for row in rows.group_by(["tenant_id", "run_id"]).aggregate([("closed_at", "max")]).to_pylist():
            key = (row["tenant_id"], row["run_id"])
            newest[key] = max(newest.get(key, row["closed_at_max"]), row["closed_at_max"])
    return {key for key, closed in newest.items() if closed < moment}


class _Expiry(Erasure):
    """The erasure of runs that are too old: known by name, under a key that is thrown away."""

    def __init__(
        self,
        lake: Lake,
        entry: Entry,
        on_step: Callable[[str], None],
        progress: Progress,
        runs: set[tuple[str, str]],
    ) -> None:
        super().__init__(lake, entry, on_step, progress)
        self._runs = runs

    def _find_and_fence(self) -> None:
        names = Suppression(key=os.urandom(32))
        self.suppression = Suppression(0, names.key, frozenset(names.of_run(*run) for run in self._runs))
        self.done.names = self._runs
        self.done.runs = len(self._runs)

    def _eraser(self) -> Eraser:
        return Eraser(self.suppression, None, signs=False)

    def _tables(self) -> list[str]:
        return sorted(super()._tables(), key=lambda name: name == "runs")

    def _renew_snapshots(self) -> None:
        """Closed runs are remembered for a day at most; open ones are not due."""
