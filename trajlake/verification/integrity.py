"""Integrity: the ledger's rows hashed again, and held against every head that was noted when they landed.

A head in a commit, a block of the table `integrity` and a head in a head file all say what the rows up to an offset
come to. Where the rows come to something else, they are not those that landed. Whoever can rewrite the whole lake can
rewrite its own heads too; a head that was kept elsewhere is what such a rewrite cannot reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import EVENTS
from trajlake.reading.tables import LakeTables, PartitionId
from trajlake.sinks.integrity import (
    RecordedHead,
    SealedBlock,
    commit_heads,
    lake_heads,
    read_blocks,
    read_heads,
    read_marks,
)
from trajlake.sinks.lake import transaction_app
from trajlake.transforms.integrity.chain import BLOCK_OFFSETS, Block, Chain
from trajlake.transforms.integrity.columns import disagreeing
from trajlake.transforms.integrity.marks import Marks
from trajlake.transforms.reconcile.faults import MAX_LISTED, Fault, FaultCode, Faults
from trajlake.verification.ledgerwalk import LedgerWalk

_ALL: Final = list(EVENTS.names)


@dataclass(slots=True)
class PartitionIntegrity:
    """What the rows of a partition up to `offset` come to. `head`: hex, as a head file holds it.

    `proven_offset`: the last offset up to which all noted heads agree. `anchored_offset`: the same for heads from
    outside the lake; -1 without any. `erased`: rows that an erasure took out.
    """

    topic: str
    partition: int
    offset: int
    rows: int
    head: str
    chain: str
    proven_offset: int
    anchored_offset: int
    heads: int
    erased: int

    def note(self) -> dict[str, Any]:
        """The head as a line of a head file."""
        return {name: getattr(self, name) for name in ("topic", "partition", "offset", "rows", "head", "chain")}


@dataclass
class _Part:
    """One partition while its rows are walked over."""

    chain: Chain
    marks: Marks
    heads: list[RecordedHead]
    """Those that are not compared yet, the next one last."""
    blocks: dict[int, SealedBlock]
    outside: set[RecordedHead]
    compared: int = 0
    proven: int = -1
    anchored: int = -1
    wrong: list[tuple[int, int, str]] = field(default_factory=list)
    """Stretches of offsets that do not come to what was noted, and by which head."""
    erased: int = 0

    def extend(self, rows: pa.Table | None, last: int) -> None:
        """Take rows in, head by head."""
        while self.heads and self.heads[-1].offset <= last:
            head = self.heads.pop()
            if head.offset > self.chain.last:
                rows = self._advance(rows, head.offset)
            if head.offset == self.chain.last:
                self._compare(head)
        self._advance(rows, last)

    def _advance(self, rows: pa.Table | None, last: int) -> pa.Table | None:
        """Extend the chain up to an offset, block by block; returns the rows above it."""
        left = _EMPTY if rows is None else rows
        while self.chain.last < last:
            first = self.chain.last + 1
            end = min(last, first // BLOCK_OFFSETS * BLOCK_OFFSETS + BLOCK_OFFSETS - 1)
            count = pc.sum(pc.less_equal(left.column("offset"), end)).as_py() or 0
            now, left = left.slice(0, count), left.slice(count)
            if not left.num_rows and not len(self.marks.offsets):
                # Nothing but offsets without a row: no block comes of them.
                end = last
            view = self.marks.complete(now, first, end)
            self.erased += len(view) - count
            for block in self.chain.extend(view, end):
                self._compare_block(block)
        return left

    def _compare_block(self, block: Block) -> None:
        known = self.blocks.get(block.last)
        if known is None:
            return
        self.compared += 1
        if known.digest != block.digest.hex():
            self._mark_wrong(block.first, block.last, "table integrity")
        elif known.chain == block.chain.hex():
            self.proven = max(self.proven, block.last)
        else:
            self._mark_wrong(self.proven + 1, block.last, "table integrity")
        # Go on from what was noted, so that what follows is judged by itself.
        self.chain.value = bytes.fromhex(known.chain)
        self.chain.rows = known.rows

    def _compare(self, head: RecordedHead) -> None:
        self.compared += 1
        if self.chain.head().digest == head.digest:
            self.proven = max(self.proven, head.offset)
            if head in self.outside:
                self.anchored = max(self.anchored, head.offset)
            return
        self._mark_wrong(self.proven + 1, head.offset, head.source)
        self.chain.rows = head.rows
        if head.chain is not None:
            self.chain.value = bytes.fromhex(head.chain)

    def _mark_wrong(self, first: int, last: int, source: str) -> None:
        if self.wrong and first <= self.wrong[-1][1] + 1:
            self.wrong[-1] = min(first, self.wrong[-1][0]), max(last, self.wrong[-1][1]), self.wrong[-1][2]
        else:
            self.wrong.append((first, last, source))
        self.proven = max(self.proven, last)


_EMPTY: Final = pa.Table.from_batches([], EVENTS.schema)


def check_integrity(
    lake: LakeTables,
    landed: dict[PartitionId, int],
    app_id: str,
    outside: Iterable[RecordedHead] = (),
    progress: Progress = SILENT,
) -> tuple[list[PartitionIntegrity], list[Faults]]:
    """Hash the ledger at its pinned version up to what has landed, and compare.

    outside: heads that were kept outside the lake. Raises `SinkUnavailable` when the lake cannot be read.
    """
    events = lake.delta("events")
    version = -1 if events is None else events.version()
    outside = list(outside)
    inside = [*commit_heads(lake.lake, version), *read_heads(lake_heads(lake.lake))]
    blocks = {key: read_blocks(lake.lake, *key) for key in landed}
    parts = {
        (topic, partition): _Part(
            Chain(topic, partition),
            Marks(read_marks(lake.lake, topic, partition)),
            _in_order([*inside, *outside], (topic, partition), last),
            {block.last: block for block in blocks[topic, partition]},
            set(outside),
        )
        for (topic, partition), last in landed.items()
    }
    found: list[Faults] = []
    for key, end, rows in LedgerWalk(lake, _ALL, progress).stretches(landed):
        parts[key].extend(rows, end)
        found.append(_columns(key, rows))
    for key, part in parts.items():
        part.extend(None, landed[key])
        found += _judge(key, part, landed[key])
    known: dict[PartitionId, tuple[int, str]] = {}
    for head in [*inside, *outside]:
        _note_highest(known, (head.topic, head.partition), head.offset, head.source)
    for key, sealed in blocks.items():
        if sealed:
            _note_highest(known, key, sealed[-1].last, "table integrity")
    found += _truncated(lake, app_id, known, landed)
    return [_report(key, part) for key, part in sorted(parts.items())], found


def _in_order(heads: Iterable[RecordedHead], key: PartitionId, landed: int) -> list[RecordedHead]:
    own = [head for head in heads if (head.topic, head.partition) == key and 0 <= head.offset <= landed]
    return sorted(set(own), key=lambda head: -head.offset)


def _judge(key: PartitionId, part: _Part, landed: int) -> Iterable[Faults]:
    place = {"topic": key[0], "partition": key[1]}
    if part.wrong:
        listed = [
            Fault(
                FaultCode.CHANGED_ROWS,
                f"the rows are not those that landed: they do not come to the hash in {source}",
                "events",
                {**place, "offset": first, "last_offset": last},
            )
            for first, last, source in part.wrong[:MAX_LISTED]
        ]
        yield Faults(FaultCode.CHANGED_ROWS, len(part.wrong), listed)
    if part.proven < landed and part.chain.rows:
        detail = "no head was noted for these rows: they were not landed by `trajlake land`, or before it noted heads"
        fault = Fault(
            FaultCode.UNCHAINED_ROWS, detail, "events", {**place, "offset": part.proven + 1, "last_offset": landed}
        )
        yield Faults(FaultCode.UNCHAINED_ROWS, 1, [fault])


def _note_highest(known: dict[PartitionId, tuple[int, str]], key: PartitionId, offset: int, source: str) -> None:
    if offset > known.get(key, (-1, ""))[0]:
        known[key] = offset, source


def _truncated(
    lake: LakeTables, app_id: str, known: dict[PartitionId, tuple[int, str]], landed: dict[PartitionId, int]
) -> Iterable[Faults]:
    """Offsets that a head or block knows and the ledger does not. Workers may have landed them since it was opened."""
    ahead = {key: told for key, told in known.items() if told[0] > landed.get(key, -1)}
    if not ahead:
        return
    newest = lake.lake.open("events") if lake.lake.exists("events") else None
    for key, (offset, source) in ahead.items():
        now = None if newest is None else newest.transaction_version(transaction_app(app_id, *key))
        if now is not None and now >= offset:
            continue
        last = landed.get(key, -1)
        fault = Fault(
            FaultCode.TRUNCATED_ROWS,
            f"{source} knows these offsets, and the ledger ends at {last}: its newest commits are gone",
            "events",
            {"topic": key[0], "partition": key[1], "offset": last + 1, "last_offset": offset},
        )
        yield Faults(FaultCode.TRUNCATED_ROWS, 1, [fault])


def _columns(key: PartitionId, rows: pa.Table) -> Faults:
    """Columns that stand beside the event's text and do not say the same."""
    wrong = disagreeing(rows)
    listed = [
        Fault(
            FaultCode.COLUMN_MISMATCH,
            f"column {name} does not say what the event beside it says",
            "events",
            {"topic": key[0], "partition": key[1], "offset": offset},
        )
        for offset, name in wrong[:MAX_LISTED]
    ]
    return Faults(FaultCode.COLUMN_MISMATCH, len(wrong), listed)


def _report(key: PartitionId, part: _Part) -> PartitionIntegrity:
    head = part.chain.head()
    return PartitionIntegrity(
        *key, offset=head.offset, rows=head.rows, head=head.digest, chain=part.chain.value.hex(),
        proven_offset=part.proven if not part.wrong else part.wrong[0][0] - 1,
        anchored_offset=part.anchored, heads=part.compared, erased=part.erased,
    )  # fmt: skip
