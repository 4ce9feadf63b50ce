"""A team's tier file beside what the lake knows: tiers pulled since it was written, advice, and the old rule's word."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
from msgspec.structs import replace

from trajlake.expectations.decisions import TierEntry
from trajlake.expectations.levers import Lever, shipped_levers
from trajlake.expectations.outcomes import Decision
from trajlake.reading.decisions import read_decisions
from trajlake.reading.tables import LakeTables
from trajlake.transforms.levers.effects import lever_of, names_tier

if TYPE_CHECKING:
    from trajlake.sinks.lake import Lake
    from trajlake.transforms.levers.tierfile import TierFile


def beside(lake: Lake, tenant: str, file: TierFile) -> list[dict[str, Any]]:
    """One row a skill of the file: what it says, the newest advice, and what two bad runs in a row would have done."""
    newest: dict[str, Decision] = {}
    for decision in reversed(read_decisions(LakeTables(lake), tenant=tenant)):
        if decision.skill_name is not None:
            newest[decision.skill_name] = decision
    rows = []
    for skill, entry in file.entries.items():
        advice = newest.get(skill)
        rows.append(
            {
                "skill": skill,
                "tier": entry.tier,
                "pinned": entry.pinned,
                "consecutive_failures": entry.consecutive_failures,
                "advice": None if advice is None else advice.lever,
                "old_rule": None if advice is None else advice.old_rule,
                "why": None if advice is None else advice.summary,
            }
        )
    return rows


def changes_since(lake: Lake, tenant: str, file: TierFile) -> dict[str, TierEntry]:
    """Entries of skills whose tier was changed by an `agent.lever.applied` event that the file does not show yet.

    The last tier event of a skill counts. One older than the entry's own date is history that the file knows.
    """
    events = (
        LakeTables(lake).events().filter((pl.col("type") == "agent.lever.applied") & (pl.col("tenant_id") == tenant))
    )
    ordered = events.with_columns(pl.coalesce("time", "append_time").alias("at")).sort(
        "at", "topic", "partition", "offset"
    )
    changes: dict[str, TierEntry] = {}
    for at, text in ordered.select("at", "event").collect().iter_rows():
        data = msgspec.json.decode(text).get("data") or {}
        skill = str((data.get("skill") or {}).get("name"))
        entry = file.entries.get(skill)
        tier = data.get("change_to")
        if entry is None or not tier or not _of_tier(data) or _known(entry, at):
            continue
        if tier == entry.tier:
            changes.pop(skill, None)
            continue
        changes[skill] = replace(
            entry, tier=tier, consecutive_failures=None if entry.consecutive_failures is None else 0,
            reason=_reason(data), date=at.astimezone(UTC).strftime("%Y-%m-%d"),
        )  # fmt: skip
    return changes


def _of_tier(data: Mapping[str, Any]) -> bool:
    name = str(data.get("lever") or "")
    if names_tier(name):
        return True
    tiers = [*shipped_levers().terms.tiers, *filter(None, (data.get("change_from"), data.get("change_to")))]
    return lever_of(name, data.get("change_from"), data.get("change_to"), tiers) in (Lever.MODEL_UP, Lever.MODEL_DOWN)


def _known(entry: TierEntry, at: datetime) -> bool:
    """Whether the entry was written after the event; an entry without a readable date was not."""
    if entry.date is None:
        return False
    try:
        written = datetime.fromisoformat(entry.date)
    except ValueError:
        return False
    if len(entry.date) <= len("2026-01-01"):
        return at.astimezone(UTC).date() < written.date()
    return at < (written if written.tzinfo is not None else written.replace(tzinfo=UTC))


def _reason(data: Mapping[str, Any]) -> str:
    decision = data.get("decision_id")
    by = data.get("applied_by")
    return " ".join(
        ["lever applied", *([f"by {by}"] if by else []), *([f"after decision {decision}"] if decision else [])]
    )
