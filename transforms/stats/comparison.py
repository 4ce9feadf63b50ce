"""Is one rate better than another, or as good? Asked as often as one likes, family of tasks by family.

For counts (s_a, f_a) of A and (s_b, f_b) of B, the null hypothesis "p_b - p_a <= d" has the e-value

    E = q(s_a, f_a) q(s_b, f_b) / max { p_a^s_a (1-p_a)^f_a p_b^s_b (1-p_b)^f_b : p_b - p_a <= d },

q being the Beta(1/2, 1/2) mixture. The denominator is at least the likelihood of the truth, wherever the null holds,
and q / truth is a martingale of mean 1: so E has mean at most 1 at any time of looking, and E >= 1 / alpha happens in
at most alpha of all cases. With A the runs before a change and B those since, it is a sequential paired test: pairs
are families of tasks, whose e-values multiply, so that a shift between families is no effect.

Source: L. Wasserman, A. Ramdas, S. Balakrishnan, "Universal inference", PNAS 117 (2020); sequential form in section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from trajlake.transforms.stats.intervals import bounded_exp, log_likelihood, log_mixture

Counts: TypeAlias = tuple[int, int]
"""Successes and failures."""

LEAST_FAMILY_RUNS: Final = 5
"""Families with fewer runs on either side are put together: each family of its own costs certainty."""

_STEPS: Final = 80


class Verdict(StrEnum):
    """What a comparison of B with A shows."""

    BETTER = "better"
    WORSE = "worse"
    NO_EFFECT = "no_effect"
    TOO_EARLY = "too_early"


class Comparison(Struct, frozen=True, kw_only=True):
    """B against A. Rates are over the families of B, so that the mix of B's tasks holds for both."""

    verdict: Verdict
    rate_a: float | None
    """A's rate on B's mix of families; null where no family has runs of both."""
    rate_b: float | None
    gain: float | None
    """rate_b - rate_a."""
    runs_a: int
    runs_b: int
    e_better: float
    """Evidence that B is better than A."""
    e_worse: float
    """Evidence that B is worse than A."""


def compare(
    a: Mapping[str, Counts],
    b: Mapping[str, Counts],
    *,
    alpha: float = 0.05,
    after_runs: int = 20,
    least_gain: float = 0.1,
) -> Comparison:
    """Compare B with A, family by family. Keys are names of families.

    BETTER and WORSE are proven at alpha (half of it each). Where neither is after `after_runs` runs of B, and the
    gain seen is below `least_gain`, B has had its chance: NO_EFFECT. Before, TOO_EARLY.
    """
    # Where nothing is known of A, B still has its runs, and its chance.
    pairs = pair_families(a, b) or [((0, 0), _total(b.values()))]
    e_better = bounded_exp(sum(_log_e(one, other, 0.0) for one, other in pairs))
    e_worse = bounded_exp(sum(_log_e(other, one, 0.0) for one, other in pairs))
    runs_a, runs_b = sum(sum(one) for one, _ in pairs), sum(sum(other) for _, other in pairs)
    rate_b = sum(other[0] for _, other in pairs) / runs_b if runs_b else None
    rate_a = sum(sum(other) * one[0] / sum(one) for one, other in pairs) / runs_b if runs_a and runs_b else None
    gain = None if rate_a is None or rate_b is None else rate_b - rate_a
    verdict = Verdict.TOO_EARLY
    if e_better >= 2 / alpha:
        verdict = Verdict.BETTER
    elif e_worse >= 2 / alpha:
        verdict = Verdict.WORSE
    elif runs_b >= after_runs and (gain is None or gain < least_gain):
        verdict = Verdict.NO_EFFECT
    return Comparison(
        verdict=verdict, rate_a=rate_a, rate_b=rate_b, gain=gain, runs_a=runs_a, runs_b=runs_b, e_better=e_better,
        e_worse=e_worse,
    )  # fmt: skip


def e_as_good(a: Mapping[str, Counts], b: Mapping[str, Counts], margin: float) -> float:
    """e-value against "B is worse than A by `margin` or more": large where B is proven to be as good, within the
    margin."""
    return bounded_exp(sum(_log_e(one, other, -margin) for one, other in pair_families(a, b)))


def pair_families(a: Mapping[str, Counts], b: Mapping[str, Counts]) -> list[tuple[Counts, Counts]]:
    """Counts of A and B for each family that both have; small ones are put together. Families of one side are left out.

    Where no family is on both sides, all runs make one pair: a comparison of unlike tasks is better told than hidden.
    """
    shared = sorted(name for name in a.keys() & b.keys() if sum(a[name]) and sum(b[name]))
    if not shared:
        return [(_total(a.values()), _total(b.values()))] if a and b else []
    large = [name for name in shared if min(sum(a[name]), sum(b[name])) >= LEAST_FAMILY_RUNS]
    small = [name for name in shared if name not in large]
    pairs = [(a[name], b[name]) for name in large]
    if small:
        pairs.append((_total(a[name] for name in small), _total(b[name] for name in small)))
    return pairs


def _log_e(a: Counts, b: Counts, by: float) -> float:
    if not sum(a) or not sum(b):
        return 0.0
    return log_mixture(*a) + log_mixture(*b) - _log_greatest(a, b, by)


def _log_greatest(a: Counts, b: Counts, by: float) -> float:
    """Greatest log-likelihood where p_b - p_a <= by: at the rates seen where they fit, else on the edge p_b = p_a
    + by."""
    rate_a, rate_b = a[0] / sum(a), b[0] / sum(b)
    if rate_b - rate_a <= by:
        return log_likelihood(*a, rate_a) + log_likelihood(*b, rate_b)
    low, high = max(0.0, -by), min(1.0, 1.0 - by)
    for _ in range(_STEPS):  # the log-likelihood on the edge is concave
        third = (high - low) / 3
        left, right = low + third, high - third
        if _on_edge(a, b, left, by) < _on_edge(a, b, right, by):
            low = left
        else:
            high = right
    return max(_on_edge(a, b, rate, by) for rate in (low, (low + high) / 2, high))


def _on_edge(a: Counts, b: Counts, rate_a: float, by: float) -> float:
    return log_likelihood(*a, rate_a) + log_likelihood(*b, min(1.0, max(0.0, rate_a + by)))


def _total(counts: Iterable[Counts]) -> Counts:
    each = list(counts)
    return sum(s for s, _ in each), sum(f for _, f in each)
