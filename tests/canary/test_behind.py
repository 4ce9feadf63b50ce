"""Nothing that was marked is found in what is made of the tables: statistics, publications, exports, pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
import pytest

from tests.canary.flock import RUNS, TENANT, Flock
from tests.canary.test_canary import log_with_canaries, sightings, stored
from tests.conftest import Eventually
from tests.curate.lab import OPEN
from tests.dashboard.test_pages import client
from tests.landkit.events import Sent, event
from tests.landkit.kafka import log_of, produce
from tests.landkit.processes import WorkerProcess
from tests.roll.harness import RollProcess, roll_plan
from trajlake.sinks.lake import Lake
from trajlake.streams.land.told import ToldLander
from trajlake.streams.settings import load_settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PUBLISHED = "free"
COMMANDS = (
    ["curate", "--once", "--policies", "policies.yaml", "--json"],
    ["publications", "list", "--json"],
    ["publications", "show", "1"],
    ["export", "chat", "out", "--where", "reward >= 0.5 or reward is null"],
    ["manifest", "list", "--json"],
    ["runs", "--json"],
    ["show", PUBLISHED, "--tenant", TENANT],
    ["show", RUNS[0], "--tenant", TENANT],
    ["quarantine", "list", "--json"],
    ["skills", "--json"],
    ["attention", "--json"],
    ["retro"],
)
PAGES = ("/", "/skills", "/runs", f"/runs/{TENANT}/{PUBLISHED}", f"/runs/{TENANT}/{RUNS[0]}", "/levers", "/causes",
         "/pipeline", "/governance")  # fmt: skip


def run_to_publish(flock: Flock) -> list[Sent]:
    """A whole run without a subject, so that nothing keeps it from the trainers."""
    arguments = orjson.dumps(flock.free_text("arguments")).decode()
    call = {"tool_call_id": "call-1", "function_name": "look", "arguments": arguments}
    told: list[tuple[str, dict[str, Any]]] = [
        ("run.started", {"skill": {"name": "refund", "version": flock.secret("skill version")},
                         "input": f"use {flock.secret('task')} {flock.person('task', digits=True)}"}),
        ("model.responded", {"message": flock.key("message"), "reasoning_content": flock.secret("reasoning"),
                             "tool_calls": [call]}),
        ("tool.returned", {"tool_call_id": "call-1", "content": flock.free_text("result")}),
        ("model.responded", {"message": [{"type": "text", "text": flock.secret("block")}]}),
        ("reward.assigned", {"name": "reward", "annotator_kind": "code", "annotator_id": "tests", "score": 1.0,
                             "explanation": flock.secret("explanation")}),
        ("run.ended", {"end_state": "completed", "success": True, "output": flock.secret("output")}),
    ]  # fmt: skip
    return [event(kind, PUBLISHED, place, data, tenant=TENANT) for place, (kind, data) in enumerate(told, start=1)]


def test_no_canary_is_found_in_what_is_made_of_the_tables(broker: str, tmp_path: Path, eventually: Eventually) -> None:
    root = tmp_path / "lake"
    options = roll_plan(broker, root, partitions=1, log_level="debug")
    flock = Flock()
    produce(broker, options["events_topic"], [*log_with_canaries(flock), *run_to_publish(flock)])
    assert len(flock.canaries) >= 200
    with WorkerProcess(options, until_end=True) as worker:
        assert worker.end(180) == 0, worker.tail()
    said: dict[str, str] = {}
    with RollProcess(options) as roll:
        eventually(roll.ready, 90, "rolling")
        eventually(lambda: "refund" in repr(roll.get("/skills")), 60, "statistics")
        for path in ("/skills", "/metrics", f"/skills/{TENANT}/refund"):
            with urlopen(f"http://127.0.0.1:{roll.port}{path}", timeout=10) as answer:
                said[f"roll {path}"] = answer.read().decode()
        settings = load_settings(**options)
        lander = ToldLander(settings, Lake(str(root)), lambda problem: None)

        def told() -> bool:
            lander.land_all()
            return bool(Lake(str(root)).open("skill_stats").to_pyarrow_table().num_rows)

        eventually(told, 60, "statistics have landed")
    roll.log.seek(0)
    said["roll log"] = roll.log.read()
    for topic in ("stats_topic", "decisions_topic"):
        records, _, _ = log_of(broker, options[topic])
        said[topic] = b"\n".join(value or b"" for value in records.values()).decode("utf-8", "replace")
    (tmp_path / "policies.yaml").write_text(OPEN)
    for words in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "trajlake", *words, "--root", str(root)],
            cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 10), (words, done.stderr)
        said[f"trajlake {' '.join(words)}"] = done.stdout + done.stderr
    with client(root) as reader:
        pages = [*PAGES, *re.findall(r'href="(/(?:skills|runs)/[^"#]+)"', reader.get("/skills").text)]
        for page in pages:
            answer = reader.get(page)
            assert answer.status_code == 200, page
            said[f"page {page}"] = answer.text
    said |= dict(stored(root)) | {f"export {name}": text for name, text in stored(tmp_path / "out")}
    # Each of the parts took part.
    published = Lake(str(root)).open("trajectories").to_pyarrow_table().column("run_id").to_pylist()
    assert PUBLISHED in published
    assert "[redacted:" in (tmp_path / "out" / "data-00000.jsonl").read_text()
    for table in ("curation", "publications", "skill_stats"):
        assert any(f"/{table}/" in place for place in said), table
    assert any("_manifests" in place for place in said)
    assert "refund" in said["roll /metrics"]
    assert "refund" in said["page /skills"]
    assert sightings(said, flock) == []
