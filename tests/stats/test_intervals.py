"""Intervals of a rate: what they promise, and that they keep it."""

from __future__ import annotations

from math import lgamma, log
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass
from trajlake.transforms.stats.intervals import PRIOR, confidence_sequence, log_likelihood, log_mixture, wilson
from trajlake.transforms.stats.quality import failure_streak, measure_quality

COUNTS = st.integers(0, 400)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_watched_after_every_run_the_confidence_sequence_misses_the_truth_in_at_most_alpha_of_streams(
    rate: float,
) -> None:
    alpha, streams, runs = 0.05, 4000, 1000
    n = np.arange(1, runs + 1)
    s = np.cumsum(np.random.default_rng(7).random((streams, runs)) < rate, axis=1)
    f = n - s
    # The truth is outside exactly where its martingale is at 1 / alpha or above (the next test ties that to the edges).
    log_gamma = np.array([lgamma(k + PRIOR) for k in range(runs + 1)])
    whole = np.array([lgamma(k + 2 * PRIOR) for k in range(runs + 1)])
    mixture = log_gamma[s] + log_gamma[f] - whole[n] - (2 * lgamma(PRIOR) - lgamma(2 * PRIOR))
    watched = (mixture - s * log(rate) - f * log(1 - rate) >= log(1 / alpha)).any(axis=1)
    assert 0.005 < watched.mean() <= alpha
    # What it is for: the fixed-n interval, watched, is wrong many times as often as it says.
    z = NormalDist().inv_cdf(1 - alpha / 2)
    fixed = (np.abs(s / n - rate) > z * np.sqrt(rate * (1 - rate) / n)).any(axis=1)  # Wilson's, solved for the truth
    assert fixed.mean() > 5 * alpha


@given(COUNTS, COUNTS)
def test_the_edges_are_where_the_martingale_reaches_its_limit(successes: int, failures: int) -> None:
    interval = confidence_sequence(successes, failures)
    if successes + failures == 0:
        assert interval is None
        return
    assert interval is not None
    rate = successes / (successes + failures)
    assert 0 <= interval.low <= rate <= interval.high <= 1
    mixture = log_mixture(successes, failures)
    for edge in (interval.low, interval.high):
        if 0 < edge < 1:
            assert mixture - log_likelihood(successes, failures, edge) == pytest.approx(np.log(20), abs=1e-6)


@given(COUNTS, COUNTS)
def test_a_look_that_may_be_repeated_costs_width(successes: int, failures: int) -> None:
    interval, fixed = confidence_sequence(successes, failures), wilson(successes, failures)
    if interval is not None and fixed is not None and successes + failures >= 10:
        assert interval.high - interval.low >= fixed.high - fixed.low


@given(COUNTS, COUNTS)
def test_success_and_failure_are_mirror_images(successes: int, failures: int) -> None:
    one, other = confidence_sequence(successes, failures), confidence_sequence(failures, successes)
    if one is not None and other is not None:
        assert one.low == pytest.approx(1 - other.high, abs=1e-9)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="below zero"):
        confidence_sequence(-1, 3)


@given(st.dictionaries(st.sampled_from([str(each) for each in OutcomeClass]), st.integers(0, 50)))
def test_only_classes_that_speak_of_quality_are_in_the_denominator(counts: dict[str, int]) -> None:
    quality = measure_quality(counts)
    assert quality.scorable == sum(counts.get(each, 0) for each in SCORABLE)
    assert quality.runs == sum(counts.values())
    if quality.scorable:
        assert quality.rate == pytest.approx(counts.get("success", 0) / quality.scorable)
    else:
        assert quality.rate is None
        assert quality.interval is None
        assert quality.fixed_n is None


def test_cancelled_runs_alone_are_no_hundred_percent() -> None:
    quality = measure_quality({"cancelled": 12})
    assert (quality.rate, quality.interval, quality.fixed_n, quality.bounds) == (None, None, None, None)
    assert quality.runs == 12


def test_s15_abandoned_and_timed_out_runs_are_counted_with_bounds_for_both_readings() -> None:
    quality = measure_quality({"success": 6, "quality_failure": 2, "timeout": 1, "abandoned": 1, "quota": 30})
    assert quality.rate == 0.75
    assert quality.open_reading == 2
    assert quality.bounds is not None
    assert (quality.bounds.low, quality.bounds.high) == (0.6, 0.8)


def test_s15_where_nothing_else_ended_both_readings_are_all_that_is_known() -> None:
    quality = measure_quality({"timeout": 3})
    assert quality.rate is None
    assert quality.bounds is not None
    assert (quality.bounds.low, quality.bounds.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("classes", "streak"),
    [
        (["quality_failure", "cancelled", "quality_failure"], 2),
        (["quality_failure", "success", "quality_failure"], 1),
        (["quality_failure", "quota", "infra_fault", "agent_action", "timeout"], 2),
        ([], 0),
        (["quality_failure", "success"], 0),
    ],
)
def test_s4_a_streak_is_broken_by_success_alone(classes: list[str], streak: int) -> None:
    assert failure_streak(classes) == streak
