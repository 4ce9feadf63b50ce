"""The commands of curation and training sets, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.curate.lab import OPEN, Lab, story
from trajlake.cli.show import _step


def trajlake(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trajlake", *words], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_from_closed_runs_to_a_training_set_and_its_check(lab: Lab, tmp_path: Path) -> None:
    sent = story("run-a", steps=1, start={"task_id": "t"}, text="\x1b[31mred")
    lab.land([*sent, *story("run-none", steps=0)])
    root, policies = lab.lake.uri, tmp_path / "open.yaml"
    policies.write_text(OPEN)
    [done] = [
        json.loads(line)
        for line in trajlake("curate", "--once", "--root", root, "--policies", str(policies), "--json").splitlines()
    ]
    assert (done["published"], done["refused"], done["reasons"]) == (1, 1, {"no_steps": 1})
    page = Path(done["report"]).read_text()
    assert "2 runs judged: 1 published, 0 held, 1 refused, 0 withdrawn." in page
    assert "batch.start_seen" in page
    told = trajlake("publications", "show", "--root", root)
    assert told.startswith("# Publication 1\n")
    assert "no\\_steps" in told
    assert json.loads(trajlake("publications", "show", "1", "--root", root, "--json"))["report"] == done["report"]
    trajlake("publications", "show", "--out", str(tmp_path / "look"), "--root", root)
    assert (tmp_path / "look" / "report.html").read_text() == page
    assert "there is no publication 9" in trajlake("publications", "show", "9", "--root", root, code=1)
    [listed] = json.loads(trajlake("publications", "list", "--root", root, "--json"))
    assert (listed["publication"], listed["cause"], listed["published"]) == (1, "new", 1)
    rows = json.loads(trajlake("runs", "--root", root, "--json"))
    assert {row["run_id"]: row["verdict"] for row in rows} == {"run-a": "published", "run-none": "refused"}
    assert trajlake("runs", "--root", root, "--where", "verdict = 'refused'").count("run-") == 1
    shown = trajlake("show", "run-a", "--root", root)
    assert "calls look" in shown
    assert "in the training zone" in shown
    assert "\x1b" not in shown
    assert "no_steps by sound.no_steps" in trajlake("show", "run-none", "--root", root)
    assert "there is no run" in trajlake("show", "run-x", "--root", root, code=1)
    out = tmp_path / "sft"
    trajlake("export", "trl-sft", str(out), "--root", lab.lake.training_uri)
    assert json.loads(trajlake("manifest", "check", str(out), "--root", root, "--json"))["ok"]
    (out / "data-00000.parquet").write_text("{}")
    trajlake("manifest", "check", str(out), "--root", root, code=1)


def test_wrong_words_get_one_line(lab: Lab, tmp_path: Path) -> None:
    root = lab.lake.uri
    assert trajlake("export", "nothing", str(tmp_path / "o"), "--root", root, code=2).startswith("trajlake: no format")
    assert "is no condition" in trajlake("runs", "--where", "a >", "--root", root, code=2)
    assert "cannot be read" in trajlake("manifest", "check", str(tmp_path / "no"), "--root", root, code=2)
    for options in (["--root", root], ["--policies", root], ["--once"]):
        told, name = trajlake("curate", *options, "release", "7", code=2), options[0]
        assert (
            told == f"trajlake: {name} stands before release; write it behind: `trajlake curate release ... {name}`\n"
        )


def test_every_result_of_a_step_is_shown() -> None:
    def result(call: str | None, text: str) -> dict[str, Any]:
        facts = dict.fromkeys(("error_type", "http_status", "exit_code", "exit_signal", "error_message"))
        return {**facts, "source_call_id": call, "content": text, "is_error": False}

    step = {
        **dict.fromkeys(("late", "is_copied_context", "context_segment", "failure_kind", "input_messages", "message")),
        **dict.fromkeys(("reasoning_content", "gaps", "redactions")),
        "source": "agent", "outcome_class": "success", "step_index": 0,
        "tool_calls": [
            {"tool_call_id": call, "function_name": name, "arguments": "{}"}
            for call, name in (("c1", "one"), ("c2", "two"), ("c2", "two"), ("c3", "three"))
        ],
        "observations": [
            result(call, text)
            for call, text in (("c1", "r1"), ("c1", "r2"), ("c2", "r3"), ("c2", "r4"), (None, "r5"), (None, "r6"))
        ],
    }  # fmt: skip
    assert list(_step(step, None)) == [
        "step 0",
        "  calls one {}", "    result: r1", "    result: r2",
        "  calls two {}", "    result: r3",
        "  calls two {}", "    result: r4",
        "  calls three {}", "    no result came",
        "  result without a call: result: r5", "  result without a call: result: r6",
    ]  # fmt: skip
