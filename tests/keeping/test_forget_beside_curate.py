"""Erasure beside curation and exports: whatever comes between whose steps, the subject goes and stays away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from tests.curate.lab import Lab, reward, story
from tests.keeping.conftest import RunCommand
from tests.landkit.events import Sent, event
from tests.landkit.killed import Killed, kill_at
from trajlake.expectations.progress import Silent
from trajlake.exporting.check import check
from trajlake.exporting.erased import ExportError
from trajlake.exporting.export import Plan, export
from trajlake.exporting.manifest import read_manifest
from trajlake.reading.training import TrainingZone
from trajlake.sinks.reports import read_manifest as registered
from trajlake.streams.curate.commit import APP, Effects
from trajlake.streams.keeping.forget import forget, request, resume
from trajlake.streams.keeping.proof import prove_absence

SUBJECT = "person-381"
NEEDLES = [SUBJECT, "p-1", "p-2", "p-3"]


def consent(state: str, number: int) -> Sent:
    data = {"subject_id": SUBJECT, "purpose": "train", "state": state}
    return event("consent.changed", None, None, data, id=f"consent-{number}")


def of_subject(run: str) -> list[Sent]:
    return story(run, start={"subject_id": SUBJECT}, text="what the person wrote", steps=1)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lake with a published run of the subject, one that is about to be judged, and runs of others beside both."""
    lab = Lab(tmp_path / "lake")
    lab.land([consent("granted", 1), *of_subject("p-1"), *story("q-1", steps=1)])
    lab.curate()
    assert set(lab.current()) == {"p-1", "q-1"}
    lab.land([*of_subject("p-2"), *story("q-2", steps=1), reward("q-1", "late", 0.5)])
    return lab


def erase(lab: Lab, on_step: Callable[[str], None] = lambda step: None) -> None:
    forget(lab.lake, request(lab.lake, "acme", subject_id=SUBJECT), on_step)


def once(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Do something just before a step is taken for the first time."""
    done: list[str] = []

    def on_step(taken: str) -> None:
        if taken == step and not done:
            done.append(step)
            act()

    on_step.done = done  # type: ignore[attr-defined]
    return on_step


def assert_gone(lab: Lab, *others: str) -> None:
    proof = prove_absence(lab.lake, NEEDLES)
    assert proof.absent, (proof.mentions, proof.unreadable)
    lab.curate()
    assert set(lab.current()) == set(others)
    assert lab.curate() == []
    assert prove_absence(lab.lake, NEEDLES).absent


@pytest.mark.parametrize("step", ["1 curation", "2 taken out", "3 trajectories", "4 reports", "5 publications"])
def test_G17_an_erasure_between_two_steps_of_a_publication_leaves_nothing(lab: Lab, step: str, tmp_path: Path) -> None:
    manifest = export(TrainingZone(lab.lake), Plan("chat"), tmp_path / "out")
    register(lab, tmp_path / "out")
    # The subject withdraws, so that the pass takes a run out too.
    lab.land([consent("withdrawn", 2)])
    on_step = once(step, lambda: erase(lab))
    lab.on_step = on_step
    lab.curate()
    assert on_step.done  # type: ignore[attr-defined]
    lab.on_step = lambda step: None
    assert_gone(lab, "q-1", "q-2")
    assert registered(lab.lake, f"{manifest.manifest_id}.erased.json") is not None


@pytest.mark.parametrize(
    "step",
    [
        "2 find", "3 fence runs", "3 fence curation", "3 fence trajectories", "5 note", "6 rewrite runs",
        "curation: commit", "trajectories: commit", "7 register", "9 old files curation", "9 old files trajectories",
        "10 done",
    ],
)  # fmt: skip
def test_G17_a_publication_between_two_steps_of_an_erasure_brings_nothing_back(lab: Lab, step: str) -> None:
    seen: list[str] = []
    curator = lab.curator()

    def publish() -> None:
        seen.extend(f"{done.cause}" for done in curator.run_once())

    on_step = once(step, publish)
    erase(lab, on_step)
    assert on_step.done  # type: ignore[attr-defined]
    assert "new" in seen
    lab.curate()
    assert_gone(lab, "q-1", "q-2")


def test_a_publication_that_was_decided_before_and_held_nobody_else_is_closed_without_rows(lab: Lab) -> None:
    lab.curate()
    lab.land(of_subject("p-3"))

    lab.on_step = kill_at("3 trajectories")
    with pytest.raises(Killed):
        lab.curate()
    lab.on_step = lambda step: None
    erase(lab)
    assert_gone(lab, "q-1", "q-2")
    effects = Effects(lab.lake)
    effects.open()
    assert effects.undone() is None
    assert effects.publications.landed(APP) == effects.decided()


def register(lab: Lab, out: Path) -> None:
    from trajlake.sinks.reports import write_manifest

    manifest = read_manifest((out / "manifest.json").read_bytes())
    write_manifest(lab.lake, f"{manifest.manifest_id}.runs.parquet", (out / "runs.parquet").read_bytes())
    write_manifest(lab.lake, f"{manifest.manifest_id}.json", manifest.to_json())


def test_a_registered_export_says_what_was_erased_and_names_nobody(
    lab: Lab, tmp_path: Path, run_command: RunCommand
) -> None:
    out = tmp_path / "out"
    export(TrainingZone(lab.lake), Plan("chat"), out)
    register(lab, out)
    named = tmp_path / "named"
    export(TrainingZone(lab.lake), Plan("chat", where=f"subject_id = '{SUBJECT}'"), named)
    register(lab, named)
    erase(lab)
    resume(lab.lake)
    assert_gone(lab, "q-1", "q-2")
    listed = run_command("manifest", "list", "--json", "--root", lab.lake.uri)
    assert [(row["runs"], row["erased_runs"]) for row in orjson.loads(listed.stdout)] == [(2, 1)]
    checked = run_command("manifest", "check", str(out), "--json", "--root", lab.lake.uri)
    assert checked.exit_code == 1
    assert [row["run_id"] for row in orjson.loads(checked.stdout)["erased"]] == ["p-1"]
    # The second one's condition named the subject: of it only the count stands in the register.
    manifest = read_manifest((named / "manifest.json").read_bytes())
    assert registered(lab.lake, f"{manifest.manifest_id}.json") is None
    assert orjson.loads(registered(lab.lake, f"{manifest.manifest_id}.erased.json") or b"{}")["runs"] == 1


@pytest.mark.parametrize("step", ["3 fence trajectories", "6 rewrite trajectories", "7 register", "8 snapshots"])
def test_an_export_that_is_registered_while_an_erasure_runs_is_cleared_or_refused(
    lab: Lab, tmp_path: Path, run_command: RunCommand, step: str
) -> None:
    out = tmp_path / "out"
    said: list[Any] = []
    arguments = ("export", "chat", str(out), "--root", lab.lake.uri)
    erase(lab, once(step, lambda: said.append(run_command(*arguments))))
    assert said[0].exit_code == 0
    assert prove_absence(lab.lake, NEEDLES).absent
    manifest = read_manifest((out / "manifest.json").read_bytes())
    standing = check(TrainingZone(lab.lake), manifest, pl.read_parquet(out / "runs.parquet"))
    assert [row["run_id"] for row in standing.erased] == (["p-1"] if step < "7" else [])


def test_an_erasure_that_comes_while_an_export_is_written_stops_it(lab: Lab, tmp_path: Path) -> None:
    class Act(Silent):
        def reach(self, done: int, total: int | None = None) -> None:
            erase(lab)

    with pytest.raises(ExportError, match="an erasure took 1 of its runs"):
        export(TrainingZone(lab.lake), Plan("chat"), tmp_path / "out", progress=Act())
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_an_erasure_that_comes_before_an_export_is_registered_takes_both_away(
    lab: Lab, tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trajlake.sinks.reports as reports

    write = reports.write_manifest

    def write_late(lake: Any, name: str, content: bytes) -> str:
        if name.endswith(".runs.parquet"):
            erase(lab)
        return write(lake, name, content)

    monkeypatch.setattr(reports, "write_manifest", write_late)
    done = run_command("export", "chat", str(tmp_path / "out"), "--root", lab.lake.uri)
    assert done.exit_code == 1
    assert "an erasure took 1 of its runs" in done.stderr
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    assert_gone(lab, "q-1", "q-2")
