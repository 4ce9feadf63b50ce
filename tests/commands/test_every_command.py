"""Every command, as somebody meets it who has never seen it: help, JSON, wrong input, a small terminal, a pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.landkit.terminal import shown_in_terminal
from trajlake.cli import COMMANDS, INTERRUPTED, WRONG_SETTING, build, load
from trajlake.cli.attention import NEEDED

TRAJLAKE = [sys.executable, "-P", "-m", "trajlake"]
HERE = [name for name, entry in COMMANDS.items() if find_spec(f"trajlake.cli.{entry.module}")]
NOT_RUNNING = 3
WITHOUT_JSON = {
    "land": "a service: it logs, as JSON where there is no terminal",
    "roll": "a service",
    "dashboard": "a service",
    "payload": "prints stored content as it is",
    "levers export": "prints a team's own file as it is",
}


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """A command, or those of a group with their whole names."""
    below = getattr(command, "commands", None) or {}
    if not below or getattr(command, "invoke_without_command", False):
        yield " ".join(path), command
    for name, each in below.items():
        yield from leaves(each, (*path, name))


LEAVES = {path: command for name in HERE for path, command in leaves(load(name), (name,))}

NUMERIC = {
    path: [
        parameter.opts[0]
        for parameter in command.params
        if parameter.opts[0].startswith("-") and re.search("int|float", parameter.bare_type())
    ]
    for path, command in LEAVES.items()
}
"""Options that take a number, by command."""


def run(*words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRAJLAKE, *words], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment},
        stdin=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("path", LEAVES)
def test_help_teaches_with_an_example_that_names_the_command(path: str) -> None:
    shown = CliRunner().invoke(build(), [*path.split(), "--help"], terminal_width=80, env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    text = " ".join(shown.output.split())
    assert f"Example: trajlake {path}" in text


@pytest.mark.parametrize("path", LEAVES)
def test_data_is_printed_as_json_too(path: str) -> None:
    options = {option for parameter in LEAVES[path].params for option in parameter.opts}
    assert ("--json" in options) != (path in WITHOUT_JSON)


@pytest.mark.parametrize("path", LEAVES)
def test_an_option_that_does_not_exist_is_told_with_exit_code_2(path: str) -> None:
    done = CliRunner().invoke(build(), [*path.split(), "--no-such-option"])
    assert done.exit_code == 2
    assert done.output.startswith("trajlake: there is no option --no-such-option; `")
    assert done.output.endswith(f"{path} --help` shows what it takes\n")
    assert done.output.count("\n") == 1


@pytest.mark.parametrize("path", LEAVES)
def test_numbers_and_choices_are_checked(path: str) -> None:
    """Each option that takes a number refuses a word."""
    for option in NUMERIC[path]:
        done = CliRunner().invoke(build(), [*path.split(), option, "many"])
        assert done.exit_code == 2, (option, done.output)
        assert re.match(rf"trajlake: {option}: 'many' is no (whole )?number; ", done.output), done.output
        assert done.output.count("\n") == 1


def test_there_are_options_that_take_numbers() -> None:
    assert sum(map(len, NUMERIC.values())) > 20


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("qury", "there is no command 'qury', did you mean 'query'? `trajlake --help`"),
        ("curate relese 3", "there is no command 'relese', did you mean 'release'? `trajlake curate --help`"),
        ("query", "SQL is missing; `trajlake query --help`"),
        ("payload x", "--tenant is missing; `trajlake payload --help`"),
        ("show a b", "it takes fewer words: what is b? `trajlake show --help`"),
        ("demo --runs 0", "--runs: 0 is not possible: at least 1; `trajlake demo --help`"),
        ("demo --runs 1.5", "--runs: '1.5' is no whole number; `trajlake demo --help`"),
        ("query x --format xml", "--format: 'xml' is not one of 'table', 'json', 'csv'; `trajlake query --help`"),
        ("attention --windw 7d", "there is no option --windw, did you mean --window? `trajlake attention --help`"),
    ],
)
def test_wrong_words_are_told_in_one_line_with_what_to_do(words: str, told: str) -> None:
    done = run(*words.split(" "))
    assert done.returncode == 2
    assert done.stderr == f"trajlake: {told} shows what it takes\n"
    assert done.stdout == ""


@pytest.mark.parametrize("path", LEAVES)
def test_help_names_what_is_to_be_typed(path: str) -> None:
    """`SQL`, `[FILE]` and `--limit N`, not `{SQL} <str>`, `[[FILE]]` and `--limit <int range>`."""
    shown = CliRunner().invoke(build(), [*path.split(), "--help"], env={"COLUMNS": "100"}).output
    assert not re.search(r"<(str|int|float|path|list)|\{|\[\[|\.{4}", shown), shown


def test_the_list_of_commands_is_told_in_whole_lines() -> None:
    shown = CliRunner().invoke(build(), ["--help"], terminal_width=80, env={"COLUMNS": "80"})
    assert "..." not in shown.output.replace("[ARGS]...", "")
    for name in HERE:
        assert re.search(rf"^  {name} ", shown.output, re.MULTILINE), name


@pytest.mark.parametrize("path", [path for path in LEAVES if " " in path])
def test_lists_of_actions_are_told_in_whole_lines(path: str) -> None:
    shown = CliRunner().invoke(build(), [path.split()[0], "--help"], terminal_width=80, env={"COLUMNS": "80"})
    listed = shown.output.split("Commands:")[1]
    assert "..." not in listed, listed


READERS = [
    ("skills",), ("tables",), ("runs",), ("show", "run-1"), ("verify",), ("attention",), ("decisions", "list"),
    ("publications", "list"), ("curate", "held"), ("manifest", "list"), ("quarantine", "list"), ("retro",),
    ("query", "SELECT 1 AS one"), ("policy", "explain", "run-1"), ("maintain",), ("export",),
]  # fmt: skip


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_root_that_is_not_there_is_told_in_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, "--root", str(tmp_path / "none"), cwd=tmp_path)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    assert done.stdout or done.stderr


@pytest.mark.parametrize(
    "words", [("config",), ("contract", "events"), ("redact", "--rules"), ("levers", "show")], ids=" ".join
)
def test_a_reader_that_leaves_early_ends_the_command_quietly(words: tuple[str, ...]) -> None:
    with subprocess.Popen([*TRAJLAKE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("words", [("config",), ("levers", "show"), ("contract",)], ids=" ".join)
def test_tables_fit_a_terminal_of_that_width(words: tuple[str, ...], width: int) -> None:
    shown = in_terminal(words, width)
    assert shown
    assert max(map(len, shown)) <= width, max(shown, key=len)


def test_no_colour_is_used_where_none_is_wanted() -> None:
    plain = in_terminal(("levers", "show"), 80, keep_codes=True, NO_COLOR="1")
    assert not any(re.search(r"\x1b\[\d*(;\d+)*[34]\dm", line) for line in plain)


def in_terminal(words: tuple[str, ...], width: int, *, keep_codes: bool = False, **environment: str) -> list[str]:
    """Lines that a command writes to a terminal of that width."""
    text = shown_in_terminal([*TRAJLAKE, *words], width, **environment)
    return (text if keep_codes else re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)).splitlines()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("trajlake att", ["attention"]),
        ("trajlake broker st", ["start", "stop", "status"]),
        ("trajlake skills --win", ["--window"]),
        ("trajlake curate re", ["release", "reject"]),
    ],
)
def test_a_shell_can_complete_commands_actions_and_options(typed: str, offered: list[str]) -> None:
    words = typed.split(" ")
    done = run(_TRAJLAKE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1))
    assert done.stdout.split() == offered, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_can_be_shown(shell: str) -> None:
    # Without this the shell that the tests run under would be asked for.
    done = run("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    assert "_TRAJLAKE_COMPLETE" in done.stdout


# Exit codes, as docs/cli.md has them

CODES = re.compile(r"^\| `?(\d+)`? \| (.+) \|$", re.MULTILINE)


def test_exit_codes_are_those_of_the_page(repo: Path) -> None:
    page = (repo / "docs" / "cli.md").read_text()
    codes = {int(code): words for code, words in CODES.findall(page)}
    assert set(codes) == {0, 1, WRONG_SETTING, NOT_RUNNING, NEEDED, INTERRUPTED}


def test_the_page_names_every_command(repo: Path) -> None:
    page = (repo / "docs" / "cli.md").read_text()
    for name in HERE:
        assert f"| `{name}` |" in page, name


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("config",), 0),
        (("--version",), 0),
        (("broker", "status", "--data", "none"), 3),
        (("skills", "--window", "1y"), 2),
        (("query", "SELEC", "--root", "none"), 2),
        (("contract", "nonsense"), 2),
        (("attention", "--root", "none"), 1),
        (("show", "run-1", "--root", "none"), 1),
        (("policy", "check", "absent.yaml"), 1),
        (("no-such-command",), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_exit_codes_as_they_are(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_where_and_nothing_else_does(tmp_path: Path) -> None:
    words = ("land", "--root", str(tmp_path), "--bootstrap-servers", "nonsense")
    assert "Traceback" in run("--debug", *words).stderr
    plain = run(*words).stderr
    assert plain.count("\n") == 1
    assert plain.startswith("trajlake: setting bootstrap_servers")


def test_an_erasure_that_goes_on_with_a_person_needs_the_tenant(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    done = run("forget", "--resume", "--subject", "u-381", "--root", str(tmp_path / "lake"))
    assert done.returncode == 2
    assert "name --tenant" in done.stderr
    assert not any((tmp_path / "lake").iterdir())
