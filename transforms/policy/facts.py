"""Facts: what policy looks at in a run and its rewards. They are the evidence of a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from trajlake.transforms.policy.consents import ConsentRecord
from trajlake.transforms.policy.times import micros


class RunFacts(Struct, frozen=True, kw_only=True):
    """A row of `runs`, as far as policy looks at it. None: the run does not state it. Times in µs since the epoch."""

    tenant_id: str
    run_id: str
    topic: str = ""
    partition: int = 0
    offset: int = 0
    revision: int = 0
    skill_name: str | None = None
    skill_version: str | None = None
    agent_name: str | None = None
    model_name: str | None = None
    model_provider: str | None = None
    purpose: tuple[str, ...] | None = None
    """Purposes that the producer declared."""
    residency: str | None = None
    classification: str | None = None
    license: str | None = None
    consent_revision: str | None = None
    subject_id: str | None = None
    outcome_class: str | None = None
    started_us: int | None = None
    ended_us: int | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> RunFacts:
        """A row of `runs` as Python values; times as datetimes or µs. Columns that policy does not read may be left
        out."""
        names = [name for name in cls.__struct_fields__ if name not in ("purpose", "started_us", "ended_us")]
        declared = row.get("purpose")
        return cls(
            **{name: row[name] for name in names if name in row},
            purpose=None if declared is None else tuple(declared),
            started_us=micros(row.get("started_at")),
            ended_us=micros(row.get("ended_at")),
        )


class RewardFacts(Struct, frozen=True, kw_only=True):
    """A row of `rewards`, as far as policy looks at it."""

    reward_id: str
    annotator_kind: Literal["code", "model", "human", "self"]
    annotator_id: str | None = None
    annotator_version: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> RewardFacts:
        """A row of `rewards` as Python values."""
        return cls(**{name: row[name] for name in cls.__struct_fields__})


def evidence_digest(
    facts: RunFacts, rewards: Sequence[RewardFacts], consents: Sequence[ConsentRecord | None], place: Any
) -> str:
    """SHA-256, hexadecimal, of everything that a decision looked at, in an order of its own.

    A decision that is made again on the same evidence has the same digest.
    """
    parts = [facts, sorted(rewards, key=lambda reward: reward.reward_id), consents, place]
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()
