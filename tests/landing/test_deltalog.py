"""The commit log of one table: offsets and rows in one step, whoever else writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import obstore
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from tests.landkit.faults import FaultyStore
from trajlake.expectations.tables import TABLES, TIME
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.deltalog import Advance, DataFile, DeltaLog
from trajlake.sinks.errors import SinkUnavailable, StaleWriter, TableMismatch
from trajlake.sinks.lake import Lake

GAPS = TABLES["gaps"]
REPO = Path(__file__).resolve().parents[2]


def rows(first: int, last: int, topic: str = "t", partition: int = 0) -> pa.RecordBatch:
    """One row of `gaps` per offset."""
    offsets = range(first, last + 1)
    values = [
        {"topic": topic, "partition": partition, "offset": o, "first_offset": o, "code": "hole", "detail": None}
        for o in offsets
    ]
    return pa.RecordBatch.from_pylist(values, GAPS.schema)


def opened(lake: Lake) -> DeltaLog:
    log = DeltaLog(lake, GAPS)
    log.open()
    return log


def commit(log: DeltaLog, first: int, last: int, app: str = "a") -> bool:
    """Land offsets `first..last` of an application."""
    return log.commit([write_data_file(log.lake, GAPS, [rows(first, last, app)])], [Advance(app, first - 1, last)])


def offsets(lake: Lake, topic: str = "a") -> list[int]:
    found = lake.open("gaps").to_pyarrow_table().to_pylist()
    return sorted(row["offset"] for row in found if row["topic"] == topic)


def test_L2_the_same_batch_twice_lands_once(lake: Lake) -> None:
    log = opened(lake)
    assert commit(log, 0, 4)
    assert not commit(log, 0, 4)
    assert offsets(lake) == [0, 1, 2, 3, 4]
    assert log.version == 1


def test_L2_a_second_writer_that_knows_nothing_of_the_first_lands_nothing_twice(lake: Lake) -> None:
    late = opened(lake)
    assert commit(opened(lake), 0, 4)
    assert not commit(late, 0, 4)
    assert offsets(lake) == [0, 1, 2, 3, 4]


def test_L4_a_commit_whose_reply_is_lost_is_recognised_at_once(lake: Lake, store_faults: FaultyStore) -> None:
    log = opened(lake)

    def lose(path: str) -> None:
        if path.endswith("1.json"):
            raise OSError("connection reset")

    store_faults.after = lose
    assert commit(log, 0, 4)
    store_faults.heal()
    assert commit(log, 5, 6)
    assert offsets(lake) == list(range(7))


def test_L4_a_commit_whose_reply_is_lost_while_the_store_is_away_is_recognised_on_the_retry(
    lake: Lake, store_faults: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(lake)

    def away(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")

    store_faults.after = away
    with monkeypatch.context() as patched:
        patched.setattr(obstore, "get", away)
        with pytest.raises(SinkUnavailable, match="no route to host"):
            log.commit([], [Advance("a", -1, 4)])
    store_faults.heal()
    assert not log.commit([], [Advance("a", -1, 4)])
    assert lake.open("gaps").transaction_version("a") == 4
    assert lake.open("gaps").version() == 1


def test_L6_a_writer_that_was_overtaken_between_reading_and_committing_is_refused(lake: Lake) -> None:
    paused = opened(lake)
    assert paused.landed("a") == -1
    owner = opened(lake)
    assert commit(owner, 0, 9)
    with pytest.raises(StaleWriter) as refused:
        commit(paused, 0, 14)
    assert (refused.value.expected, refused.value.found) == (-1, 9)
    # Offsets never go back: a shorter batch of the same records is there already, and moves nothing.
    assert not commit(paused, 0, 5)
    assert lake.open("gaps").transaction_version("a") == 9
    assert offsets(lake) == list(range(10))


def test_a_batch_of_two_partitions_is_refused_whole_when_one_was_overtaken(lake: Lake) -> None:
    paused = opened(lake)
    assert commit(opened(lake), 0, 3, app="a")
    both = [Advance("a", -1, 3), Advance("b", -1, 7)]
    with pytest.raises(StaleWriter):
        paused.commit([write_data_file(lake, GAPS, [rows(0, 3, "a"), rows(0, 7, "b")])], both)
    assert offsets(lake, "b") == []
    assert lake.open("gaps").transaction_version("b") is None


def test_four_processes_append_fifty_commits_each_and_all_of_them_land(lake: Lake) -> None:
    opened(lake)
    code = (
        "import sys; from tests.landing.test_deltalog import commit, opened; from trajlake.sinks.lake import Lake\n"
        "log = opened(Lake(sys.argv[1]))\n"
        "assert all(commit(log, 2 * i, 2 * i + 1, sys.argv[2]) for i in range(50))"
    )
    start = [sys.executable, "-c", code, lake.uri]
    writers = [subprocess.Popen([*start, app], cwd=REPO, stderr=subprocess.PIPE) for app in "abcd"]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors.decode()
    table = lake.open("gaps")
    assert table.version() == 200
    for app in "abcd":
        assert offsets(lake, app) == list(range(100))
        assert table.transaction_version(app) == 99


def test_many_workers_that_start_at_once_on_an_empty_root_share_one_set_of_tables(lake: Lake) -> None:
    code = (
        "import sys; from tests.landing.test_deltalog import commit, opened; from trajlake.sinks.lake import Lake\n"
        "sys.stdin.read(1); assert commit(opened(Lake(sys.argv[1])), 0, 9, sys.argv[2])"
    )
    start = [sys.executable, "-c", code, lake.uri]
    pipe = subprocess.PIPE
    workers = [
        subprocess.Popen([*start, app], cwd=REPO, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for app in "abcd"
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("x")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
    for app in "abcd":
        assert offsets(lake, app) == list(range(10))
        assert opened(lake).landed(app) == 9


# The log as others see it


def test_a_checkpoint_comes_with_every_hundredth_version_and_keeps_offsets(lake: Lake) -> None:
    for start in range(0, 260, 65):
        # Workers that come and go: none of them writes a hundred versions.
        log = opened(lake)
        for offset in range(start, start + 65):
            log.commit([], [Advance("a", offset - 1, offset)])
    folder = Path(lake.table_uri("gaps")) / "_delta_log"
    assert sorted(path.name for path in folder.glob("*.checkpoint.parquet")) == [
        f"{version:020d}.checkpoint.parquet" for version in (100, 200)
    ]
    for version in range(200):
        (folder / f"{version:020d}.json").unlink()
    # With nothing but the checkpoint and what follows it, the offset is the same.
    assert opened(lake).landed("a") == 259


def test_a_writer_that_slept_through_a_clean_up_of_the_log_commits_at_its_end(lake: Lake) -> None:
    sleeper = opened(lake)
    assert sleeper.landed("a") == -1
    busy = opened(lake)
    for offset in range(110):
        busy.commit([], [Advance("b", offset - 1, offset)])
    folder = Path(lake.table_uri("gaps")) / "_delta_log"
    for version in range(100):
        (folder / f"{version:020d}.json").unlink()
    # The number that the sleeper would try next is free again, below the checkpoint, where no reader looks.
    assert commit(sleeper, 0, 4)
    assert sleeper.version == 111
    assert offsets(lake) == [0, 1, 2, 3, 4]


def test_a_writer_that_is_hundreds_of_commits_behind_catches_up(lake: Lake) -> None:
    sleeper = opened(lake)
    assert sleeper.landed("a") == -1
    busy = opened(lake)
    for offset in range(230):
        busy.commit([], [Advance("b", offset - 1, offset)])
    assert commit(sleeper, 0, 4)
    assert sleeper.version == 231


def test_a_table_that_was_made_anew_below_a_running_writer_is_not_written_to(lake: Lake) -> None:
    log = opened(lake)
    for offset in range(3):
        log.commit([], [Advance("a", offset - 1, offset)])
    folder = Path(lake.table_uri("gaps"))
    folder.rename(folder.with_name("gaps-moved"))
    opened(lake)
    with pytest.raises(SinkUnavailable, match="replaced or rolled back"):
        log.commit([], [Advance("a", 2, 3)])
    assert lake.open("gaps").version() == 0


def test_what_a_killed_write_leaves_behind_disturbs_nobody(lake: Lake) -> None:
    log = opened(lake)
    assert commit(log, 0, 4)
    folder = Path(lake.table_uri("gaps"))
    # The store's temporary names: a file that was being written, and a commit that was linked but not yet tidied up.
    (folder / "part-dead.parquet#1").write_bytes(b"half")
    (folder / "_delta_log" / f"{1:020d}.json#1").write_bytes((folder / "_delta_log" / f"{1:020d}.json").read_bytes())
    (folder / "_delta_log" / f"{2:020d}.json#1").write_bytes(b'{"txn":')
    write_data_file(lake, GAPS, [rows(5, 9, "a")])  # stored, never committed
    assert opened(lake).landed("a") == 4
    assert commit(log, 5, 6)
    assert offsets(lake) == list(range(7))
    assert pl.scan_delta(lake.table_uri("gaps")).collect().height == 7


def test_deltalake_polars_and_duckdb_read_the_same_rows(lake: Lake) -> None:
    log = opened(lake)
    for first in range(0, 12, 4):
        commit(log, first, first + 3)
    with_deltalake = pl.DataFrame(pl.from_arrow(DeltaTable(lake.table_uri("gaps")).to_pyarrow_table()))
    with_polars = pl.scan_delta(lake.table_uri("gaps")).collect()
    dataset = DeltaTable(lake.table_uri("gaps")).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("gaps", dataset)
    with_duckdb = connection.sql("select * from gaps").pl()
    expected = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([rows(0, 11, "a")]))).sort("offset")
    for frame in (with_deltalake, with_polars, with_duckdb):
        assert frame.sort("offset").equals(expected)


@pytest.mark.parametrize(("column", "value", "count"), [("topic", "a", 4), ("code", "hole", 8), ("offset", 2, 2)])
def test_readers_find_rows_by_any_column_whether_or_not_files_have_bounds_of_it(
    lake: Lake, column: str, value: str | int, count: int
) -> None:
    log = opened(lake)
    commit(log, 0, 3, app="a")
    commit(log, 0, 3, app="b")
    table = DeltaTable(lake.table_uri("gaps"))
    dataset = table.to_pyarrow_dataset()
    assert dataset.to_table(filter=pc.field(column) == value).num_rows == count
    assert dataset.to_table(filter=pc.field("detail").is_null()).num_rows == 8
    assert pl.scan_delta(table).filter(pl.col(column) == value).collect().height == count
    connection = duckdb.connect()
    connection.register("gaps", dataset)
    assert connection.execute(f'select count(*) from gaps where "{column}" = ?', [value]).fetchone() == (count,)


def test_a_table_that_was_compacted_checkpointed_and_vacuumed_in_between_is_still_exact(lake: Lake) -> None:
    log = opened(lake)
    for first in range(0, 20, 2):
        commit(log, first, first + 1)
    keeper = DeltaTable(lake.table_uri("gaps"))
    assert keeper.optimize.compact()["numFilesRemoved"] == 10
    keeper.create_checkpoint()
    keeper.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert commit(log, 20, 21)
    assert not commit(log, 20, 21)
    assert offsets(lake) == list(range(22))
    assert opened(lake).landed("a") == 21


def test_a_full_vacuum_takes_orphans_and_leaves_what_is_visible(lake: Lake) -> None:
    log = opened(lake)
    commit(log, 0, 4)
    orphan = write_data_file(lake, GAPS, [rows(5, 9, "a")])
    table = DeltaTable(lake.table_uri("gaps"))
    gone = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert [Path(path).name for path in gone] == [orphan.path]
    assert commit(log, 5, 9)
    assert offsets(lake) == list(range(10))


# Statistics of files


def events_with(times: list[int | None], appended: list[int]) -> pa.RecordBatch:
    """Rows of `events` whose times are given in microseconds."""
    count = len(times)
    values: dict[str, pa.Array] = {}
    for column in TABLES["events"].columns:
        if column.name == "time":
            values[column.name] = pa.array(times, pa.int64()).cast(TIME)
        elif column.name == "append_time":
            values[column.name] = pa.array(appended, pa.int64()).cast(TIME)
        elif column.name == "offset":
            values[column.name] = pa.array(range(count), pa.int64())
        elif column.nullable:
            values[column.name] = pa.nulls(count, column.type)
        else:
            values[column.name] = pa.array([0 if column.type == pa.int32() else "x"] * count, column.type)
    return pa.RecordBatch.from_pydict(values, TABLES["events"].schema)


YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999


@pytest.mark.parametrize(
    ("times", "low", "high"),
    [
        ([-1, 0, 1_700_000_000_123_456], "1969-12-31T23:59:59.999999Z", "2023-11-14T22:13:20.123456Z"),
        ([YEAR_1, None, YEAR_9999], "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"),
        ([None, None], None, None),
    ],
)
def test_L16_statistics_of_times_hold_to_the_microsecond(
    lake: Lake, times: list[int | None], low: str | None, high: str | None
) -> None:
    batch = events_with(times, [5] * len(times))
    stats = json.loads(write_data_file(lake, TABLES["events"], [batch]).stats)
    assert stats["numRecords"] == len(times)
    assert stats["nullCount"]["append_time"] == 0
    assert stats["minValues"]["append_time"] == "1970-01-01T00:00:00.000005Z"
    assert stats["nullCount"]["time"] == times.count(None)
    assert (stats["minValues"].get("time"), stats["maxValues"].get("time")) == (low, high)


def test_L16_readers_that_skip_files_by_time_find_every_row(lake: Lake) -> None:
    log = DeltaLog(lake, TABLES["events"])
    log.open()
    moments = [YEAR_1, -1, 0, 1_700_000_000_123_456, YEAR_9999]
    for moment in moments:
        log.commit([write_data_file(lake, TABLES["events"], [events_with([moment], [moment])])], [])
    uri = lake.table_uri("events")
    for moment in moments:
        bound = pl.lit(moment, pl.Int64).cast(pl.Datetime("us", "UTC"))
        found = pl.scan_delta(uri).filter(pl.col("append_time") == bound).select(pl.col("append_time").to_physical())
        assert found.collect()["append_time"].to_list() == [moment]
        scalar = pa.scalar(moment, pa.int64()).cast(TIME)
        table = DeltaTable(uri).to_pyarrow_dataset().to_table(filter=pc.field("append_time") == scalar)
        assert table.column("append_time").cast(pa.int64()).to_pylist() == [moment]


def test_readers_that_skip_files_by_offset_find_every_row_and_open_only_its_file(lake: Lake) -> None:
    log = opened(lake)
    for first in range(0, 50, 10):
        commit(log, first, first + 9)
    table = DeltaTable(lake.table_uri("gaps"))
    for offset in range(50):
        assert len(table.file_uris(file_pruning_predicate=[("offset", "=", offset)])) == 1
        assert pl.scan_delta(table).filter(pl.col("offset") == offset).collect()["offset"].to_list() == [offset]


# The contract and the stored table


def test_a_nullable_column_that_the_contract_gained_is_added_to_an_older_table(lake: Lake) -> None:
    older = pa.schema([field for field in GAPS.schema if field.name != "detail"])
    write_deltalake(lake.table_uri("gaps"), rows(0, 1, "a").select(older.names))
    log = opened(lake)
    assert log.commit([write_data_file(lake, GAPS, [rows(2, 3, "a")])], [Advance("a", -1, 3)])
    found = lake.open("gaps").to_pyarrow_table().sort_by("offset").to_pylist()
    assert [row["offset"] for row in found] == [0, 1, 2, 3]
    assert all(row["detail"] is None for row in found)


def test_a_column_of_another_type_stops_the_writer(lake: Lake) -> None:
    fields = [pa.field("offset", pa.string()) if f.name == "offset" else f for f in GAPS.schema]
    write_deltalake(lake.table_uri("gaps"), pa.schema(fields).empty_table())
    with pytest.raises(TableMismatch, match="column offset is stored as"):
        opened(lake)


def test_a_required_column_that_the_table_lacks_or_has_beyond_the_contract_stops_the_writer(
    lake: Lake, tmp_path: Path
) -> None:
    fields = [field for field in GAPS.schema if field.name != "code"]
    write_deltalake(lake.table_uri("gaps"), pa.schema(fields).empty_table())
    with pytest.raises(TableMismatch, match="lacks required column code"):
        opened(lake)
    other = Lake(str(tmp_path / "other"))
    fields = [*GAPS.schema, pa.field("newer", pa.string(), nullable=False)]
    write_deltalake(other.table_uri("gaps"), pa.schema(fields).empty_table())
    with pytest.raises(TableMismatch, match="requires column newer"):
        opened(other)


def test_a_change_of_the_tables_rules_is_met_before_the_next_commit(lake: Lake) -> None:
    log = opened(lake)
    assert commit(log, 0, 1)
    DeltaTable(lake.table_uri("gaps")).alter.add_columns(Field("added", PrimitiveType("string")))
    # A new nullable column is no obstacle: rows without it read as null.
    assert commit(log, 2, 3)
    DeltaTable(lake.table_uri("gaps")).alter.add_constraint({"positive": "offset >= 0"})
    with pytest.raises(TableMismatch, match="writer version"):
        commit(log, 4, 5)
    assert offsets(lake) == [0, 1, 2, 3]


def test_a_store_that_refuses_is_named_with_its_table(lake: Lake) -> None:
    log = opened(lake)
    folder = Path(lake.table_uri("gaps")) / "_delta_log"
    folder.rename(folder.with_name("away"))
    folder.write_text("in the way")
    with pytest.raises(SinkUnavailable, match=r"table gaps: .*Not a directory") as refused:
        log.commit([DataFile("x.parquet", 1, "{}")], [Advance("a", -1, 0)])
    assert "Debug source" not in str(refused.value)
    with pytest.raises(SinkUnavailable):
        log.landed("a")
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert commit(log, 0, 0)


def test_the_contract_reads_back_from_the_table_as_it_was_declared(lake: Lake) -> None:
    for table in TABLES.values():
        DeltaLog(lake, table).open()
        assert DeltaTable(lake.table_uri(table.name)).schema() == Schema.from_arrow(table.schema)
