"""Operating characteristics on seeded streams: what docs/statistics.md publishes at full size, smaller."""

from __future__ import annotations

import numpy as np
import pytest

from bench.detection import ALPHA, HEALTHY, MONTH, RATIO_LIMIT, anybody_named, fleet_alarms, race, streams
from bench.detectors import cusum, ours, page_hinkley
from trajlake.transforms.stats.assessment import Terms, evidence_against, evidence_among
from trajlake.transforms.stats.control import discoveries
from trajlake.transforms.stats.drops import new_drops, observe, read_drops
from trajlake.transforms.stats.quality import measure_quality


@pytest.mark.parametrize("rate", [0.8, 0.97])
def test_the_simulated_detector_is_the_real_one(rate: float) -> None:
    failed = streams(rate, 2, 700, seed=3)
    failed[1, 500:] = streams(0.5, 1, 200, seed=4)
    shown, among = ours(failed), ours(failed, among=True)
    for stream, fails in enumerate(failed):
        drops, counts = new_drops(), {"success": 0, "quality_failure": 0}
        for hour, fail in enumerate(fails):
            observe(drops, hour, "|", int(not fail), int(fail))
            counts["quality_failure" if fail else "success"] += 1
            if hour % 7 == 0 or hour > 690:
                reading, quality = read_drops(drops), measure_quality(counts)
                assert shown[stream, hour] == pytest.approx(evidence_against(reading, quality, Terms()), rel=1e-9)
                assert among[stream, hour] == pytest.approx(evidence_among(reading, quality, Terms()), rel=1e-9)


def test_s13_a_thousand_healthy_skills_looked_at_every_hour_for_a_month() -> None:
    alone, named = fleet_alarms(fleets=2, skills=1000, seed=900)
    assert alone <= ALPHA
    assert named == 0


@pytest.mark.parametrize(("before", "after"), [(0.9, 0.7), (0.9, 0.8), (0.99, 0.95)])
def test_s14_a_drop_is_found_nearly_as_soon_as_by_one_who_knows_both_rates(before: float, after: float) -> None:
    found = race(before, after, count=1500, seed=77)
    assert found.ratio <= RATIO_LIMIT
    assert found.ours < {0.7: 48, 0.8: 134, 0.95: 140}[after]
    assert found.two_in_a_row_false > (0.9 if before == 0.9 else 0.05)


def test_the_fleet_rule_of_the_simulation_is_the_real_one() -> None:
    failed = streams(0.8, 40, 300, seed=5)
    failed[:3, 200:] = True
    evidence = ours(failed, among=True)
    named = anybody_named(evidence)
    for hour in range(0, 300, 13):
        assert bool(named[hour]) == bool(discoveries(dict(enumerate(evidence[:, hour]))))
    assert named.any()


def test_the_cusum_restarts_at_zero_and_adds_log_likelihood_ratios() -> None:
    shown = cusum(np.array([[False, True, True, False]]), 0.9, 0.7)[0]
    up, down = np.log(0.3 / 0.1), np.log(0.7 / 0.9)
    assert shown == pytest.approx([0, up, 2 * up, 2 * up + down])


def test_page_hinkley_is_rivers() -> None:
    drift = pytest.importorskip(
        "river.drift", reason="river is not needed; where it is installed, numbers are compared"
    )
    failed = streams(0.9, 1, MONTH, seed=8)
    failed[0, 500:] = streams(0.5, 1, MONTH - 500, seed=9)
    theirs = drift.PageHinkley(mode="up")
    alarms = []
    for run, fail in enumerate(failed[0]):
        theirs.update(float(fail))
        if theirs.drift_detected:
            alarms.append(run)
    shown = page_hinkley(failed)[0]
    assert alarms
    assert alarms[0] == int((shown > 50).argmax())


def test_the_rates_of_the_healthy_fleet_span_what_skills_have() -> None:
    assert min(HEALTHY) <= 0.5
    assert max(HEALTHY) >= 0.995
