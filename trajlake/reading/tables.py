"""Readers of the lake's tables: pinned versions, lazy frames, and the views of what counts now.

    from trajlake import open_lake

    lake = open_lake("./lake")
    lake.current_steps().group_by("skill_name").len().collect()
    lake.runs(version=12).collect()

A `LakeTables` opens each table once, at one version, and stays there: what it says does not change while workers land
more. A table that nothing has landed in yet reads as an empty one with the contract's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from trajlake.expectations.tables import TABLES
from trajlake.reading.scan import Leaves, Scan
from trajlake.reading.versions import At, VersionError, committed_at, open_table, parse_at
from trajlake.sinks.actions import add_actions
from trajlake.sinks.lake import TRAINING_TABLES, Lake, transaction_app

if TYPE_CHECKING:
    import pyarrow.dataset as pds
    from deltalake import DeltaTable

    from trajlake.reading.datasets import Watch

PartitionId: TypeAlias = tuple[str, int]
"""Kafka topic and partition."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table as it is now. `committed_at` is UTC; sizes in bytes; all None for a table that is not there yet."""

    name: str
    version: int | None
    rows: int | None
    files: int | None
    bytes: int | None
    committed_at: datetime | None


class LakeTables:
    """The tables of one lake at one version each. `events` is opened first, so the others hold at least what it holds.

    Raises `VersionError` where a table has no version as asked for by `at`.
    """

    def __init__(self, lake: Lake, at: At | None = None) -> None:
        self.lake = lake
        self.at = at
        self._pinned: dict[str, DeltaTable | None] = {}

    @property
    def root(self) -> str:
        return self.lake.uri

    def delta(self, name: str) -> DeltaTable | None:
        """The Delta table at its pinned version; None where nothing has landed in it (or had, at that time)."""
        if name not in self._pinned:
            if name not in ("events", *TRAINING_TABLES) and "events" not in self._pinned:
                # The flow commits events last: what is opened after them holds all that they account for.
                self._pin("events", lenient=True)
            self._pin(name)
        return self._pinned[name]

    def _pin(self, name: str, *, lenient: bool = False) -> None:
        try:
            self._pinned[name] = open_table(self.lake, name, self.at)
        except VersionError:
            if not lenient:
                raise

    def versions(self, names: Sequence[str] = tuple(TABLES)) -> dict[str, int | None]:
        """Pinned version by table; None for a table that is not there."""
        opened = {name: self.delta(name) for name in names}
        return {name: None if table is None else table.version() for name, table in opened.items()}

    def reopen(self) -> None:
        """Let go of the pinned versions: what is asked for next is the newest again."""
        self._pinned.clear()

    def is_empty(self) -> bool:
        """Whether the root holds no table at all."""
        return not any(self.lake.exists(name) for name in TABLES)

    # Reading

    def frame(self, name: str, version: int | None = None) -> pl.LazyFrame:
        """A table as a Polars LazyFrame with at least the contract's columns; `version` instead of the pinned one."""
        table = self.delta(name) if version is None else open_table(self.lake, name, version)
        contract = pl.Schema(TABLES[name].schema)
        if table is None:
            return pl.LazyFrame(schema=contract)
        rows = self._scan(name, table)
        known = rows.collect_schema()
        absent = [pl.lit(None, dtype).alias(column) for column, dtype in contract.items() if column not in known]
        return rows.with_columns(absent) if absent else rows

    def _scan(self, name: str, table: DeltaTable) -> pl.LazyFrame:
        """A table's files as a LazyFrame. Names are decoded: a root may hold spaces and `#`, which Delta's URIs
        escape."""
        if not self.lake.holds_locally(name):
            return pl.scan_delta(table)
        schema = pl.Schema(pa.schema(table.schema().to_arrow()))
        return self._scan_files(name, self._paths(name, table), schema)

    def _scan_files(self, name: str, paths: Sequence[str], schema: pl.Schema) -> pl.LazyFrame:
        if not paths:
            return pl.LazyFrame(schema=schema)
        options = None if self.lake.holds_locally(name) else dict(self.lake.options_of(name))
        return pl.scan_parquet(
            list(paths), schema=schema, missing_columns="insert", extra_columns="ignore", glob=False,
            storage_options=options,
        )  # fmt: skip

    def file_paths(self, name: str) -> list[str]:
        """Paths or URIs of a table's data files at its pinned version; none where it is not there."""
        table = self.delta(name)
        return [] if table is None else self._paths(name, table)

    def _paths(self, name: str, table: DeltaTable) -> list[str]:
        files = add_actions(table).column("path").to_pylist()
        return [f"{self.lake.table_uri(name)}/{unquote(path)}" for path in files]

    def rows_of(self, name: str, paths: Sequence[str]) -> pl.LazyFrame:
        """Rows of some of a table's files, with the contract's columns: for readers that have seen the others."""
        return self._scan_files(name, paths, pl.Schema(TABLES[name].schema))

    def dataset(self, name: str, watch: Watch | None = None) -> pds.Dataset:
        """A table as an Arrow dataset with at least the contract's columns; reads no more than a scan needs.

        watch: told how far its scans are.
        """
        # Imported late: Arrow's datasets import pandas, which takes as long as all else that a command needs.
        import pyarrow.dataset as pds
        import pyarrow.fs as pafs

        from trajlake.reading.datasets import BoundedDataset

        table = self.delta(name)
        contract = TABLES[name].schema
        if table is None:
            return pds.dataset(contract.empty_table())
        # Arrow's own file system opens a local file in a fraction of the time of the one that goes through Python.
        local = (
            pafs.SubTreeFileSystem(self.lake.table_uri(name), pafs.LocalFileSystem())
            if self.lake.holds_locally(name)
            else None
        )
        found = table.to_pyarrow_dataset(filesystem=local)
        absent = [field for field in contract if field.name not in found.schema.names]
        schema = pa.schema([*found.schema, *(field.with_nullable(True) for field in absent)])
        fragments = list(found.get_fragments())
        if not fragments:
            return pds.dataset(schema.empty_table())
        if watch is None:
            return BoundedDataset(fragments, schema, found.format, found.filesystem)
        return watch.dataset(fragments, schema, found.format, found.filesystem, rows=_rows_by_path(table))

    def scan(self, name: str, columns: Sequence[str], leaves: Leaves | None = None) -> Iterator[pl.DataFrame]:
        """Rows of a table in frames of some ten thousand, file by file, in memory that does not grow with the table.

        leaves: output column -> (list-of-structs column, field): that field alone as List(String), never null. What the
        other fields of the structs hold stays on disk.
        """
        table = self.delta(name)
        if table is not None:
            yield from Scan(self.lake, name, columns, leaves or {}).frames(table)

    def events(self, version: int | None = None) -> pl.LazyFrame:
        """The audit ledger, one row an event."""
        return self.frame("events", version)

    def steps(self, version: int | None = None) -> pl.LazyFrame:
        """Every revision of every step."""
        return self.frame("steps", version)

    def runs(self, version: int | None = None) -> pl.LazyFrame:
        """Every revision of every closed run."""
        return self.frame("runs", version)

    def rewards(self, version: int | None = None) -> pl.LazyFrame:
        """Every score as it was given."""
        return self.frame("rewards", version)

    def quarantine(self, version: int | None = None) -> pl.LazyFrame:
        """Every record that was not let in."""
        return self.frame("quarantine", version)

    def gaps(self, version: int | None = None) -> pl.LazyFrame:
        """Ranges of offsets at which the log holds no record."""
        return self.frame("gaps", version)

    def current_runs(self) -> pl.LazyFrame:
        """One row a run: its highest revision, of equal ones the later offset; one with a start before any without."""
        runs = self.runs()
        return runs.join(_latest_runs(runs), on=[*_OPENED, "revision"], how="semi")

    def current_steps(self) -> pl.LazyFrame:
        """One row a step: its highest revision, of the life of the run that `current_runs` shows.

        Of a run that was closed and goes on, only what the close counted; of a run that never closed, every step.
        """
        steps = self.steps()
        life = _latest_runs(self.runs()).select(
            *_RUN,
            pl.col("topic").alias("run_topic"),
            pl.col("partition").alias("run_partition"),
            pl.col("first_offset").alias("run_first"),
            pl.coalesce("close_offset", "offset").alias("run_last"),
        )
        within = pl.col("run_topic").is_null() | (
            (pl.col("topic") == pl.col("run_topic"))
            & (pl.col("partition") == pl.col("run_partition"))
            & pl.col("first_offset").is_between("run_first", "run_last")
        )
        newest = steps.filter(pl.col("revision") > 0).group_by(_OPENED).agg(pl.col("revision").max().alias("newest"))
        return (
            steps.join(life, on=_RUN, how="left")
            .filter(within)
            .join(newest, on=_OPENED, how="left")
            .filter(pl.col("revision") == pl.col("newest").fill_null(0))
            .drop("run_topic", "run_partition", "run_first", "run_last", "newest")
        )

    # What has landed

    def landed(self, app_id: str) -> dict[PartitionId, int]:
        """Last offset of each partition that has landed whole: what the events table's own transactions say.

        Where a partition has none (the table was written by other means), its highest offset in `events`. A partition
        that only the other tables know is on its way: -1.
        """
        events = self.delta("events")
        known: dict[PartitionId, int] = {}
        for name in ("gaps", "quarantine", "events"):
            for topic, partition, highest in self._highest(name):
                known[topic, partition] = highest if name == "events" else -1
        if events is None:
            return dict(sorted(known.items()))
        noted = {key: events.transaction_version(transaction_app(app_id, *key)) for key in known}
        return {key: known[key] if version is None else version for key, version in sorted(noted.items())}

    def _highest(self, name: str) -> list[tuple[str, int, int]]:
        if self.delta(name) is None:
            return []
        rows = self.frame(name).group_by("topic", "partition").agg(pl.col("offset").max())
        return rows.collect(engine="streaming").rows()

    def describe(self, name: str) -> TableInfo:
        """Version, size and last commit of a table, from its log alone."""
        table = self.delta(name)
        if table is None:
            return TableInfo(name, None, None, None, None, None)
        files = add_actions(table)
        counts = files["num_records"].to_pylist()
        return TableInfo(
            name,
            table.version(),
            None if None in counts else sum(counts),
            files.num_rows,
            sum(files["size_bytes"].to_pylist()),
            committed_at(self.lake, name, table.version()),
        )


_RUN: Final = ["tenant_id", "run_id"]
_OPENED: Final = ["topic", "partition", "first_offset"]
"""The event that opened a run or step: it opens no other, so it names a life of a run, and a step."""


def open_lake(
    root: str | None = None, *, at: At | str | None = None, storage_options: Mapping[str, str] | None = None
) -> LakeTables:
    """Open the tables of a lake for reading.

    root: folder or URI; the setting `root` when None. at: see `At`, also as the text that `parse_at` reads; None for
    the newest. storage_options: for the object store; the setting of that name when None. Where the training zone is
    comes from the settings; it is `<root>/training` where `storage_options` are given and nothing else is.
    Nothing is read before a table is asked for. Raises ValueError for an `at` that is none.
    """
    place = parse_at(at) if isinstance(at, str) else at
    if root is not None and storage_options is not None:
        return LakeTables(Lake(root, storage_options), place)
    from trajlake.streams.settings import load_settings

    return LakeTables(load_settings(root=root, storage_options=storage_options).lake(), place)


def _rows_by_path(table: DeltaTable) -> dict[str, int]:
    """Rows of each data file, by its path as the file system has it."""
    files = add_actions(table).select(["path", "num_records"]).to_pylist()
    return {unquote(file["path"]): file["num_records"] or 0 for file in files}


def _latest_runs(runs: pl.LazyFrame) -> pl.LazyFrame:
    """Place of the row that counts, by run."""
    place = ["topic", "partition", "first_offset", "offset", "close_offset", "revision"]
    return (
        runs.select(*_RUN, *place, "has_start")
        .group_by(_RUN)
        .agg(pl.col(place).sort_by("has_start", "revision", "offset").last())
    )
