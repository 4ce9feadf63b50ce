"""Closed runs are announced after their rows have landed: each at least once, in order, and equal to the table."""

from __future__ import annotations

import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import AdminClient

from tests.conftest import Eventually, MakeTopic
from tests.landkit.checker import read
from tests.landkit.events import Sent, event, mixture, run_events
from tests.landkit.kafka import log_of, produce
from tests.landkit.processes import WorkerProcess
from tests.landkit.running import Running, land_all, plan, settings
from trajlake.expectations.events import TICK_KEY, TICK_SOURCE
from trajlake.expectations.outcomes import ClosedRun, OutcomeBatch
from trajlake.sinks.lake import Lake

pytestmark = pytest.mark.integration


@pytest.fixture
def outcomes_topic(make_topic: MakeTopic) -> str:
    return make_topic(2)


def announced(broker: str, topic: str, partitions: int = 2) -> list[OutcomeBatch]:
    """All messages of an outcomes topic, each partition's in order."""
    found = []
    for partition in range(partitions):
        records = log_of(broker, topic, partition)[0]
        found += [msgspec.json.decode(value, type=OutcomeBatch) for _, value in sorted(records.items()) if value]
    return found


def applied(batches: list[OutcomeBatch]) -> dict[tuple[str, str, str], tuple[str, int, int]]:
    """What a consumer that skips by closing offset counts: (tenant, skill, run) -> (class, revision, attempts)."""
    at: dict[tuple[str, str, str, int], int] = defaultdict(lambda: -1)
    counted: dict[tuple[str, str, str], tuple[str, int, int]] = {}
    for batch in batches:
        source = (batch.tenant_id, batch.skill_name, batch.topic, batch.partition)
        fresh: list[ClosedRun] = [run for run in batch.runs if run.offset > at[source]]
        assert [run.offset for run in batch.runs] == sorted(run.offset for run in batch.runs)
        for run in fresh:
            at[source] = run.offset
            if run.replaces is not None:
                key = (batch.tenant_id, batch.skill_name, run.replaces.run_id)
                assert counted.pop(key)[1] == run.replaces.revision
            if run.outcome is not None:
                key = (batch.tenant_id, batch.skill_name, run.outcome.run_id)
                assert key not in counted, key
                counted[key] = (run.outcome.outcome_class, run.outcome.revision, run.outcome.attempts)
    return counted


def recounted(root: Path) -> dict[tuple[str, str, str], tuple[str, int, int]]:
    """The same from the table `runs`."""
    counted: dict[tuple[str, str, str], tuple[str, int, int]] = {}
    rows: list[dict[str, Any]] = read(root, "runs")
    newest = {(row["partition"], row["first_offset"]): row for row in sorted(rows, key=lambda row: row["revision"])}
    for row in newest.values():
        key = (row["tenant_id"], row["skill_name"] or "", row["run_id"])
        counted[key] = (row["outcome_class"], row["revision"], 1 + (row["retry_count"] or 0))
    return counted


def late_log() -> tuple[list[Sent], ...]:
    """Runs that close again: by a late event, and one whose start comes last and names its skill.

    In parts, since the broker gives records of one batch the same time.
    """
    whole = run_events("late", steps=1)
    nameless = run_events("nameless", steps=1)
    tail = event("tool.returned", "late", len(whole) + 1, {"tool_call_id": "late-0", "content": "again"})
    ended = event("run.ended", "late", len(whole) + 2, {"end_state": "failed", "success": False})
    tick = {"close_idle_after_us": 0, "release_held_after_us": 0, "forget_closed_after_us": 86_400_000_000}
    ticked = Sent(
        TICK_KEY,
        msgspec.json.encode(
            {
                "specversion": "1.0", "id": uuid.uuid4().hex, "source": TICK_SOURCE, "type": "trajlake.tick",
                "time": "2026-03-01T10:00:00Z", "data": tick,
            }
        ),
    )  # fmt: skip
    return [*whole, *nameless[1:]], [ticked, tail, ended, nameless[0]], [ticked]


def test_every_run_is_announced_once_as_it_lands(
    broker: str, make_topic: MakeTopic, outcomes_topic: str, tmp_path: Path
) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        produce(broker, topic, mixture(20, name=f"p{partition}"), partition)
    worker = land_all(broker, topic, tmp_path, outcomes_topic=outcomes_topic)
    batches = announced(broker, outcomes_topic)
    assert len(batches) == worker._outcomes.sent
    assert applied(batches) == recounted(tmp_path)
    assert sum(len(batch.runs) for batch in batches) == 40
    assert all(batch.topic == topic and batch.emitted_us > 0 for batch in batches)


def test_a_restart_announces_only_what_no_mark_covers(
    broker: str, make_topic: MakeTopic, outcomes_topic: str, tmp_path: Path
) -> None:
    topic = make_topic()
    options = {"outcomes_topic": outcomes_topic, "group_id": f"land-{uuid.uuid4().hex[:8]}"}
    produce(broker, topic, mixture(10, name="first"))
    land_all(broker, topic, tmp_path, **options)
    before = announced(broker, outcomes_topic)
    assert land_all(broker, topic, tmp_path, **options)._outcomes.sent == 0
    produce(broker, topic, mixture(10, name="second"))
    land_all(broker, topic, tmp_path, **options)
    assert sum(len(batch.runs) for batch in announced(broker, outcomes_topic)) == 20
    lake = Lake(str(tmp_path))
    Path(lake.uri, lake.outcome_mark_path("trajlake-land", topic, 0)).unlink()
    land_all(broker, topic, tmp_path, **options)
    again = announced(broker, outcomes_topic)
    assert sum(len(batch.runs) for batch in again) == 40, "without a mark everything is announced once more"
    assert applied(again) == recounted(tmp_path)
    first = {run.offset: run for batch in before for run in batch.runs}
    repeated = {run.offset: run for batch in again[-1:] for run in batch.runs}
    assert {offset: repeated[offset] for offset in first} == first, "read back from the table it is the same message"


def test_killed_between_the_commit_and_the_announcement(
    broker: str, make_topic: MakeTopic, outcomes_topic: str, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(24))
    options = plan(broker, topic, tmp_path, outcomes_topic=outcomes_topic, batch_max_rows=60, snapshot_interval_s=1)
    with WorkerProcess(options, kill_after="4 events", times=1) as worker:
        assert worker.end() == -9, worker.tail()
    land_all(broker, topic, tmp_path, outcomes_topic=outcomes_topic)
    assert applied(announced(broker, outcomes_topic)) == recounted(tmp_path)


def test_a_run_that_closes_again_takes_back_what_it_counted_as(
    broker: str, make_topic: MakeTopic, outcomes_topic: str, tmp_path: Path
) -> None:
    topic = make_topic()
    for part in late_log():
        produce(broker, topic, part)
    land_all(broker, topic, tmp_path, outcomes_topic=outcomes_topic, batch_max_rows=3)
    batches = announced(broker, outcomes_topic)
    assert applied(batches) == recounted(tmp_path)
    assert set(recounted(tmp_path)) == {("acme", "landing", "late"), ("acme", "landing", "nameless")}
    taken_back = [run.replaces for batch in batches for run in batch.runs if run.replaces is not None]
    assert {outcome.run_id for outcome in taken_back} == {"late", "nameless"}
    one_batch = tmp_path / "whole"
    other = f"{outcomes_topic}-whole"
    land_all(broker, topic, one_batch, outcomes_topic=other, outcomes_partitions=2)
    assert applied(announced(broker, other)) == applied(batches)


def test_refused_outcomes_wait_in_the_table_and_land_goes_on(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic, outcomes = make_topic(), make_topic(1, {"max.message.bytes": "200"})
    produce(broker, topic, mixture(12))
    with Running(settings(broker, topic, tmp_path, outcomes_topic=outcomes)) as running:
        eventually(lambda: "outcomes" in running.problem, 20)
        produce(broker, topic, mixture(3, name="more"))
        eventually(lambda: len(read(tmp_path, "runs")) == 15, 20)
        _allow(broker, outcomes, "1000000")
        eventually(lambda: not running.problem, 20)
        eventually(lambda: applied(announced(broker, outcomes, 1)) == recounted(tmp_path), 20)


def _allow(broker: str, topic: str, largest: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry("max.message.bytes", largest, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(10)


def test_messages_fit_into_the_smallest_size_that_can_be_set(
    broker: str, make_topic: MakeTopic, outcomes_topic: str, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(180))
    land_all(broker, topic, tmp_path, outcomes_topic=outcomes_topic, event_max_bytes=65_536)
    batches = announced(broker, outcomes_topic)
    assert max(len(batch.runs) for batch in batches) == 16
    assert applied(batches) == recounted(tmp_path)
    assert sum(len(batch.runs) for batch in batches) == 180
