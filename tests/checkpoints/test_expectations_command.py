"""`trajlake expectations`: lists the rules in use, and names each one that cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from trajlake.expectations.suites.suite import SUITES, load_suites


def trajlake(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trajlake", "expectations", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def write(folder: Path, name: str, *entries: Mapping[str, object]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, "expectations": list(entries)}))
    return path


UNIQUE = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "step_id"}}
DIGITS = {
    "type": "expect_column_values_to_match_regex",
    "kwargs": {"column": "step_id", "regex": r"^\d"},
    "meta": {"rule": "mine.digits"},
}
GOOD = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "cost_usd"}}


def test_list_shows_every_rule_with_its_sentence() -> None:
    shown = trajlake("list")
    assert shown.returncode == 0, shown.stderr
    for suite in load_suites().values():
        for rule in suite.expectations:
            assert f"{suite.name}\t{rule.rule_id}\t{rule.severity}\t{rule.description}" in shown.stdout
    listed = json.loads(trajlake("list", "--json").stdout)
    assert sorted(suite["name"] for suite in listed["suites"]) == sorted(SUITES)


def test_the_shipped_suites_pass_the_check() -> None:
    done = trajlake("check", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True


def test_check_names_each_rule_that_cannot_judge_a_row(tmp_path: Path) -> None:
    done = trajlake("check", str(write(tmp_path, "steps", UNIQUE, GOOD, DIGITS)))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[1].split("\t")[0::2] == ["steps", "3"]
    assert lines[1].split("\t")[3] == "1"
    assert "rule step_id.be_unique" in lines[2]
    assert "publication suite" in lines[2]
    assert "rule mine.digits" in lines[3]
    assert "[0-9]" in lines[3]


def test_check_asks_what_a_suite_is_for(tmp_path: Path) -> None:
    path = write(tmp_path, "nightly", GOOD)
    assert trajlake("check", str(path)).returncode == 2
    assert trajlake("check", str(path), "--table", "steps").returncode == 0


def test_a_suite_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path / "bad.json"):
        if path.stem == "bad":
            path.write_text("{")
        done = trajlake("check", str(path))
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert path.name in done.stderr


def test_check_gives_batch_rules_to_great_expectations(tmp_path: Path) -> None:
    unknown = {"type": "expect_column_to_sing", "kwargs": {"column": "output"}}
    share = {"type": "expect_missing_end_share_to_be_at_most", "kwargs": {"max_share": 0.1}}
    done = trajlake("check", str(write(tmp_path, "publication", unknown, share)), "--json")
    assert done.returncode == 1
    (suite,) = json.loads(done.stdout)["suites"]
    assert [problem["rule"] for problem in suite["problems"]] == ["output.to_sing"]


def test_land_stops_at_start_with_the_name_of_the_rule(tmp_path: Path) -> None:
    write(tmp_path, "steps", UNIQUE)
    done = subprocess.run(
        [sys.executable, "-m", "trajlake", "land", "--root", str(tmp_path / "lake")],
        capture_output=True, text=True, timeout=120, check=False, env={"TRAJLAKE_SUITES": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1
    assert "rule step_id.be_unique" in done.stderr
    assert "trajlake expectations check" in done.stderr
