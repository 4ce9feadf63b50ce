"""A public file of agent runs, from the file to training sets: right attempts, groups and rewards."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.curate.lab import Lab
from tests.landkit.events import Sent
from trajlake.exporting.export import Plan, export
from trajlake.reading.training import TrainingZone
from trajlake.streams.importing.intake import import_files

FILE = "trajectories/tau_bench_airline_120.json"


@pytest.fixture(scope="module")
def file(cases: Path) -> Path:
    path = cases / FILE
    if not path.is_file():
        pytest.skip("the file of tau-bench runs is not here")
    return path


@pytest.fixture(scope="module")
def published(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The file imported, landed and curated."""
    lab = Lab(tmp_path_factory.mktemp("tau") / "lake")
    sent: list[Sent] = []
    import_files([file], publish=lambda key, value: sent.append(Sent(key, value)), tenant="acme")
    lab.land(sent)
    lab.curate()
    return lab


def in_the_file(file: Path) -> dict[str, list[float]]:
    """Rewards by task, read from the file itself."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for trial in json.loads(file.read_bytes()):
        rewards[str(trial["task_id"])].append(trial["reward"])
    return rewards


def test_120_attempts_come_out_in_complete_groups_with_the_rewards_of_the_file(published: Lab, file: Path) -> None:
    expected = in_the_file(file)
    runs = TrainingZone(published.lake).scan().select("run_id", "task_id", "group_id", "attempt_id", "reward").collect()
    assert len(runs) == 120
    assert runs["group_id"].n_unique() == len(expected) == 30
    by_task = runs.group_by("task_id", "group_id").agg(pl.col("reward").sort(), pl.col("attempt_id").n_unique())
    assert {row["task_id"]: row["reward"] for row in by_task.to_dicts()} == {
        task: sorted(rewards) for task, rewards in expected.items()
    }
    assert by_task["attempt_id"].to_list() == [4] * 30


def test_a_summary_by_task_equals_the_one_computed_from_the_file(published: Lab, file: Path) -> None:
    summary = (
        TrainingZone(published.lake)
        .scan()
        .group_by("task_id")
        .agg(
            pl.len().alias("attempts"), pl.col("reward").mean().alias("mean"), pl.col("step_count").sum().alias("steps")
        )
        .collect()
    )
    steps: dict[str, int] = defaultdict(int)
    for trial in json.loads(file.read_bytes()):
        steps[str(trial["task_id"])] += sum(message["role"] == "assistant" for message in trial["traj"])
    found = {row["task_id"]: (row["attempts"], row["mean"], row["steps"]) for row in summary.to_dicts()}
    expected = in_the_file(file)
    assert found == {task: (len(r), pytest.approx(sum(r) / len(r)), steps[task]) for task, r in expected.items()}


def test_messages_are_those_of_the_file(published: Lab, file: Path, tmp_path: Path) -> None:
    manifest = export(TrainingZone(published.lake), Plan("trl-sft-messages"), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / manifest.files[0].name).to_pylist()
    exported = sorted(_talk(row["messages"]) for row in rows)
    assert exported == sorted(_talk(trial["traj"]) for trial in json.loads(file.read_bytes()))


def _talk(messages: list[dict[str, object]]) -> list[list[str]]:
    return [[str(message["role"]), str(message.get("content") or "")] for message in messages]


def test_preference_pairs_exist_for_exactly_the_tasks_with_both_results(
    published: Lab, file: Path, tmp_path: Path
) -> None:
    manifest = export(TrainingZone(published.lake), Plan("trl-preference", group_by="task"), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / manifest.files[0].name).to_pylist()
    mixed = {task for task, rewards in in_the_file(file).items() if len(set(rewards)) > 1}
    differing = manifest.left_out.get("prompts_differ", 0)
    assert {row["task_id"] for row in rows} <= mixed
    assert len(rows) + differing == len(mixed)
    assert all(row["score_chosen"] > row["score_rejected"] for row in rows)
    assert manifest.groups["without_spread"] == 30 - len(mixed)
