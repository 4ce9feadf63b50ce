"""Readers: pinned versions, contract columns, and the rows that count now."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.looking.conftest import COMMIT_ORDER
from trajlake.expectations.tables import TABLES
from trajlake.reading.tables import LakeTables, open_lake
from trajlake.reading.versions import VersionError, committed_at, parse_at
from trajlake.sinks.lake import Lake


def open_at(root: Path, at: Any = None) -> LakeTables:
    return LakeTables(Lake(str(root)), at)


def history(rows: Any) -> Any:
    """run-a twice revised and its step 1 once; run-b with a fragment after it was forgotten; run-open still open."""
    run, step = rows.first("runs", run_id="run-a"), rows.first("steps", run_id="run-a", step_index=1)
    late = rows.event(0, "agent.tool.returned", "run-a", 8)
    rows["steps"].append(step | {"revision": 1, "offset": late, "is_last": False, "message": "whole"})
    rows["runs"].append(run | {"revision": 1, "offset": late, "event_count": run["event_count"] + 1, "output": "new"})
    goes_on = rows.event(0, "agent.model.responded", "run-a", 9)
    rows.step(0, "run-a", 3, goes_on, rows.event(0, "agent.model.responded", "run-a", 10), last=False)
    first = rows.event(0, "agent.model.responded", "run-b", 7)
    close = rows.event(0, "trajlake.tick", None, None, tenant="")
    rows.step(0, "run-b", 1, first, close, last=True, message="fragment")
    rows.run_row(0, "run-b", first, close, events=1, steps=1, has_start=False)
    opened = rows.offsets("events", run_id="run-open")[-1]
    rows.step(1, "run-open", 1, opened, opened, last=False)
    return rows


def test_a_lake_without_tables_reads_as_empty_frames_of_the_contract(tmp_path: Path) -> None:
    lake = open_at(tmp_path / "nothing")
    for name, table in TABLES.items():
        frame = lake.frame(name).collect()
        assert frame.columns == list(table.names)
        assert len(frame) == 0
    assert len(lake.current_steps().collect()) == 0
    assert lake.is_empty()
    assert not (tmp_path / "nothing").exists()


def test_current_runs_hold_the_highest_revision_and_no_fragment_before_a_whole_run(rows: Any, tmp_path: Path) -> None:
    history(rows).write(tmp_path)
    runs = open_at(tmp_path).current_runs().collect()
    found = {row["run_id"]: (row["revision"], row["output"], row["has_start"]) for row in runs.iter_rows(named=True)}
    assert found == {"run-a": (1, "new", True), "run-b": (0, None, True), "run-c": (0, None, True)}


def test_current_steps_are_those_that_the_current_run_counts(rows: Any, tmp_path: Path) -> None:
    history(rows).write(tmp_path)
    steps = open_at(tmp_path).current_steps().collect()
    found = sorted(steps.select("run_id", "step_index", "revision", "message").rows())
    assert found == [
        ("run-a", 1, 1, "whole"), ("run-a", 2, 0, None),
        ("run-b", 1, 0, None), ("run-b", 2, 0, None), ("run-b", 3, 0, None),
        ("run-c", 1, 0, None), ("run-open", 1, 0, None),
    ]  # fmt: skip
    assert steps.columns == list(TABLES["steps"].names)


def test_a_reader_stays_at_the_versions_it_opened(
    rows: Any, make_rows: Any, append_rows: Callable[..., None], tmp_path: Path
) -> None:
    lake = rows.write(tmp_path)
    reader = open_at(tmp_path)
    before = reader.versions()
    count = reader.events().select(pl.len()).collect().item()
    later = make_rows(next_offset=dict(rows.next_offset))
    later.whole_run(0, "later")
    append_rows(lake, "events", later["events"], later.last_offsets())
    assert reader.versions() == before
    assert reader.events().select(pl.len()).collect().item() == count
    assert open_at(tmp_path).events().select(pl.len()).collect().item() == count + len(later["events"])
    assert open_at(tmp_path).events(version=0).select(pl.len()).collect().item() == count


def test_versions_are_chosen_by_number_by_table_and_by_moment(
    rows: Any, append_rows: Callable[..., None], tmp_path: Path
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    lake = rows.write(tmp_path)
    between = committed_at(lake, "runs", 0)
    assert between is not None
    while datetime.now(UTC) <= between + timedelta(milliseconds=1):
        pass
    append_rows(lake, "runs", rows["runs"][:1], rows.last_offsets())
    count = len(rows["runs"])

    def runs(at: Any) -> int:
        return int(open_at(tmp_path, at).runs().select(pl.len()).collect().item())

    assert [runs(at) for at in (None, 0, 1, {"runs": 0}, {"steps": 0}, between, before)] == [
        count + 1, count, count + 1, count, count + 1, count, 0,
    ]  # fmt: skip


def test_a_version_that_is_not_there_is_named_with_what_is(rows: Any, tmp_path: Path) -> None:
    rows.write(tmp_path)
    with pytest.raises(VersionError, match="runs has no version 7; it has 0 to 0"):
        open_at(tmp_path, 7).runs()
    with pytest.raises(VersionError, match="nothing has landed"):
        open_at(tmp_path / "nothing", 7).runs()


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("12", 12),
        (" steps=3, runs=4 ", {"steps": 3, "runs": 4}),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00+09:00", datetime(2026, 1, 31, 3, tzinfo=UTC)),
    ],
)
def test_the_text_of_a_version_is_read(text: str, meaning: object) -> None:
    assert parse_at(text) == meaning


@pytest.mark.parametrize("text", ["yesterday", "step=3", "steps=x", "-1", ""])
def test_a_text_that_is_no_version_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"version|no table"):
        parse_at(text)


def test_columns_that_the_contract_gained_read_as_null(rows: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    from trajlake.reading.query import run_query
    from trajlake.verification.verify import verify

    lake = rows.write(tmp_path)
    old = pa.table(lake.open("steps").to_pyarrow_table()).drop_columns(["loss_mask", "reasoning_content"])
    write_deltalake(lake.table_uri("steps"), old, mode="overwrite", schema_mode="overwrite")
    reader = open_at(tmp_path)
    assert reader.steps().select("reasoning_content").collect()["reasoning_content"].null_count() == len(old)
    with run_query(reader, "SELECT count(*) FROM steps WHERE reasoning_content IS NULL") as found:
        assert found.read_all().to_pylist()[0]["count_star()"] == len(old)
    assert verify(reader, "trajlake-land").ok


def test_open_lake_takes_the_root_from_the_settings(rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.write(tmp_path / "lake")
    monkeypatch.setenv("TRAJLAKE_ROOT", str(tmp_path / "lake"))
    assert open_lake().runs().select(pl.len()).collect().item() == 3
    assert open_lake(str(tmp_path / "lake"), at="runs=0").versions(["runs"]) == {"runs": 0}


# The command


def test_tables_lists_versions_rows_files_and_landed_offsets(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    rows.write(tmp_path / "lake")
    done = trajlake("tables", "--root", "lake", "--json", "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    tables = {table["name"]: table for table in shown["tables"]}
    written = dict.fromkeys(TABLES) | {name: len(rows[name]) for name in COMMIT_ORDER}
    assert {name: table["rows"] for name, table in tables.items()} == written
    assert all(tables[name]["version"] == 0 and tables[name]["bytes"] > 0 for name in COMMIT_ORDER)
    assert datetime.fromisoformat(tables["events"]["committed_at"]).tzinfo is not None
    assert [(p["partition"], p["landed_offset"], p["lag_records"]) for p in shown["partitions"]] == [
        (partition, last, None) for partition, last in sorted(rows.last_offsets().items())
    ]
    assert shown["broker"] is False


def test_tables_of_an_empty_root_says_what_to_type(trajlake: Any) -> None:
    done = trajlake("tables", "--root", "nothing", "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 2
    assert "nothing has landed" in done.stderr
    assert "trajlake land" in done.stderr


@pytest.mark.integration
def test_lag_is_shown_in_records_and_seconds(
    make_rows: Any, make_topic: Any, broker: str, trajlake: Any, tmp_path: Path, eventually: Any
) -> None:
    from confluent_kafka import Producer

    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker, "acks": "all"})
    for number in range(10):
        producer.produce(topic, value=b"x", partition=number % 2)
    assert producer.flush(20) == 0
    made = make_rows(topic=topic)
    for _ in range(3):
        made.event(0, "trajlake.tick", None, None, tenant="")
    for _ in range(5):
        made.event(1, "trajlake.tick", None, None, tenant="")
    made.write(tmp_path / "lake")

    def lags() -> Any:
        done = trajlake("tables", "--root", "lake", "--json", "--bootstrap-servers", broker)
        parts = [p for p in json.loads(done.stdout)["partitions"] if p["topic"] == topic]
        return parts if parts and parts[0]["lag_s"] is not None else None

    first, second = eventually(lags, 30, "the age of the oldest record that waits")
    assert (first["landed_offset"], first["end_offset"], first["lag_records"]) == (2, 5, 2)
    assert 0 < first["lag_s"] < 300
    assert (second["lag_records"], second["lag_s"]) == (0, 0.0)


def test_a_root_may_hold_spaces_and_umlauts(rows: Any, tmp_path: Path) -> None:
    root = tmp_path / "ä b lake"
    root.mkdir()
    rows.write(root)
    lake = open_lake(str(root))
    assert lake.events().collect().height > 0
    assert lake.current_runs().collect().height > 0
    assert lake.current_steps().collect().height > 0
