"""Counts by bins that grow by a constant factor: quantiles within 2%, exact to add up and to take back.

The bins are those of `transforms.stats.sketch`. Only counts are kept, so a run that is restated leaves no trace.
"""

from __future__ import annotations

from typing import Final

from trajlake.transforms.stats.sketch import bucket_of, middle_of

ZERO: Final = -1
"""Bin of values below one unit."""


def bin_of(value: int) -> int:
    """Bin of a value in whole units (µs, nano-dollars)."""
    return bucket_of(value) if value >= 1 else ZERO


def quantiles(bins: dict[int, int], *wanted: float) -> tuple[float, ...] | None:
    """Quantiles in rising order, each within 2% of a value of its rank. None where nothing is counted."""
    total = sum(bins.values())
    if total <= 0:
        return None
    ranks = [q * (total - 1) for q in reversed(wanted)]
    found: list[float] = []
    seen = 0
    for index in sorted(bins):
        seen += bins[index]
        while ranks and seen > ranks[-1]:
            found.append(0.0 if index == ZERO else middle_of(index))
            ranks.pop()
    return tuple(found)
