"""What pages show is run, or at least understood, by the program itself. `pages.py` says how blocks are marked."""

from __future__ import annotations

import io
import json
import re
import tokenize
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.commands import commands, refusal, run, settings_and_words
from tests.docs.pages import LANGUAGES, PAGES, Block
from tests.landkit.tree import REPO
from trajlake.reading.query import run_query
from trajlake.reading.tables import open_lake

BLOCKS = [block for page in PAGES for block in page.blocks]
KAFKA = "127.0.0.1:9092"
READERS: dict[str, Callable[[str], object]] = {"yaml": YAML(typ="safe").load, "toml": tomllib.loads}


def blocks(*languages: str, mark: str | None = None) -> list[Any]:
    """Blocks to run, each under its place in the pages."""
    found = []
    for block in BLOCKS:
        if block.language in languages and not block.mark.startswith("shown only") and mark in (None, block.mark):
            kafka = block.language == "python" and KAFKA in block.text
            found.append(pytest.param(block, id=block.place, marks=[pytest.mark.integration] if kafka else []))
    return found


def test_every_block_says_what_it_is() -> None:
    assert [block.place for block in BLOCKS if block.language not in LANGUAGES] == []
    assert [block.place for block in BLOCKS if re.search("^```", block.text, re.MULTILINE)] == [], "a fence is open"
    assert [place for page in PAGES for place in page.wrong] == [], "comments above blocks are marks"
    words = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?trajlake [a-z]+ (?!─)", re.MULTILINE)
    hidden = [block.place for block in BLOCKS if block.language == "text" and words.search(block.text)]
    assert hidden == [], "commands are in blocks of shell"


@pytest.mark.parametrize("block", blocks("shell", "sh"))
def test_the_command_line_takes_every_command(block: Block) -> None:
    found = list(commands(block.text))
    assert found, "a block of shell holds a command"
    assert [wrong for command in found if (wrong := refusal(command))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "trajlake land --wokers 2",
        "trajlake landed",
        "trajlake query",
        "TRAJLAKE_RUUT=x trajlake land",
        "trajlake curate release three",
        "true | trajlake quarantine",
        "trajlake land # fine\ntrajlake retro --weeks 1",
        "trajlake land --workers \\\n  many",
    ],
)
def test_a_wrong_command_is_found(wrong: str) -> None:
    assert [refusal(command) for command in commands(wrong)][-1]


def test_a_command_is_read_as_a_shell_reads_it() -> None:
    text = "A=1 trajlake query \"select '#' from runs\" --root x  # why\ncat < in | trajlake redact > out\n"
    assert list(commands(text)) == [
        ["A=1", "trajlake", "query", "select '#' from runs", "--root", "x"],
        ["cat"],
        ["trajlake", "redact"],
    ]
    assert not [wrong for command in commands(text) if (wrong := refusal(command))]


@pytest.mark.parametrize("block", blocks("shell", mark="runs"))
def test_commands_that_run_do_so(block: Block, beside_lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in commands(block.text):
        given, words = settings_and_words(command)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        assert not words or words[0] == "trajlake", "only our own commands are run"
        code, told = run(words[1:]) if words else (0, "")
        assert code == 0, f"{' '.join(words)}: exit code {code}\n{told}"


@pytest.mark.parametrize("block", blocks("sql"))
def test_queries_answer(block: Block, first_lake: Path) -> None:
    for statement in filter(None, map(str.strip, block.text.split(";"))):
        with run_query(open_lake(str(first_lake)), statement) as result:
            rows = sum(batch.num_rows for batch in result)
        assert rows or block.mark == "may be empty", f"no row: {statement}"


@pytest.mark.parametrize("block", blocks("python"))
def test_python_runs_and_prints_what_it_says(
    block: Block,
    beside_lake: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    text = block.text
    if KAFKA in text:
        text = text.replace(KAFKA, request.getfixturevalue("broker"))
        monkeypatch.setenv("TRAJLAKE_EVENTS_TOPIC", request.getfixturevalue("make_topic")())
    exec(compile("\n" * block.line + text, str(block.page), "exec"), {"__name__": "__main__"})  # noqa: S102
    if told := told_by(block.text):
        assert [line.strip() for line in capsys.readouterr().out.splitlines()] == told


def told_by(text: str) -> list[str]:
    """What the comments behind `print(...)` say that a snippet prints."""
    lines = text.splitlines()
    return [
        token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("print(")
    ]


@pytest.mark.parametrize("block", blocks("yaml", "toml", "json"))
def test_data_is_readable(block: Block) -> None:
    if block.language == "json":
        for line in [block.text] if block.text.lstrip().startswith(("{\n", "[")) else block.text.splitlines():
            json.loads(line)
    else:
        READERS[block.language](block.text)


def test_the_marks_are_explained_to_those_who_write() -> None:
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(word in text for word in ("<!-- runs -->", "<!-- may be empty -->", "<!-- shown only: "))
