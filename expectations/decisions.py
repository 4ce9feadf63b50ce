"""What a decision is made from. All of it is stored in `decisions.inputs`, so that the decision can be made again.

A `Snapshot` is about one skill, or about one cause that several skills share. Counts are of runs that speak of quality
unless a field says otherwise. Times are microseconds since the Unix epoch, UTC.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec
from msgspec import Struct

from trajlake.expectations.levers import LeverTable
from trajlake.expectations.outcomes import Position

MOST_RECENT: Final = 64
"""Newest outcome classes that a snapshot holds."""


class TierCounts(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Scorable runs of a skill on one model tier in one task family, within the window or a stretch of time."""

    model_tier: str | None = None
    task_family: str | None = None
    successes: int = 0
    failures: int = 0
    priced_runs: int = 0
    """Runs of any class that reported a price."""
    cost_usd: float = 0.0
    """Price of these, summed."""


class FailureCount(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Runs of the window that did not succeed, by what they failed of."""

    outcome_class: str
    failure_kind: str | None = None
    failing_tool: str | None = None
    error_type: str | None = None
    model_provider: str | None = None
    runs: int = 0


class PulledLever(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A lever that somebody pulled (`agent.lever.applied`), with the skill's runs before and after it."""

    lever: str
    """As the event names it; `transforms.levers.effects.lever_of` reads it."""
    at_us: int
    before: tuple[TierCounts, ...] = ()
    """Runs before it, back to the change before that or the window's start."""
    after: tuple[TierCounts, ...] = ()
    """Runs since, up to the next change."""
    change_from: str | None = None
    change_to: str | None = None
    applied_by: str | None = None
    decision_id: str | None = None


class VersionChange(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A version that differs from the runs before."""

    component: Literal["prompt", "skill", "memory", "tool", "model"]
    at_us: int
    change_from: str | None = None
    change_to: str | None = None


class TierEntry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a team's own tier file says of a skill."""

    tier: str | None = None
    pinned: bool = False
    consecutive_failures: int | None = None
    reason: str | None = None
    date: str | None = None


class Standing(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Assessment of the skill, as `transforms.stats.assessment.assess` gave it, and the drop that it saw."""

    state: str
    code: str
    reason: str
    e_value: float
    before: tuple[int, int] = (0, 0)
    """Successes and failures before the drop."""
    after: tuple[int, int] = (0, 0)
    """Successes and failures since."""
    since_us: int | None = None


class CommonCause(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A cause that runs share, as `transforms.stats.causes.find_causes` gave it."""

    cause_id: str
    classes: tuple[str, ...]
    kind: str | None = None
    dimension: str
    value: str
    since_us: int
    last_us: int
    faults: int
    runs: int
    skills: tuple[str, ...]
    e_value: float
    reason: str


class Snapshot(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All that a decision is a function of. `skill_name` and `standing` for a skill, `cause` for a common cause."""

    tenant_id: str
    as_of_us: int
    """End of the newest run that it holds."""
    window: str
    """Name of the window that counts are of."""
    table: LeverTable
    skill_name: str | None = None
    standing: Standing | None = None
    cause: CommonCause | None = None
    counts: dict[str, int] = {}
    """Runs of the window by outcome class."""
    tiers: tuple[TierCounts, ...] = ()
    current_tier: str | None = None
    tier_entry: TierEntry | None = None
    failures: tuple[FailureCount, ...] = ()
    streak: int = 0
    recent: tuple[str, ...] = ()
    """Outcome classes of the newest runs in order of end time, at most `MOST_RECENT`."""
    pulled: tuple[PulledLever, ...] = ()
    """In order of time."""
    changes: tuple[VersionChange, ...] = ()
    """Within the window."""
    trajectories: int = 0
    """Published trajectories of the skill."""
    record: dict[str, tuple[int, int]] = {}
    """Lever -> how often it worked, and how often its effect was judged, over the tenant's skills."""
    causes: tuple[str, ...] = ()
    """Ids of common causes that reach the skill now."""
    supersedes: str | None = None
    """Decision on the same subject that this one replaces."""
    table_versions: dict[str, int] = {}
    positions: tuple[Position, ...] = ()
    statistics_revision: str = ""
    classifier_revision: str = ""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """JSON of a snapshot, the same bytes for the same content."""
    return msgspec.json.encode(snapshot, order="sorted")


def decode_snapshot(text: bytes | str) -> Snapshot:
    """The snapshot that `encode_snapshot` wrote. Raises `msgspec.DecodeError` (a ValueError) for what is none."""
    return msgspec.json.decode(text, type=Snapshot)


def decision_id(encoded: bytes, code_revision: str) -> str:
    """Digest that names the decision made from an encoded snapshot by a revision of the code."""
    return hashlib.sha256(code_revision.encode() + b"\n" + encoded).hexdigest()[:32]
