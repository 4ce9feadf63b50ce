"""Counts by bins that grow by a constant factor: quantiles within 2%, exact to add up and to take back.

The bins are those of `transforms.stats.sketch`. Only counts are kept, so a run that is restated leaves no trace.
"""

from __future__ import annotations

from typing import Final

from trajlake.transforms.stats.sketch import bucket_at, bucket_of, middle_of

ZERO: Final = -1
"""Bin of values below one unit."""


def bin_of(value: int) -> int:
    """Bin of a value in whole units (µs, nano-dollars)."""
    return bucket_of(value) if value >= 1 else ZERO


def quantile(bins: dict[int, int], q: float) -> float | None:
    """The q-quantile, within 2% of a value of that rank. None where nothing is counted."""
    total = sum(bins.values())
    index = bucket_at(bins, q * (total - 1)) if total > 0 else None
    if index is None:
        return None
    return 0.0 if index == ZERO else middle_of(index)
