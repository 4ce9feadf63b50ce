"""`trajlake manifest check`: what became of the runs of an export, by the acts that really happen to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.curate.lab import Lab, reward, story, tick
from tests.curate.test_consent import consent
from tests.landkit.events import event
from trajlake.exporting.check import Standing, check
from trajlake.exporting.export import Plan, export
from trajlake.exporting.manifest import Manifest
from trajlake.reading.training import TrainingZone
from trajlake.sinks.reports import read_manifest
from trajlake.streams.keeping.forget import forget, request

RUNS = ["run-kept", "run-of-1", "run-of-2"]


@pytest.fixture
def made(lab: Lab, tmp_path: Path) -> Manifest:
    """An export of three runs, of which two are of people who consent."""
    lab.land([consent(n, "granted", person=f"person-{n}") for n in (1, 2)])
    lab.land(story("run-kept"))
    lab.land([one for n in (1, 2) for one in story(f"run-of-{n}", start={"subject_id": f"person-{n}"})])
    lab.curate()
    manifest = export(TrainingZone(lab.lake), Plan("chat"), tmp_path / "out")
    assert standing(lab, tmp_path, manifest).ok
    return manifest


def standing(lab: Lab, tmp_path: Path, manifest: Manifest) -> Standing:
    return check(TrainingZone(lab.lake), manifest, pl.read_parquet(tmp_path / "out" / "runs.parquet"))


def told(one: Standing) -> dict[str, list[str]]:
    """Runs by what became of them."""
    groups: dict[str, list[dict[str, Any]]] = {
        "withdrawn": one.withdrawn, "erased": one.erased, "superseded": one.superseded,
    }  # fmt: skip
    return {name: [row["run_id"] for row in rows] for name, rows in groups.items() if rows}


def test_a_subject_that_was_forgotten_is_told_as_erased(lab: Lab, tmp_path: Path, made: Manifest) -> None:
    forget(lab.lake, request(lab.lake, "acme", subject_id="person-1"))
    found = standing(lab, tmp_path, made)
    assert (found.ok, found.runs, found.current, told(found)) == (False, 3, 2, {"erased": ["run-of-1"]})
    lab.curate()
    assert told(standing(lab, tmp_path, made)) == {"erased": ["run-of-1"]}


def test_consent_that_was_withdrawn_is_told_as_withdrawn_with_the_reason(
    lab: Lab, tmp_path: Path, made: Manifest
) -> None:
    lab.land([consent(5, "withdrawn", person="person-2")])
    lab.curate()
    found = standing(lab, tmp_path, made)
    assert (found.ok, found.current, told(found)) == (False, 2, {"withdrawn": ["run-of-2"]})
    assert found.withdrawn[0]["reasons"] == ["consent_withdrawn"]


def test_of_a_subject_that_withdrew_and_was_then_forgotten_nothing_is_left_to_tell_but_that(
    lab: Lab, tmp_path: Path, made: Manifest
) -> None:
    lab.land([consent(5, "withdrawn", person="person-2")])
    lab.curate()
    forget(lab.lake, request(lab.lake, "acme", subject_id="person-2"))
    assert told(standing(lab, tmp_path, made)) == {"erased": ["run-of-2"]}


def test_a_later_reward_and_a_late_step_are_told_as_superseded(lab: Lab, tmp_path: Path, made: Manifest) -> None:
    lab.land([reward("run-kept", "late", 0.25)])
    lab.curate()
    found = standing(lab, tmp_path, made)
    assert (found.ok, found.current, told(found)) == (False, 2, {"superseded": ["run-kept"]})
    lab.land([event("model.responded", "run-of-1", 8, {"message": "one more thing"}), tick(), tick(idle_us=0)])
    lab.curate()
    found = standing(lab, tmp_path, made)
    assert told(found) == {"superseded": ["run-kept", "run-of-1"]}
    assert [row["publication"] for row in found.superseded] == [2, 3]


def test_a_run_that_came_back_after_it_was_withdrawn_is_told_as_superseded(
    lab: Lab, tmp_path: Path, made: Manifest
) -> None:
    lab.land([consent(5, "withdrawn", person="person-2")])
    lab.curate()
    lab.land([consent(6, "granted", person="person-2")])
    lab.curate()
    assert told(standing(lab, tmp_path, made)) == {"superseded": ["run-of-2"]}


def test_the_command_names_each_run_and_exits_with_1(lab: Lab, tmp_path: Path, made: Manifest) -> None:
    lab.land([consent(5, "withdrawn", person="person-2"), reward("run-kept", "late", 0.25)])
    lab.curate()
    forget(lab.lake, request(lab.lake, "acme", subject_id="person-1"))
    command = [sys.executable, "-m", "trajlake", "manifest", "check", str(tmp_path / "out"), "--root", lab.lake.uri]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert "0 of 3 runs stand as they stood" in done.stdout
    for line in ("withdrawn: acme run-of-2 (consent_withdrawn)", "erased: acme run-of-1", "superseded: acme run-kept"):
        assert line in done.stdout
    told_as_json = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=False).stdout)
    assert [len(told_as_json[name]) for name in ("withdrawn", "erased", "superseded")] == [1, 1, 1]


def test_an_export_of_a_version_before_a_withdrawal_is_revoked_when_it_is_registered(
    lab: Lab, tmp_path: Path, made: Manifest
) -> None:
    lab.land([consent(5, "withdrawn", person="person-2")])
    lab.curate()
    version = str(made.versions["trajectories"])
    words = ["export", "steps", str(tmp_path / "old"), "--at", version, "--root", lab.lake.uri, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "trajlake", *words], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stderr.splitlines() == [f"1 of its runs were withdrawn since version {version}: it is revoked"]
    noted = read_manifest(lab.lake, f"{json.loads(done.stdout)['id']}.revoked.json")
    assert json.loads(noted or b"{}")["runs"] == [{"tenant_id": "acme", "run_id": "run-of-2", "publication": 2}]
