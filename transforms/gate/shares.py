"""Shares of small batches: a share is beyond its limit only where chance does not explain it.

A batch may hold five runs or fifty thousand. A limit on the bare share would hold every small batch with one bad run;
the bounds of Wilson's score interval let it pass until the evidence is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Final

Z95: Final = 1.6448536269514722
"""95th percentile of the standard normal distribution: bounds hold with 95% on their side."""
Z99: Final = 2.3263478740408408


@dataclass(frozen=True)
class Measured:
    """What was found in a batch.

    `value`: the aggregate, None where nothing could be measured. `count` of `of` elements are unexpected. `details`:
    further numbers and codes of closed sets, never a value of a row.
    """

    value: float | None
    holds: bool
    count: int
    of: int
    details: dict[str, float | int | str | None] = field(default_factory=dict)


def wilson_lower(count: int, of: int, z: float = Z95) -> float:
    """Lower bound of the share `count / of`; 0 without elements (Wilson 1927, J. Am. Stat. Assoc. 22:209)."""
    return max(0.0, _wilson(count, of, -z)) if of else 0.0


def wilson_upper(count: int, of: int, z: float = Z95) -> float:
    """Upper bound of the share `count / of`; 1 without elements."""
    return min(1.0, _wilson(count, of, z)) if of else 1.0


def _wilson(count: int, of: int, z: float) -> float:
    share = count / of
    spread = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return (share + z * z / (2 * of) + spread) / (1 + z * z / of)


def at_most(count: int, of: int, max_share: float) -> Measured:
    """A share that may not exceed a limit: fails when its lower bound does."""
    lower = wilson_lower(count, of)
    return Measured(count / of if of else None, lower <= max_share, count, of, {"lower_bound": lower})


def at_least(count: int, of: int, min_share: float) -> Measured:
    """A share that may not fall below a limit: fails when its upper bound does. `Measured.count`: those that lack."""
    upper = wilson_upper(count, of)
    return Measured(count / of if of else None, upper >= min_share, of - count, of, {"upper_bound": upper})
