"""Rows of `events` as the chain reads them: offset, time, rule revision, and one hash over the content of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[Any]

FIGURES: Final = ("offset", "append_time", "event", "redactions", "rule_revision")
"""Columns that the chain covers by itself; all others of `events` are a function of the event's text."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_SEPARATOR: Final = b"\x00"


@dataclass(frozen=True)
class Rows:
    """Rows of one partition in the order of their offsets.

    offsets, append_us: int64[n]. digests: n times 32 bytes. revisions: runs of equal rule revisions as (place of the
    first row, revision).
    """

    offsets: Ints
    append_us: Ints
    digests: list[bytes]
    revisions: list[tuple[int, str]]

    def __len__(self) -> int:
        return len(self.offsets)


def rows_of(batch: pa.RecordBatch | pa.Table, texts: Sequence[bytes] | None = None) -> Rows:
    """Read rows of one partition. Needs `FIGURES`, sorted by offset; `texts`: the column `event`, where it is at hand.

    What a Delta round trip may change is undone: the unit and zone of times, the kind of string.
    """
    if texts is None:
        texts = _array(batch, "event").cast(pa.large_binary()).to_pylist()
    # Not for passwords: the flag spares a look-up a call, where a call costs as much as the hash itself.
    digests = [sha256(text, usedforsecurity=False).digest() for text in texts]
    for place, note in _notes(_array(batch, "redactions")).items():
        digests[place] = sha256(texts[place] + _SEPARATOR + note, usedforsecurity=False).digest()
    return Rows(
        offsets=_ints(_array(batch, "offset")),
        append_us=_ints(_array(batch, "append_time").cast(_TIME).cast(pa.int64())),
        digests=digests,
        revisions=_runs(_array(batch, "rule_revision")),
    )


def rows_in_order(rows: pa.Table) -> pa.Table:
    """Rows of one partition sorted by offset, each offset once."""
    rows = rows.sort_by("offset")
    offsets = rows.column("offset").to_numpy()
    first = np.concatenate(([True], offsets[1:] != offsets[:-1]))[: len(offsets)]
    return rows if bool(first.all()) else rows.filter(pa.array(first))


def runs_of(values: Sequence[str]) -> list[tuple[int, str]]:
    """Runs of equal values as (place of the first, value)."""
    return [(place, value) for place, value in enumerate(values) if not place or values[place - 1] != value]


def _array(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = batch.column(name)
    if not isinstance(column, pa.ChunkedArray):
        return column
    column = column.combine_chunks()
    # Some versions of Arrow give a chunked array of one or no chunk.
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def _ints(column: pa.Array) -> Ints:
    values: Ints = column.to_numpy(zero_copy_only=False).astype("<i8", copy=False)
    return values


def _notes(redactions: pa.Array) -> dict[int, bytes]:
    """What was removed from a row, as compact JSON `[["path","rule",count],...]`, by the row's place."""
    if redactions.null_count == len(redactions):
        return {}
    lengths = pc.list_value_length(redactions).to_pylist()
    cuts = redactions.flatten()
    flat = list(zip(*(cuts.field(name).to_pylist() for name in ("path", "rule", "count")), strict=True))
    notes: dict[int, bytes] = {}
    at = 0
    for place, length in enumerate(lengths):
        if length is not None:
            notes[place] = orjson.dumps(flat[at : at + length])
            at += length
    return notes


def _runs(revisions: pa.Array) -> list[tuple[int, str]]:
    if not len(revisions):
        return []
    if pa.types.is_dictionary(revisions.type):
        revisions = revisions.dictionary_decode()
    encoded = pc.run_end_encode(revisions)
    starts = [0, *encoded.run_ends.to_pylist()[:-1]]
    return list(zip(starts, encoded.values.to_pylist(), strict=True))
