"""Quantiles of latency and cost from a small state that merges: a DDSketch with a relative error of 2%.

Values are counted in buckets whose bounds grow by a constant factor, so any quantile is known to within 2% of itself,
and two sketches add up bucket by bucket. State is plain JSON and small: a bucket for each 4% of range that occurs,
some hundred for latencies. Order of values, and of merges, does not matter.

Source: C. Masson, J. Rim, H. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees", PVLDB 12 (2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, isfinite, log
from typing import Final, TypedDict

RELATIVE_ERROR: Final = 0.02
_GAMMA: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_SCALE: Final = 1 / log(_GAMMA)
_LEAST: Final = 1e-9
"""Values at or below it count as 0."""
_MOST: Final = 1e12
"""Larger values are counted in the bucket of this one."""


def bucket_of(value: float) -> int:
    """Bucket of a value above 0: bucket i holds (g^(i-1), g^i] with g = (1 + e) / (1 - e)."""
    return ceil(log(value) * _SCALE)


def middle_of(bucket: int) -> float:
    """The value that is within the relative error of all values of a bucket."""
    return float(2 * _GAMMA**bucket / (_GAMMA + 1))


def bucket_at(buckets: Mapping[int, int], rank: float) -> int | None:
    """Bucket that holds the value of a rank, counted from 0; None where there are not so many values."""
    seen = 0
    for index in sorted(buckets):
        seen += buckets[index]
        if seen > rank:
            return index
    return None


class Sketch(TypedDict):
    """State of a sketch. `buckets`: bucket index (a decimal string, as JSON wants keys) -> number of values."""

    count: int
    zeros: int
    total: float
    least: float | None
    most: float | None
    buckets: dict[str, int]


def new_sketch(values: Iterable[float] = ()) -> Sketch:
    """A sketch of these values."""
    sketch = Sketch(count=0, zeros=0, total=0.0, least=None, most=None, buckets={})
    for value in values:
        add_value(sketch, value)
    return sketch


def add_value(sketch: Sketch, value: float) -> None:
    """Count a value, in place. Raises ValueError for a negative value, NaN or an infinity."""
    if not isfinite(value) or value < 0:
        raise ValueError(f"a sketch takes numbers from 0, not {value}")
    sketch["count"] += 1
    sketch["total"] += value
    sketch["least"] = value if sketch["least"] is None else min(sketch["least"], value)
    sketch["most"] = value if sketch["most"] is None else max(sketch["most"], value)
    if value <= _LEAST:
        sketch["zeros"] += 1
        return
    index = str(bucket_of(min(value, _MOST)))
    buckets = sketch["buckets"]
    buckets[index] = buckets.get(index, 0) + 1


def merge_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """One sketch of all values of several. Those given stay as they are."""
    merged = new_sketch()
    for sketch in sketches:
        merged["count"] += sketch["count"]
        merged["zeros"] += sketch["zeros"]
        merged["total"] += sketch["total"]
        merged["least"] = min(_known(merged["least"], sketch["least"]), default=None)
        merged["most"] = max(_known(merged["most"], sketch["most"]), default=None)
        for index, count in sketch["buckets"].items():
            merged["buckets"][index] = merged["buckets"].get(index, 0) + count
    return merged


def quantile(sketch: Sketch, q: float) -> float | None:
    """The q-quantile, 0 to 1, within 2% of a value of that rank. None for an empty sketch."""
    if not 0 <= q <= 1:
        raise ValueError(f"quantile {q} is not within 0 and 1")
    count, least, most = sketch["count"], sketch["least"], sketch["most"]
    if count == 0 or least is None or most is None:
        return None
    rank = q * (count - 1)
    if sketch["zeros"] > rank:
        return 0.0
    bucket = bucket_at(numbered(sketch), rank - sketch["zeros"])
    return most if bucket is None else min(max(middle_of(bucket), least), most)


def numbered(sketch: Sketch) -> dict[int, int]:
    """Buckets of a sketch by number; zeros are in none."""
    return {int(index): count for index, count in sketch["buckets"].items()}


def mean(sketch: Sketch) -> float | None:
    """The exact mean. None for an empty sketch."""
    return sketch["total"] / sketch["count"] if sketch["count"] else None


def _known(*values: float | None) -> list[float]:
    return [value for value in values if value is not None]
