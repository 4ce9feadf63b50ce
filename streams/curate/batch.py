"""A batch of runs with all that belongs to them, read at pinned versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from trajlake.expectations.tables import RUNS, TABLES
from trajlake.sinks.lake import Lake
from trajlake.streams.curate.files import HIGHEST
from trajlake.streams.curate.source import Source, TooMuch
from trajlake.transforms.curate.scores import REWARD_COLUMNS, Scores, scores_of
from trajlake.transforms.curate.steps import RUN_KEY, STEP_COLUMNS, Membership, members_of
from trajlake.transforms.policy.consents import ConsentRecord, Consents

KEY_COLUMNS: Final = (
    *RUN_KEY,
    "offset",
    "first_offset",
    "close_offset",
    "revision",
    "has_start",
    "step_count",
    "started_at",
    "ended_at",
)
"""What is read of every new run before it is put into a batch."""
BATCH_RUNS: Final = 50_000
_CONSENT_COLUMNS: Final = (
    "tenant_id", "subject_id", "purpose", "state", "consent_revision", "topic", "partition", "offset", "made_at",
    "effective_at", "expires_at",
)  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """Runs, their steps and rewards as Arrow tables, and which rows are whose. `reward_offsets`: by run, the offset up
    to which rewards are taken in."""

    runs: pa.Table
    steps: pa.Table
    rewards: pa.Table
    members: Membership
    scores: Scores
    reward_offsets: np.ndarray
    bare: bool = False
    """The steps and rewards were too large to be read."""


class Reader:
    """The tables that curation reads, as one pass sees them: `runs` is looked at first, so the others hold at least
    what its rows are made of."""

    def __init__(self, lake: Lake) -> None:
        self.runs = Source(lake, "runs")
        self.steps = Source(lake, "steps")
        self.rewards = Source(lake, "rewards")
        self.consents = Source(lake, "consents") if "consents" in TABLES else None

    def refresh(self, known: dict[str, int]) -> None:
        """See what came since the last pass. `known`: version by table that was read wholly before."""
        self.runs.files.refresh(known.get("runs", -1))
        self.rewards.files.refresh(known.get("rewards", -1))
        self.steps.files.refresh()
        if self.consents is not None:
            self.consents.files.refresh(known.get("consents", -1))

    @property
    def versions(self) -> dict[str, int]:
        """Versions that this pass reads; -1 for a table that is not there."""
        found = {source.name: source.version for source in (self.runs, self.steps, self.rewards)}
        return found | {"consents": -1 if self.consents is None else self.consents.version}

    def load(self, keys: pl.DataFrame, max_bytes: int, up_to: np.ndarray | None = None) -> Loaded:
        """Runs by their keys (`KEY_COLUMNS`), in the order of the keys.

        `up_to`: by run, the offset up to which rewards count; all that there are when None. Raises `TooMuch` when the
        rows take more than `max_bytes`.
        """
        wanted = keys.select(
            *RUN_KEY, pl.col("first_offset").alias("low"), pl.col("offset").alias("high"),
            pl.coalesce("close_offset", "offset").alias("closed"),
            pl.col("started_at").cast(pl.Int64).alias("since_us"), pl.col("ended_at").cast(pl.Int64).alias("until_us"),
        )  # fmt: skip
        exact = wanted.with_columns(pl.col("high").alias("low"))
        runs = self.runs.rows_of(
            exact.drop("since_us", "until_us"), RUNS.names, pl.col("offset") == pl.col("high"), max_bytes
        )
        runs = _in_order(runs, keys)
        steps = self.steps.rows_of(
            wanted, STEP_COLUMNS,
            pl.col("first_offset").is_between("low", "closed") & (pl.col("offset") <= pl.col("high")),
            max_bytes - runs.nbytes,
        )  # fmt: skip
        limit = np.full(runs.num_rows, HIGHEST) if up_to is None else up_to
        bounded = wanted.drop("since_us", "until_us").with_columns(high=pl.Series(limit, dtype=pl.Int64))
        rewards = self.rewards.rows_of(bounded, REWARD_COLUMNS, pl.col("offset").is_between("low", "high"), max_bytes)
        scores = scores_of(runs, rewards, limit)
        offsets = np.maximum(scores.last_offset, runs.column("offset").to_numpy()) if up_to is None else up_to
        return Loaded(runs, steps, rewards, members_of(runs, steps), scores, offsets)

    def load_bare(self, keys: pl.DataFrame) -> Loaded:
        """Rows of `runs` alone."""
        wanted = keys.select(*RUN_KEY, pl.col("offset").alias("low"), pl.col("offset").alias("high"))
        runs = _in_order(self.runs.rows_of(wanted, RUNS.names, pl.col("offset") == pl.col("high")), keys)
        steps, rewards = (
            pa.schema([TABLES[name].schema.field(column) for column in columns]).empty_table()
            for name, columns in (("steps", STEP_COLUMNS), ("rewards", REWARD_COLUMNS))
        )
        offsets = runs.column("offset").to_numpy()
        scores = scores_of(runs, rewards, offsets)
        return Loaded(runs, steps, rewards, members_of(runs, steps), scores, offsets, bare=True)

    def consents_of(self, subjects: list[str]) -> Consents:
        """Everything that some people have said."""
        if self.consents is None or self.consents.version < 0 or not subjects:
            return Consents()
        rows = self.consents.rows_where(_CONSENT_COLUMNS, pl.col("subject_id").is_in(subjects))
        return Consents(map(ConsentRecord.from_row, rows.iter_rows(named=True)))


def _in_order(runs: pa.Table, keys: pl.DataFrame) -> pa.Table:
    """Rows of `runs` in the order of the keys. Raises `LookupError` when one is not there any more."""
    have = pl.DataFrame(pl.from_arrow(runs.select([*RUN_KEY, "offset"]))).with_row_index("row")
    found = keys.select(*RUN_KEY, "offset").join(
        have.unique([*RUN_KEY, "offset"], keep="first"), on=[*RUN_KEY, "offset"], how="left", maintain_order="left"
    )["row"]
    if found.null_count():
        raise LookupError(f"{found.null_count()} rows of runs that were there are gone")
    return runs.take(found.to_arrow())


def in_batches(keys: pl.DataFrame, max_steps: int) -> Iterator[pl.DataFrame]:
    """Runs in the order given, in batches of about `max_steps` steps; a longer run is a batch of its own."""
    if keys.is_empty():
        return
    sums = keys["step_count"].cast(pl.Int64).cum_sum().to_numpy()
    first = 0
    while first < len(keys):
        base = int(sums[first - 1]) if first else 0
        last = max(int(np.searchsorted(sums, base + max_steps, side="right")), first + 1)
        last = min(last, first + BATCH_RUNS)
        yield keys.slice(first, last - first)
        first = last


def halves(keys: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A batch that was too much, in two. Raises `TooMuch` when it is a single run."""
    if len(keys) < 2:
        raise TooMuch
    middle = len(keys) // 2
    return keys.head(middle), keys.slice(middle)
