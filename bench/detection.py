"""Detection of drops: false alarms on healthy skills, and runs until a true drop is found, beside other rules.

Streams are Bernoulli, one run an hour, from fixed seeds. A month is 720 runs. Ours starts without knowing anything of a
skill, and alarms at an e-value of 1 / alpha. The CUSUM knows both rates, and its threshold is set so that it gives as
many false alarms as ours in the month after the history, on the same streams; Page-Hinkley's is set in the same way.

    python -m bench detection
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.detectors import Failures, Values, bad_in_a_row, cusum, ours, page_hinkley
from bench.figures import Figure, show
from trajlake.transforms.stats.control import surely_named

ALPHA: Final = 0.05
MONTH: Final = 720
DROPS: Final = ((0.9, 0.7), (0.9, 0.8), (0.99, 0.95))
HEALTHY: Final = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
RATIO_LIMIT: Final = 1.3
STREAMS: Final = 8000
FLEETS: Final = 160
SKILLS: Final = 1000
WATCHED: Final = 480
"""Runs after a drop that are looked at; a drop that is not found by then counts as so many."""


@dataclass(frozen=True)
class Race:
    """One drop: false alarms a month (of all rules the same), and median runs to find it."""

    before: float
    after: float
    false_alarms: float
    ours: float
    cusum: float
    page_hinkley: float
    two_in_a_row: float
    among_18: float
    """Runs until ours names it for sure in a fleet of 18 skills of which no other is in trouble."""
    among_1000: float
    two_in_a_row_false: float
    """Share of healthy skills that the two-in-a-row rule accuses within a month."""

    @property
    def ratio(self) -> float:
        return self.ours / self.cusum


def streams(rate: float, count: int, runs: int, seed: int) -> Failures:
    """Streams at one success rate."""
    return np.asarray(np.random.default_rng(seed).random((count, runs)) >= rate)


def false_alarms(rate: float, count: int, seed: int) -> tuple[float, float]:
    """Share of healthy skills that are accused in their first month, and in the second (if not in the first)."""
    alarmed = ours(streams(rate, count, 2 * MONTH, seed)) >= 1 / ALPHA
    first = alarmed[:, :MONTH].any(axis=1)
    second = alarmed[~first, MONTH:].any(axis=1)
    return float(first.mean()), float(second.mean())


def race(before: float, after: float, count: int, seed: int) -> Race:
    """A month of history at one rate, then the drop; and the same month without it, for the false alarms."""
    healthy = streams(before, count, 2 * MONTH, seed)
    dropped = np.concatenate([healthy[:, :MONTH], streams(after, count, WATCHED, seed + 1)], axis=1)
    evidence = ours(healthy)
    quiet = (evidence[:, :MONTH] < 1 / ALPHA).all(axis=1)
    allowed = float((evidence[quiet, MONTH:] >= 1 / ALPHA).any(axis=1).mean())

    among = ours(dropped, among=True)

    def known(failed: Failures) -> Values:
        return cusum(failed, before, after)

    return Race(
        before,
        after,
        allowed,
        ours=_median(ours(dropped), 1 / ALPHA),
        cusum=_median(known(dropped), _threshold(known, healthy, allowed)),
        page_hinkley=_median(page_hinkley(dropped), _threshold(page_hinkley, healthy, allowed)),
        two_in_a_row=_median(bad_in_a_row(dropped), 2, quiet_before=False),
        among_18=_median(among, surely_named(18, ALPHA)),
        among_1000=_median(among, surely_named(1000, ALPHA)),
        two_in_a_row_false=float((bad_in_a_row(healthy[:, :MONTH]) >= 2).any(axis=1).mean()),
    )


def fleet_alarms(fleets: int, skills: int, seed: int) -> tuple[float, float]:
    """Healthy fleets, looked at every hour of a month.

    Returns the share of skills accused singly, and the share of fleets in which e-BH names anybody.
    """
    rates = np.tile(np.array(HEALTHY), skills // len(HEALTHY) + 1)[:skills]
    alone, named = 0.0, 0
    for fleet in range(fleets):
        failed = np.random.default_rng(seed + fleet).random((skills, MONTH)) >= rates[:, None]
        alone += float((ours(failed) >= 1 / ALPHA).any(axis=1).mean())
        named += bool(anybody_named(ours(failed, among=True)).any())
    return alone / fleets, named / fleets


def anybody_named(evidence: Values) -> Failures:
    """For each hour, whether `control.discoveries` would name a skill."""
    ranked = -np.sort(-evidence, axis=0)
    total = len(evidence)
    needed = total / (np.arange(1, total + 1) * ALPHA)
    return np.asarray((ranked >= needed[:, None]).any(axis=0))


def _threshold(statistic: Callable[[Failures], Values], healthy: Failures, allowed: float) -> float:
    """The least threshold at which no more streams than allowed alarm in the month after a quiet history."""
    values = statistic(healthy)
    history, month = values[:, :MONTH].max(axis=1), values[:, MONTH:].max(axis=1)
    # Statistics of counts take few values: a threshold between two of them is as good as any.
    for level in np.unique(np.round(np.concatenate([history, month]), 9)):
        quiet = history < level - 1e-6
        if quiet.any() and (month[quiet] >= level - 1e-6).mean() <= allowed:
            return float(level - 1e-6)
    return float(values.max() + 1)


def _median(values: Values, threshold: float, *, quiet_before: bool = True) -> float:
    """Median runs from the drop to the alarm, of the streams without one before it."""
    if quiet_before:
        values = values[(values[:, :MONTH] < threshold).all(axis=1)]
    alarmed = values[:, MONTH:] >= threshold
    found = np.where(alarmed.any(axis=1), alarmed.argmax(axis=1) + 1, alarmed.shape[1])
    return float(np.median(found))


def main() -> None:
    """Print every figure."""
    for rate in HEALTHY:
        first, second = false_alarms(rate, STREAMS, seed=11)
        detail = {"second_month": round(second, 4), "skills": STREAMS}
        show(
            Figure(f"false_alarms_at_{rate}", round(first, 4), "share of skills a month", at_most=ALPHA, detail=detail)
        )
    alone, named = fleet_alarms(FLEETS, SKILLS, seed=9000)
    detail = {"fleets": FLEETS, "skills": SKILLS}
    show(Figure("false_alarms_single", round(alone, 4), "share of skills a month", at_most=ALPHA, detail=detail))
    show(Figure("false_decisions_fleet", named, "share of fleets with one a month", at_most=ALPHA, detail=detail))
    for before, after in DROPS:
        one = race(before, after, STREAMS, seed=77)
        detail = {
            "runs": one.ours,
            "cusum_runs": one.cusum,
            "page_hinkley_runs": one.page_hinkley,
            "among_18_skills_runs": one.among_18,
            "among_1000_skills_runs": one.among_1000,
            "two_in_a_row_runs": one.two_in_a_row,
            "two_in_a_row_accuses_healthy": round(one.two_in_a_row_false, 4),
            "false_alarms_a_month": round(one.false_alarms, 4),
        }
        show(Figure(f"detect_{before}_to_{after}", round(one.ratio, 3), "x CUSUM", at_most=RATIO_LIMIT, detail=detail))


if __name__ == "__main__":
    main()
