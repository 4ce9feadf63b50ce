"""Accounting of offsets: which offsets of a partition are covered, which are not, which more than once.

Offsets are held as ranges, so that ten million consecutive ones cost sixteen bytes. A `Ranges` is a multiset: an offset
that occurs twice lies in two of its ranges. Pure arithmetic on arrays; nothing here knows what a table is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Offsets: TypeAlias = NDArray[np.int64]


class Span(NamedTuple):
    """Offsets `first..last`, both included."""

    first: int
    last: int

    @property
    def offsets(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Ranges:
    """A multiset of offsets. `first[i]..last[i]` is the i-th range, both ends included; sorted by `first`."""

    first: Offsets
    last: Offsets

    @classmethod
    def none(cls) -> Ranges:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @property
    def count(self) -> int:
        """Offsets in all ranges, each as often as it occurs."""
        return int((self.last - self.first + 1).sum())

    def __len__(self) -> int:
        return len(self.first)

    def __iter__(self) -> Iterator[Span]:
        return (Span(int(first), int(last)) for first, last in zip(self.first, self.last, strict=True))

    def up_to(self, last: int) -> Ranges:
        """What lies at or below `last`; a range across it is cut."""
        kept = self.first <= last
        return Ranges(self.first[kept], np.minimum(self.last[kept], last))


class Coverage(NamedTuple):
    """What `0..last` looks like: ranges that nothing covers, and ranges that more than one row covers."""

    missing: Ranges
    doubled: Ranges


def compress(offsets: Offsets) -> Ranges:
    """Ranges of single offsets, given in any order; one that occurs twice gives two overlapping ranges."""
    if not len(offsets):
        return Ranges.none()
    ordered = offsets if len(offsets) == 1 or bool((offsets[1:] >= offsets[:-1]).all()) else np.sort(offsets)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(ordered)])) - 1
    return Ranges(ordered[starts].astype(np.int64), ordered[ends].astype(np.int64))


def spans(first: Offsets, last: Offsets) -> Ranges:
    """Ranges given by both ends, in any order. Raises ValueError when one ends before it begins."""
    if bool((last < first).any()):
        place = int(np.flatnonzero(last < first)[0])
        raise ValueError(f"range {int(first[place])}..{int(last[place])} ends before it begins")
    order = np.argsort(first, kind="stable")
    return Ranges(first[order].astype(np.int64), last[order].astype(np.int64))


def merge(parts: Iterable[Ranges]) -> Ranges:
    """All offsets of several multisets. Ranges that follow on one another become one; counts are kept."""
    kept = [part for part in parts if len(part)]
    if not kept:
        return Ranges.none()
    together = spans(np.concatenate([part.first for part in kept]), np.concatenate([part.last for part in kept]))
    breaks = np.flatnonzero(together.first[1:] != together.last[:-1] + 1) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(together)])) - 1
    return Ranges(together.first[starts], together.last[ends])


def without(offsets: Ranges, covered: Ranges) -> Ranges:
    """Single offsets of a multiset that no range of another covers, each once."""
    if not len(offsets):
        return offsets
    single = np.unique(np.concatenate([np.arange(span.first, span.last + 1) for span in offsets]))
    if not len(covered):
        return compress(single)
    reach = np.maximum.accumulate(covered.last)
    place = np.searchsorted(covered.first, single, side="right") - 1
    return compress(single[(place < 0) | (reach[np.maximum(place, 0)] < single)])


def cover(ranges: Ranges, last: int) -> Coverage:
    """Compare a multiset of offsets with `0..last`, each exactly once. `last` of -1 means that nothing is due.

    Offsets above `last` are left out. The sweep adds one where a range begins and takes one away behind its end;
    between two such places the depth says how often each offset is covered.
    """
    if last < 0:
        return Coverage(Ranges.none(), Ranges.none())
    due = ranges.up_to(last)
    places = np.concatenate((due.first, due.last + 1, np.array([0, last + 1], np.int64)))
    change = np.concatenate((np.ones(len(due), np.int64), -np.ones(len(due), np.int64), np.zeros(2, np.int64)))
    edges, inverse = np.unique(places, return_inverse=True)
    steps = np.zeros(len(edges), np.int64)
    np.add.at(steps, inverse, change)
    depth = np.cumsum(steps)[:-1]
    begin, end = edges[:-1], edges[1:] - 1
    inside = (begin >= 0) & (begin <= last)
    return Coverage(_joined(begin, end, inside & (depth == 0)), _joined(begin, end, inside & (depth > 1)))


def _joined(begin: Offsets, end: Offsets, chosen: NDArray[np.bool_]) -> Ranges:
    """The chosen stretches as ranges; neighbours become one."""
    if not chosen.any():
        return Ranges.none()
    return merge([Ranges(begin[chosen], end[chosen])])
