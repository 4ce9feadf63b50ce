"""Quantile sketches: as near as they say, whatever the order and the split."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.transforms.stats.sketch import (
    RELATIVE_ERROR,
    Sketch,
    add_value,
    mean,
    merge_sketches,
    new_sketch,
    quantile,
)

VALUES = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e9)), min_size=1, max_size=80)


@given(VALUES, st.floats(0, 1))
def test_a_quantile_is_within_two_percent_of_a_value_of_that_rank(values: list[float], q: float) -> None:
    found = quantile(new_sketch(values), q)
    assert found is not None
    true = sorted(values)[int(q * (len(values) - 1))]
    assert found == pytest.approx(true, rel=RELATIVE_ERROR * 1.01, abs=1e-9)


@given(st.lists(VALUES, min_size=1, max_size=5), st.randoms())
def test_sketches_merge_to_the_sketch_of_all_values(parts: list[list[float]], random: object) -> None:
    merged = merge_sketches(new_sketch(part) for part in parts)
    whole = new_sketch(value for part in parts for value in part)
    assert {**merged, "total": 0} == {**whole, "total": 0}
    assert merged["total"] == pytest.approx(whole["total"])


@given(VALUES)
def test_state_is_plain_json(values: list[float]) -> None:
    sketch = new_sketch(values)
    again: Sketch = json.loads(json.dumps(sketch))
    assert again == sketch
    add_value(again, 3.0)
    assert again["count"] == len(values) + 1


def test_latencies_of_a_day_take_few_buckets() -> None:
    sketch = new_sketch(50.0 * 1.003**n for n in range(3000))
    assert len(sketch["buckets"]) < 250


def test_an_empty_sketch_knows_nothing() -> None:
    assert quantile(new_sketch(), 0.5) is None
    assert mean(new_sketch()) is None


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_what_is_no_latency_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="takes numbers from 0"):
        add_value(new_sketch(), value)
