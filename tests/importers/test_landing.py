"""Imported runs in a real Kafka and real tables: they land once, whatever is imported again and when."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.landkit.told import Told
from trajlake.reading.tables import LakeTables, open_lake
from trajlake.sinks.lake import Lake
from trajlake.streams.errors import BrokerUnavailable
from trajlake.streams.importing import published as published_ids
from trajlake.streams.importing.delivery import Delivery, wait_until_landed
from trajlake.streams.importing.intake import ImportReport, import_files
from trajlake.streams.importing.published import Published
from trajlake.streams.land.worker import LandWorker
from trajlake.streams.settings import Settings, load_settings
from trajlake.verification.verify import verify

pytestmark = pytest.mark.integration


class Flow:
    """A topic, a lake, imports into the one and landing into the other."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lake = Lake(settings.root)

    def bring(self, *paths: Path) -> ImportReport:
        published = Published(self.lake, "acme")
        published.read_tail(self.settings.kafka(), self.settings.events_topic, self.settings.app_id)
        with Delivery(self.settings.kafka(), self.settings.events_topic) as delivery:
            report = import_files(paths, publish=delivery.publish, known=published.known, tenant="acme")
        assert delivery.delivered == report.total("new")
        self.positions = delivery.positions
        return report

    def land(self) -> LakeTables:
        LandWorker(self.settings, until_end=True).run()
        return open_lake(self.settings.root)

    def check(self) -> None:
        proof = verify(open_lake(self.settings.root), self.settings.app_id)
        assert proof.ok, proof


@pytest.fixture
def flow(broker: str, make_topic: Callable[..., str], tmp_path: Path) -> Flow:
    topic = make_topic(2)
    return Flow(
        load_settings(
            root=str(tmp_path / "lake"), bootstrap_servers=broker, events_topic=topic, group_id=topic, app_id="land"
        )
    )


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def test_T8_public_files_land_and_verify_and_coming_again_adds_nothing(flow: Flow, runs_folder: Path) -> None:
    first = flow.bring(runs_folder)
    before = flow.bring(runs_folder)
    assert (before.total("new"), before.total("known")) == (0, first.total("events"))
    tables = flow.land()
    runs = tables.current_runs().collect()
    assert runs.height == first.total("runs") == 148
    assert tables.frame("quarantine").collect().height == 0
    bench = runs.filter(runs["framework"] == "tau-bench")
    assert bench.height == 120
    assert bench["group_id"].n_unique() == 30
    assert bench["outcome_class"].value_counts().sort("outcome_class").rows() == [
        ("quality_failure", 84),
        ("success", 36),
    ]
    rewards = tables.frame("rewards").collect()
    assert (rewards.height, rewards["score"].sum(), rewards["explanation"].null_count()) == (120, 36.0, 0)
    flow.check()
    again = flow.bring(runs_folder)
    assert (again.total("new"), again.total("known")) == (0, first.total("events"))


@pytest.mark.parametrize("landed_between", [True, False])
def test_T8_of_a_session_that_grew_only_the_tail_lands_and_no_number_collides(
    flow: Flow, tmp_path: Path, session: Any, landed_between: bool
) -> None:
    log = session()
    log.user("q1")
    log.assistant(log.call("a"), id="m1")
    path = write(tmp_path / "s1.jsonl", log.records)
    assert flow.bring(path).total("new") == 3
    if landed_between:
        flow.land()
    log.assistant("more of it", id="m1")
    log.result("a", "A")
    log.user("q2")
    log.assistant("a2")
    report = flow.bring(write(path, log.records))
    assert (report.total("new"), report.total("known")) == (4, 1)
    tables = flow.land()
    assert tables.frame("quarantine").collect().height == 0
    steps = tables.current_steps().collect().sort("step_index")
    assert steps["message"].to_list() == ["more of it", "a2"]
    assert steps["tool_calls"].list.len().to_list()[0] == 1
    assert steps["observations"].to_list()[0][0]["content"] == "A"
    [run] = tables.current_runs().collect().to_dicts()
    assert (run["end_state"], run["step_count"], run["output_tokens"]) == ("completed", 2, 10)
    flow.check()


def test_T3_T5_copied_and_spawned_work_is_counted_once(flow: Flow, tmp_path: Path, session: Any) -> None:
    main = session("main")
    main.user("go")
    main.assistant(main.call("t1", "Task", prompt="look", subagent_type="Explore"))
    main.result("t1", "found", toolUseResult={"agentId": "abc"})
    main.assistant("done")
    inner = session("main", start=100, isSidechain=True, agentId="abc")
    inner.user("look")
    inner.assistant("found")
    resumed = session("resumed", start=200)
    resumed.records = [{**record, "sessionId": "resumed"} for record in main.records]
    resumed.last = main.last
    resumed.user("on")
    resumed.assistant("further")
    flow.bring(
        write(tmp_path / "main.jsonl", main.records),
        write(tmp_path / "agent-abc.jsonl", inner.records),
        write(tmp_path / "resumed.jsonl", resumed.records),
    )
    runs = {run["run_id"]: run for run in flow.land().current_runs().collect().to_dicts()}
    assert set(runs) == {"main", "main:agent-abc", "resumed"}
    sub = runs["main:agent-abc"]
    assert (sub["parent_run_id"], sub["spawned_by_tool_call_id"], sub["skill_name"]) == (
        "main",
        "t1",
        "claude-code/Explore",
    )
    assert runs["resumed"]["forked_from_id"] == "main"
    assert {name: (run["step_count"], run["copied_step_count"]) for name, run in runs.items()} == {
        "main": (2, 0),
        "main:agent-abc": (1, 0),
        "resumed": (3, 2),
    }
    assert sum(run["output_tokens"] for run in runs.values()) == 4 * 5
    flow.check()


def test_T4_steps_before_and_after_a_compaction_are_in_different_segments(
    flow: Flow, tmp_path: Path, session: Any
) -> None:
    log = session()
    log.user("q1")
    log.assistant("a1")
    log.add("system", subtype="compact_boundary", compactMetadata={"trigger": "manual", "preTokens": 9})
    log.user("summary", isCompactSummary=True)
    log.assistant("a2")
    flow.bring(write(tmp_path / "s1.jsonl", log.records))
    tables = flow.land()
    assert tables.current_steps().collect().sort("step_index")["context_segment"].to_list() == [0, 1]
    [compaction] = tables.current_runs().collect()["compactions"].to_list()[0]
    assert (compaction["trigger"], compaction["summary"], compaction["tokens_before"]) == ("manual", "summary", 9)


def test_T12_a_30_MB_image_in_an_observation_lands_by_reference(flow: Flow, tmp_path: Path, session: Any) -> None:
    image = "A" * 30_000_000
    log = session()
    log.user("q")
    log.assistant(log.call("a"))
    log.result("a", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}])
    log.assistant("seen")
    report = flow.bring(write(tmp_path / "s1.jsonl", log.records))
    assert (report.ok, report.total("new")) == (True, 5)
    tables = flow.land()
    steps = tables.current_steps().collect().sort("step_index")
    assert steps.height == 2
    observation = steps["observations"].to_list()[0][0]
    assert "payload:sha256:" in json.dumps(observation)
    assert len(json.dumps(observation)) < 10_000
    flow.check()


def test_waiting_ends_when_the_tables_hold_all_that_was_published(flow: Flow, tmp_path: Path, session: Any) -> None:
    log = session()
    log.user("q")
    log.assistant("a")
    flow.bring(write(tmp_path / "s1.jsonl", log.records))
    settings, positions = flow.settings, flow.positions
    assert not wait_until_landed(flow.lake, settings.app_id, settings.events_topic, positions, 0.2)
    flow.land()
    told = Told()
    assert wait_until_landed(flow.lake, settings.app_id, settings.events_topic, positions, 5, told)
    assert told["waiting"].total == 0


def test_without_a_broker_the_import_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_ids, "METADATA_TIMEOUT_S", 0.5)
    published = Published(Lake(str(tmp_path)), "acme")
    with pytest.raises(BrokerUnavailable, match="cannot be read"):
        published.read_tail({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 500}, "t", "land")
