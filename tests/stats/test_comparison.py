"""Before and after: proven, spent, or too early to say."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.transforms.stats.comparison import Verdict, compare, e_as_good, pair_families

COUNT = st.integers(0, 60)


def test_an_effect_is_proven_and_so_is_harm() -> None:
    assert compare({"": (10, 20)}, {"": (24, 2)}).verdict is Verdict.BETTER
    assert compare({"": (24, 2)}, {"": (10, 20)}).verdict is Verdict.WORSE


def test_no_effect_is_said_only_after_the_runs_that_a_lever_is_given() -> None:
    assert compare({"": (0, 2)}, {"": (0, 19)}).verdict is Verdict.TOO_EARLY
    assert compare({"": (0, 2)}, {"": (0, 20)}).verdict is Verdict.NO_EFFECT
    assert compare({}, {"": (0, 40)}).verdict is Verdict.NO_EFFECT


def test_a_shift_between_families_is_no_effect() -> None:
    # Each family is as it was; after the change the easy one runs nine times as often.
    before = {"easy": (48, 2), "hard": (100, 350)}
    after = {"easy": (430, 20), "hard": (10, 40)}
    found = compare(before, after)
    assert found.verdict is Verdict.NO_EFFECT
    assert found.gain is not None
    assert abs(found.gain) < 0.03
    whole = compare({"": (148, 352)}, {"": (440, 60)})
    assert whole.verdict is Verdict.BETTER


def test_families_with_few_runs_are_put_together() -> None:
    before = {"a": (1, 1), "b": (2, 0), "c": (9, 9)}
    after = {"a": (2, 2), "b": (1, 1), "c": (5, 5), "d": (1, 1)}
    assert pair_families(before, after) == [((9, 9), (5, 5)), ((3, 1), (3, 3))]
    assert pair_families({"a": (1, 0)}, {"b": (0, 1)}) == [((1, 0), (0, 1))]


def test_as_good_wants_proof_not_absence_of_proof() -> None:
    assert e_as_good({"": (950, 50)}, {"": (38, 2)}, 0.05) < 20
    assert e_as_good({"": (950, 50)}, {"": (950, 50)}, 0.05) >= 20
    assert e_as_good({"": (950, 50)}, {"": (700, 300)}, 0.05) < 1


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_under_no_effect_hardly_any_stream_is_ever_called_an_effect(rate: float) -> None:
    random = Random(23)
    called = 0
    for _ in range(100):
        before = sum(random.random() < rate for _ in range(60))
        successes = 0
        for n in range(1, 121):
            successes += random.random() < rate
            if n % 8 == 0:
                found = compare({"": (before, 60 - before)}, {"": (successes, n - successes)})
                if found.verdict in (Verdict.BETTER, Verdict.WORSE):
                    called += 1
                    break
    assert called <= 100 * 0.05


@settings(deadline=None)
@given(st.tuples(COUNT, COUNT), st.tuples(COUNT, COUNT), st.floats(-0.3, 0.3))
def test_evidence_is_small_where_the_rates_seen_fit_the_null(a: tuple[int, int], b: tuple[int, int], by: float) -> None:
    e_value = e_as_good({"": a}, {"": b}, -by)
    assert e_value >= 0
    if sum(a) and sum(b) and b[0] / sum(b) - a[0] / sum(a) <= by:
        assert e_value <= 1 + 1e-9
