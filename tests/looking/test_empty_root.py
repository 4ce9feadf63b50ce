"""A root without tables: every command that looks says so, with the same exit code; and tables prints rows alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("words", [["tables"], ["query", "select 1 from runs"], ["verify"], ["verify", "--integrity"]])
def test_commands_that_look_agree_on_a_root_without_tables(words: list[str], trajlake: Any, tmp_path: Path) -> None:
    done = trajlake(*words, "--root", str(tmp_path / "none"))
    assert done.returncode == 2, done.stderr
    assert "no tables in" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_tables_as_json_says_the_same_with_its_exit_code(trajlake: Any, tmp_path: Path) -> None:
    done = trajlake("tables", "--json", "--root", str(tmp_path / "none"))
    assert done.returncode == 2
    assert all(table["version"] is None for table in json.loads(done.stdout)["tables"])


def test_tables_in_a_pipe_has_no_blank_line(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    rows.write(tmp_path / "lake")
    done = trajlake("tables", "--root", str(tmp_path / "lake"), "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert all(line.strip() for line in done.stdout.splitlines())


def test_config_names_the_variables_and_keys_are_snake_case(trajlake: Any) -> None:
    listed = json.loads(trajlake("config", "--json").stdout)
    assert all(row["env"] == f"TRAJLAKE_{row['setting'].upper()}" for row in listed)
    assert all(key.isidentifier() and key.islower() for row in listed for key in row)


def test_broker_status_says_what_it_looked_at(trajlake: Any, tmp_path: Path) -> None:
    done = trajlake("broker", "status")
    assert done.returncode == 3
    assert f"looked at {tmp_path}" in done.stdout
    assert "--data" in done.stdout
