"""Intervals for a success rate: one that holds however often it is looked at, and one for a single look."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, sqrt
from statistics import NormalDist
from typing import Final

from msgspec import Struct

PRIOR: Final = 0.5
"""Both parameters of the mixing Beta distribution (Jeffreys, the Krichevsky-Trofimov mixture)."""

_STEPS: Final = 60
"""Halvings of a bisection: finer than a double's resolution of a rate."""


class Interval(Struct, frozen=True):
    """Bounds of a rate, both within 0 to 1."""

    low: float
    high: float


def log_mixture(successes: float, failures: float, prior: float = PRIOR) -> float:
    """Log of the Beta(prior, prior) mixture likelihood of a sequence: ln B(s + a, f + a) - ln B(a, a)."""
    return _log_beta(successes + prior, failures + prior) - _log_beta(prior, prior)


@lru_cache(maxsize=16_384)
def confidence_sequence(successes: int, failures: int, alpha: float = 0.05) -> Interval | None:
    """The rates that s successes and f failures leave possible, at any time of looking. None without data.

    The interval is the set of p with

        M(p) = B(s + 1/2, f + 1/2) / B(1/2, 1/2) / (p^s (1 - p)^f) < 1 / alpha.

    M(p) is a non-negative martingale of mean 1 where runs succeed independently with chance p, whatever the order, so
    by Ville's inequality the chance that it ever reaches 1 / alpha is at most alpha: one may look after every run,
    stop at will and still be right in 1 - alpha of all cases, where a fixed-n interval is wrong sooner or later.
    Counts must start at a moment chosen without looking at the outcomes behind it (a version change, a window's
    edge). The rate within the counted stretch is taken as constant.

    Source: H. Robbins, "Statistical methods related to the law of the iterated logarithm", Ann. Math. Stat. 41
    (1970); the beta-binomial mixture in S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric,
    nonasymptotic confidence sequences", Ann. Stat. 49 (2021), section 3 and appendix.
    """
    if successes < 0 or failures < 0:
        raise ValueError(f"counts below zero: {successes} successes, {failures} failures")
    if successes + failures == 0:
        return None
    # p^s (1-p)^f > alpha * mixture; the left side rises to its peak at s / n and falls behind it.
    floor = log(alpha) + log_mixture(successes, failures)
    peak = successes / (successes + failures)
    return Interval(
        _edge(successes, failures, floor, peak, 0.0),
        _edge(successes, failures, floor, peak, 1.0),
    )


@lru_cache(maxsize=16_384)
def wilson(successes: int, failures: int, alpha: float = 0.05) -> Interval | None:
    """Wilson's score interval for one look at a number of runs fixed beforehand. None without data.

    Narrower than the confidence sequence, and wrong far more often than alpha when it is watched.
    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    n = successes + failures
    if n == 0:
        return None
    z = NormalDist().inv_cdf(1 - alpha / 2)
    rate = successes / n
    scale = 1 + z * z / n
    middle = (rate + z * z / (2 * n)) / scale
    half = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / scale
    return Interval(
        0.0 if successes == 0 else max(0.0, middle - half),
        1.0 if failures == 0 else min(1.0, middle + half),
    )


def log_likelihood(successes: float, failures: float, rate: float) -> float:
    """ln(p^s (1-p)^f), with 0 ln 0 = 0; minus infinity where the rate rules the data out."""
    if (successes and rate <= 0) or (failures and rate >= 1):
        return float("-inf")
    return (successes * log(rate) if successes else 0.0) + (failures * log(1 - rate) if failures else 0.0)


def bounded_exp(value: float, limit: float = 60.0) -> float:
    """e to a value, where the value is held within ±limit."""
    return exp(max(-limit, min(limit, value)))


def _edge(successes: int, failures: int, floor: float, inside: float, outside: float) -> float:
    """The rate between `inside` and `outside` at which the likelihood falls to `floor`; `outside` where it never
    does."""
    if log_likelihood(successes, failures, outside) >= floor:
        return outside
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if log_likelihood(successes, failures, middle) >= floor:
            inside = middle
        else:
            outside = middle
    return outside


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
