"""Coverage of offsets against a model that is too simple to be wrong."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trajlake.transforms.reconcile.accounting import Ranges, compress, cover, merge, spans

offsets = st.lists(st.integers(0, 60), max_size=80)
ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12
)


def as_array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def as_spans(pairs: list[tuple[int, int]]) -> Ranges:
    return spans(as_array([first for first, _ in pairs]), as_array([last for _, last in pairs]))


def each_offset(found: Ranges) -> Counter[int]:
    return Counter(offset for first, last in found for offset in range(first, last + 1))


@given(offsets)
def test_compressed_offsets_are_the_same_multiset(values: list[int]) -> None:
    assert each_offset(compress(as_array(values))) == Counter(values)


@given(st.integers(0, 10**12), st.integers(1, 5000))
def test_consecutive_offsets_cost_one_range(first: int, count: int) -> None:
    assert len(compress(np.arange(first, first + count))) == 1


@given(st.lists(offsets, max_size=5), ranges)
def test_merging_keeps_every_offset_as_often_as_it_occurs(parts: list[list[int]], pairs: list[tuple[int, int]]) -> None:
    merged = merge([*(compress(as_array(part)) for part in parts), as_spans(pairs)])
    expected = Counter(value for part in parts for value in part) + each_offset(as_spans(pairs))
    assert each_offset(merged) == expected
    assert merged.count == expected.total()


@given(st.lists(offsets, max_size=4), ranges, st.integers(-1, 70))
@example([[0, 1, 1, 2]], [], 2)
@example([], [(0, 5), (5, 9)], 9)
@example([], [], -1)
def test_missing_and_doubled_offsets_are_those_of_a_set(
    parts: list[list[int]], pairs: list[tuple[int, int]], last: int
) -> None:
    covered = Counter(value for part in parts for value in part) + each_offset(as_spans(pairs))
    missing, doubled = cover(merge([*(compress(as_array(part)) for part in parts), as_spans(pairs)]), last)
    due = range(last + 1)
    assert each_offset(missing) == Counter(offset for offset in due if not covered[offset])
    assert each_offset(doubled) == Counter(offset for offset in due if covered[offset] > 1)


@given(st.lists(offsets, max_size=4))
def test_ranges_of_what_is_missing_do_not_touch_each_other(parts: list[list[int]]) -> None:
    missing, doubled = cover(merge([compress(as_array(part)) for part in parts]), 60)
    for found in (missing, doubled):
        assert all(after.first > before.last + 1 for before, after in zip(list(found), list(found)[1:], strict=False))


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match=r"5\.\.4"):
        as_spans([(0, 1), (5, 4)])
