"""Rules name only metrics that exist, promtool accepts them, every alert is tested and has its page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.looking.conftest import Rows
from tests.operations.commands import parse, shell_lines, yaml_of
from tests.operations.expressions import BUILT_IN, declared_series, known_labels, labels_used, metric_names
from trajlake.expectations.metrics import METRICS, PROCESSES
from trajlake.expectations.reasons import Gap, LogGap, Reason
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.reading.query import run_query
from trajlake.reading.runview import runs_with_verdicts
from trajlake.reading.tables import open_lake
from trajlake.streams.settings import Settings

REPO = Path(__file__).resolve().parents[2]
FOLDER = REPO / "deploy" / "prometheus"
RUNBOOKS = REPO / "docs" / "runbooks"
RULES = [rule for group in yaml_of(FOLDER / "rules.yml")["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
PAGES = sorted(path for path in RUNBOOKS.glob("*.md") if path.stem != "README")
VALUES = {"reason": set(Reason), "code": {*Gap, *LogGap}, "outcome": set(OutcomeClass)}


def promtool(*words: str) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not on the path (Debian: package prometheus)")
    done = subprocess.run([tool, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_rules_name_only_series_labels_and_values_that_there_are(rule: dict[str, Any]) -> None:
    names = metric_names(rule["expr"])
    assert names
    assert names <= declared_series() | RECORDED | BUILT_IN
    assert labels_used(rule["expr"]) <= known_labels()
    for label, values in re.findall(r'(\w+)\s*(?:=~|!~|=|!=)\s*"([^"]*)"', rule["expr"]):
        if label in VALUES:
            assert set(values.split("|")) <= VALUES[label], (label, values)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (job) (rate(trajlake_x_total{reason="up"}[5m])) > 0', {"trajlake_x_total"}),
        ("time() - max(trajlake_y) > 4 * 3600 and trajlake:z:rate5m == 0", {"trajlake_y", "trajlake:z:rate5m"}),
        ("histogram_quantile(0.95, sum by (le) (rate(a_bucket[$__rate_interval])))", {"a_bucket"}),
    ],
)
def test_the_check_of_names_sees_what_an_expression_asks_for(expression: str, names: set[str]) -> None:
    assert metric_names(expression) == names


def test_rules_and_configuration_are_what_promtool_takes() -> None:
    promtool("check", "rules", "rules.yml")
    promtool("check", "config", "--syntax-only", "prometheus.yml")


def test_the_stories_of_the_rules_come_out_as_they_say() -> None:
    promtool("test", "rules", "rules.test.yml")


def test_every_alert_fires_in_one_story_and_is_silent_where_all_is_well() -> None:
    stories = yaml_of(FOLDER / "rules.test.yml")["tests"]
    fired = {test["alertname"] for story in stories for test in story["alert_rule_test"] if test.get("exp_alerts")}
    assert fired == set(ALERTS)
    well = next(story for story in stories if story["name"] == "all is well")
    assert {test["alertname"] for test in well["alert_rule_test"]} == set(ALERTS)
    assert not any(test.get("exp_alerts") for test in well["alert_rule_test"])


def test_series_of_the_stories_are_declared() -> None:
    for story in yaml_of(FOLDER / "rules.test.yml")["tests"]:
        for series in story["input_series"]:
            assert metric_names(series["series"]) <= declared_series() | BUILT_IN
            assert labels_used(series["series"]) <= known_labels()


@pytest.mark.parametrize("name", ALERTS)
def test_alerts_say_how_grave_they_are_and_name_their_page(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook"] == f"docs/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n\nSeverity: {rule['labels']['severity']}.\n")
    for section in ("What it means", "What to look at", "What to type", "Afterwards"):
        assert f"\n## {section}\n" in page
    assert f"[{name}]({name}.md) | {rule['labels']['severity']} |" in (RUNBOOKS / "README.md").read_text()


def test_each_page_has_its_alert() -> None:
    assert {page.stem for page in PAGES} == set(ALERTS)


@pytest.mark.parametrize("page", [*PAGES, RUNBOOKS / "README.md"], ids=lambda page: page.stem)
def test_what_a_page_names_there_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (RUNBOOKS / target).resolve().is_file(), target
    for metric in re.findall(r"\btrajlake_[a-z_]+", text):
        assert any(series.startswith(metric) for series in declared_series()), metric
    for setting in re.findall(r"\bTRAJLAKE_([A-Z_]+)", text):
        assert setting.lower() in Settings.model_fields, setting
    for port in re.findall(r"127\.0\.0\.1:(\d+)", text):
        names = ("health_port", "curate_port", "maintain_port", "roll_port")
        assert int(port) in {9092, *(Settings.model_fields[name].default for name in names)}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = Rows()
    rows.whole_run(0, "run-a")
    rows.refuse(0)
    rows.gap(0, 3, "below_retention")
    root = tmp_path_factory.mktemp("runbooks") / "lake"
    rows.write(root)
    return str(root)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_commands_of_the_program(page: Path, lake: str) -> None:
    lines = [line for line in shell_lines(page) if line[0] == "trajlake"]
    for line in lines:
        given = parse(line[1:])
        if line[1] == "query":
            with run_query(open_lake(lake), given["sql"]) as result:
                assert result is not None
        if line[1] == "runs" and given["where"]:
            runs_with_verdicts(open_lake(lake), given["where"]).collect()


def test_prometheus_asks_every_process_at_its_port() -> None:
    jobs = {
        job["job_name"].removeprefix("trajlake-"): job for job in yaml_of(FOLDER / "prometheus.yml")["scrape_configs"]
    }
    assert set(jobs) == set(PROCESSES)
    ports = {"land": "health_port", "curate": "curate_port", "maintain": "maintain_port", "roll": "roll_port"}
    for process, setting in ports.items():
        (found,) = jobs[process]["dns_sd_configs"]
        assert (found["names"], found["port"]) == ([process], Settings.model_fields[setting].default)
    target = f"dashboard:{parse(['dashboard'])['port']}"
    assert jobs["dashboard"]["static_configs"] == [{"targets": [target]}]
    assert "credentials_file" in jobs["dashboard"]["authorization"]
    assert not any("credentials" in job.get("authorization", {}) for job in jobs.values())


def test_the_checks_can_fail() -> None:
    assert not metric_names("rate(trajlake_land_record_total[5m])") <= declared_series()
    assert "pod" not in known_labels()
    with pytest.raises(Exception, match="No such option"):
        parse(["land", "--no-such-option"])
    with pytest.raises(AssertionError):
        parse(["lnad"])
    assert METRICS
