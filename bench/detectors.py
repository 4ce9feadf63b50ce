"""Detectors of a drop, each for many streams of runs at once: ours, and the ones that it is compared with.

A stream is a row of a bool array: True where a run failed, one run an hour. Every function gives, for each stream and
run, the statistic that is compared with a threshold.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trajlake.transforms.stats import assessment, drops

Failures: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = NDArray[np.float64]


def ours(failed: Failures, target: float = 0.5, *, among: bool = False) -> Values:
    """`assessment.evidence_against` (or `evidence_among`) of a skill with one stratum and one run an hour.

    The same numbers: tests/stats/test_operating.py holds it to the detector itself, run by run.
    """
    count, runs = failed.shape
    odds, weights = np.array(drops.ODDS), np.array(drops.ODDS_WEIGHTS)
    wide = drops.WIDE_MARGIN if among else 0.0
    evidence, shown = np.zeros((count, len(odds))), np.zeros((count, runs))
    base, base_runs = np.zeros(count), 0
    held: list[tuple[int, int, Values]] = []  # last hour, runs, failures of each stream
    failures = np.zeros(count)
    for hour in range(runs):
        fail = failed[:, hour]
        if base_runs >= drops.LEAST_BASE_RUNS:
            scale = 1 / (1 + (odds - 1) * _base_rate(base, base_runs, wide)[:, None])
            evidence = np.minimum((1 + evidence) * np.where(fail[:, None], odds * scale, scale), 1e10)
        failures += fail
        below = _below_target(hour + 1 - failures, failures, target)
        # One stratum: read together and by itself it is the same.
        of_drop = evidence @ weights / drops.BUDGET_HOURS
        shown[:, hour] = assessment.DROP_SHARE * of_drop + (1 - assessment.DROP_SHARE) * below
        if held and held[-1][1] < drops.BLOCK_RUNS:
            _, size, block = held.pop()
            held.append((hour, size + 1, block + fail))
        else:
            held.append((hour, 1, fail.astype(float)))
        total = sum(size for _, size, _ in held)
        while hour - held[0][0] >= drops.HELD_HOURS and total - held[0][1] >= drops.HELD_RUNS:
            _, size, block = held.pop(0)
            base, base_runs, total = base + block, base_runs + size, total - size
            if base_runs > drops.MOST_BASE_RUNS:
                raise ValueError("streams as long as that need the halving of the base")
    return shown


def _base_rate(failures: Values, runs: int, wide: float) -> Values:
    prior = drops.PRIOR_FAILURES + wide / runs
    q = (failures + prior) / (runs + 2 * prior)
    q = q + (drops.MARGIN / sqrt(runs) + wide / runs) * np.sqrt(q * (1 - q) / runs)
    return np.asarray(np.clip(q, drops.LEAST_FAILURE_RATE, drops.MOST_FAILURE_RATE))


def cusum(failed: Failures, before: float, after: float) -> Values:
    """Page's CUSUM of a known fall of the success rate: no test knows more, or finds it sooner for its false alarms.

    Source: E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954).
    """
    steps: Values = np.where(failed, log((1 - after) / (1 - before)), log(after / before))
    shown = np.zeros(failed.shape)
    level = np.zeros(len(failed))
    for run in range(failed.shape[1]):
        level = np.maximum(level + steps[:, run], 0)
        shown[:, run] = level
    return shown


def page_hinkley(failed: Failures, delta: float = 0.005, forget: float = 0.9999, least_runs: int = 30) -> Values:
    """Page-Hinkley test for a rise of the failure rate, as `river.drift.PageHinkley(mode="up")` computes it.

    The statistic is the test's; `river` alarms where it exceeds 50. It knows neither rate, and its mean is of all runs.
    """
    shown = np.zeros(failed.shape)
    mean, level, least = np.zeros(len(failed)), np.zeros(len(failed)), np.full(len(failed), np.inf)
    for run in range(failed.shape[1]):
        x = failed[:, run].astype(float)
        mean += (x - mean) / (run + 1)
        level = forget * level + (x - mean - delta)
        least = np.minimum(least, level)
        if run + 1 >= least_runs:
            shown[:, run] = level - least
    return shown


def bad_in_a_row(failed: Failures) -> Values:
    """Failures in a row, up to each run."""
    shown = np.zeros(failed.shape)
    row = np.zeros(len(failed))
    for run in range(failed.shape[1]):
        row = np.where(failed[:, run], row + 1, 0)
        shown[:, run] = row
    return shown


def _below_target(successes: Values, failures: Values, target: float) -> Values:
    q = 1 - target
    shown = np.zeros(len(failures))
    for odds, weight in zip(drops.ODDS, drops.ODDS_WEIGHTS, strict=True):
        scale = 1 - q + odds * q
        logs = -successes * np.log(scale) + failures * np.log(odds / scale)
        shown += weight * np.exp(np.clip(logs, -60, 60))
    return shown
