"""docs/governance.md: every snippet is run, every table is what the program has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trajlake.cli import build
from trajlake.expectations.policies import default_policies, policy_set, read_policies
from trajlake.expectations.reasons import PolicyReason
from trajlake.governing.advice import advice
from trajlake.streams.policies import load_policies
from trajlake.streams.settings import Settings


@pytest.fixture(scope="module")
def page(repo: Path) -> str:
    return (repo / "docs" / "governance.md").read_text()


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_policy_files_of_the_page_and_the_examples_are_right(page: str, repo: Path) -> None:
    whole, scanned = (policy_set([read_policies("page", text)]) for text in blocks(page, "yaml"))
    assert whole.deny
    assert scanned.deep_scans == ("acme",)
    examples = load_policies(str(repo / "examples" / "policies"))
    assert len(examples.policies) > 3
    assert advice(examples) == []


def test_python_of_the_page_runs(page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    judging, consenting = blocks(page, "python")
    exec(compile(judging, "docs/governance.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out.strip() == judging.rsplit("# ", 1)[1].strip()
    # To a Kafka that is not there: the recorder keeps the event on disk.
    offline = consenting.replace('"127.0.0.1:9092"', f'"127.0.0.1:9", spool="{tmp_path}"').replace(
        "close()", "close(0)"
    )
    exec(compile(offline, "docs/governance.md", "exec"), {})  # noqa: S102
    assert any(b"agent.consent.changed" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_commands_of_the_page_exist(page: str) -> None:
    commands = re.findall(r"trajlake policy (\w+)([^#\n`]*)", page)
    assert {name for name, _ in commands} == {"check", "explain", "diff"}
    for name, rest in commands:
        said = CliRunner().invoke(build(), ["policy", name, "--help"]).stdout
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in said, option


def test_the_defaults_of_the_page_are_those_of_the_program(page: str) -> None:
    rows = re.findall(r"^\| (train|evaluate|statistics|audit) \| (.+) \|$", page, re.MULTILINE)
    terms = default_policies().defaults.purposes
    assert len(rows) == len(terms)
    for purpose, cells in rows:
        given = terms[purpose].model_dump(exclude={"fields"})
        shown = {True: "true", False: "false"}
        assert cells.split(" | ") == [
            shown[value] if isinstance(value, bool) else value or "none" for value in given.values()
        ]


def test_every_reason_and_setting_is_on_the_page(page: str) -> None:
    for reason in PolicyReason:
        assert f"`{reason.value}`" in page
    for setting in ("policies", "zone", "dedicated_to"):
        assert f"| `{setting}` |" in page
        assert setting in Settings.model_fields
