"""The chain is a function of the rows alone, and an auditor's own program comes to the same heads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integrity import auditor
from trajlake.expectations.tables import EVENTS, REDACTIONS
from trajlake.transforms.integrity.chain import BLOCK_OFFSETS, Block, Chain
from trajlake.transforms.integrity.rows import rows_of

T0 = 1_700_000_000_000_000


def table(offsets: list[int], texts: list[str] | None = None, revisions: list[str] | None = None) -> pa.Table:
    count = len(offsets)
    redactions = [[{"path": "data.a", "rule": "x", "count": n % 3 + 1}] if n % 5 == 2 else None for n in offsets]
    return pa.table(
        {
            "offset": pa.array(offsets, pa.int64()),
            "append_time": pa.array([T0 + 7 * n for n in offsets], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "event": pa.array(texts or [f'{{"n":{n},"é":"한"}}' for n in offsets], pa.string()),
            "redactions": pa.array(redactions, REDACTIONS),
            "rule_revision": pa.array(revisions or ["r1"] * count, pa.string()),
        }
    )


def told(rows: pa.Table, last: int, cuts: tuple[int, ...] = ()) -> tuple[str, list[Block]]:
    """Head at an offset, and the blocks, of rows that came in pieces that end at `cuts`."""
    chain = Chain("t", 3)
    blocks: list[Block] = []
    for end in (*sorted(cut for cut in set(cuts) if cut < last), last):
        piece = rows.filter(pa.compute.field("offset") <= end).filter(pa.compute.field("offset") > chain.last)
        blocks += chain.extend(rows_of(piece), end)
    return chain.head().digest, blocks


@settings(max_examples=25, deadline=None)
@given(
    st.sets(st.integers(0, 3 * BLOCK_OFFSETS), max_size=300),
    st.lists(st.integers(0, 3 * BLOCK_OFFSETS), max_size=6),
    st.integers(0, 50),
)
def test_batch_ends_play_no_part_and_an_auditor_comes_to_the_same(
    offsets: set[int], cuts: list[int], beyond: int
) -> None:
    placed = sorted(offsets)
    last = (placed[-1] if placed else 0) + beyond
    rows = table(placed, revisions=[f"r{n // 2000}" for n in placed])
    head, blocks = told(rows, last)
    assert told(rows, last, tuple(cuts)) == (head, blocks)
    assert head == auditor.head("t", 3, rows.to_pylist(), last)


def test_the_format_stays_what_it_is() -> None:
    """Heads that auditors keep must stay comparable: a change of this value is a new format."""
    rows = table([0, 1, 2, 17, 4095, 4096, 5000], revisions=["r1", "r1", "r2", "r2", "r2", "r2", "r3"])
    assert told(rows, 5000)[0] == "6952bb32bea7558996b4f62d80577cc959afd7a1f3a1673489bb82187aa01778"


def nanoseconds(rows: pa.Table) -> pa.Table:
    return change(rows, "append_time", rows["append_time"].cast(pa.timestamp("ns", "UTC")))


def change(rows: pa.Table, name: str, column: Any) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def test_what_a_round_trip_changes_in_types_changes_no_hash() -> None:
    rows = table(list(range(100)))
    head = told(rows, 99)[0]
    assert told(nanoseconds(rows), 99)[0] == head
    assert told(change(rows, "append_time", rows["append_time"].cast(pa.timestamp("us"))), 99)[0] == head
    assert told(change(rows, "event", rows["event"].cast(pa.large_string())), 99)[0] == head
    assert told(change(rows, "rule_revision", rows["rule_revision"].dictionary_encode()), 99)[0] == head
    parts = pa.concat_tables([rows.slice(0, 33), rows.slice(33, 1), rows.slice(34)])
    assert told(parts, 99)[0] == head


@pytest.mark.parametrize("name", ["offset", "append_time", "event", "redactions", "rule_revision"])
def test_every_column_that_is_covered_counts(name: str) -> None:
    rows = table(list(range(0, 200, 2)))
    values = rows[name].to_pylist()
    other = {"offset": 43, "append_time": values[20], "event": '{"n":43}', "redactions": None, "rule_revision": "r9"}
    values[21] = other[name] if name != "redactions" else [{"path": "data.b", "rule": "x", "count": 1}]
    changed = change(rows, name, pa.array(values, EVENTS.schema.field(name).type))
    assert told(changed, 199)[0] != told(rows, 199)[0]


def test_text_cannot_move_from_a_row_to_its_neighbour() -> None:
    assert told(table([0, 1], ["ab", "c"]), 1)[0] != told(table([0, 1], ["a", "bc"]), 1)[0]


def test_rows_that_do_not_follow_are_refused() -> None:
    chain = Chain("t", 0)
    chain.extend(rows_of(table([0, 1])), 5)
    for offsets in ([5], [7, 6], [8, 8], [6, 99]):
        with pytest.raises(ValueError, match=r"t/0: rows"):
            chain.extend(rows_of(table(offsets)), 9)
