"""What agents send wrong: each record lands or is quarantined with its place and reason, and nothing stops the
others."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Eventually, MakeTopic
from tests.landkit.checker import assert_exactly_once, commits_of, read
from tests.landkit.events import Sent, event, poison, run_events
from tests.landkit.kafka import end_of, produce
from tests.landkit.running import Running, land_all, settings

pytestmark = pytest.mark.integration

KEY = b"acme/bad"


def body(**fields: Any) -> bytes:
    """An envelope with the given fields on top of legal ones."""
    return orjson.dumps(
        {
            "specversion": "1.0", "id": "b", "source": "s", "type": "agent.model.responded", "tenantid": "acme",
            "runid": "bad", "sequence": 1, "time": "2026-03-01T10:00:00Z", "data": {}, **fields,
        }
    )  # fmt: skip


BAD: dict[str, tuple[bytes | None, str]] = {
    "malformed JSON": (b'{"specversion":"1.0",', "malformed_json"),
    "wrong UTF-8": (body(message="x").replace(b'"x"', b'"\xff"'), "not_utf8"),
    "no bytes": (b"", "empty"),
    "a tombstone": (None, "empty"),
    "20 MB of no JSON": (b"x" * (20 << 20), "malformed_json"),
    "10,000 levels": (body(data={}).replace(b"{}", b'{"a":' * 10_000 + b"1" + b"}" * 10_000), "too_deep"),
    "a key twice": (body().replace(b'"id":"b"', b'"id":"b","id":"c"'), "duplicate_key"),
    "NaN": (body(data={"latency_ms": 1}).replace(b":1}", b":NaN}"), "bad_number"),
    "an infinity": (body(data={"latency_ms": 1}).replace(b":1}", b":1e999}"), "bad_number"),
    "no object": (b"[]", "not_an_event"),
    "no envelope": (b"{}", "not_an_event"),
    "no tenant": (body(tenantid=None), "tenant_missing"),
    "another key": (body(runid="other"), "key_mismatch"),
    "a wrong type": (body(data={"latency_ms": "fast"}), "wrong_type"),
    "a time that is none": (body(time="soon"), "bad_time"),
}


def test_L10_bad_records_in_the_middle_of_a_batch_are_quarantined_and_all_others_land(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    good = run_events("good", 8)
    sent: list[Sent] = []
    expected: dict[int, str] = {}
    for number, (value, reason) in enumerate(BAD.values()):
        sent.append(good[number])
        expected[len(sent)] = reason
        sent.append(Sent(KEY, value))
    sent += good[len(BAD) :]
    produce(broker, topic, sent)
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)
    rows = {row["offset"]: row for row in read(tmp_path, "quarantine")}
    assert {offset: row["reason_code"] for offset, row in rows.items()} == expected
    for offset, row in rows.items():
        value = sent[offset].value or b""
        assert (row["topic"], row["partition"], row["payload_bytes"]) == (topic, 0, len(value))
        assert row["detail"]
        assert len(row["payload"] or "") <= 256 << 10
    (run,) = read(tmp_path, "runs")
    assert (run["run_id"], run["event_count"], run["step_count"], run["gaps"]) == ("good", len(good), 8, None)


def test_L12_a_partition_with_nothing_but_poison_advances_and_lands_each_row_once_over_restarts(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    for round_ in range(3):
        produce(broker, topic, (poison(number) for number in range(50)))
        worker = land_all(broker, topic, tmp_path, batch_max_rows=20)
        assert worker.status.rows == 50
        assert len(read(tmp_path, "quarantine")) == 50 * (round_ + 1)
        if round_:
            # The second time also without the snapshot that the worker before it left.
            shutil.rmtree(tmp_path / "_state")
            assert land_all(broker, topic, tmp_path).status.rows == 0
    assert not read(tmp_path, "events")
    assert_exactly_once(tmp_path, broker, topic)


def test_L14_fields_that_a_newer_producer_adds_inside_nested_lists_land_and_are_kept(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    call = {"tool_call_id": "c", "function_name": "look", "arguments": "{}", "cache": {"hit": True}, "weights": [1, 2]}
    sent = run_events("old")
    sent += [
        event("run.started", "new", 1, {"added": {"deep": [1]}}),
        event(
            "model.responded", "new", 2, {"message": "m", "tool_calls": [call], "usage": {"input_tokens": 1, "x": 2}}
        ),
        event("tool.returned", "new", 3, {"tool_call_id": "c", "content": "r", "parts": [{"kind": "text"}]}),
        event("run.ended", "new", 4, {"end_state": "completed", "success": True, "mood": None}, region="eu"),
    ]
    sent += run_events("old again")
    produce(broker, topic, sent)
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)
    assert not read(tmp_path, "quarantine")
    kept = [orjson.loads(row["event"]) for row in read(tmp_path, "events") if row["run_id"] == "new"]
    assert kept == [orjson.loads(one.value or b"") for one in sent if one.key == b"acme/new"]
    (step,) = [row for row in read(tmp_path, "steps") if row["run_id"] == "new"]
    assert [one["tool_call_id"] for one in step["tool_calls"]] == ["c"]
    assert [one["content"] for one in step["observations"]] == ["r"]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


MOMENT = utc(2026, 3, 1, 10, 0, 0, 123456)
TIMES: list[tuple[Any, datetime | str]] = [
    ("2026-03-01T10:00:00.123456Z", MOMENT),
    ("2026-03-01T10:00:00.123456400Z", MOMENT),
    ("2026-03-01T10:00:00.123455789Z", MOMENT),
    ("2026-03-01T19:00:00.123456+09:00", MOMENT),
    ("2026-03-01T04:30:00.123456-05:30", MOMENT),
    ("2026-03-01T10:00:00.123456", MOMENT),
    (1772359200.123456, MOMENT),
    (1772359200123, utc(2026, 3, 1, 10, 0, 0, 123000)),
    (1772359200123456, MOMENT),
    (1772359200123456400, MOMENT),
    ("1969-12-31T23:59:59.999999Z", utc(1969, 12, 31, 23, 59, 59, 999999)),
    ("2262-04-12T00:00:00Z", utc(2262, 4, 12)),
    ("2016-12-31T23:59:60Z", utc(2016, 12, 31, 23, 59, 59, 999999)),
    ("0001-01-01T00:00:00Z", utc(1, 1, 1)),
    ("9999-12-31T23:59:59.999999Z", utc(9999, 12, 31, 23, 59, 59, 999999)),
    ("2026-02-30T10:00:00Z", "bad_time"),
    ("2026-03-01T25:00:00Z", "bad_time"),
    ("yesterday", "bad_time"),
    (True, "bad_time"),
    (1e30, "bad_time"),
]


def test_L16_times_in_every_form_are_microseconds_utc_or_quarantined(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, [event("run.started", f"t{n}", 1, time=time) for n, (time, _) in enumerate(TIMES)])
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)
    found: dict[int, Any] = {row["offset"]: row["time"] for row in read(tmp_path, "events")}
    found |= {row["offset"]: row["reason_code"] for row in read(tmp_path, "quarantine")}
    assert [found[offset] for offset in range(len(TIMES))] == [expected for _, expected in TIMES]


def test_batches_of_large_events_keep_to_their_bytes(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    megabyte = "m" * (1 << 20)
    large = [event("tool.returned", "large", n + 1, {"tool_call_id": f"c{n}", "content": megabyte}) for n in range(40)]
    with Running(settings(broker, topic, tmp_path, batch_max_bytes=4 << 20, batch_max_age_ms=10_000)) as running:
        eventually(lambda: running.worker.status.partitions, 20)
        produce(broker, topic, run_events("small", 20))
        produce(broker, topic, large[:3])
        seen = end_of(broker, topic)
        eventually(lambda: running.worker._owned[0].next_offset == seen, 30)
        produce(broker, topic, large[3:])
        end = end_of(broker, topic)
        eventually(lambda: running.worker._owned[0].next_offset == end, 30)
    assert_exactly_once(tmp_path, broker, topic)
    rows = [
        orjson.loads(action["add"]["stats"])["numRecords"]
        for actions in commits_of(tmp_path, "events")
        for action in actions
        if "add" in action
    ]
    # The first large ones come as a surprise; from then on a batch is over its limit by one record at most.
    assert max(rows[1:]) <= 5, rows
    assert len(rows) >= 6
    stored = [path for path in (tmp_path / "restricted" / "_payloads").rglob("*") if path.is_file()]
    assert [path.stat().st_size for path in stored] == [1 << 20]
