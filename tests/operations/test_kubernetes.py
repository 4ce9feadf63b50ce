"""Manifests for Kubernetes: valid by its schema, with no right too many, and true to the program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.operations.commands import parse, yaml_documents, yaml_of
from trajlake import __version__
from trajlake.cli.dashboard import TOKEN_VARIABLE
from trajlake.dashboard.app import OPEN_PATHS
from trajlake.expectations.policies import policy_set, read_policies
from trajlake.streams.children import STOP_S
from trajlake.streams.settings import Settings, load_settings

REPO = Path(__file__).resolve().parents[2]
FOLDER = REPO / "deploy" / "kubernetes"
SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent / "schemas" / "kubernetes-1.37.json").read_text())
"""The strict schemas of Kubernetes 1.37 for the kinds used here, without their prose: unknown fields are refused."""
BASE = FOLDER / "kustomization.yaml"
COMPONENTS = [FOLDER / name / "kustomization.yaml" for name in ("keda", "kueue", "monitoring")]
PORTS = {"land": "health_port", "roll": "roll_port"}
GIVEN_SECRETS = {"trajlake-store", "trajlake-kafka", "trajlake-dashboard"}

Manifest = dict[str, Any]


def resources(kustomization: Path) -> list[Path]:
    return [kustomization.parent / name for name in yaml_of(kustomization)["resources"]]


def manifests(*kustomizations: Path) -> list[Manifest]:
    return [each for one in kustomizations for file in resources(one) for each in yaml_documents(file)]


ALL = manifests(BASE, *COMPONENTS)
PLAIN = manifests(BASE)


def of_kind(*kinds: str) -> list[Manifest]:
    return [each for each in ALL if each["kind"] in kinds]


def called(kind: str, name: str) -> Manifest:
    (found,) = [each for each in of_kind(kind) if each["metadata"]["name"] == name]
    return found


def label(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def pods() -> Iterator[tuple[Manifest, dict[str, Any]]]:
    """Workloads with their pod templates."""
    for each in of_kind("Deployment"):
        yield each, each["spec"]["template"]
    for each in of_kind("CronJob"):
        yield each, each["spec"]["jobTemplate"]["spec"]["template"]


PODS = list(pods())


def problems(manifest: Manifest) -> list[str]:
    """What the schema says against a manifest."""
    name = SCHEMA["kinds"][f"{manifest['kind']} {manifest['apiVersion']}"]
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    found = jsonschema.Draft202012Validator(schema).iter_errors(manifest)
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in found]


@pytest.mark.parametrize("manifest", PLAIN, ids=label)
def test_manifests_are_what_the_schema_of_kubernetes_says(manifest: Manifest) -> None:
    assert problems(manifest) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replica"), 3),
        (("spec", "template", "spec", "containers", 0, "readinessprobe"), {}),
        (("spec", "template", "spec", "terminationGracePeriodSeconds"), "30s"),
        (("spec", "template", "spec", "containers", 0, "securityContext", "runAsNonroot"), True),
    ],
)
def test_a_slip_in_a_manifest_is_seen(path: tuple[str | int, ...], value: Any) -> None:
    changed = json.loads(json.dumps(called("Deployment", "land")))
    place = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert problems(changed)


def test_every_file_belongs_to_a_kustomization_and_every_name_comes_once() -> None:
    listed = {file for one in (BASE, *COMPONENTS) for file in resources(one)}
    assert listed == {file for file in FOLDER.rglob("*.yaml") if file.name != "kustomization.yaml"}
    names = [(each["kind"], each["metadata"]["name"]) for each in ALL]
    assert len(names) == len(set(names))
    for each in ALL:
        if each["kind"] not in ("Namespace", "ResourceFlavor", "ClusterQueue"):
            assert each["metadata"]["namespace"] == "trajlake"
    assert yaml_of(BASE)["images"] == [{"name": "trajlake", "newName": "trajlake", "newTag": __version__}]
    assert {yaml_of(one)["kind"] for one in COMPONENTS} == {"Component"}


@pytest.mark.parametrize(("workload", "template"), PODS, ids=lambda each: label(each) if "kind" in each else "")
def test_pods_have_no_right_that_they_do_not_need(workload: Manifest, template: dict[str, Any]) -> None:
    pod = template["spec"]
    assert pod["automountServiceAccountToken"] is False
    account = called("ServiceAccount", pod["serviceAccountName"])
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == f"trajlake-{workload['metadata']['name']}"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert f"--uid {pod['securityContext']['runAsUser']} " in (REPO / "deploy" / "Dockerfile").read_text()
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
    for volume in pod["volumes"]:
        assert volume.keys() - {"name"} <= {"emptyDir", "secret", "configMap"}
    assert pod["terminationGracePeriodSeconds"] > STOP_S + 1


@pytest.mark.parametrize(("workload", "template"), PODS, ids=lambda each: label(each) if "kind" in each else "")
def test_commands_settings_and_secrets_are_those_of_the_program(
    workload: Manifest, template: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (container,) = template["spec"]["containers"]
    parse(container["args"])
    assert container["args"][0] == workload["metadata"]["name"]
    given: dict[str, str] = {}
    for source in container["envFrom"]:
        if "configMapRef" in source:
            given |= called("ConfigMap", source["configMapRef"]["name"])["data"]
        else:
            assert source["secretRef"]["name"] in GIVEN_SECRETS
    for variable in container.get("env", []):
        given[variable["name"]] = variable.get("value", "")
        if "valueFrom" in variable:
            assert variable["valueFrom"]["secretKeyRef"]["name"] in GIVEN_SECRETS
    ours = {name for name in given if name.startswith("TRAJLAKE_")}
    assert {name.removeprefix("TRAJLAKE_").lower() for name in ours - {TOKEN_VARIABLE}} <= set(Settings.model_fields)
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    for name in ours:
        value = given[name]
        if value.startswith("/etc/"):
            assert any(value.startswith(mount) for mount in mounts), value
        elif name != TOKEN_VARIABLE:
            monkeypatch.setenv(name, value)
    volumes = {volume["name"] for volume in template["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    settings = load_settings()
    assert settings.root == "s3://lake/main"
    assert settings.training_root == "s3://training/main"


def test_no_secret_is_in_the_files_and_all_that_are_asked_for_are_described() -> None:
    assert of_kind("Secret") == []
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in GIVEN_SECRETS:
        assert f"create secret generic {name}" in readme
    for volume in [volume for _, template in PODS for volume in template["spec"]["volumes"] if "secret" in volume]:
        assert volume["secret"]["secretName"] in GIVEN_SECRETS


@pytest.mark.parametrize("name", ["land", "roll", "dashboard"])
def test_probes_and_services_reach_what_answers(name: str) -> None:
    template = called("Deployment", name)["spec"]["template"]
    (container,) = template["spec"]["containers"]
    ((port),) = container["ports"]
    expected = parse(["dashboard"])["port"] if name == "dashboard" else Settings.model_fields[PORTS[name]].default
    assert port["containerPort"] == expected
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["name"]
        assert asked["path"] == ("/ready" if probe == "readinessProbe" else "/live")
        assert asked["path"] in OPEN_PATHS
    (served,) = called("Service", name)["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (expected, port["name"])
    if name != "dashboard":
        assert template["metadata"]["annotations"]["prometheus.io/port"] == str(expected)


def test_selectors_meet_the_pods_that_they_mean() -> None:
    labels = {workload["metadata"]["name"]: template["metadata"]["labels"] for workload, template in PODS}
    for each in of_kind("Deployment", "PodDisruptionBudget", "ServiceMonitor"):
        wanted = each["spec"]["selector"]["matchLabels"]
        name = each["metadata"]["name"].removeprefix("trajlake-")
        assert wanted.items() <= labels[name].items(), label(each)
    for each in of_kind("Service"):
        assert each["spec"]["selector"].items() <= labels[each["metadata"]["name"]].items()
    components = {given["app.kubernetes.io/component"] for given in labels.values()}
    for each in of_kind("NetworkPolicy"):
        wanted = each["spec"]["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component")
        assert wanted is None or wanted in components
        for expression in each["spec"]["podSelector"].get("matchExpressions", []):
            assert set(expression["values"]) <= components


def test_nobody_gets_in_or_out_unless_a_rule_says_so() -> None:
    closed = called("NetworkPolicy", "deny-all")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    named = {port["name"] for _, template in PODS for port in template["spec"]["containers"][0].get("ports", [])}
    for each in of_kind("NetworkPolicy"):
        for rule in each["spec"].get("ingress", []):
            assert rule["from"]
            assert {port["port"] for port in rule["ports"]} <= named
        for rule in each["spec"].get("egress", []):
            assert rule["to"]
            assert rule["ports"]
    settings = called("ConfigMap", "trajlake-settings")["data"]
    kafka = called("NetworkPolicy", "workers-to-kafka")["spec"]["egress"][0]["ports"]
    assert [str(port["port"]) for port in kafka] == [settings["TRAJLAKE_BOOTSTRAP_SERVERS"].rsplit(":", 1)[1]]


def test_policies_in_the_config_map_can_be_used_and_let_nothing_into_training() -> None:
    files = called("ConfigMap", "trajlake-policies")["data"]
    made = policy_set([read_policies(name, text) for name, text in files.items()])
    assert made.revision
    assert all(name.endswith(".yaml") for name in files)


def test_pods_grow_with_the_lag_and_never_beyond_the_partitions() -> None:
    scaled = called("ScaledObject", "land")["spec"]
    settings = called("ConfigMap", "trajlake-settings")["data"]
    assert scaled["scaleTargetRef"]["name"] == "land"
    assert "replicas" not in called("Deployment", "land")["spec"], "the autoscaler sets them"
    assert scaled["minReplicaCount"] == 1
    assert scaled["maxReplicaCount"] == int(settings["TRAJLAKE_EVENTS_PARTITIONS"])
    (trigger,) = scaled["triggers"]
    asked = trigger["metadata"]
    assert trigger["type"] == "kafka"
    assert asked["bootstrapServers"] == settings["TRAJLAKE_BOOTSTRAP_SERVERS"]
    assert asked["topic"] == Settings.model_fields["events_topic"].default
    assert asked["consumerGroup"] == Settings.model_fields["group_id"].default
    assert all(isinstance(value, str) for value in asked.values())
    login = called("TriggerAuthentication", trigger["authenticationRef"]["name"])
    assert {each["name"] for each in login["spec"]["secretTargetRef"]} <= GIVEN_SECRETS


def test_curation_waits_for_its_turn_in_a_queue_that_has_all_it_asks_for() -> None:
    job = called("CronJob", "curate")["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    queue = called("LocalQueue", job["jobTemplate"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"])
    cluster = called("ClusterQueue", queue["spec"]["clusterQueue"])["spec"]
    (group,) = cluster["resourceGroups"]
    (flavor,) = group["flavors"]
    assert called("ResourceFlavor", flavor["name"])
    (container,) = job["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    asked = container["resources"]["requests"].keys()
    assert asked <= set(group["coveredResources"]) == {each["name"] for each in flavor["resources"]}


def test_monitors_name_the_jobs_that_the_rules_look_for() -> None:
    jobs = {job["job_name"] for job in yaml_of(REPO / "deploy/prometheus/prometheus.yml")["scrape_configs"]}
    for each in of_kind("ServiceMonitor"):
        (endpoint,) = each["spec"]["endpoints"]
        job, *others = endpoint["relabelings"]
        assert job == {"targetLabel": "job", "replacement": each["metadata"]["name"]}
        # Only the dashboard refuses to be asked by a pod's address.
        asked = [] if "dashboard" not in job["replacement"] else ["dashboard.trajlake.svc:8765"]
        assert [other["replacement"] for other in others if other["targetLabel"] == "__address__"] == asked
        assert each["metadata"]["name"] in jobs
        service = called("Service", each["metadata"]["name"].removeprefix("trajlake-"))
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
