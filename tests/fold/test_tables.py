"""L14, L15: rows as Arrow, Parquet and Delta have them are the rows of the fold, in the contract's types."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import deltalake
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from tests.fold.logs import logs
from tests.fold.story import EVENT_TIME, INLINE_MAX, TOPIC, Landed, Log
from trajlake.expectations.tables import TABLES
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import COMMIT_POINT, SIDE_TABLES, Ledger, Stretch
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record


def full_story() -> Log:
    """A log that puts something into every table and nearly every column."""
    log = Log()
    run = log.run("r1", traceparent="00-0-0-00")
    run.starts(
        agent={"name": "a", "version": "1"}, model={"name": "m", "tier": "upper", "provider": "p"},
        purpose=["training"],
        tools=[{"name": "look", "version": "2"}, {"name": "listen"}],
        input={"q": "?"}, session_id="s", group_id="g",
    )  # fmt: skip
    run.responds(
        "looking", calls=["c1", "c2"], usage={"input_tokens": 3, "output_tokens": 4}, cost_usd=0.5, latency_ms=1.5,
        input_messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}], prompt_token_ids=[1, 2],
        completion_token_ids=[3], logprobs=[-0.5], loss_mask=[1], reasoning_content="hm", finish_reason="tool_calls",
    )  # fmt: skip
    run.calls("c1")
    run.decides("allow", tool_call_id="c1", rule_id="r", action="log")
    run.returns("c2", {"password": "removed"}, is_error=True, http_status=500, retry_count=1, exit_code=1)
    run.returns("c1", "found", latency_ms=2.5)
    run.compacts(tokens_before=10, tokens_after=2, trigger="auto")
    run.returns("nobody")
    log.hole(2)
    log.append(b"\xff")
    log.run("r2", tenant="null").starts()
    run.act("consent.changed", {"subject_id": "s", "purpose": "train", "state": "granted", "expires_at": EVENT_TIME})
    run.rewarded(0.5, weight=1.0, passed=True, explanation="good", annotator_version="3")
    run.act("feedback.given", {"score": 1.0, "label": "up", "comment": "nice"})
    run.ends(
        terminated=True, success=True, output=[1], exit_code=0, input_messages=[{"role": "user", "content": "bye"}]
    )
    return log


def bare_story() -> Log:
    """A log whose optional columns are all null and whose lists are all empty."""
    log = Log()
    run = log.run()
    run.act("run.started", {"tools": [], "purpose": []}, time=None)
    run.act("model.responded", {"tool_calls": [], "input_messages": [], "prompt_token_ids": []}, time=None)
    run.act("run.ended", {"end_state": "completed", "input_messages": []}, time=None)
    run.act("reward.assigned", {"annotator_kind": "code"}, time=None)
    run.act("consent.changed", {"subject_id": "s", "purpose": "train", "state": "granted"}, sequence=None, time=None)
    log.run("r2", tenant="0").starts(time=None)
    log.append(None)
    log.hole()
    log.append(None)
    return log


@pytest.mark.parametrize("story", [full_story, bare_story])
def test_L15_every_batch_has_the_contracts_types(story: object) -> None:
    log: Log = story()  # type: ignore[operator]
    landing = PartitionFold(TOPIC, 0, LandRules()).fold(log.records)
    made = batches(landing, "rules", INLINE_MAX)
    assert set(made) == {*SIDE_TABLES, COMMIT_POINT}
    for name, batch in made.items():
        assert batch.schema.equals(TABLES[name].schema, check_metadata=True), name
        batch.validate(full=True)


@settings(max_examples=60, deadline=None)
@given(logs())
def test_L15_any_batch_has_the_contracts_types(records: list[Record]) -> None:
    landing = PartitionFold(TOPIC, 0, LandRules()).fold(records)
    for name, batch in batches(landing, "rules", INLINE_MAX).items():
        assert batch.schema.equals(TABLES[name].schema, check_metadata=True), name
        batch.validate(full=True)


def test_L14_unknown_fields_anywhere_are_kept_in_the_ledger_and_break_no_table() -> None:
    new = {"tool_call_id": "a", "function_name": "f", "arguments": {}, "priority": {"level": [1, 2]}}
    log = Log()
    run = log.run()
    run.starts(skill={"name": "s", "colour": "red"}, shape="round")
    run.responds(tool_calls=[new], usage={"input_tokens": 1, "audio_tokens": 7}, x=[{"y": None}])
    run.returns("a", score={"z": 1})
    run.ends()
    landed = log.land()
    events = [orjson.loads(row["event"]) for row in landed.rows("events")]
    assert events[0]["data"] == {"skill": {"name": "s", "colour": "red"}, "shape": "round"}
    assert events[1]["data"]["tool_calls"] == [new]
    assert events[1]["data"]["usage"]["audio_tokens"] == 7
    assert events[2]["data"]["score"] == {"z": 1}
    assert [call["tool_call_id"] for call in landed.steps()[0]["tool_calls"]] == ["a"]
    assert landed.rows("quarantine") == []


def test_L14_an_unknown_type_of_event_is_kept_in_the_ledger_and_in_the_runs_order() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.act("other.vendor.thing", {"anything": [1]})
    run.act("agent.from.the.future", {"b": 2})
    run.ends()
    landed = log.land()
    assert [row["type"] for row in landed.rows("events")][1:3] == ["other.vendor.thing", "agent.from.the.future"]
    assert landed.one("runs")["event_count"] == 4
    assert landed.gaps() == []


def test_every_table_reads_back_as_it_was_folded(tmp_path: Path) -> None:
    """Committed through the ledger, read by deltalake and by Polars."""
    lake = Lake(str(tmp_path))
    ledger = Ledger(lake, "land")
    ledger.open()
    ledger.landed(TOPIC, 0)
    for number, log in enumerate((full_story(), bare_story())):
        fold = PartitionFold(TOPIC, number, LandRules())
        landing = fold.fold(log.records)
        made = batches(landing, "rules", INLINE_MAX)
        ledger.landed(TOPIC, number)
        assert ledger.commit([Stretch(TOPIC, number, landing.first, landing.last, made, landing.payloads)])
        for name, batch in made.items():
            expected = pa.Table.from_batches([batch])
            table = deltalake.DeltaTable(lake.table_uri(name))
            stored = table.to_pyarrow_table(partitions=None, filters=[("partition", "=", number)])
            assert (
                stored.cast(expected.schema).sort_by("offset").to_pylist() == expected.sort_by("offset").to_pylist()
            ), name
            frame = pl.read_delta(lake.table_uri(name)).filter(pl.col("partition") == number)
            assert frame.sort("offset").to_dicts() == _frame(expected).sort("offset").to_dicts(), name
    ledger.close()


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


@settings(max_examples=25, deadline=None)
@given(logs())
def test_any_batch_survives_its_data_file(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    root = tmp_path_factory.mktemp("lake")
    lake = Lake(str(root))
    landing = PartitionFold(TOPIC, 0, LandRules()).fold(records)
    for name, batch in batches(landing, "rules", INLINE_MAX).items():
        file = write_data_file(lake, TABLES[name], [batch])
        stored = pq.read_table(root / lake.table_path(name) / file.path)
        assert stored.equals(pa.Table.from_batches([batch])), name
        assert orjson.loads(file.stats)["numRecords"] == batch.num_rows


def test_strings_of_any_characters_survive_all_tables(tmp_path: Path) -> None:
    text = "\0 \ud7ff\ue000\uffff😀 é\u2028\x7f\\\"'"
    log = Log()
    run = log.run(text)
    run.starts(input=text, session_id=text)
    run.responds(text)
    run.ends(output=text)
    landed = log.land()
    assert (landed.one("runs")["input"], landed.one("runs")["output"], landed.one("runs")["run_id"]) == (text,) * 3
    assert orjson.loads(landed.rows("events")[0]["event"])["data"]["input"] == text
    for name, table in Landed.of([PartitionFold(TOPIC, 0, LandRules()).fold(log.records)]).tables.items():
        if table.num_rows:
            file = write_data_file(Lake(str(tmp_path)), TABLES[name], table.to_batches())
            assert pq.read_table(tmp_path / Lake.table_path(Lake(str(tmp_path)), name) / file.path).equals(table)


@pytest.mark.parametrize("year", [1, 999, 1677, 1969, 2262, 9999])
def test_L16_times_of_any_year_read_back_from_delta(tmp_path: Path, year: int) -> None:
    when = datetime(year, 7, 20, 20, 17, 40, 5, tzinfo=UTC)
    log = Log()
    run = log.run()
    run.starts(time=when.isoformat())
    run.ends(time=when.isoformat())
    landing = PartitionFold(TOPIC, 0, LandRules()).fold(log.records)
    lake = Lake(str(tmp_path))
    ledger = Ledger(lake, "land")
    ledger.open()
    ledger.landed(TOPIC, 0)
    ledger.commit([Stretch(TOPIC, 0, landing.first, landing.last, batches(landing, "rules", INLINE_MAX), [])])
    table = deltalake.DeltaTable(lake.table_uri("events"))
    assert table.to_pyarrow_table(filters=[("time", "=", when)]).column("time").to_pylist() == [when, when]
    assert pl.read_delta(lake.table_uri("runs")).filter(pl.col("started_at") == when).height == 1
    ledger.close()
