"""`trajlake import`: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest


def trajlake(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trajlake", "import", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, session: Any) -> Path:
    log = session("s1")
    log.user("q")
    log.assistant("a")
    lines = [json.dumps(record) for record in log.records]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/good.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "runs/notes.md").write_text("# notes\n")
    return tmp_path


def test_a_dry_run_says_what_would_be_published_and_needs_no_kafka(folder: Path) -> None:
    done = trajlake("runs", "--dry-run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "good.jsonl\tclaude-code\t1\t3\t3\t0\t0" in done.stdout
    assert "3 events would be published" in done.stdout
    assert "notes.md: skipped, looks like text that is not JSON" in done.stderr
    assert not (folder / "lake").exists()


def test_events_can_be_written_to_a_file_or_to_stdout(folder: Path) -> None:
    done = trajlake("runs", "--to-jsonl", "out.jsonl", "--tenant", "acme", "--skill", "desk", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = (folder / "out.jsonl").read_bytes().splitlines()
    events = [orjson.loads(line) for line in lines]
    assert [orjson.dumps(event) for event in events] == lines
    assert [event["type"] for event in events] == ["agent.run.started", "agent.model.responded", "agent.run.ended"]
    assert {event["tenantid"] for event in events} == {"acme"}
    assert events[0]["data"]["skill"] == {"name": "desk"}
    piped = trajlake("runs", "--to-jsonl", "-", "--tenant", "acme", "--skill", "desk", cwd=folder)
    assert piped.stdout.encode().splitlines() == lines


def test_json_has_every_file_with_its_numbers_and_problems(folder: Path) -> None:
    with (folder / "runs/good.jsonl").open("a") as out:
        out.write("nope\n")
    done = trajlake("runs", "--dry-run", "--json", cwd=folder)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["ok"], report["landed"]) == (False, None)
    assert report["totals"] == {"runs": 1, "events": 3, "new": 3, "known": 0, "failed": 1, "kept": 0}
    good, notes = sorted(report["files"], key=lambda found: found["file"])
    assert good["problems"][0] | {"reason": ""} == {
        "file": "good.jsonl",
        "place": "line 3",
        "reason": "",
        "kept": False,
    }
    assert (notes["format"], notes["failed"]) == (None, 0)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere", "--dry-run"], "nowhere: there is no such file or folder"),
        (["runs", "--dry-run", "--format", "nope"], "tau-bench, atif, claude-code"),
        (["runs", "--dry-run", "--tenant", "a/b"], "--tenant"),
        (["runs", "--dry-run", "--tenant", "null"], "--tenant"),
        (["runs", "--dry-run", "--wait"], "--wait"),
        ([], "PATH"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_is_wrong(args: list[str], says: str, folder: Path) -> None:
    done = trajlake(*args, cwd=folder)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_named_file_of_no_known_format_exits_1(folder: Path) -> None:
    done = trajlake("runs/notes.md", "--dry-run", cwd=folder)
    assert done.returncode == 1
    assert "notes.md: file: looks like text that is not JSON" in done.stderr


def test_a_reader_that_goes_away_is_no_error_of_the_files(folder: Path) -> None:
    line = f"{sys.executable} -m trajlake import runs --to-jsonl - | head -c 1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=folder, timeout=60, check=False)
    assert "good.jsonl" not in done.stderr


@pytest.mark.integration
def test_events_go_to_kafka_once_and_waiting_without_a_lander_says_so(
    folder: Path, broker: str, make_topic: Callable[..., str]
) -> None:
    env = {"TRAJLAKE_EVENTS_TOPIC": make_topic(1)}
    where = ("--bootstrap-servers", broker)
    first = trajlake("runs", *where, cwd=folder, **env)
    assert first.returncode == 0, first.stderr
    assert "3 events published, 0 known before" in first.stdout
    again = trajlake("runs", *where, "--json", cwd=folder, **env)
    assert json.loads(again.stdout)["totals"] | {} == {
        "runs": 1, "events": 3, "new": 0, "known": 3, "failed": 0, "kept": 0
    }  # fmt: skip
    with (folder / "runs/good.jsonl").open("a") as out:
        out.write('{"type":"user","uuid":"x","sessionId":"s1","message":{"role":"user","content":"more"}}\n')
    waited = trajlake("runs", *where, "--wait", "--wait-timeout-s", "0.5", "--json", cwd=folder, **env)
    assert waited.returncode == 1
    assert "is `trajlake land` running" in waited.stderr
    assert json.loads(waited.stdout)["totals"]["new"] == 1


@pytest.mark.integration
def test_without_a_broker_the_command_says_so_in_one_line(folder: Path) -> None:
    done = trajlake("runs", "--bootstrap-servers", "127.0.0.1:1", cwd=folder)
    assert done.returncode == 1
    assert "does not answer" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
