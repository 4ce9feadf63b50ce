"""Which events of an import are new, and which sequence numbers they get.

A run's events are numbered without holes. A file that comes again yields the same ids, which are known and not
published twice. One that grew yields its old events and more: the new ones follow the highest number that the run
holds, also where an earlier import of the shorter file put an end event there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from trajlake.transforms.importers.origin import ImportedEvent

Known = Mapping[str, Mapping[str, int]]
"""Run id -> event id -> sequence, of what has already been published. Runs that are not in it are new."""


class Planner:
    """Numbers the events of one import, run by run. Feed it each event once, in the order of the files."""

    def __init__(self) -> None:
        self._ids: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def unseen(self, run_ids: Iterable[str]) -> list[str]:
        """Those of the runs whose known events have not been told yet."""
        return [run_id for run_id in dict.fromkeys(run_ids) if run_id not in self._ids]

    def learn(self, run_ids: Iterable[str], known: Known) -> None:
        """Tell what is known of runs. Must come before their first event."""
        for run_id in run_ids:
            held = known.get(run_id, {})
            self._ids[run_id] = {_hash(event_id) for event_id in held}
            self._next[run_id] = max(held.values(), default=0) + 1

    def place(self, imported: ImportedEvent) -> ImportedEvent | None:
        """The event with its final sequence number, or None when it is known already."""
        event: Any = imported.event
        ids = self._ids[event.runid]
        key = _hash(event.id)
        if key in ids:
            return None
        ids.add(key)
        sequence = self._next[event.runid]
        self._next[event.runid] = sequence + 1
        if event.sequence == sequence:
            return imported
        return replace(imported, event=msgspec.structs.replace(event, sequence=sequence))


def plan(events: Iterable[ImportedEvent], known: Known) -> Iterator[ImportedEvent]:
    """The events that must be published, numbered, when `known` is what has been published before."""
    planner = Planner()
    for imported in events:
        run_id: Any = imported.event.runid
        planner.learn(planner.unseen([run_id]), known)
        placed = planner.place(imported)
        if placed is not None:
            yield placed


def _hash(event_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(event_id.encode(), digest_size=8).digest(), "little")
