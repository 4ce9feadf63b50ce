"""Training sets: right for their consumer, the same bytes again, and revoked when their runs are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.curate.lab import OPEN, Lab, policies, reward, story
from tests.landkit.events import Sent, event
from trajlake.exporting.check import check
from trajlake.exporting.export import ExportError, Plan, export, export_again
from trajlake.exporting.manifest import ManifestError, read_manifest
from trajlake.reading.training import TrainingZone, WhereError
from trajlake.sinks.reports import manifest_names, write_manifest
from trajlake.sinks.reports import read_manifest as registered
from trajlake.streams.deepscan.presidio import Detector
from trajlake.streams.deepscan.scanner import Scanner
from trajlake.transforms.exporters.registry import FORMATS

TOKENS = {"prompt_token_ids": [5, 6], "completion_token_ids": [7, 8], "logprobs": [-0.5, -0.25], "loss_mask": [1, 0]}


def attempts(task: str, scores: list[float | None]) -> list[Sent]:
    """Attempts of one task, each with its reward."""
    sent = []
    for number, score in enumerate(scores):
        facts = {"task_id": task, "group_id": f"group-{task}", "attempt_id": str(number)}
        sent += story(f"{task}-{number}", start=facts, reward=score, text=task, steps=1 + number)
    return sent


def with_tokens(run: str, **tokens: Any) -> list[Sent]:
    return [
        event("run.started", run, 1, {"input": "task", "tokenizer_id": "tok"}),
        event("model.responded", run, 2, {"message": "done", "policy_version": "weights-12", **tokens}),
        event("reward.assigned", run, 3, {"score": 1.0, "annotator_kind": "code"}),
        event("run.ended", run, 4, {"end_state": "completed", "success": True}),
    ]


@pytest.fixture
def zone(lab: Lab) -> Lab:
    """Groups with and without spread, missing rewards, a fork, a compaction, a sub-agent, tokens that fit or do not."""
    fork = story("fork", steps=1, start={"forked_from_id": "t1-0"})
    copied = event("model.responded", "fork", 2, {"message": "from before", "is_copied_context": True})
    moved = [one._replace(value=orjson.dumps(orjson.loads(one.value or b"") | {"sequence": 2 + n, "id": f"fork-{n}"}))
             for n, one in enumerate(fork[1:], start=1)]  # fmt: skip
    lab.land(
        [
            *attempts("t1", [0.0, 1.0, None]),
            *attempts("t2", [1.0, 1.0]),
            *attempts("t3", [None]),
            fork[0], copied, *moved,
            event("run.started", "long", 1, {"input": "task"}),
            event("model.responded", "long", 2, {"message": "before"}),
            event("context.compacted", "long", 3, {"summary": "so far"}),
            event("model.responded", "long", 4, {"message": "after"}),
            event("run.ended", "long", 5, {"end_state": "completed"}),
            *with_tokens("tokens", **TOKENS),
            *with_tokens("short", **TOKENS | {"logprobs": [-0.5]}),
            *with_tokens("plain"),
        ]
    )  # fmt: skip
    lab.curate()
    return lab


def made(lab: Lab, out: Path, name: str, **plan: Any) -> tuple[list[dict[str, Any]], Any]:
    """Rows of an export, and its manifest."""
    manifest = export(TrainingZone(lab.lake), Plan(name, **plan), out)
    rows: list[dict[str, Any]] = []
    for file in manifest.files:
        path = out / file.name
        if path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
        else:
            rows += [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert len(rows) == manifest.rows
    return rows, manifest


def test_trl_sft_trains_each_token_once(zone: Lab, tmp_path: Path) -> None:
    rows, _ = made(zone, tmp_path / "out", "trl-sft")
    by_run = {(row["run_id"], row["segment"]): row for row in rows}
    fork = by_run["fork", 0]
    assert [m["content"] for m in fork["prompt"] if m["role"] == "assistant"] == ["from before"]
    assert fork["completion"][0]["content"] == "hello 0"
    assert [m["content"] for m in by_run["long", 0]["completion"]] == ["before"]
    assert by_run["long", 1]["prompt"] == [dict(by_run["long", 1]["prompt"][0], role="user", content="so far")]
    assert [m["content"] for m in by_run["long", 1]["completion"]] == ["after"]
    first = by_run["t1-0", 0]
    assert [m["role"] for m in first["prompt"] + first["completion"]] == ["user", "assistant", "tool"]
    call = first["completion"][0]["tool_calls"][0]
    assert (call["function"], first["completion"][1]["tool_call_id"]) == (
        {"name": "look", "arguments": '{"at":1}'},
        call["id"],
    )
    assert isinstance(first["tools"], str)
    assert json.loads(first["tools"])[0]["function"]["name"] == "look"
    decisions = [m["content"] for row in rows for m in row["completion"] if m["role"] == "assistant"]
    assert len(decisions) == sum(row["trained_step_count"] for row in zone.current().values())


def test_whole_conversations_leave_out_what_they_cannot_mark(zone: Lab, tmp_path: Path) -> None:
    rows, manifest = made(zone, tmp_path / "out", "trl-sft-messages")
    assert "fork" not in {row["run_id"] for row in rows}
    assert manifest.left_out == {"copied_context": 1}


def test_preference_pairs_are_the_best_against_the_worst(zone: Lab, tmp_path: Path) -> None:
    [pair], manifest = made(zone, tmp_path / "out", "trl-preference")
    assert (pair["chosen_run"]["run_id"], pair["rejected_run"]["run_id"]) == ("t1-1", "t1-0")
    assert (pair["score_chosen"], pair["score_rejected"], pair["group_size"]) == (1.0, 0.0, 3)
    assert [m["role"] for m in pair["prompt"]] == ["user"]
    assert manifest.groups == {"all": 3, "single_attempt": 1, "with_missing_rewards": 2, "without_spread": 1}
    assert manifest.left_out["no_spread"] == 1
    assert manifest.left_out["reward_missing"] == 1
    assert manifest.left_out["single_attempt"] == 1


def test_prompts_keep_all_attempts_null_rewards_and_mark_groups_without_spread(zone: Lab, tmp_path: Path) -> None:
    rows, _ = made(zone, tmp_path / "out", "trl-prompt")
    seen = {row["run_id"]: (row["reward"], row["group_has_spread"], row["group_size"]) for row in rows}
    assert seen["t1-2"] == (None, True, 3)
    assert seen["t2-0"] == seen["t2-1"] == (1.0, False, 2)
    assert seen["t3-0"] == (None, False, 1)


def test_verl_has_one_prompt_a_group_with_every_reward(zone: Lab, tmp_path: Path) -> None:
    rows, _ = made(zone, tmp_path / "out", "verl")
    by_group = {row["extra_info"]["group_id"]: row for row in rows}
    first = by_group["group-t1"]
    assert first["prompt"] == [{"role": "user", "content": "t1"}]
    assert (first["extra_info"]["rewards"], first["extra_info"]["has_spread"]) == ([0.0, 1.0, None], True)
    assert set(first) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert set(first["reward_model"]) == {"style", "ground_truth"}


def test_T11_token_rows_come_from_real_ids_that_line_up_and_from_nothing_else(zone: Lab, tmp_path: Path) -> None:
    [row], manifest = made(zone, tmp_path / "out", "areal")
    assert (row["run_id"], row["input_ids"], row["loss_mask"]) == ("tokens", [5, 6, 7, 8], [0, 0, 1, 0])
    assert (row["logprobs"], row["versions"]) == ([0.0, 0.0, -0.5, -0.25], [-1, -1, 12, 12])
    assert (row["rewards"], row["attention_mask"]) == (1.0, [True] * 4)
    assert manifest.left_out["tokens_unusable"] == 1
    assert manifest.left_out["copied_context"] == 1
    assert manifest.left_out["tokens_missing"] > 5


def test_atif_documents_are_valid_by_its_own_models(zone: Lab, tmp_path: Path) -> None:
    from atif import Trajectory

    rows, _ = made(zone, tmp_path / "out", "atif")
    assert len(rows) == len(zone.current())
    documents = {row["trajectory_id"]: Trajectory.model_validate(row) for row in rows}
    assert [step.is_copied_context for step in documents["fork"].steps if step.source == "agent"] == [True, None]
    [call] = documents["t1-0"].steps[1].tool_calls or []
    assert (call.function_name, call.arguments) == ("look", {"at": 1})
    metrics = documents["tokens"].steps[1].metrics
    assert metrics is not None
    assert metrics.completion_token_ids == [7, 8]
    assert documents["short"].steps[1].metrics is None


def test_chat_lines_weigh_copied_decisions_zero(zone: Lab, tmp_path: Path) -> None:
    rows, _ = made(zone, tmp_path / "out", "chat")
    fork = next(row for row in rows if row["metadata"]["run_id"] == "fork")
    weights = [m["weight"] for m in fork["messages"] if m["role"] == "assistant"]
    assert weights == [0, 1]
    assert "t1-2" in {row["metadata"]["run_id"] for row in rows if row["metadata"]["reward"] is None}


def test_the_table_of_steps_speaks_rlds(zone: Lab, tmp_path: Path) -> None:
    rows, _ = made(zone, tmp_path / "out", "steps")
    episode = [row for row in rows if row["episode_id"] == "t1-1"]
    assert [(row["is_first"], row["is_last"]) for row in episode] == [(True, False), (False, True)]
    assert [row["reward"] for row in episode] == [None, 1.0]
    assert json.loads(episode[0]["observation"])[0]["content"] == "t1"
    assert json.loads(episode[1]["observation"])[0]["role"] == "tool"
    assert [row["reward"] for row in rows if row["episode_id"] == "t1-2"] == [None] * 3


def test_files_load_with_datasets(zone: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    for name, kind in FORMATS.items():
        manifest = export(TrainingZone(zone.lake), Plan(name), tmp_path / name)
        if not manifest.rows:
            continue
        loader = "parquet" if kind.suffix == "parquet" else "json"
        path = str(tmp_path / name / manifest.files[0].name)
        loaded = datasets.load_dataset(loader, data_files=path, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(loaded) == manifest.rows


def test_trl_tells_the_formats_apart(zone: Lab, tmp_path: Path) -> None:
    data_utils = pytest.importorskip("trl.data_utils")
    for name in ("trl-sft", "trl-sft-messages", "trl-preference", "trl-prompt"):
        rows, _ = made(zone, tmp_path / name, name)
        assert all(data_utils.is_conversational(row) for row in rows)


TRL_KEYS = ({"messages"}, {"prompt"}, {"prompt", "completion"}, {"prompt", "chosen", "rejected"})


@pytest.mark.parametrize("name", ["trl-sft", "trl-sft-messages", "trl-preference", "trl-prompt"])
def test_trl_rows_have_the_keys_by_which_trl_tells_formats_apart(zone: Lab, tmp_path: Path, name: str) -> None:
    # The rule of trl.data_utils: these names and no others of the set decide; each is a list of messages that have
    # role and content; a prompt ends with a turn that the
    # model answers, or goes on with.
    deciding = {"messages", "prompt", "completion", "chosen", "rejected", "label"}
    rows, _ = made(zone, tmp_path / "out", name)
    assert rows
    for row in rows:
        keys = deciding & row.keys()
        assert keys in TRL_KEYS
        for key in keys:
            assert all({"role", "content"} <= message.keys() for message in row[key])
            assert row[key]
        if "prompt" in row:
            assert row["prompt"][-1]["role"] in ("user", "tool", "assistant")


@pytest.mark.parametrize("name", FORMATS)
def test_two_exports_of_one_version_are_the_same_bytes(zone: Lab, tmp_path: Path, name: str) -> None:
    first = export(TrainingZone(zone.lake), Plan(name, shard_rows=3), tmp_path / "a")
    zone.land([*story("later"), reward("t1-0", "late", 0.75)])
    zone.curate()
    again = export_again(lambda version: TrainingZone(zone.lake, version), first, tmp_path / "b")
    assert first == again
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    assert all(entry.rows <= 3 for entry in first.files)


WRONG = {
    "reward": "not yes or no", "run_id": "not yes or no", "1": "not yes or no", "reward > 'a'": "does not fit",
    "ended_at > '2026-01-01'": "write times as DATE", "max(reward) > 0.5": "many rows", "count(*) > 1": "many rows",
    "row_number() over () = 1 and reward > 0": "many rows", "sum(reward) over (partition by task_id) > 1": "many rows",
    "reward > (select 1)": "does not fit", "": "is no condition",
}  # fmt: skip


def test_a_condition_selects_and_a_wrong_one_says_what_there_is(zone: Lab, tmp_path: Path) -> None:
    _, manifest = made(zone, tmp_path / "out", "chat", where="reward >= 0.5 and task_id = 't2'")
    assert (manifest.runs, manifest.where) == (2, "reward >= 0.5 and task_id = 't2'")
    with pytest.raises(WhereError, match="no column rewrd"):
        export(TrainingZone(zone.lake), Plan("chat", where="rewrd > 1"), tmp_path / "no")
    with pytest.raises(WhereError):
        export(TrainingZone(zone.lake), Plan("chat", where="reward >"), tmp_path / "no")
    for wrong, why in WRONG.items():
        with pytest.raises(WhereError, match=why):
            export(TrainingZone(zone.lake), Plan("chat", where=wrong), tmp_path / "no")
    with pytest.raises(ExportError, match="no format named"):
        export(TrainingZone(zone.lake), Plan("csv"), tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_manifest_tells_withdrawn_superseded_and_erased_runs(zone: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = export(TrainingZone(zone.lake), Plan("chat"), out)
    write_manifest(zone.lake, f"{manifest.manifest_id}.json", manifest.to_json())
    write_manifest(zone.lake, f"{manifest.manifest_id}.runs.parquet", (out / "runs.parquet").read_bytes())
    runs = pl.read_parquet(out / "runs.parquet")
    assert check(TrainingZone(zone.lake), manifest, runs).ok
    text = OPEN + "deny:\n  - {id: gone, reason: no, when: {skills: [refund]}}\n"
    zone.rules = type(zone.rules)(policies(text), zone.rules.suite)
    zone.land([reward("plain", "late", 0.5)])
    zone.curate()
    zone.lake.open("trajectories").delete("run_id = 'short'")
    standing = check(TrainingZone(zone.lake), manifest, runs)
    assert not standing.ok
    assert {row["run_id"] for row in standing.withdrawn} >= {"t1-0", "t2-1"}
    assert standing.withdrawn[0]["reasons"] == ["deny_rule"]
    assert [row["run_id"] for row in standing.superseded] == ["plain"]
    assert [row["run_id"] for row in standing.erased] == ["short"]
    assert standing.reproducible
    revoked = registered(zone.lake, f"{manifest.manifest_id}.revoked.json")
    assert revoked is not None
    assert {row["run_id"] for row in orjson.loads(revoked)["runs"]} == {row["run_id"] for row in standing.withdrawn}
    later, _ = made(zone, tmp_path / "later", "chat")
    assert not {row["metadata"]["run_id"] for row in later} & {row["run_id"] for row in standing.withdrawn}
    assert sorted(manifest_names(zone.lake))


def test_a_manifest_that_was_changed_is_refused(zone: Lab, tmp_path: Path) -> None:
    manifest = export(TrainingZone(zone.lake), Plan("chat"), tmp_path / "out")
    body = orjson.loads(manifest.to_json())
    body["where"] = "reward > 0"
    with pytest.raises(ManifestError, match="was changed"):
        read_manifest(orjson.dumps(body))
    with pytest.raises(ManifestError, match="is no manifest"):
        read_manifest(b"{}")


def test_the_zone_is_a_lazy_frame_of_what_counts(zone: Lab) -> None:
    import trajlake

    for root in (zone.lake.uri, zone.lake.training_uri):
        found = trajlake.training(root).scan("reward = 1.0").select("run_id").collect()
        assert set(found["run_id"]) >= {"t1-1", "t2-0", "t2-1"}


def test_sql_sees_what_counts_in_the_zone(zone: Lab) -> None:
    from trajlake.reading.query import run_query
    from trajlake.reading.tables import LakeTables

    zone.land([reward("t1-0", "late", 0.75)])
    zone.curate()
    sql = "SELECT reward FROM current_trajectories WHERE run_id = 't1-0'"
    with run_query(LakeTables(zone.lake), sql) as result:
        assert result.read_all().to_pylist() == [{"reward": 0.75}]
    with run_query(LakeTables(zone.lake), "SELECT count(*) AS n FROM current_trajectories") as result:
        assert result.read_all().to_pylist() == [{"n": len(zone.current())}]


def test_a_manifest_names_the_detectors_that_its_runs_passed_and_older_ones_keep_their_id(
    lab: Lab, tmp_path: Path
) -> None:
    lab.land(story("run-a"))
    lab.curate()
    before = export(TrainingZone(lab.lake), Plan("chat"), tmp_path / "before")
    assert "detector_revisions" not in json.loads((tmp_path / "before" / "manifest.json").read_bytes())
    assert read_manifest((tmp_path / "before" / "manifest.json").read_bytes()) == before

    asked = policies(OPEN.rstrip() + "\n        deep_scan: refuse\n")
    lab.rules = type(lab.rules)(asked, lab.rules.suite, scanner=Scanner(Detector(lambda text: [], "d1"), 10**6, 60))
    lab.curate()
    after = export(TrainingZone(lab.lake), Plan("chat"), tmp_path / "after")
    assert after.detector_revisions == ["d1"]
    assert read_manifest((tmp_path / "after" / "manifest.json").read_bytes()) == after


def test_overwrite_takes_the_place_of_an_export_and_of_nothing_else(
    zone: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = TrainingZone(zone.lake)
    out, folder, file = tmp_path / "out", tmp_path / "work", tmp_path / "file"
    export(source, Plan("chat"), out)
    export(source, Plan("steps"), out, overwrite=True)
    assert read_manifest((out / "manifest.json").read_bytes()).format == "steps"
    folder.mkdir()
    for path in (file, folder / "manifest.json", folder / "mine"):
        path.write_text("{}")
    for place in (folder, file, tmp_path):
        with pytest.raises(ExportError, match="is no export"):
            export(source, Plan("chat"), place, overwrite=True)
    monkeypatch.chdir(folder)
    with pytest.raises(ExportError, match=r"^\. is no export"):
        export(source, Plan("chat"), Path(), overwrite=True)
    monkeypatch.chdir(out)
    with pytest.raises(ExportError, match=r"^\. is the folder"):
        export(source, Plan("chat"), Path(), overwrite=True)
    assert (folder / "mine").read_text() == file.read_text() == "{}"


def test_an_export_that_cannot_be_made_again_leaves_the_old_one(zone: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = export(TrainingZone(zone.lake), Plan("chat"), tmp_path / "first")
    export(TrainingZone(zone.lake), Plan("steps"), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    other = replace(manifest, files=[replace(entry, sha256="0" * 64) for entry in manifest.files])
    with pytest.raises(ManifestError, match="gives other bytes now"):
        export_again(lambda version: TrainingZone(zone.lake, version), other, out, overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
