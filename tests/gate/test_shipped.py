"""The shipped suites are Great Expectations' own files: its tools load, change and save them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from trajlake.expectations.events import AnnotatorKind, EndState
from trajlake.expectations.suites.suite import SHIPPED, SUITES, SuiteError, load_suite, load_suites
from trajlake.expectations.tables import TABLES
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.streams.checkpoints.checkpoint import gx_suite, import_great_expectations
from trajlake.transforms.gate.rowgate import compile_gate


@pytest.fixture(scope="module")
def gx() -> Any:
    return import_great_expectations()


def test_every_table_of_rows_has_a_suite_and_every_rule_a_name_of_its_own_and_a_sentence() -> None:
    suites = load_suites()
    assert set(suites) == set(SUITES)
    rules = [rule for suite in suites.values() for rule in suite.expectations]
    assert len({rule.rule_id for rule in rules}) == len(rules)
    assert [rule.rule_id for rule in rules if not (rule.description or "").endswith(".")] == []


def test_all_row_suites_compile() -> None:
    gate = compile_gate(load_suites())
    assert {name: len(suite.rules) for name, suite in gate.suites.items()} == {
        name: len(suite.expectations) for name, suite in load_suites().items() if name in TABLES
    }


def test_closed_sets_in_suites_are_those_of_the_contract() -> None:
    suites = load_suites()
    sets = {
        (suite.name, rule.kwargs["column"]): set(rule.kwargs["value_set"])
        for suite in suites.values()
        for rule in suite.expectations
        if rule.rule_id.endswith(("outcome_known", "end_known", "grader_known")) and "value_set" in rule.kwargs
    }
    classes = {member.value for member in OutcomeClass}
    assert sets == {
        ("steps", "outcome_class"): classes,
        ("runs", "outcome_class"): classes,
        ("runs", "end_state"): set(EndState.__args__),  # type: ignore[attr-defined]
        ("rewards", "annotator_kind"): set(AnnotatorKind.__args__),  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("name", SUITES)
def test_great_expectations_reads_and_writes_each_suite_without_changing_a_rule(
    gx: Any, name: str, tmp_path: Path
) -> None:
    suite = load_suites()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = gx.ExpectationSuite(**json.loads((SHIPPED / f"{name}.json").read_text()))
    assert len(read.expectations) == len(suite.expectations)
    written = tmp_path / f"{name}.json"
    written.write_text(json.dumps(read.to_json_dict(), indent=2))
    again = load_suite(written)
    assert [rule.rule_id for rule in again.expectations] == [rule.rule_id for rule in suite.expectations]
    assert again.revision == suite.revision
    assert len(gx_suite(gx, again).expectations) == len(suite.expectations)


def test_a_file_context_of_great_expectations_edits_suites_in_place(gx: Any, tmp_path: Path) -> None:
    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    context.suites.add(gx.ExpectationSuite(**json.loads((SHIPPED / "runs.json").read_text())))
    suite = context.suites.get("runs")
    suite.add_expectation(
        gx.expectations.ExpectColumnValuesToBeBetween(column="step_count", max_value=500, severity="warning")
    )
    folder = tmp_path / "gx" / "expectations"
    suites = load_suites(folder)
    added = suites["runs"].expectations[-1]
    assert (added.rule_id, added.severity) == ("step_count.be_between", "warning")
    assert suites["runs"].revision != load_suites()["runs"].revision
    assert suites["steps"].revision == load_suites()["steps"].revision
    assert "step_count.be_between" in {rule.rule_id for rule in compile_gate(suites).suites["runs"].rules}


def test_two_rules_of_one_type_on_one_column_are_both_judged(gx: Any) -> None:
    from tests.gate.reference import suite_of

    limits = [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "t", "max_value": most}} for most in (1, 9)
    ]
    assert len(gx_suite(gx, suite_of(limits)).expectations) == 2


def test_a_folder_with_a_file_that_judges_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "step.json").write_text('{"name": "step", "expectations": []}')
    with pytest.raises(SuiteError, match="no suite has this name"):
        load_suites(tmp_path)
    with pytest.raises(SuiteError, match="no such folder"):
        load_suites(tmp_path / "nowhere")
    (tmp_path / "step.json").rename(tmp_path / "steps.json")
    with pytest.raises(SuiteError, match="has to be that of its file"):
        load_suites(tmp_path)
