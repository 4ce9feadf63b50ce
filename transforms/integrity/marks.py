"""Marks of erased rows: what the chain needs of them once they are gone.

A mark is the place, time and rule revision of a row and the hash of its content: what the row's block was made of. No
content can be read from it. With the marks, the block comes to the same hash as before, so all other rows are proven
by the heads that were noted when they landed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.events import TOMBSTONE_PREFIX
from trajlake.expectations.tables import ERASURE_MARKS
from trajlake.transforms.integrity.rows import Rows, rows_in_order, rows_of, runs_of


def make_marks(topic: str, partition: int, rows: pa.Table, offsets: Iterable[int], erasure_id: str) -> pa.Table:
    """Marks of those rows of one partition that have the given offsets. rows: `FIGURES` of `events`."""
    chosen = rows_in_order(rows.filter(pc.is_in(rows.column("offset"), pa.array(sorted(offsets), pa.int64()))))
    count = chosen.num_rows
    values = {
        "topic": [topic] * count,
        "partition": [partition] * count,
        "offset": chosen.column("offset"),
        "erasure_id": [erasure_id] * count,
        "append_time": chosen.column("append_time"),
        "rule_revision": chosen.column("rule_revision"),
        "row_sha256": [digest.hex() for digest in rows_of(chosen).digests],
    }
    return pa.table(values).cast(ERASURE_MARKS.schema)


class Marks:
    """The marks of one partition. `offsets`: of erased rows, sorted, int64."""

    def __init__(self, marks: pa.Table) -> None:
        # An erasure that was tried twice left two.
        self._marks = rows_in_order(marks)
        self.offsets: np.ndarray[Any, np.dtype[np.int64]] = self._marks.column("offset").to_numpy()

    def complete(self, rows: pa.Table, first: int, last: int) -> Rows:
        """Rows of offsets `first..last` in order, and what the chain needs of those that were erased among them.

        Where a row of type `trajlake.erased` stands in the place of an erased one, its mark counts. One without a mark
        landed as it is.
        """
        there = rows_of(rows.filter(pc.invert(self._stand_ins(rows))))
        within = self._marks.slice(
            int(np.searchsorted(self.offsets, first)), int(np.searchsorted(self.offsets, last + 1))
            - int(np.searchsorted(self.offsets, first)),
        )  # fmt: skip
        # A row that is marked and still there is on its way out: its own content counts.
        gone = within.filter(pa.array(~np.isin(within.column("offset").to_numpy(), there.offsets), pa.bool_()))
        if not gone.num_rows:
            return there
        offsets = np.concatenate((there.offsets, gone.column("offset").to_numpy()))
        times = gone.column("append_time").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        digests = [*there.digests, *map(bytes.fromhex, gone.column("row_sha256").to_pylist())]
        revisions = [*_spread(there), *gone.column("rule_revision").to_pylist()]
        order = np.argsort(offsets).tolist()
        return Rows(
            offsets[order],
            np.concatenate((there.append_us, times))[order],
            [digests[place] for place in order],
            runs_of([revisions[place] for place in order]),
        )

    def _stand_ins(self, rows: pa.Table) -> pa.ChunkedArray:
        """True for rows that stand where a marked one stood."""
        marked = pc.is_in(rows.column("offset"), pa.array(self.offsets, pa.int64()))
        return pc.and_(marked, pc.starts_with(rows.column("event"), TOMBSTONE_PREFIX))


def _spread(rows: Rows) -> list[str]:
    """The rule revision of each row."""
    ends = [start for start, _ in rows.revisions[1:]] + [len(rows)] * bool(rows.revisions)
    return [value for (start, value), end in zip(rows.revisions, ends, strict=True) for _ in range(end - start)]
