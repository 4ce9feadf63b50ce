"""`trajlake redact` and `trajlake.redact`: a team tries its own data before it trusts anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import trajlake
from tests.redact.planted import drawn, tokens, written
from trajlake.transforms.redact.rules import DEFAULT_RULES
from trajlake.transforms.redact.rules_page import rules_page

TOKEN = tokens(41)[0].text
REPO = Path(__file__).resolve().parents[2]


def run(*arguments: str, text: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trajlake", "redact", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environ},
    )


def test_lines_come_out_redacted_in_order_and_what_was_found_is_told_without_values() -> None:
    lines = [
        {"n": 1, "note": "nothing"},
        {"n": 2, "note": f"use {TOKEN} now"},
        ["x", {"mail": "jane@example.org"}],
        "s",
        5,
    ]
    done = run("--explain", text="".join(written(line) + "\n" for line in lines))
    assert done.returncode == 0, done.stderr
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert out == [
        {"n": 1, "note": "nothing"},
        {"n": 2, "note": "use [redacted:github-token] now"},
        ["x", {"mail": "[redacted:email]"}],
        "s",
        5,
    ]
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert told == [
        {"line": 2, "redactions": [{"path": "note", "rule": "github-token", "count": 1}]},
        {"line": 3, "redactions": [{"path": "[].mail", "rule": "email", "count": 1}]},
    ]


def test_a_line_that_may_not_be_shown_keeps_its_place_and_the_command_fails() -> None:
    deep = "[" * 600 + json.dumps(TOKEN) + "]" * 600
    done = run(text=f'{{"a": 1}}\n{{"token": {TOKEN}\n{deep}\n{{"b": 2}}\n')
    assert done.returncode == 1
    assert done.stdout.splitlines() == ['{"a": 1}', '"[redacted:line]"', '"[redacted:line]"', '{"b": 2}']
    assert TOKEN not in done.stderr
    assert "line 2" in done.stderr
    assert "line 3" in done.stderr


def test_a_policy_and_a_key_make_pseudonyms_and_switch_rules_off(tmp_path: Path) -> None:
    policy, key = tmp_path / "policy.yaml", tmp_path / "key"
    policy.write_text("redaction:\n  ip: keep\n  people: pseudonym\n")
    key.write_text(drawn(42, 32))
    text = written({"mail": "jane@example.org", "from": "login from 203.0.113.10"}) + "\n"
    named = {"TRAJLAKE_REDACTION_KEY_FILE": str(key)}
    one, other = (
        json.loads(run("--policy", str(policy), "--tenant", tenant, text=text, **named).stdout)
        for tenant in ("acme", "globex")
    )
    assert one["from"] == "login from 203.0.113.10"
    assert one["mail"].startswith("[email:")
    assert one["mail"] != other["mail"]


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("people: pseudonym", "key"),
        ("no-such-rule: keep", "no-such-rule"),
        ("email: hide", "email"),
        ("- a", "mapping"),
    ],
)
def test_a_policy_that_makes_no_sense_stops_the_command(tmp_path: Path, policy: str, problem: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    done = run("--policy", str(path), text="1\n")
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stdout == ""


def test_a_key_that_is_named_and_missing_stops_the_command() -> None:
    done = run("--tenant", "acme", text="1\n", TRAJLAKE_REDACTION_KEY_ENV="NO_SUCH_VARIABLE")
    assert done.returncode != 0
    assert "redaction_key_env" in done.stderr


def test_the_page_is_the_table() -> None:
    assert (REPO / "docs" / "redaction.md").read_text(encoding="utf-8") == rules_page()
    listed = json.loads(run("--rules", "--json").stdout)
    assert [row["id"] for row in listed] == [rule.id for rule in DEFAULT_RULES]


def test_python_gives_the_same() -> None:
    assert trajlake.redact({"note": f"use {TOKEN}"}) == {"note": "use [redacted:github-token]"}


def test_python_gives_the_same_from_threads_at_once() -> None:
    value = {"note": f"use {TOKEN} and call +82 10-2345-6789 " * 50, "more": ["x" * 2000] * 20}
    expected = trajlake.redact(value)
    assert TOKEN not in json.dumps(expected)
    with ThreadPoolExecutor(4) as pool:
        assert all(done == expected for done in pool.map(trajlake.redact, [value] * 200))
