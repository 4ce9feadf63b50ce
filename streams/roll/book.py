"""The skills that a worker holds: their states, what has changed since it was last told, and figures for watching."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from trajlake.expectations.outcomes import OutcomeBatch, SkillStats
from trajlake.streams.roll.store import Change, encode_value, restore, value_key
from trajlake.transforms.rolling.readings import Detectors, skill_stats
from trajlake.transforms.rolling.state import SkillState

Skill = tuple[str, str]
"""Tenant and skill name."""

NEVER: Final = -1e9
_BATCHES: Final = msgspec.json.Decoder(OutcomeBatch)


@dataclass
class Figures:
    """What a worker counts since its start."""

    batches: int = 0
    repeated: int = 0
    runs: int = 0
    foreign: int = 0
    refused: int = 0
    emitted: int = 0
    applied_at: float = 0.0
    behind_s: float = 0.0
    """Seconds from the making of the newest outcome message to its application."""


@dataclass
class Book:
    """States of the skills of the partitions that a worker owns. `topic`: the events topic whose runs are counted."""

    topic: str
    code_revision: str
    keep_s: float = 10.0
    """The table gets a skill's statistics at most so often; the newest always get there in the end."""
    skills: dict[Skill, SkillState] = field(default_factory=dict)
    dirty: dict[Skill, float] = field(default_factory=dict)
    """Skill -> monotonic time since when its statistics have not been told."""
    told: dict[Skill, float] = field(default_factory=dict)
    kept: dict[Skill, float] = field(default_factory=dict)
    """Skill -> monotonic time of its newest statistics for the table."""
    owing: set[Skill] = field(default_factory=set)
    """Skills whose newest statistics are not for the table."""
    partitions: set[int] = field(default_factory=set)
    unsaved: dict[tuple[int, Skill], set[str]] = field(default_factory=dict)
    """Partition and skill -> names of stored values that changed since they were last saved."""
    figures: Figures = field(default_factory=Figures)
    _detectors: dict[Skill, Detectors] = field(default_factory=dict)

    def recover(self, values: Iterable[tuple[bytes, bytes]], partitions: set[int]) -> None:
        """Take over what the table holds of some partitions, and tell all of it anew. Raises ValueError."""
        values = list(values)
        self.partitions = partitions
        self.skills = restore(values, partitions)
        self._detectors.clear()
        self.owing.clear()
        # What Kafka did not take comes again.
        self.unsaved.clear()
        now = time.monotonic()
        self.dirty = {skill: now for skill, state in self.skills.items() if state.head.runs}

    def apply(self, partition: int, content: bytes) -> None:
        """Apply a message of the outcomes topic. One that is none is counted as refused, one of another events topic as
        foreign."""
        figures = self.figures
        try:
            batch = _BATCHES.decode(content)
        except msgspec.DecodeError:
            figures.refused += 1
            return
        if batch.topic != self.topic:
            figures.foreign += 1
            return
        skill = (batch.tenant_id, batch.skill_name)
        state = self.skills.get(skill)
        if state is None:
            state = self.skills[skill] = SkillState(*skill)
        touched = state.apply(batch)
        figures.batches += 1
        figures.applied_at = time.time()
        figures.behind_s = max(0.0, figures.applied_at - batch.emitted_us / 1e6)
        if not touched:
            figures.repeated += 1
            return
        figures.runs += len(batch.runs)
        self.dirty.setdefault(skill, time.monotonic())
        self.unsaved.setdefault((partition, skill), set()).update(touched)

    def changes(self) -> list[Change]:
        """All that has changed since the last call, each value once and as it is now, for the changelog."""
        found: list[Change] = []
        for (partition, skill), names in self.unsaved.items():
            state = self.skills[skill]
            for name in names:
                value = state.value(name)
                content = None if value is None else encode_value(value)
                found.append(Change(partition, value_key(partition, *skill, name), content))
        self.unsaved.clear()
        return found

    def due(self, now: float, interval_s: float) -> list[Skill]:
        """Skills whose statistics are to be told, those that have waited longest first. Each at most once in so many
        seconds."""
        owing = [skill for skill in self.owing if now - self.kept.get(skill, NEVER) >= self.keep_s]
        self.dirty.update((skill, now) for skill in owing if skill not in self.dirty)
        waiting = [
            (since, skill) for skill, since in self.dirty.items() if now - self.told.get(skill, NEVER) >= interval_s
        ]
        return [skill for _, skill in sorted(waiting)]

    def tell(self, skill: Skill, now: float) -> SkillStats:
        """Statistics of a skill, which is not dirty any more."""
        state = self.skills[skill]
        found = self.statistics(skill)
        found.keep = now - self.kept.get(skill, NEVER) >= self.keep_s
        if found.keep:
            self.kept[skill] = now
            self.owing.discard(skill)
        else:
            self.owing.add(skill)
        state.restated_from_us = None
        self.dirty.pop(skill, None)
        self.told[skill] = now
        self.figures.emitted += 1
        return found

    def statistics(self, skill: Skill) -> SkillStats:
        """Statistics of a skill as they are now. Raises KeyError for one that is not held here."""
        state = self.skills[skill]
        detectors = self._detectors.setdefault(skill, Detectors())
        return skill_stats(state, detectors, emitted_us=time.time_ns() // 1000, code_revision=self.code_revision)
