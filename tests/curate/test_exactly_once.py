"""Curation that is broken off at any step, or done by two at a time: nothing is published twice, nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.curate.lab import OPEN, Lab, policies, reward, shipped, story
from tests.curate.test_consent import PERSON, consent
from trajlake.sinks.errors import StaleWriter
from trajlake.sinks.maintenance import UpkeepRules, maintain_table
from trajlake.streams.curate.curator import Curator, Limits

DENY_B = "deny:\n  - {id: no-b, reason: not b, when: {skills: [b]}}\n"


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", ["1 curation", "2 taken out", "3 trajectories", "4 reports", "5 publications"])
def test_killed_at_any_step_the_next_start_ends_the_same(lab: Lab, tmp_path: Path, step: str) -> None:
    other = Lab(tmp_path / "undisturbed")
    closed = OPEN + DENY_B

    def die(name: str) -> None:
        if name == step:
            raise Killed

    def go(one: Lab, disturbed: bool) -> None:
        one.land([*story("run-a"), *story("run-b", start={"skill": {"name": "b"}}), *story("none", steps=0)])
        _curate(one, die if disturbed else None)
        one.rules = type(one.rules)(policies(closed), one.rules.suite)
        one.land([*story("run-c"), reward("run-a", "late", 0.5)])
        _curate(one, die if disturbed else None)

    go(lab, True)
    go(other, False)
    for name in ("curation", "trajectories", "publications"):
        assert _sorted(lab.rows(name)) == _sorted(other.rows(name)), name
    assert set(lab.current()) == {"run-a", "run-c"}


PASS_THAT_KILLS_ITSELF = """
import os, signal, sys
from pathlib import Path
from tests.curate.lab import Lab
lab = Lab(Path(sys.argv[1]))
lab.on_step = lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == sys.argv[2] else None
lab.curate()
"""


@pytest.mark.parametrize("step", ["1 curation", "3 trajectories", "5 publications"])
def test_a_process_killed_with_9_at_a_step_leaves_a_lake_that_the_next_completes(lab: Lab, step: str) -> None:
    lab.land([*story("run-a"), *story("run-b"), *story("none", steps=0)])
    command = [sys.executable, "-c", PASS_THAT_KILLS_ITSELF, lab.lake.uri, step]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lab.curate()
    assert sorted(row["run_id"] for row in lab.rows("trajectories")) == ["run-a", "run-b"]
    assert sorted((row["run_id"], row["verdict"]) for row in lab.rows("curation")) == [
        ("none", "refused"), ("run-a", "published"), ("run-b", "published"),
    ]  # fmt: skip
    assert [row["publication"] for row in lab.rows("publications")] == [1]
    assert lab.curate() == []


def test_killed_while_withdrawn_runs_leave_file_by_file_the_rest_leaves_later(lab: Lab) -> None:
    """Each publication is a file, and a run that got late rewards stands in several."""
    lab.limits = Limits(batch_steps=2)
    lab.land([*story("run-a"), *story("run-b", start={"skill": {"name": "b"}}), *story("run-c")])
    lab.curate()
    for number in range(3):
        lab.land([reward("run-b", f"late-{number}", number / 4)])
        lab.curate()
    assert sum(row["run_id"] == "run-b" for row in lab.rows("trajectories")) == 4
    lab.rules = type(lab.rules)(policies(OPEN + DENY_B), lab.rules.suite)
    curator = lab.curator()
    files = 0

    def die(path: str) -> None:
        nonlocal files
        files += path.startswith("2 taken out: ")
        if files == 3:
            raise Killed

    lab.on_step = die
    with pytest.raises(Killed):
        list(lab.curator().run_once())
    left = sum(row["run_id"] == "run-b" for row in lab.rows("trajectories"))
    assert 0 < left < 4
    lab.on_step = lambda step: None
    lab.curate()
    assert [(row["withdrawn"], row["steps"]) for row in lab.rows("trajectories") if row["run_id"] == "run-b"] == [
        (True, None)
    ]
    assert set(lab.current()) == {"run-a", "run-c"}
    assert list(curator.run_once()) == []


def test_of_two_curators_at_a_time_one_is_refused_and_each_run_is_published_once(lab: Lab) -> None:
    lab.land([*story("run-a"), *story("run-b")])
    lab.limits = Limits(batch_steps=2)
    first, second = lab.curator().run_once(), lab.curator().run_once()
    assert next(first).publication == 1
    assert next(second).publication == 2
    with pytest.raises(StaleWriter):
        list(first)
    assert list(second) == lab.curate() == []
    assert sorted(row["run_id"] for row in lab.rows("trajectories")) == ["run-a", "run-b"]
    assert sorted(row["publication"] for row in lab.rows("publications")) == [1, 2]
    assert sorted(row["run_id"] for row in lab.rows("curation")) == ["run-a", "run-b"]


def test_late_rewards_are_not_lost_to_another_curator_that_took_the_number(lab: Lab) -> None:
    lab.limits = Limits(batch_steps=2)
    lab.land([*story("run-a", reward=0.0), *story("run-b", reward=0.0)])
    lab.curate()
    lab.land([reward("run-a", "late", 0.5), reward("run-b", "late", 0.5)])
    first = lab.curator().run_once()
    assert next(first).cause == "reward"
    lab.rules = type(lab.rules)(policies(OPEN + DENY_B), lab.rules.suite)
    lab.land(story("run-c"))
    # The same number goes to what somebody else publishes meanwhile.
    assert next(lab.curator().run_once()).cause == "new"
    with pytest.raises(StaleWriter):
        list(first)
    lab.curate()
    assert {run: row["reward"] for run, row in lab.current().items()} == {"run-a": 0.5, "run-b": 0.5, "run-c": 1.0}


def test_a_release_beside_a_service_at_work_takes_effect(lab: Lab) -> None:
    lab.rules = type(lab.rules)(lab.rules.policies, shipped())
    lab.land([one for n in range(24) for one in story(f"run-{n}", end={"end_state": "timeout", "success": None})])
    [held] = lab.curate()
    assert held.held == 24
    lab.land([*story("other-a"), *story("other-b")])
    lab.limits = Limits(batch_steps=2)
    service = lab.curator().run_once()
    interrupted: list[int] = []

    def meanwhile(step: str) -> None:
        if step == "1 curation" and not interrupted:
            interrupted.append(next(service).publication)

    lab.limits = Limits()
    operators = Curator(lab.lake, lab.rules, lab.limits, lambda: lab.now_us, meanwhile)
    [released] = list(operators.release(held.publication, "kim"))
    assert (interrupted, released.publication, released.published) == ([2], 3, 24)
    with pytest.raises(StaleWriter):
        list(service)
    lab.curate()
    assert len(lab.current()) == 26


def test_what_was_published_after_a_withdrawal_stays_when_a_slow_curator_comes_to_its_end(lab: Lab) -> None:
    lab.land([consent(0, "granted"), *story("run-a", start={"subject_id": PERSON})])
    lab.curate()
    lab.land([consent(1, "withdrawn")])

    def meanwhile(step: str) -> None:
        if step == "2 taken out":
            # Another one completes the withdrawal, and publishes again what is allowed again by then.
            lab.land([consent(2, "granted")])
            lab.curate()

    list(Curator(lab.lake, lab.rules, lab.limits, lambda: lab.now_us, meanwhile).run_once())
    assert [verdict for verdict, _ in lab.verdicts("run-a")] == ["published", "withdrawn", "published"]
    assert set(lab.current()) == {"run-a"}


def _curate(lab: Lab, die: Any) -> None:
    """One pass; broken off at the step, and then one by a new process."""
    lab.on_step = die or (lambda step: None)
    try:
        lab.curate()
    except Killed:
        lab.on_step = lambda step: None
        lab.curate()


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    moving = ("runs_version", "steps_version", "rewards_version", "trajectories_version")
    return sorted(repr({key: value for key, value in row.items() if key not in moving}) for row in rows)


def test_a_batch_that_was_decided_takes_effect_however_large_it_is(lab: Lab) -> None:
    lab.limits = Limits(run_max_bytes=1_000)
    lab.land([one for number in range(8) for one in story(f"run-{number}")])

    def die(step: str) -> None:
        if step == "3 trajectories":
            raise Killed

    lab.on_step = die
    with pytest.raises(Killed):
        lab.curate()
    lab.on_step = lambda step: None
    lab.curate()
    assert set(lab.current()) == {f"run-{number}" for number in range(8)}


def test_a_withdrawn_run_leaves_the_file_that_compaction_makes_meanwhile(lab: Lab) -> None:
    lab.limits = Limits(batch_steps=2)
    lab.land([*story("run-a"), *story("run-b", start={"skill": {"name": "b"}}), *story("run-c")])
    lab.curate()
    compacted = 0

    def compact(step: str) -> None:
        nonlocal compacted
        if step == "2 taken out: trajectories: commit" and not compacted:
            before = len(lab.lake.open("trajectories").file_uris())
            maintain_table(lab.lake, "trajectories", UpkeepRules(least_files=2, checkpoint_every=1))
            compacted = before - len(lab.lake.open("trajectories").file_uris())

    lab.rules = type(lab.rules)(policies(OPEN + DENY_B), lab.rules.suite)
    lab.on_step = compact
    lab.curate()
    assert compacted > 0
    assert [(row["withdrawn"], row["steps"]) for row in lab.rows("trajectories") if row["run_id"] == "run-b"] == [
        (True, None)
    ]
    assert set(lab.current()) == {"run-a", "run-c"}
