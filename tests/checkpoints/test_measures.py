"""Shares and drift of batches: what chance explains holds nobody up, and what it does not is found."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.transforms.gate.batchframe import Baseline
from trajlake.transforms.gate.drift import BUCKETS, drift, length_buckets, stability_index
from trajlake.transforms.gate.measures import exclusion_gap, group_completeness, tool_error_share
from trajlake.transforms.gate.shares import at_least, at_most, wilson_lower, wilson_upper


@given(st.integers(0, 300), st.integers(0, 300))
def test_bounds_hold_the_share_between_them(a: int, b: int) -> None:
    count, of = min(a, b), max(a, b)
    lower, upper = wilson_lower(count, of), wilson_upper(count, of)
    assert 0 <= lower <= upper <= 1
    assert of == 0 or lower <= count / of + 1e-12 <= upper + 2e-12


def test_wilson_bounds_are_those_of_the_paper() -> None:
    # 95% interval of 1 of 10, two-sided: Brown, Cai and DasGupta 2001, Statistical Science 16:2.
    z = 1.959963984540054
    assert wilson_lower(1, 10, z) == pytest.approx(0.01788, abs=1e-4)
    assert wilson_upper(1, 10, z) == pytest.approx(0.40415, abs=1e-4)


def test_one_bad_run_does_not_condemn_a_small_batch() -> None:
    assert at_most(1, 2, max_share=0.3).holds
    assert not at_most(100, 200, max_share=0.3).holds
    assert at_least(1, 2, min_share=0.8).holds
    assert not at_least(100, 200, min_share=0.8).holds
    assert at_most(0, 0, max_share=0.3).value is None


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**40)), max_size=40))
def test_lengths_fall_into_buckets_that_double(lengths: list[int | None]) -> None:
    found = length_buckets(pl.Series("n", lengths, dtype=pl.Int64))
    wanted = [0] * BUCKETS
    for length in lengths:
        wanted[min((length or 0).bit_length(), BUCKETS - 1)] += 1
    assert found == wanted


def test_drift_is_seldom_seen_where_there_is_none() -> None:
    chance = Random(7)
    seen = 0
    for _ in range(400):
        n, m = chance.choice([(10, 40), (30, 300), (200, 200), (1000, 50)])
        a, b = ([0] * BUCKETS for _ in range(2))
        for counts, size in ((a, n), (b, m)):
            for _value in range(size):
                counts[min(int(chance.lognormvariate(5, 1)).bit_length(), BUCKETS - 1)] += 1
        seen += not drift(a, b, max_drift=0.0).holds
    assert seen <= 12  # 1% wanted; 12 of 400 has a chance below 0.1% at that rate


def test_answers_of_half_the_length_are_found_in_a_hundred_runs() -> None:
    chance = Random(11)
    before, after = ([0] * BUCKETS for _ in range(2))
    for _ in range(1000):
        before[int(chance.lognormvariate(6, 0.5)).bit_length()] += 1
    for _ in range(100):
        after[int(chance.lognormvariate(6, 0.5) / 2).bit_length()] += 1
    assert not drift(after, before, max_drift=0.25).holds


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_the_index_is_symmetric_and_zero_only_for_equal_shares(a: list[int], b: list[int]) -> None:
    assert stability_index(a, b)[0] == pytest.approx(stability_index(b, a)[0])
    assert stability_index(a, a)[0] == 0


def test_a_rise_is_judged_against_the_baseline_and_the_limit_against_all() -> None:
    frame = pl.DataFrame({"tool_call_count": [1000], "tool_error_count": [100]})
    assert tool_error_share(frame, 0.5).holds
    assert not tool_error_share(frame, 0.5, 0.05, baseline=[10, 1000]).holds
    assert tool_error_share(frame, 0.5, 0.05, baseline=[0, 0]).holds
    assert not tool_error_share(frame, 0.05, 0.5, baseline=[100, 1000]).holds


def test_groups_are_complete_with_as_many_attempts_as_most_have() -> None:
    sizes = [4] * 30 + [2] * 10
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    frame = pl.DataFrame({"tenant_id": "t", "run_id": [f"r{n}" for n in range(len(groups))], "group_id": groups})
    found = group_completeness(frame, min_share=0.9)
    assert (found.value, found.holds, found.count, found.of, found.details["attempts"]) == (0.75, False, 10, 40, 4)
    assert group_completeness(frame, min_share=0.9, attempts=2).holds
    lone = frame.with_columns(group_id=pl.lit(None, pl.String))
    assert group_completeness(lone, min_share=0.9).value is None


def test_even_exclusion_holds_however_much_is_left_out() -> None:
    frame = pl.DataFrame({"outcome_class": ["success"] * 50 + ["timeout"] * 50})
    assert exclusion_gap(frame, 0.1, {"success": 200, "timeout": 200}).holds
    assert not exclusion_gap(frame, 0.1, {"success": 10, "timeout": 200}).holds
    assert exclusion_gap(frame, 0.1, {"timeout": 1}).holds
    assert exclusion_gap(frame.clear(), 0.1, {"timeout": 5}).holds


@given(st.builds(Baseline, *(st.integers(0, 9) for _ in range(3))))
def test_baselines_add_up_and_survive_json(one: Baseline) -> None:
    assert Baseline.from_dict((one + one).to_dict()) == one + one
    with pytest.raises(ValueError, match="baseline"):
        Baseline.from_dict({**one.to_dict(), "runs": True})
