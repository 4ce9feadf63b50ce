"""Lives of runs: what the rows of `runs` and the ledger of events say of each, held in few bytes.

Rows of one run are joined by `key`: a 64-bit hash of (topic, partition, tenant, run), which costs eight bytes a row
where the names would cost a hundred. Two of a million runs share a hash once in forty million lakes.

A run that was forgotten and then got late parts appears once more under the same name, without a start. Each such
*life* of a run has its own `first_offset`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

SEED: Final = 7
REWARD_TYPES: Final = ("agent.reward.assigned", "agent.feedback.given")
END_TYPE: Final = "agent.run.ended"


def run_key() -> pl.Expr:
    """Hash of (topic, partition, tenant_id, run_id) as UInt64; the same for the same values in one process."""
    return pl.struct("topic", "partition", "tenant_id", "run_id").hash(SEED).alias("key")


def event_key() -> pl.Expr:
    """Hash of what makes an event of a run the same one when it comes again, as UInt64.

    Id and sequence, as the fold judges it: some producers number the events of each run from 1, or repeat an id.
    """
    return pl.struct("tenant_id", "run_id", "sequence", "id").hash(SEED).alias("event_key")


class Lives:
    """The closed lives of all runs, looked up by (key, offset).

    `runs`: one row a run row, with columns key UInt64, first_offset, offset, close_offset Int64, revision, step_count,
    event_count Int32. `frame` has one row a life, that of its highest revision, sorted by key and first_offset. A life
    ends at its last close, whenever it was classified again.
    """

    def __init__(self, runs: pl.DataFrame) -> None:
        self.frame = (
            runs.sort("key", "first_offset", "revision", "offset")
            .unique(["key", "first_offset"], keep="last", maintain_order=True)
            .select("key", "first_offset", "offset", "close_offset", "revision", "step_count", "event_count")
            .with_columns(pl.coalesce("close_offset", "offset").alias("close_offset"))
        )
        self._keys = self.frame["key"].to_numpy()
        self._first = self.frame["first_offset"].to_numpy()
        self._last = self.frame["close_offset"].to_numpy()
        self.counted: NDArray[np.int64] = np.zeros(len(self.frame), np.int64)
        """Events of the ledger within each life, as far as `count` has seen them."""

    def locate(self, keys: NDArray[np.uint64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of the life that spans each (key, offset); -1 where none does: still open, or after the last close."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        place = np.searchsorted(self._keys, keys, side="right").astype(np.int64) - 1
        found = (place >= 0) & (self._keys[place] == keys)
        while True:
            # Nearly every run has one life; the loop walks back only for those with more.
            later = found & (self._first[place] > offsets)
            if not later.any():
                break
            place[later] -= 1
            found &= ~later | ((place >= 0) & (self._keys[place] == keys))
        found &= offsets <= self._last[place]
        return np.where(found, place, -1)

    def count(self, keys: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        """Count events of runs by life."""
        place = self.locate(keys, offsets)
        np.add.at(self.counted, place[place >= 0], 1)


class Ledger:
    """What the events say of each run, summed batch by batch in memory that grows with runs, not with events."""

    def __init__(self) -> None:
        self._parts: list[pl.DataFrame] = []
        self._pending = 0
        self._compact_at = 1 << 20
        self._rewards: list[pl.DataFrame] = []

    def add(self, events: pl.DataFrame) -> None:
        """Add events of runs. Columns key UInt64, offset Int64, sequence Int64, type String."""
        part = events.group_by("key").agg(
            pl.col("sequence").count().alias("sequenced"),
            pl.col("sequence").max().alias("highest"),
            (pl.col("type") == END_TYPE).any().alias("ended"),
            pl.col("offset").max(),
        )
        self._parts.append(part)
        self._pending += len(part)
        if self._pending > self._compact_at:
            self._parts = [self.runs()]
            self._pending = len(self._parts[0])
            self._compact_at = max(1 << 20, 2 * self._pending)
        rewards = events.filter(pl.col("type").is_in(REWARD_TYPES))
        if len(rewards):
            self._rewards.append(rewards.select("key", "offset", pl.col("sequence").is_not_null().alias("sequenced")))

    def runs(self) -> pl.DataFrame:
        """One row a run: key, sequenced, highest, ended, offset (of its last event)."""
        schema = {
            "key": pl.UInt64,
            "sequenced": pl.UInt32,
            "highest": pl.Int64,
            "ended": pl.Boolean,
            "offset": pl.Int64,
        }
        if not self._parts:
            return pl.DataFrame(schema=schema)
        together = pl.concat(self._parts)
        return together.group_by("key").agg(
            pl.col("sequenced").sum(), pl.col("highest").max(), pl.col("ended").any(), pl.col("offset").max()
        )

    def rewards(self) -> pl.DataFrame:
        """One row a reward or feedback event: key, offset, sequenced (whether it holds a place in the run's order)."""
        schema = {"key": pl.UInt64, "offset": pl.Int64, "sequenced": pl.Boolean}
        return pl.concat(self._rewards) if self._rewards else pl.DataFrame(schema=schema)


def repeated(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Values that occur more than once. Sorts `hashes` in place."""
    hashes.sort()
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
