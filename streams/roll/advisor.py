"""Keeps the newest statistics of each tenant's skills, and turns them into decisions when it is asked to.

The table `board` holds what a successor needs: statistics by skill, the newest decision by subject, the known causes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from trajlake.expectations.outcomes import Decision, SkillStats
from trajlake.streams.roll.lakefacts import LakeFacts
from trajlake.streams.roll.store import Change
from trajlake.transforms.rolling.fleet import Facts, Fleet, judge
from trajlake.transforms.stats.assessment import Assessment
from trajlake.transforms.stats.causes import Cause

log = structlog.get_logger("trajlake.roll")

_US: Final = "\x1f"
_ENCODER: Final = msgspec.json.Encoder()
_STATS: Final = msgspec.json.Decoder(SkillStats)
_DECISIONS: Final = msgspec.json.Decoder(Decision)
_CAUSES: Final = msgspec.json.Decoder(list[Cause])
COST_SHARE: Final = 20.0
"""A look may take one twentieth of the time at most."""
QUIET_S: Final = 2.0
"""A tenant is judged at most so often: what many skills share shows only when many have been heard."""


@dataclass
class Decided:
    """Values for the table by key, and messages for the decisions topic."""

    changes: dict[bytes, bytes] = field(default_factory=dict)
    messages: list[bytes] = field(default_factory=list)


class Advisor:
    """Fleets of the tenants of the partitions that a worker owns."""

    def __init__(self, facts: LakeFacts) -> None:
        self.facts = facts
        self.fleets: dict[str, Fleet] = {}
        self.standings: dict[tuple[str, str], Assessment] = {}
        self.pending: dict[str, set[str]] = {}
        """Tenant -> skills whose statistics are newer than the last look."""
        self.unsaved: dict[bytes, tuple[int, bytes]] = {}
        """Key -> partition and value that are not in the table yet."""
        self.decided = 0
        self._asked: dict[str, float] = {}
        self._took_s = 0.0
        """What the last look took; large fleets are looked at less often."""

    @staticmethod
    def encode(value: SkillStats | Decision) -> bytes:
        """A message."""
        return _ENCODER.encode(value)

    @staticmethod
    def check(key: bytes, content: bytes | None) -> None:
        """Raise ValueError where a stored value cannot be read back."""
        _, _, name = _split(key)
        if content is not None:
            _decode(name, content)

    def recover(self, values: Iterable[tuple[bytes, bytes]], partitions: set[int]) -> None:
        """Take over what the table holds of some partitions."""
        self.fleets.clear()
        self.standings.clear()
        self.pending.clear()
        self.unsaved.clear()
        for key, content in values:
            partition, tenant_id, name = _split(key)
            if partition not in partitions:
                continue
            fleet = self.fleets.setdefault(tenant_id, Fleet(tenant_id))
            value = _decode(name, content)
            if isinstance(value, SkillStats):
                fleet.skills[value.skill_name] = value
            elif isinstance(value, Decision):
                fleet.decisions[name[1:]] = value
            else:
                fleet.causes = value
        # What came between the last look and the end of the former owner is looked at again.
        self.pending = {tenant_id: set(fleet.skills) for tenant_id, fleet in self.fleets.items()}

    def changes(self) -> list[Change]:
        """All that has changed since the last call, each key once, for the changelog."""
        found = [Change(partition, key, value) for key, (partition, value) in self.unsaved.items()]
        self.unsaved.clear()
        return found

    def note(self, partition: int, content: bytes) -> None:
        """Take in the statistics of a skill. A message that is none is logged and left out."""
        try:
            stats = _STATS.decode(content)
        except msgspec.DecodeError as error:
            log.error("message on the statistics topic is none", reason=str(error)[:200])
            return
        fleet = self.fleets.setdefault(stats.tenant_id, Fleet(stats.tenant_id))
        known = fleet.skills.get(stats.skill_name)
        if (
            known is not None
            and known.restated_from_us is not None
            and stats.skill_name in self._waiting(stats.tenant_id)
        ):
            # A restatement that nobody has looked at yet must not be forgotten over a newer message.
            earlier = known.restated_from_us
            stats.restated_from_us = min(earlier, earlier if stats.restated_from_us is None else stats.restated_from_us)
            content = _ENCODER.encode(stats)
        fleet.skills[stats.skill_name] = stats
        self.pending.setdefault(stats.tenant_id, set()).add(stats.skill_name)
        self.unsaved[_key(partition, stats.tenant_id, f"s{stats.skill_name}")] = partition, content

    def _waiting(self, tenant_id: str) -> set[str]:
        return self.pending.get(tenant_id, set())

    def to_ask(self) -> list[str]:
        """Tenants that are to be judged now."""
        now = time.monotonic()
        quiet_s = max(QUIET_S, self._took_s * COST_SHARE)
        due = [tenant for tenant in self.pending if now - self._asked.get(tenant, 0.0) >= quiet_s]
        self._asked.update(dict.fromkeys(due, now))
        return due

    def decide(self, partition: int, tenant_id: str, now_us: int) -> Decided:
        """Judge a tenant's fleet. Returns causes and decisions that are new; the caller stores and tells them.

        A tenant whose tier file is not known yet waits: it might pin a skill.
        """
        if not self.facts.knows(tenant_id):
            return Decided()
        changed = self.pending.pop(tenant_id, set())
        fleet = self.fleets.get(tenant_id)
        if fleet is None or not changed:
            return Decided()
        began = time.monotonic()
        found = judge(fleet, self._facts(fleet), changed)
        self._took_s = time.monotonic() - began
        done = Decided()
        for skill, standing in found.standings.items():
            self.standings[tenant_id, skill] = standing
        if found.causes != fleet.causes:
            fleet.causes = found.causes
            done.changes[_key(partition, tenant_id, "c")] = _ENCODER.encode(found.causes)
        for subject, decision in found.decisions:
            told = replace(decision, made_us=now_us) if decision.flag is None else decision
            fleet.decisions[subject] = told
            content = _ENCODER.encode(told)
            done.changes[_key(partition, tenant_id, f"d{subject}")] = content
            done.messages.append(content)
            self.decided += 1
            log.info(
                "decision", tenant=tenant_id, subject=subject, lever=told.lever, target=told.target, flag=told.flag,
                id=told.decision_id[:12],
            )  # fmt: skip
        return done

    def _facts(self, fleet: Fleet) -> Facts:
        facts = self.facts
        entries = {name: facts.tier_entry(fleet.tenant_id, name) for name in fleet.skills}
        return Facts(
            table=facts.table,
            table_versions=dict(facts.versions),
            tier_entries={name: entry for name, entry in entries.items() if entry is not None},
            trajectories={name: facts.trajectories.get((fleet.tenant_id, name), 0) for name in fleet.skills},
        )


def _key(partition: int, tenant_id: str, name: str) -> bytes:
    return f"{partition}{_US}{tenant_id}{_US}{name}".encode()


def _split(key: bytes) -> tuple[int, str, str]:
    partition, tenant_id, name = key.decode().split(_US, 2)
    return int(partition), tenant_id, name


def _decode(name: str, content: bytes) -> SkillStats | Decision | list[Cause]:
    if name[0] == "s":
        return _STATS.decode(content)
    return _DECISIONS.decode(content) if name[0] == "d" else _CAUSES.decode(content)
