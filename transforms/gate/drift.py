"""Drift of a distribution against a baseline: the population stability index over buckets that double in width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import log, sqrt
from typing import Final

import numpy as np
import polars as pl

from trajlake.transforms.gate.shares import Z99, Measured

BUCKETS: Final = 25
"""Bucket 0: none or empty. Bucket k: lengths from 2**(k-1) up to, not including, 2**k; the last one takes the rest."""
_BOUNDS: Final = np.array([2**power for power in range(BUCKETS - 1)], np.int64)
SMOOTHING: Final = 0.5
"""Added to each bucket's count (Jeffreys' prior), so that an empty one gives no infinity."""


def length_buckets(lengths: pl.Series) -> list[int]:
    """Counts by bucket of lengths (integers, null for none)."""
    clean = lengths.cast(pl.Int64, strict=False).fill_null(0).to_numpy()
    places = np.searchsorted(_BOUNDS, clean, side="right")
    return [int(count) for count in np.bincount(places, minlength=BUCKETS)]


def stability_index(found: Sequence[int], baseline: Sequence[int]) -> tuple[float, int]:
    """Population stability index of two counts by bucket, and the number of buckets that either one uses.

    The sum over buckets of (p - q) ln(p / q) (Siddiqi 2006, Credit Risk Scorecards; Jeffreys' divergence).
    """
    used = [(a, b) for a, b in zip_longest(found, baseline, fillvalue=0) if a or b]
    total_a = sum(a + SMOOTHING for a, _ in used)
    total_b = sum(b + SMOOTHING for _, b in used)
    shares = [((a + SMOOTHING) / total_a, (b + SMOOTHING) / total_b) for a, b in used]
    return sum((p - q) * log(p / q) for p, q in shares), len(used)


def drift(found: Sequence[int], baseline: Sequence[int], max_drift: float) -> Measured:
    """Whether a distribution has moved from its baseline, given as counts by bucket, by more than `max_drift`.

    Fails only when the index is beyond chance too: without drift, index / (1/n + 1/m) is about chi-squared with
    buckets - 1 degrees of freedom (Yurdakul and Naranjo 2020, J. Risk Model Validation 14:4); 99% of it is allowed for.
    Without a baseline nothing is measured and the rule holds.
    """
    n, m = sum(found), sum(baseline)
    if not n or not m:
        return Measured(None, True, 0, n, {"baseline_count": m})
    index, buckets = stability_index(found, baseline)
    chance = _chi_squared(buckets - 1) * (1 / n + 1 / m)
    details: dict[str, float | int | str | None] = {"baseline_count": m, "chance": chance}
    return Measured(index, index <= max(max_drift, chance), 0, n, details)


def _chi_squared(degrees: int) -> float:
    """99th percentile of the chi-squared distribution (Wilson and Hilferty 1931, PNAS 17:684)."""
    if degrees < 1:
        return 0.0
    width = 2 / (9 * degrees)
    return float(degrees * (1 - width + Z99 * sqrt(width)) ** 3)
