"""The container set-up says the same as the code. No engine runs in the tests: what can be read is checked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose
from ruamel.yaml import YAML

from tests.operations.commands import parse, yaml_of
from trajlake import __version__
from trajlake.cli.dashboard import TOKEN_VARIABLE
from trajlake.streams.broker.runtime import KAFKA_VERSION
from trajlake.streams.children import STOP_S
from trajlake.streams.settings import Settings
from trajlake.streams.topics import MAX_MESSAGE_BYTES


@pytest.fixture(scope="module")
def compose(repo: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load((repo / "docker-compose.yml").read_text())
    return loaded


OURS = ("land", "roll", "curate", "maintain", "dashboard")
PORTS = {"land": "health_port", "roll": "roll_port", "curate": "curate_port", "maintain": "maintain_port"}


def specified(compose: dict[str, Any]) -> PyCompose:
    """The file as the Compose specification reads it; templates (`x-...`) have done their work by now."""
    plain = {name: part for name, part in compose.items() if not name.startswith("x-")}
    return PyCompose.from_json(json.dumps(plain))


def test_the_file_is_what_the_compose_specification_says(compose: dict[str, Any]) -> None:
    specified(compose).validate()


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ({"restrat": "always"}, "restrat"),
        ({"stop_grace_period": "soon"}, "duration"),
        ({"depends_on": {"land": {"condition": "service_is_well"}}}, "service_is_well"),
        ({"ports": ["many"]}, "many"),
    ],
)
def test_a_slip_in_the_file_is_seen(compose: dict[str, Any], part: dict[str, Any], wrong: str) -> None:
    services = {**compose["services"], "roll": {**compose["services"]["roll"], **part}}
    with pytest.raises(ValueError, match=wrong):
        specified({**compose, "services": services}).validate()


@pytest.mark.parametrize("name", OURS)
def test_our_services_run_commands_of_the_program_and_are_asked_at_their_port(
    compose: dict[str, Any], name: str
) -> None:
    service = compose["services"][name]
    given = parse(service["command"])
    assert service["command"][0] == name
    port = given["port"] if name == "dashboard" else Settings.model_fields[PORTS[name]].default
    (probe,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", service["healthcheck"]["test"][-1])
    assert probe == (str(port), "/live")
    shown = [str(each) for each in service.get("expose", service.get("ports", []))]
    assert [each.rsplit(":", 1)[-1] for each in shown] == [str(port)]


@pytest.mark.parametrize("name", OURS)
def test_our_services_have_no_rights_and_write_nowhere_but_in_memory(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["stop_grace_period"].removesuffix("s")) > STOP_S
    assert service["image"] == f"trajlake:{__version__}"


def test_the_core_stays_small_and_the_rest_comes_by_profile(compose: dict[str, Any]) -> None:
    profiles = {name: service.get("profiles", []) for name, service in compose["services"].items()}
    assert {name for name, given in profiles.items() if not given} == {"kafka", "store", "bucket", "land"}
    assert all("all" in given for given in profiles.values() if given)
    for name, service in compose["services"].items():
        for other in service.get("depends_on", {}):
            assert not profiles[other] or set(profiles[name]) <= set(profiles[other]), (name, other)


def test_files_that_are_mounted_exist_and_cannot_be_changed(compose: dict[str, Any], repo: Path) -> None:
    mounted = [str(volume) for service in compose["services"].values() for volume in service.get("volumes", [])]
    files = [volume for volume in mounted if volume.startswith("./")]
    assert files
    assert {volume.split(":")[0] for volume in mounted if volume not in files} == set(compose["volumes"])
    for volume in files:
        source, _, mode = volume.split(":")
        assert (repo / source).exists(), source
        assert mode == "ro"


def test_prometheus_finds_the_token_that_the_dashboard_asks_for(compose: dict[str, Any], repo: Path) -> None:
    (secret,) = compose["services"]["prometheus"]["secrets"]
    variable = compose["secrets"][secret]["environment"]
    assert compose["services"]["dashboard"]["environment"][TOKEN_VARIABLE] == f"${{{variable}:-}}"
    jobs = {job["job_name"]: job for job in yaml_of(repo / "deploy/prometheus/prometheus.yml")["scrape_configs"]}
    assert jobs["trajlake-dashboard"]["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    (target,) = jobs["trajlake-dashboard"]["static_configs"][0]["targets"]
    assert target.split(":")[0] in parse(compose["services"]["dashboard"]["command"])["name"]
    for job in jobs:
        assert job.removeprefix("trajlake-") in compose["services"]


def test_nothing_calls_home(compose: dict[str, Any]) -> None:
    grafana = compose["services"]["grafana"]["environment"]
    for name in ("REPORTING_ENABLED", "CHECK_FOR_UPDATES", "CHECK_FOR_PLUGIN_UPDATES"):
        assert grafana[f"GF_ANALYTICS_{name}"] == "false"
    assert grafana["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert compose["services"]["store"]["environment"]["MINIO_UPDATE"] == "off"


def test_ports_are_bound_to_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(str(port).startswith("127.0.0.1:") for port in ports)


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert re.fullmatch(r"[a-z/]+:[A-Za-z0-9.-]+", service["image"]), name
        assert not service["image"].endswith(":latest"), name


def test_kafka_is_the_version_and_has_the_limits_of_the_embedded_one(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]
    assert kafka["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert kafka["environment"]["KAFKA_MESSAGE_MAX_BYTES"] == MAX_MESSAGE_BYTES


def test_every_setting_given_to_the_workers_exists_and_no_secret_is_written_down(compose: dict[str, Any]) -> None:
    for name in OURS:
        environment = compose["services"][name]["environment"]
        given = {each for each in environment if each.startswith("TRAJLAKE_")} - {TOKEN_VARIABLE}
        assert {each.removeprefix("TRAJLAKE_").lower() for each in given} <= set(Settings.model_fields)
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN", name) and name != "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION":
                assert re.fullmatch(r"\$\{(STORE_PASSWORD:\?.+|DASHBOARD_TOKEN:-)\}", str(value)), name


def test_services_wait_for_services_that_exist(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            assert other in services, name
            assert wait["condition"] != "service_healthy" or "healthcheck" in services[other], (name, other)


def test_the_image_copies_what_exists_and_runs_as_an_ordinary_user(repo: Path) -> None:
    text = (repo / "deploy" / "Dockerfile").read_text()
    ignored = (repo / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for part in line.split()[:-1]:
            assert (repo / part).exists(), part
            assert f"!{part}" in ignored, f"{part} never reaches the build"
    assert re.search(r"^USER (?!root)\w+$", text, re.MULTILINE)
