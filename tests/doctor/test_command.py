"""`trajlake doctor` as a command: its levels, its exit codes, its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "trajlake", "doctor", "--timeout", "0.5"]


def doctor(*options: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--bootstrap-servers", "127.0.0.1:1", *options],
        capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "environment", "code"),
    [
        (("--only", "python", "--only", "policies"), {}, 0),
        (("--only", "redaction"), {"TRAJLAKE_REDACTION": "off"}, 0),
        (("--only", "redaction", "--strict"), {"TRAJLAKE_REDACTION": "off"}, 1),
        (("--only", "broker"), {}, 1),
        (("--only", "python"), {"TRAJLAKE_BATCH_MAX_ROWS": "x"}, 1),
        (("--only", "nonsense"), {}, 2),
    ],
)
def test_exit_codes(tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], code: int) -> None:
    done = doctor(*options, cwd=tmp_path, **environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_json_and_lines_say_the_same(tmp_path: Path) -> None:
    told = json.loads(doctor("--json", cwd=tmp_path).stdout)
    assert not told["ok"]
    assert told["counts"]["failed"] == sum(check["level"] == "failed" for check in told["checks"]) >= 1
    lines = doctor(cwd=tmp_path).stdout.splitlines()
    assert lines[0].split("\t") == ["level", "check", "says", "next"]
    assert [line.split("\t")[1] for line in lines[1:]] == [check["check"] for check in told["checks"]]
    broker = next(check for check in told["checks"] if check["check"] == "broker")
    assert broker["level"] == "failed"
    assert broker["next"]


def test_a_wrong_setting_is_a_finding_with_its_name(tmp_path: Path) -> None:
    told = json.loads(doctor("--json", cwd=tmp_path, TRAJLAKE_ROOT="s4://x").stdout)
    assert [check["check"] for check in told["checks"]] == ["settings"]
    assert "TRAJLAKE_ROOT" in told["checks"][0]["says"]
