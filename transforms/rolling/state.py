"""The state of one skill: apply outcome batches, say which stored values changed, and keep windows summed up.

Stored values are small, one per bucket, since each change writes its whole value: minutes for the last hour, hours for
thirty days, one per version, and a head. Each carries the closing offsets that it has applied, so that a batch that was
half stored before a crash is applied to the other half only.

Windows end with the bucket of the newest run. A minute or hour that has left the longest window it can be in never
comes back into it, since time only goes on; so it is deleted, and a late run of it is left out. That is why no order of
delivery changes the windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from trajlake.expectations.outcomes import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    WINDOWS,
    LeverPull,
    OutcomeBatch,
    RunOutcome,
    RunVersions,
)
from trajlake.transforms.rolling.bucket import Bucket, Counts, add_counts, count_run
from trajlake.transforms.rolling.sequence import Seen, Sequence, insert, remove, seen

LATE_US: Final = 5 * MINUTE_US
"""A run that ended so long before the newest one restates its bucket; less is the usual disorder between partitions."""
VERSION_KEPT_US: Final = 90 * DAY_US
"""A version that has not run for so long is forgotten."""
MOST_LEVERS: Final = 20
COMPONENTS: Final = ("agent", "skill", "prompt", "memory", "model")

HEAD: Final = "s"
SIZES: Final = {"m": MINUTE_US, "h": HOUR_US}
"""Prefix of a stored value's name -> length of its bucket in µs."""
_OF_WINDOW: Final = {"1h": "m", "24h": "h", "7d": "h", "30d": "h"}


class Head(Struct, array_like=True, gc=False):
    """What is known of a skill besides its buckets.

    as_of_us: newest end ever seen. versions: component -> version -> end of its first run. levers: pulls that were
    noted, by time. restated: late runs and revisions so far.
    """

    applied: dict[int, int] = field(default_factory=dict)
    as_of_us: int = 0
    sequence: Sequence = field(default_factory=Sequence)
    versions: dict[str, dict[str, int]] = field(default_factory=dict)
    levers: list[LeverPull] = field(default_factory=list)
    restated: int = 0
    topic: str = ""
    runs: int = 0


class Part(NamedTuple):
    """A run to be counted or taken back, with the offset that says so."""

    offset: int
    run: RunOutcome
    sign: int


class SkillState:
    """The state of one skill in memory. `values()` is all of it; windows are sums of it, kept as it changes."""

    def __init__(self, tenant_id: str, skill_name: str) -> None:
        self.tenant_id = tenant_id
        self.skill_name = skill_name
        self.head = Head()
        self.buckets: dict[str, dict[int, Bucket]] = {"m": {}, "h": {}}
        self.versions: dict[str, Bucket] = {}
        self.windows: dict[str, Counts] = {name: Counts() for name in _OF_WINDOW}
        self.restated_from_us: int | None = None
        """Start of the oldest hour that late runs changed since the caller last looked; the caller clears it."""
        self.changed_hours: set[int] = set()
        """Hours that changed since the caller last looked; the caller clears it."""

    @classmethod
    def restored(cls, tenant_id: str, skill_name: str, values: Mapping[str, Head | Bucket]) -> SkillState:
        """State from stored values by name."""
        state = cls(tenant_id, skill_name)
        for name, value in values.items():
            if isinstance(value, Head):
                state.head = value
            elif name[0] == "v":
                state.versions[name[1:]] = value
            else:
                state.buckets[name[0]][int(name[1:])] = value
                if name[0] == "h":
                    state.changed_hours.add(int(name[1:]))
        for name, kind in _OF_WINDOW.items():
            first, last = state.bounds(name)
            for index, bucket in state.buckets[kind].items():
                if first <= index <= last:
                    add_counts(state.windows[name], bucket.counts, 1)
        return state

    def values(self) -> Iterator[tuple[str, Head | Bucket]]:
        """Everything that is stored, by name."""
        yield HEAD, self.head
        for kind, buckets in self.buckets.items():
            for index, bucket in buckets.items():
                yield f"{kind}{index}", bucket
        for version, bucket in self.versions.items():
            yield f"v{version}", bucket

    def value(self, name: str) -> Head | Bucket | None:
        """A stored value by name; None where it is not, or not any more."""
        if name == HEAD:
            return self.head
        if name[0] == "v":
            return self.versions.get(name[1:])
        return self.buckets[name[0]].get(int(name[1:]))

    def bounds(self, window: str) -> tuple[int, int]:
        """First and last bucket of a window, as numbers of its minutes or hours since the Unix epoch."""
        size = SIZES[_OF_WINDOW[window]]
        last = self.head.as_of_us // size
        return last - WINDOWS[window] // size + 1, last

    def apply(self, batch: OutcomeBatch) -> set[str]:
        """Apply a batch of this skill. Returns names of stored values that changed or went; empty where all was known.

        Each value takes what lies beyond its own applied offset, so applying again changes nothing.
        """
        partition = batch.partition
        parts: list[Part] = []
        for closed in batch.runs:
            if closed.replaces is not None:
                parts.append(Part(closed.offset, closed.replaces, -1))
            if closed.outcome is not None:
                parts.append(Part(closed.offset, closed.outcome, 1))
        before_us = self.head.as_of_us
        touched = self._advance(max((part.run.end_us for part in parts), default=before_us))
        touched |= self._apply_buckets(partition, parts, before_us)
        touched |= self._apply_versions(partition, parts)
        touched |= self._apply_head(batch, parts, before_us)
        return touched

    # Time

    def _advance(self, newest_us: int) -> set[str]:
        """Move the windows to a newer end, and let go of buckets that no window can hold any more."""
        head = self.head
        if newest_us <= head.as_of_us and head.applied:
            return set()
        before = {name: self.bounds(name) for name in _OF_WINDOW}
        head.as_of_us = newest_us
        gone: set[str] = set()
        for name, kind in _OF_WINDOW.items():
            (old_first, old_last), (first, last) = before[name], self.bounds(name)
            if first == old_first:
                continue
            for index, bucket in self.buckets[kind].items():
                if old_first <= index <= old_last and index < first:
                    add_counts(self.windows[name], bucket.counts, -1)
                elif index > old_last and first <= index <= last:
                    # Stored before a crash, while the head that knows of it was not.
                    add_counts(self.windows[name], bucket.counts, 1)
        for kind, longest in (("m", "1h"), ("h", "30d")):
            first = self.bounds(longest)[0]
            if first == before[longest][0]:
                continue
            for index in [index for index in self.buckets[kind] if index < first]:
                del self.buckets[kind][index]
                gone.add(f"{kind}{index}")
        for version in [v for v, bucket in self.versions.items() if bucket.last_us < newest_us - VERSION_KEPT_US]:
            del self.versions[version]
            gone.add(f"v{version}")
        return gone

    # Counting

    def _apply_buckets(self, partition: int, parts: list[Part], before_us: int) -> set[str]:
        grouped: dict[tuple[str, int], list[Part]] = {}
        for part in parts:
            for kind, size in SIZES.items():
                grouped.setdefault((kind, part.run.end_us // size), []).append(part)
        touched: set[str] = set()
        oldest = {"m": self.bounds("1h")[0], "h": self.bounds("30d")[0]}
        for (kind, index), members in grouped.items():
            if index < oldest[kind]:
                continue
            bucket = self.buckets[kind].get(index)
            fresh = [part for part in members if bucket is None or part.offset > bucket.applied.get(partition, -1)]
            if not fresh:
                continue
            if bucket is None:
                bucket = self.buckets[kind][index] = Bucket()
            self._count(bucket, partition, fresh)
            bounds = {name: self.bounds(name) for name, of in _OF_WINDOW.items() if of == kind}
            for name, (first, last) in bounds.items():
                if first <= index <= last:
                    for part in fresh:
                        count_run(self.windows[name], part.run, part.sign)
            late = sum(part.sign < 0 or part.run.end_us < before_us - LATE_US for part in fresh)
            bucket.restated += late
            if kind == "h":
                self.changed_hours.add(index)
                if late:
                    start = index * HOUR_US
                    self.restated_from_us = min(
                        start, start if self.restated_from_us is None else self.restated_from_us
                    )
            touched.add(f"{kind}{index}")
        return touched

    def _apply_versions(self, partition: int, parts: list[Part]) -> set[str]:
        grouped: dict[str, list[Part]] = {}
        for part in parts:
            grouped.setdefault(version_label(part.run.versions), []).append(part)
        kept_us = self.head.as_of_us - VERSION_KEPT_US
        touched: set[str] = set()
        for version, members in grouped.items():
            bucket = self.versions.get(version)
            fresh = [part for part in members if bucket is None or part.offset > bucket.applied.get(partition, -1)]
            fresh = _without_forgotten(bucket, fresh, kept_us)
            if not fresh or (bucket is None and all(part.run.end_us < kept_us for part in fresh)):
                continue
            if bucket is None:
                ran_before = self._may_have_run_before(members[0].run.versions, kept_us)
                bucket = self.versions[version] = Bucket(forgotten_us=kept_us if ran_before else 0)
            self._count(bucket, partition, fresh)
            touched.add(f"v{version}")
        return touched

    def _may_have_run_before(self, versions: RunVersions, before_us: int) -> bool:
        """Whether a version without a bucket may have had one that was forgotten."""
        parts = (("skill", versions.skill), ("prompt", versions.prompt), ("memory", versions.memory))
        firsts = [self.head.versions.get(name, {}).get(part) for name, part in parts if part is not None]
        return bool(self.head.applied) and all(first is not None and first < before_us for first in firsts)

    @staticmethod
    def _count(bucket: Bucket, partition: int, fresh: list[Part]) -> None:
        ends = [part.run.end_us for part in fresh]
        bucket.first_us = min(*ends, bucket.first_us) if bucket.last_us else min(ends)
        bucket.last_us = max(*ends, bucket.last_us)
        for part in fresh:
            count_run(bucket.counts, part.run, part.sign)
        bucket.applied[partition] = max(part.offset for part in fresh)

    def _apply_head(self, batch: OutcomeBatch, parts: list[Part], before_us: int) -> set[str]:
        head, partition = self.head, batch.partition
        floor = head.applied.get(partition, -1)
        fresh = [part for part in parts if part.offset > floor]
        levers = [pull for pull in batch.levers if pull.offset > floor]
        if not fresh and not levers:
            return set()
        head.topic = batch.topic
        for part in fresh:
            entry = seen(part.run, partition)
            if part.sign < 0:
                remove(head.sequence, entry)
            else:
                insert(head.sequence, entry)
                self._note_versions(entry)
            head.runs += part.sign
            head.restated += part.sign < 0 or part.run.end_us < before_us - LATE_US
        if levers:
            known = {(pull.at_us, pull.partition, pull.offset): pull for pull in [*head.levers, *levers]}
            head.levers = [known[key] for key in sorted(known)][-MOST_LEVERS:]
        head.applied[partition] = max([part.offset for part in fresh] + [pull.offset for pull in levers])
        return {HEAD}

    def _note_versions(self, run: Seen) -> None:
        for component, version in zip(COMPONENTS, run.versions, strict=True):
            if version is not None:
                known = self.head.versions.setdefault(component, {})
                known[version] = min(run.end_us, known.get(version, run.end_us))
                if len(known) > MOST_LEVERS:
                    del known[min(known, key=lambda each: known[each])]


def _without_forgotten(bucket: Bucket | None, fresh: list[Part], kept_us: int) -> list[Part]:
    """What a version's bucket can count: not what is taken back of a bucket before it that was forgotten, nor old runs
    that are given in exchange."""
    held: list[Part] = []
    counted: set[tuple[str, int]] = set()
    forgotten: set[tuple[int, str]] = set()
    for part in fresh:
        run = part.run
        if part.sign > 0:
            if (part.offset, run.run_id) in forgotten and run.end_us < kept_us:
                continue
            counted.add((run.run_id, run.revision))
        elif (run.run_id, run.revision) not in counted and (
            bucket is None or run.end_us < max(bucket.first_us, bucket.forgotten_us)
        ):
            forgotten.add((part.offset, run.run_id))
            continue
        held.append(part)
    return held


def version_label(versions: RunVersions) -> str:
    """Name of the versions that a window `version` holds together: skill, prompt and memory."""
    parts = (versions.skill, versions.prompt, versions.memory)
    return "|".join((part or "").replace("|", "/").replace("\x1f", " ") for part in parts)


def label_of(run: Seen) -> str:
    """The same of a run in the sequence."""
    _, skill, prompt, memory, _ = run.versions
    return version_label(RunVersions(skill=skill, prompt=prompt, memory=memory))
