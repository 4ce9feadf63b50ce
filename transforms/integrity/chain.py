"""The chain of a partition: one hash that fixes every row of `events` up to an offset.

    row     SHA256(content of the row)
    block   up to 4096 rows: offsets 4096j..     SHA256(0x01 | j, rows | offsets | times | row hashes | rule revisions)
    chain   blocks in order                      SHA256(0x02 | chain before | block)
    head    at offset L                          SHA256(0x03 | chain | L | rows | the block that is still open)

Blocks are ranges of offsets, so the head at an offset is a function of the rows alone: not of batches, commits, files,
restarts or the worker. Prefixes keep the kinds of hash apart (as in RFC 6962, section 2.1): content is JSON text, which
begins with none of them. docs/integrity.md has the format byte by byte.

A block is one wide node instead of twelve binary levels, so what is left to pay is one hash a row. That is what
erasure needs: an erased row leaves its hash, and all others go on being proven.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from trajlake.transforms.integrity.rows import Ints, Rows

BLOCK_BITS: Final = 12
BLOCK_OFFSETS: Final = 1 << BLOCK_BITS
FORMAT: Final = "trajlake.events/1"

_BLOCK, _CHAIN, _HEAD, _GENESIS = b"\x01", b"\x02", b"\x03", b"\x04"


class Block(NamedTuple):
    """A block that no row can join any more. `last`: its last offset. `rows`: all rows of the partition up to it."""

    first: int
    last: int
    rows: int
    digest: bytes
    chain: bytes


class Head(NamedTuple):
    """What a partition's rows up to `offset` come to. `digest`: hex."""

    topic: str
    partition: int
    offset: int
    rows: int
    digest: str


def genesis(topic: str, partition: int) -> bytes:
    """The chain before the first row of a partition."""
    return sha256(_GENESIS + orjson.dumps([FORMAT, topic, partition])).digest()


@dataclass
class _Open:
    """The block that rows still join."""

    number: int
    offsets: list[Ints] = field(default_factory=list)
    append_us: list[Ints] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    revisions: list[tuple[int, str]] = field(default_factory=list)

    def copy(self) -> _Open:
        return replace(
            self,
            offsets=[*self.offsets],
            append_us=[*self.append_us],
            digests=[*self.digests],
            revisions=[*self.revisions],
        )

    @property
    def last(self) -> int:
        return (self.number + 1) * BLOCK_OFFSETS - 1

    def join(self, rows: Rows, first: int, end: int) -> None:
        self.offsets.append(rows.offsets[first:end])
        self.append_us.append(rows.append_us[first:end])
        self.digests += rows.digests[first:end]
        for place, revision in _within(rows.revisions, first, end):
            if not self.revisions or self.revisions[-1][1] != revision:
                self.revisions.append((int(rows.offsets[place]), revision))

    def digest(self) -> bytes:
        hashed = sha256(_BLOCK)
        hashed.update(struct.pack("<QI", self.number, len(self.digests)))
        hashed.update(np.concatenate(self.offsets).astype("<i8", copy=False).tobytes())
        hashed.update(np.concatenate(self.append_us).astype("<i8", copy=False).tobytes())
        hashed.update(b"".join(self.digests))
        hashed.update(orjson.dumps(self.revisions))
        return hashed.digest()


class Chain:
    """The chain of one partition, up to `last`; -1 before the first offset.

    `value`: the chain after the blocks that are complete, `rows`: rows up to `last`.
    """

    def __init__(
        self, topic: str, partition: int, *, value: bytes | None = None, rows: int = 0, last: int = -1
    ) -> None:
        """Begin at the start of a partition, or behind a complete block whose last offset is `last`."""
        self.topic = topic
        self.partition = partition
        self.value = genesis(topic, partition) if value is None else value
        self.rows = rows
        self.last = last
        self._open: _Open | None = None

    def copy(self) -> Chain:
        """The same chain, to go on from without changing this one."""
        twin = Chain(self.topic, self.partition, value=self.value, rows=self.rows, last=self.last)
        twin._open = None if self._open is None else self._open.copy()
        return twin

    def extend(self, rows: Rows | None, last: int) -> list[Block]:
        """Take in the rows up to offset `last`; returns the blocks that are complete now.

        rows: all rows above what was taken in before, in order; None where there are none.
        Raises ValueError when the rows do not follow on what the chain has.
        """
        blocks: list[Block] = []
        if rows is not None and len(rows):
            offsets = rows.offsets
            if int(offsets[0]) <= self.last or int(offsets[-1]) > last or not bool((offsets[1:] > offsets[:-1]).all()):
                raise ValueError(
                    f"{self.topic}/{self.partition}: rows {int(offsets[0])}..{int(offsets[-1])} do not follow on "
                    f"offset {self.last}, or are not in order"
                )
            for first, end in pairwise(_edges(offsets >> BLOCK_BITS)):
                number = int(offsets[first]) >> BLOCK_BITS
                if self._open is not None and self._open.number != number:
                    blocks.append(self._close(self._open))
                if self._open is None:
                    self._open = _Open(number)
                self._open.join(rows, first, end)
                self.rows += end - first
        self.last = max(self.last, last)
        if self._open is not None and self._open.last <= self.last:
            blocks.append(self._close(self._open))
        return blocks

    def head(self) -> Head:
        """The head at `last`."""
        opened = b"" if self._open is None else self._open.digest()
        digest = sha256(_HEAD + self.value + struct.pack("<qQ", self.last, self.rows) + opened).digest()
        return Head(self.topic, self.partition, self.last, self.rows, digest.hex())

    def note(self) -> dict[str, Any]:
        """The head as a commit and a head file carry it; `chain` lets a reader go on from the last complete block."""
        head = self.head()
        return {
            "topic": head.topic, "partition": head.partition, "offset": head.offset, "rows": head.rows,
            "head": head.digest, "chain": self.value.hex(),
        }  # fmt: skip

    def _close(self, block: _Open) -> Block:
        digest = block.digest()
        self.value = sha256(_CHAIN + self.value + digest).digest()
        self._open = None
        return Block(block.number * BLOCK_OFFSETS, block.last, self.rows, digest, self.value)


def _edges(numbers: Ints) -> list[int]:
    """Places at which a sorted array changes its value, with both ends."""
    return [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]


def _within(runs: list[tuple[int, str]], first: int, end: int) -> list[tuple[int, str]]:
    """Runs that reach into `first..end-1`, the first one cut to begin there."""
    found = []
    for place, (start, value) in enumerate(runs):
        stop = runs[place + 1][0] if place + 1 < len(runs) else end
        if start < end and stop > first:
            found.append((max(start, first), value))
    return found
