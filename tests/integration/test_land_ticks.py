"""Time is in the log: the owner of a partition writes it where a time-out is due, and replay closes the same runs."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.conftest import Eventually, MakeTopic
from tests.landkit.checker import assert_exactly_once, assert_same_rows, read
from tests.landkit.events import Sent, event, run_events
from tests.landkit.kafka import log_of, produce
from tests.landkit.running import Running, land_all, settings

pytestmark = pytest.mark.integration

QUICK = {"run_timeout_s": 1, "reorder_timeout_s": 1, "tick_interval_s": 1}


def ticks_in_log(broker: str, topic: str) -> int:
    records = log_of(broker, topic)[0]
    return sum(orjson.loads(value)["type"] == "trajlake.tick" for value in records.values() if value)


def test_a_run_without_an_end_is_abandoned_once_by_a_tick_that_is_in_the_ledger(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    lake, replay = tmp_path / "lake", tmp_path / "replay"
    produce(broker, topic, [*run_events("silent", 2, ended=False, rewarded=False), *run_events("whole", 1)])
    held = event("model.responded", "waiting", 3, {"message": "came early"})
    produce(broker, topic, [event("run.started", "waiting", 1), held])
    with Running(settings(broker, topic, lake, **QUICK)) as running:
        eventually(lambda: len(read(lake, "runs")) == 3, 20, "all runs are closed")
        ticks = ticks_in_log(broker, topic)
        count = len(running.problems)
        eventually(lambda: len(running.problems) >= count + 3, 10, "three more intervals")
        # Nothing is due any more: an idle partition stays idle.
        assert ticks_in_log(broker, topic) == ticks
    rows = {row["run_id"]: row for row in read(lake, "runs")}
    assert {name: row["end_state"] for name, row in rows.items()} == {
        "silent": "abandoned", "waiting": "abandoned", "whole": "completed",
    }  # fmt: skip
    assert rows["silent"]["end_inferred"]
    assert "missing_sequence" in {gap["code"] for gap in rows["waiting"]["gaps"]}
    in_ledger = [row for row in read(lake, "events") if row["type"] == "trajlake.tick"]
    assert len(in_ledger) == ticks
    assert rows["silent"]["offset"] in {row["offset"] for row in in_ledger}
    assert_exactly_once(lake, broker, topic)
    # Replayed at another time, in other batches, with other limits of its own: the log decides.
    land_all(broker, topic, replay, batch_max_rows=3, run_timeout_s=999)
    assert_same_rows(lake, replay)


def test_two_owners_that_tick_the_same_partition_close_a_run_once(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    one, other = tmp_path / "one", tmp_path / "other"
    produce(broker, topic, run_events("silent", 1, ended=False))
    # Two flows of the same topic, each of which takes itself for the only one.
    with Running(settings(broker, topic, one, **QUICK)), Running(settings(broker, topic, other, **QUICK)):
        eventually(lambda: read(one, "runs") and read(other, "runs"), 20)
    for lake in (one, other):
        land_all(broker, topic, lake)
        assert_exactly_once(lake, broker, topic)
        assert [row["end_state"] for row in read(lake, "runs")] == ["abandoned"]
    assert_same_rows(one, other)


def test_a_tick_that_an_agent_forged_is_quarantined_and_closes_nothing(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    limits = {"close_idle_after_us": 0, "release_held_after_us": 0, "forget_closed_after_us": 0}
    body = {
        "specversion": "1.0", "id": "t", "source": "urn:agent", "type": "trajlake.tick",
        "time": "2026-03-01T10:00:00Z", "data": limits,
    }  # fmt: skip
    produce(broker, topic, [*run_events("open", 1, ended=False), Sent(b"acme/open", orjson.dumps(body))])
    land_all(broker, topic, tmp_path)
    assert [row["reason_code"] for row in read(tmp_path, "quarantine")] == ["forged_tick"]
    assert not read(tmp_path, "runs")
    assert_exactly_once(tmp_path, broker, topic)


def test_a_tick_is_not_written_again_while_one_is_on_its_way(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    produce(broker, topic, run_events("silent", 1, ended=False))
    # Nothing is due for an hour by the worker's own clock; the moment is given by hand.
    with Running(settings(broker, topic, tmp_path)) as running:
        eventually(lambda: running.landed() == 4, 20)
        owned = running.worker._owned[0]
        # Looked at again and again without a record being folded in between, as by a worker that is far behind.
        for _ in range(5):
            running.worker._ticks.write_due([owned], 1 << 52)
        eventually(lambda: ticks_in_log(broker, topic), 10)
    assert ticks_in_log(broker, topic) == 1
