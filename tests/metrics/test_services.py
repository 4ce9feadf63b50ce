"""What curation, upkeep and the dashboard show, from a real lake."""

from __future__ import annotations

import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.conftest import Eventually
from tests.curate.lab import OPEN, Lab, story
from tests.metrics.reading import samples, value
from trajlake.dashboard.app import Access, make_app
from trajlake.dashboard.board import BoardKeeper
from trajlake.dashboard.lakewatch import LakeWatch, unjudged_seconds
from trajlake.reading.tables import LakeTables, open_lake
from trajlake.streams.curate.service import keep_curating, passes
from trajlake.streams.health import serve_beside
from trajlake.streams.keeping.upkeep import keep_going, maintain_lake, upkeep_rounds, upkeep_rules
from trajlake.streams.settings import load_settings

FAILS_ALWAYS = '{"name": "publication", "expectations": [{"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1000}, "meta": {"rule": "batch.size", "severity": "critical"}}], "meta": {}}'  # noqa: E501


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lake")


def test_curation_counts_verdicts_and_says_which_rules_it_cannot_read(
    lab: Lab, tmp_path: Path, eventually: Eventually
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(OPEN.replace("allow: true", "allow: false"))
    stop, rounds = threading.Event(), passes()
    settings = load_settings(root=lab.lake.uri, policies=str(policy))
    server = serve_beside("127.0.0.1", 0, rounds.view, rounds.metrics)
    assert server is not None
    service = threading.Thread(target=keep_curating, args=(settings, 0.05, stop, lambda done: None, rounds))
    lab.land(story("run-a"))
    service.start()

    def ask() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return samples(urllib.request.urlopen(f"{server.address}/metrics", timeout=5).read())

    try:
        eventually(lambda: value(ask(), "trajlake_curate_runs_total", verdict="refused") == 1, 60, "judged")
        assert value(ask(), "trajlake_curate_exclusions_total", code="purpose_not_allowed") == 1
        assert value(ask(), "trajlake_curate_publications_total", cause="new") == 1
        eventually(lambda: value(ask(), "trajlake_curate_passes_total", result="done") >= 1, 60)
        assert value(ask(), "trajlake_curate_ready") == 1
        policy.write_text("version: 1\npolicies: [")
        eventually(lambda: value(ask(), "trajlake_curate_ready") == 0, 60, "rules cannot be read")
        assert value(ask(), "trajlake_curate_passes_total", result="rules") >= 1
    finally:
        stop.set()
        service.join(60)
        server.stop()


def test_upkeep_counts_what_it_joined_and_that_a_round_failed(lab: Lab) -> None:
    for number in range(10):
        lab.land(story(f"run-{number}"))
    settings = load_settings(root=lab.lake.uri)
    stop, rounds = threading.Event(), upkeep_rounds()
    turns = iter([1, 2])

    def round_() -> list[object]:
        if next(turns) == 1:
            return list(maintain_lake(lab.lake, upkeep_rules(settings)))
        stop.set()
        raise OSError("gone")

    keep_going(round_, 0.0, stop, rounds)  # type: ignore[arg-type]
    found = samples(rounds.metrics())
    assert value(found, "trajlake_maintain_compacted_files_total", table="events") == 10
    assert value(found, "trajlake_maintain_rounds_total", result="done") == 1
    assert value(found, "trajlake_maintain_rounds_total", result="failed") == 1
    assert value(found, "trajlake_maintain_ready") == 0


def test_a_taken_port_costs_the_metrics_and_not_the_work() -> None:
    first = serve_beside("127.0.0.1", 0, dict, bytes)
    assert first is not None
    try:
        assert serve_beside("127.0.0.1", int(first.address.rsplit(":", 1)[1]), dict, bytes) is None
    finally:
        first.stop()


def test_the_dashboard_tells_tables_held_batches_and_what_waits_for_curation(lab: Lab) -> None:
    from trajlake.expectations.suites.suite import read_suite

    lab.land(story("run-a"))
    assert unjudged_seconds(LakeTables(lab.lake), 0.0) is None, "nobody curates here"
    lab.rules = type(lab.rules)(lab.rules.policies, read_suite(FAILS_ALWAYS, "publication"))
    lab.curate()
    keeper = BoardKeeper(open_lake(lab.lake.uri, storage_options={}))
    watch = LakeWatch(lab.lake, keeper)
    watch.refresh()
    found = samples(watch.metrics())
    assert value(found, "trajlake_lake_held_runs") == 1
    assert value(found, "trajlake_lake_held_batches") == 1
    assert value(found, "trajlake_lake_held_since_timestamp_seconds") == pytest.approx(lab.now_us / 1e6)
    assert value(found, "trajlake_lake_table_files", table="events") == 1
    assert value(found, "trajlake_lake_table_version", table="events") == lab.lake.open("events").version()
    assert value(found, "trajlake_lake_unjudged_seconds") == 0
    lab.land(story("run-b"))
    later = (datetime.now(UTC) + timedelta(minutes=5)).timestamp()
    assert unjudged_seconds(LakeTables(lab.lake), later) == pytest.approx(300, abs=120)


def test_figures_of_the_lake_are_for_those_who_may_see_all_of_it(lab: Lab) -> None:
    lab.land(story("run-a"))
    lake = open_lake(lab.lake.uri, storage_options={})
    token = "t" * 20
    with TestClient(make_app(lake, access=Access(token), refresh_s=3600), base_url="http://localhost") as reader:
        assert reader.get("/metrics").status_code == 401
        answer = reader.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert value(samples(answer.text), "trajlake_dashboard_ready") == 1
    with TestClient(make_app(lake, access=Access(tenant="acme"), refresh_s=3600), base_url="http://localhost") as own:
        assert own.get("/metrics").status_code == 404
