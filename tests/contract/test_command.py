"""`trajlake contract`: prints every contract, and the pages in docs/ are what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from trajlake.expectations.contract_page import contract_page, contract_section
from trajlake.expectations.events import EVENT_TYPES
from trajlake.expectations.failure_rules import classifier_revision, rule_table
from trajlake.expectations.failures_page import failures_page
from trajlake.expectations.jsonschema import CONTRACTS
from trajlake.expectations.tables import TABLES


def trajlake(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trajlake", "contract", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_names_are_listed() -> None:
    listed = trajlake()
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()[1:]] == [*CONTRACTS, "failures", "metrics"]


@pytest.mark.parametrize("name", ["events", "runs", "outcomes"])
def test_a_contract_is_printed_as_json_schema(name: str) -> None:
    schema = json.loads(trajlake(name, "--json").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == name


def test_all_contracts_are_printed_as_one_json_object() -> None:
    assert set(json.loads(trajlake("--json").stdout)) == set(CONTRACTS)


def test_the_failure_rules_are_printed_with_their_revision() -> None:
    printed = json.loads(trajlake("failures").stdout)
    assert printed["revision"] == classifier_revision()
    assert len(printed["rule"]) == len(rule_table().rule)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    refused = trajlake("sessions")
    assert refused.returncode == 2
    assert "'sessions'" in refused.stderr
    assert "outcomes" in refused.stderr


@pytest.mark.parametrize(
    ("page", "command"),
    [
        ("contract.md", ("--markdown",)),
        ("failures.md", ("failures", "--markdown")),
        ("metrics.md", ("metrics", "--markdown")),
    ],
)
def test_a_page_of_the_docs_is_what_the_command_prints(repo: Path, page: str, command: tuple[str, ...]) -> None:
    printed = trajlake(*command).stdout
    assert (repo / "docs" / page).read_text(encoding="utf-8") == printed, (
        f"docs/{page} is out of date: trajlake contract {' '.join(command)} > docs/{page}"
    )


def test_the_contract_page_tells_every_event_type_table_and_outcome() -> None:
    page = contract_page()
    for name in (*EVENT_TYPES, *(f"Table {table}" for table in TABLES), "Outcomes"):
        assert f"# {name}" in page
    for name in CONTRACTS:
        assert contract_section(name) in page


def test_the_failures_page_tells_every_rule_and_source() -> None:
    page = failures_page()
    table = rule_table()
    ids = [rule.id for rule in table.rule] + [rule.id for rule in table.run_rule] + [rule.id for rule in table.default]
    for rule_id in ids:
        assert f"`{rule_id}`" in page
    for rule in rule_table().rule:
        assert rule.source in page


def test_pages_are_well_formed_tables() -> None:
    for page in (contract_page(), failures_page()):
        lines = page.splitlines()
        for before, line in pairwise(lines):
            if before.startswith("|") and line.startswith("|"):
                assert before.replace("\\|", "").count("|") == line.replace("\\|", "").count("|"), line
