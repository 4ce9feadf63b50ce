"""Quantiles of the rolling windows' bins."""

from __future__ import annotations

from collections import Counter
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.transforms.rolling.sketch import bin_of, quantiles

WANTED = (0.0, 0.5, 0.95, 0.99, 1.0)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300))
def test_each_is_within_two_percent_of_the_value_of_its_rank(values: list[int]) -> None:
    found = quantiles(dict(Counter(map(bin_of, values))), *WANTED)
    assert found is not None
    ordered = sorted(values)
    for q, value in zip(WANTED, found, strict=True):
        assert value == pytest.approx(ordered[floor(q * (len(values) - 1))], rel=0.02001)


def test_there_are_none_of_nothing() -> None:
    assert quantiles({}, *WANTED) is None
    assert quantiles({3: 0}, *WANTED) is None, "all was taken back"
