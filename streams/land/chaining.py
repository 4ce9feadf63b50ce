"""The chain of a partition around the land worker: where it is taken up, and how it is kept.

Every commit of `events` carries the head that its rows come to. Now and then, with the snapshot, complete blocks go to
the table `integrity` and the newest head to the head files: a worker resumes from the last complete block, and reads
the few rows behind it again from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from trajlake.expectations.tables import EVENTS
from trajlake.sinks.integrity import (
    SealedBlock,
    lake_heads,
    read_blocks,
    read_marks,
    write_blocks,
    write_head,
    write_marks,
)
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import CHAIN, Ledger
from trajlake.streams.land.recovery import LedgerTable
from trajlake.streams.settings import Settings
from trajlake.transforms.integrity.chain import BLOCK_OFFSETS, Block, Chain
from trajlake.transforms.integrity.marks import Marks, make_marks
from trajlake.transforms.integrity.rows import FIGURES, rows_in_order

WINDOW_OFFSETS: Final = 4 * BLOCK_OFFSETS
_NO_ROWS: Final = pa.Table.from_batches([], pa.schema([field for field in EVENTS.schema if field.name in FIGURES]))


def resume_chain(lake: Lake, topic: str, partition: int, landed: int) -> Chain:
    """The chain behind the last complete block at or below what has landed. Raises `SinkUnavailable`."""
    if landed < 0:
        return Chain(topic, partition)
    blocks = [block for block in read_blocks(lake, topic, partition) if block.last <= landed]
    if not blocks:
        return Chain(topic, partition)
    newest = blocks[-1]
    return Chain(topic, partition, value=bytes.fromhex(newest.chain), rows=newest.rows, last=newest.last)


def catch_up(lake: Lake, chain: Chain, landed: int) -> Iterator[list[Block]]:
    """Bring a chain to what has landed from the ledger, piece by piece; yields the complete blocks of each.

    A lake that landed before there were chains is read once from its start. Raises `SinkUnavailable`.
    """
    if chain.last >= landed:
        return
    table = LedgerTable(lake, "events", chain.topic, chain.partition)
    marks = Marks(read_marks(lake, chain.topic, chain.partition))
    while chain.last < landed:
        first, last = chain.last + 1, min(chain.last + WINDOW_OFFSETS, landed)
        found = list(table.window(list(FIGURES), first, last))
        rows = None
        if found or len(marks.offsets):
            there = pa.Table.from_batches(found) if found else _NO_ROWS
            rows = marks.complete(rows_in_order(there), first, last)
        yield chain.extend(rows, last)


def mark_erasure(lake: Lake, topic: str, partition: int, offsets: Iterable[int], erasure_id: str) -> int:
    """Note what the chain needs of rows that are about to be erased from `events`.

    Call it behind the erasure ledger's entry and before a row is taken out; again after a crash does no harm. Rows that
    are not there, or are marked, are passed over. Returns the number of new marks. Raises `SinkUnavailable`.
    """
    table = LedgerTable(lake, "events", topic, partition)
    todo = sorted(set(offsets) - set(Marks(read_marks(lake, topic, partition)).offsets.tolist()))
    made: list[pa.Table] = []
    while todo:
        last = todo[0] + WINDOW_OFFSETS - 1
        now = [offset for offset in todo if offset <= last]
        todo = todo[len(now) :]
        if found := list(table.window(list(FIGURES), now[0], now[-1])):
            made.append(make_marks(topic, partition, pa.Table.from_batches(found), now, erasure_id))
    count = sum(len(marks) for marks in made)
    if count:
        write_marks(lake, pa.concat_tables(made))
    return count


def seal(lake: Lake, ledger: Ledger, settings: Settings, chain: Chain, blocks: list[Block]) -> bool:
    """Keep what a partition's chain has come to. Returns False where a head file knows a later head.

    Raises `SinkUnavailable`, or `StaleWriter` where another worker has the partition by now.
    """
    sealed = [
        SealedBlock(
            chain.topic, chain.partition, block.first, block.last, block.rows, block.digest.hex(), block.chain.hex()
        )
        for block in blocks
    ]
    if sealed:
        write_blocks(ledger.log_of(CHAIN), settings.app_id, sealed)
    folders = [lake_heads(lake)]
    if settings.integrity_heads:
        folders.append(Lake(settings.integrity_heads, settings.storage_options))
    note = chain.note()
    written = [write_head(folder, note) for folder in folders]
    return all(written)
