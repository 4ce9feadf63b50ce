"""The current statistics of skills and the advice that stands on them, from the tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from trajlake.expectations.outcomes import CLASSES

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables


def current_statistics(lake: LakeTables, *, tenant: str | None = None, window: str = "24h") -> pl.DataFrame:
    """The newest row of `skill_stats` for each skill in one window, sorted by tenant and skill."""
    rows = lake.frame("skill_stats").filter(pl.col("window_name") == window)
    if tenant is not None:
        rows = rows.filter(pl.col("tenant_id") == tenant)
    newest = rows.sort("emitted_at", "offset").unique(["tenant_id", "skill_name"], keep="last")
    return newest.sort("tenant_id", "skill_name").collect()


def standing_advice(lake: LakeTables, now: datetime, *, tenant: str | None = None) -> dict[tuple[str, str], Any]:
    """The newest decision that concerns each skill and still stands: by (tenant, skill), as an object for JSON.

    What has expired by `now`, carries a flag or was superseded stands no longer. A skill's own decision goes before
    one on a cause that it shares, save one that advises nothing: of it only the old rule's word is kept.
    """
    rows = lake.frame("decisions")
    if tenant is not None:
        rows = rows.filter(pl.col("tenant_id") == tenant)
    columns = [
        "decision_id", "revision", "tenant_id", "skill_name", "skills", "lever", "target_kind", "target", "summary",
        "confidence", "made_at", "as_of", "expires_at", "supersedes", "flag", "old_rule",
    ]  # fmt: skip
    newest = rows.select(columns).sort("revision").unique("decision_id", keep="last").sort("as_of", "made_at").collect()
    superseded = set(newest["supersedes"].drop_nulls().to_list())
    shared: dict[tuple[str, str], Any] = {}
    own: dict[tuple[str, str], Any] = {}
    for row in newest.iter_rows(named=True):
        if row["flag"] is not None or row["decision_id"] in superseded or row["expires_at"] <= now:
            continue
        if row["skill_name"] is not None:
            own[row["tenant_id"], row["skill_name"]] = _advice(row)
        for skill in row["skills"] or ():
            shared[row["tenant_id"], skill] = _advice(row)
    for place, advice in own.items():
        common = shared.get(place)
        if common is None or advice["lever"] != "none":
            shared[place] = advice
        else:
            shared[place] = {**common, "old_rule": advice["old_rule"]}
    return shared


def skill_object(row: Mapping[str, Any], advice: Any) -> dict[str, Any]:
    """One skill as `trajlake skills --json` prints it. `row`: of `current_statistics`."""
    low, high = row["rate_low"], row["rate_high"]
    return {
        "tenant": row["tenant_id"],
        "skill": row["skill_name"],
        "window": row["window_name"],
        "as_of": row["as_of"],
        "emitted_at": row["emitted_at"],
        "runs": row["runs"],
        "counts": {name: row[name] for name in CLASSES if row[name]},
        "scorable": row["scorable"],
        "rate": row["rate"],
        "interval": None if low is None else {"low": low, "high": high},
        "wilson": None if row["wilson_low"] is None else {"low": row["wilson_low"], "high": row["wilson_high"]},
        "open_bounds": None if row["open_low"] is None else {"low": row["open_low"], "high": row["open_high"]},
        "streak": row["streak"],
        "state": row["state"],
        "reason": row["state_reason"],
        "cost_usd": row["cost_usd"],
        "latency_p95_ms": row["latency_p95_ms"],
        "restatement": row["restatement"],
        "advice": advice,
    }


def _advice(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("decision_id", "lever", "target_kind", "target", "summary", "confidence", "expires_at", "old_rule")
    return {name: row[name] for name in names}
