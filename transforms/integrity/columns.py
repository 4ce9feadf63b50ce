"""The columns of `events` that repeat what the event's text says: read from the text again, and compared.

The chain covers the text, not these columns; a change of one of them shows here.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trajlake.transforms.columns.rows import Position, event_batch
from trajlake.transforms.decode.decoder import decode_fast, decode_value
from trajlake.transforms.landing.rows import LedgerRow
from trajlake.transforms.records import AnyEvent, Rejected

REPEATED: Final = (
    "id", "source", "type", "time", "tenant_id", "run_id", "sequence", "parent_run_id", "traceparent",
)  # fmt: skip
_UNREADABLE: Final = "event"


def disagreeing(rows: pa.Table) -> list[tuple[int, str]]:
    """Offset and column of every value that is not what the text says, by offset; `event` for a text that is none."""
    offsets = rows.column("offset").to_pylist()
    found: list[tuple[int, str]] = []
    read: list[LedgerRow] = []
    kept: list[int] = []
    for place, text in enumerate(rows.column("event").cast(pa.binary()).to_pylist()):
        event = _read(text)
        if event is None:
            found.append((offsets[place], _UNREADABLE))
        else:
            read.append(LedgerRow(offsets[place], 0, event, text, None))
            kept.append(place)
    if read:
        told = event_batch(read, Position("", 0, "", 1))
        stored = rows if len(kept) == rows.num_rows else rows.take(kept)
        for name in REPEATED:
            column = stored.column(name).combine_chunks()
            same = pc.fill_null(pc.equal(column, told.column(name)), False)
            both_null = pc.and_(pc.is_null(column), pc.is_null(told.column(name)))
            wrong = pc.invert(pc.or_(same, both_null))
            if pc.any(wrong).as_py():
                found += [(offset, name) for offset in stored.column("offset").filter(wrong).to_pylist()]
    return sorted(found)


def _read(text: bytes) -> AnyEvent | None:
    event = decode_fast(text)
    if event is not None:
        return event
    decoded = decode_value(text, inline_max_bytes=len(text), event_inline_max_bytes=len(text) + 1, from_ledger=True)
    return None if isinstance(decoded, Rejected) else decoded.event
