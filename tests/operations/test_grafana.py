"""Dashboards for Grafana ask for nothing but declared metrics, of a data source that can be chosen."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.operations.commands import yaml_of
from tests.operations.expressions import BUILT_IN, declared_series, known_labels, labels_used, metric_names
from tests.operations.test_prometheus import ALERTS, FOLDER, RECORDED, promtool
from trajlake.expectations.metrics import METRICS
from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass

REPO = Path(__file__).resolve().parents[2]
GRAFANA = REPO / "deploy" / "grafana"
BOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (GRAFANA / "dashboards").glob("*.json")}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANELS = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, board in sorted(BOARDS.items())
    for panel in board["panels"]
    if panel["type"] != "row"
]
UNITS = {"short", "s", "cps", "bytes", "Bps", "percentunit"}


@pytest.mark.parametrize("panel", PANELS)
def test_panels_ask_for_series_that_there_are_and_say_what_they_show(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["datasource"] == SOURCE
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["datasource"] == SOURCE
        names = metric_names(target["expr"])
        assert names
        assert names <= declared_series() | RECORDED | BUILT_IN
        assert labels_used(target["expr"]) <= known_labels()
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert label in known_labels()
        for outcome in re.findall(r'outcome=~?"([^"]+)"', target["expr"]):
            assert set(outcome.split("|")) <= set(OutcomeClass)
    for page in re.findall(r"runbook (\w+)", panel["description"]):
        assert page in ALERTS


def test_expressions_are_what_prometheus_takes(tmp_path: Path) -> None:
    rules = []
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                expression = (
                    target["expr"].replace("$__rate_interval", "5m").replace("$tenant", "a").replace("$skill", "b")
                )
                rules.append(
                    {
                        "record": f"{name}:panel{panel['id']}:{target['refId']}",
                        "expr": expression.replace("$skill", "b"),
                    }
                )
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(file))


@pytest.mark.parametrize("name", BOARDS)
def test_boards_are_sound(name: str) -> None:
    board = BOARDS[name]
    assert board["uid"] == f"trajlake-{name}"
    assert board["timezone"] == "utc"
    assert board["editable"] is False
    assert isinstance(board["schemaVersion"], int)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in board["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        )  # fmt: skip
        assert apart, (one, other)
    first, *others = board["templating"]["list"]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    for variable in others:
        assert variable["datasource"] == SOURCE
        metric, label = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
        assert label in METRICS[metric].labels


def test_quality_is_success_among_scorable_runs() -> None:
    (panel,) = [each for each in BOARDS["skills"]["panels"] if each["title"] == "Success among scorable runs"]
    success, scorable = re.findall(r'outcome=~?"([^"]+)"', panel["targets"][0]["expr"])
    assert success == OutcomeClass.SUCCESS
    assert set(scorable.split("|")) == SCORABLE


def test_grafana_finds_its_data_source_and_its_boards() -> None:
    compose = yaml_of(REPO / "docker-compose.yml")["services"]
    mounted = dict(volume.split(":")[:2] for volume in compose["grafana"]["volumes"] if volume.startswith("./"))
    assert mounted == {
        "./deploy/grafana/provisioning": "/etc/grafana/provisioning",
        "./deploy/grafana/dashboards": "/var/lib/grafana/dashboards",
    }
    (source,) = yaml_of(GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == yaml_of(FOLDER / "prometheus.yml")["global"]["scrape_interval"]
    (provider,) = yaml_of(GRAFANA / "provisioning/dashboards/trajlake.yml")["providers"]
    assert provider["options"]["path"] == mounted["./deploy/grafana/dashboards"]
    assert len(BOARDS) == 2
