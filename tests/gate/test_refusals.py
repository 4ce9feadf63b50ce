"""A rule that cannot judge a row as it lands is refused by its name, with the reason and what to do."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.gate.drawing import ARROW
from tests.gate.reference import suite_of
from trajlake.expectations.suites.suite import SuiteError, read_suite
from trajlake.transforms.gate.columntypes import kinds_of
from trajlake.transforms.gate.rowgate import compile_gate, compile_rules
from trajlake.transforms.gate.rules import compile_rule

KINDS = kinds_of(ARROW.append(pa.field("nested", pa.list_(pa.string()))))
V = "expect_column_values_to_"
PAIR = "expect_column_pair_values_to_"
T = {"column": "t"}
SET = {"column": "t", "value_set": ["a"]}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("expect_column_mean_to_be_between", {"column": "x", "min_value": 0}, "publication suite"),
    (V + "be_unique", T, "publication suite"),
    (V + "be_increasing", {"column": "i"}, "publication suite"),
    ("expect_table_row_count_to_be_between", {"min_value": 1}, "publication suite"),
    (V + "match_like_pattern", {"column": "t", "like_pattern": "a%"}, "publication suite"),
    (V + "be_in_set", {**SET, "mostly": 0.9}, "mostly"),
    (V + "be_in_set", {**SET, "windows": []}, "windows"),
    (V + "be_in_set", {**SET, "rounding": 1}, "rounding"),
    (V + "be_in_set", {"column": "t", "value_set": {"$PARAMETER": "p"}}, "parameter"),
    (V + "be_in_set", {"column": "t", "value_set": ["a", None]}, "None"),
    (V + "be_in_set", {"column": "t", "value_set": [1]}, "not what the column holds"),
    (V + "be_in_set", {"column": "b", "value_set": [1]}, "not what the column holds"),
    (V + "be_in_set", {"column": "i", "value_set": [True]}, "not what the column holds"),
    (V + "be_in_set", {"column": "i", "value_set": [0.5]}, "whole number"),
    (V + "be_in_set", {"column": "i", "value_set": [2**70]}, "64 bits"),
    (V + "be_in_set", {"column": "at", "value_set": ["2020-01-01"]}, "does not fit column at"),
    (V + "be_in_set", {"column": "nobody", "value_set": ["a"]}, "no column 'nobody'"),
    (V + "be_in_set", {"column": "nested", "value_set": ["a"]}, "nested"),
    (V + "be_in_set", T, "value_set"),
    (V + "be_between", {"column": "x"}, "neither"),
    (V + "be_between", {"column": "x", "min_value": 2, "max_value": 1}, "above"),
    (V + "be_between", {"column": "x", "min_value": 2**53 + 1}, "floating point"),
    (V + "be_between", {"column": "at", "min_value": "2020-01-01T00:00:00"}, "zone"),
    (V + "be_between", {"column": "at", "min_value": "yesterday"}, "no time"),
    (V + "be_between", {"column": "b", "min_value": 0}, "does not fit"),
    (V + "be_between", {"column": "x", "min_value": 10**400}, "another form"),
    (V + "be_between", {"column": "i", "max_value": 10**400}, "another form"),
    (V + "match_regex", {"column": "i", "regex": "1"}, "does not fit"),
    (V + "match_regex", T, "no regex"),
    (V + "match_regex", {"column": "t", "regex": r"\d"}, "write the characters"),
    (V + "match_regex_list", {"column": "t", "regex_list": []}, "regex_list"),
    (V + "match_regex_list", {"column": "t", "regex_list": ["a"], "match_on": "most"}, "match_on"),
    (PAIR + "be_equal", {"column_A": "t", "column_B": "i"}, "compares"),
    (PAIR + "be_equal", {"column_A": "t", "column_B": "u", "ignore_row_if": "x"}, "ignore_row_if"),
    ("expect_column_pair_values_to_be_in_set", {"column_A": "t", "column_B": "i"}, "value_pairs_set"),
    ("expect_compound_columns_to_be_unique", {"column_list": ["t", "u"]}, "offset"),
    ("expect_compound_columns_to_be_unique", {"column_list": ["t"]}, "two or more"),
    (V + "be_in_set", {**SET, "row_condition": "t == 'a'", "condition_parser": "pandas"}, "row_condition"),
    (V + "be_in_set", {**SET, "row_condition": "t == 'a'"}, "row_condition"),
    (V + "be_in_set", {**SET, "row_condition": 'col("t").sing()', "condition_parser": "great_expectations"}, "object"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "pass_through", "pass_through_filter": "x",
                                                "column": {"name": "t"}}}, "another engine"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "comparison", "column": {"name": "at"}, "operator": "==",
                                                "parameter": "2020"}}, "null"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "comparison", "column": {"name": "b"}, "operator": "<",
                                                "parameter": True}}, "=="),
    (V + "be_in_set", {**SET, "row_condition": {"type": "and", "conditions": []}}, "nothing"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "and", "conditions": "t"}}, "another form"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "and", "conditions": 7}}, "another form"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "or", "conditions": [7]}}, "another form"),
    (V + "be_in_set", {**SET, "row_condition": {"type": "nullity", "column": "t"}}, "another form"),
    (PAIR + "be_equal", {"column_A": "t", "column_B": "u", "ignore_row_if": ["x"]}, "another form"),
    ("expect_compound_columns_to_be_unique", {"column_list": 5}, "two or more"),
    ("expect_compound_columns_to_be_unique", {"column_list": [{"a": 1}, "offset"]}, "no column"),
    (V + "not_be_null", {"column": ["t"]}, "no column"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "kwargs", "reason"), REFUSED)
def test_what_has_no_form_is_refused_by_name(kind: str, kwargs: dict[str, Any], reason: str) -> None:
    suite_of([{"type": kind, "kwargs": kwargs}])  # One without an id of its own is read all the same.
    suite = suite_of([{"type": kind, "kwargs": kwargs, "meta": {"rule": "mine.own"}}])
    with pytest.raises(SuiteError, match=r"suite steps, rule mine\.own") as refused:
        compile_rule(suite.expectations[0], KINDS)
    assert refused.value.rule == "mine.own"
    assert kind in refused.value.problem
    assert reason in refused.value.problem


def test_text_conditions_of_before_1_9_mean_what_objects_mean() -> None:
    import polars as pl

    frame = pl.DataFrame({"t": ["a", None, "b"], "i": [1, None, 3]}, schema={"t": pl.String, "i": pl.Int64})
    texts = ['col("t").notNull()', 'col("t") == "a"', "col(\"t\") != 'a'", 'col("i") >= 2', 'col("i") < -1.0e1']
    wanted = [[0, 2], [0], [1, 2], [2], []]
    for text, rows in zip(texts, wanted, strict=True):
        kwargs = {"column": "t", "row_condition": text, "condition_parser": "great_expectations"}
        suite = suite_of([{"type": V + "be_in_set", "kwargs": {**kwargs, "value_set": ["nothing"]}}])
        fails = compile_rule(suite.expectations[0], KINDS).fails
        judged = [row for row in rows if frame["t"][row] is not None]
        assert frame.select(fails.alias("f"))["f"].arg_true().to_list() == judged, text


def test_a_set_of_nothing_judges_no_row_without_a_value() -> None:
    import polars as pl

    frame = pl.DataFrame({"t": ["a", None], "x": [1.0, float("nan")], "i": [1, None], "b": [True, None]})
    for kind, wanted in (("be_in_set", [0]), ("not_be_in_set", [])):
        for name in frame.columns:
            suite = suite_of([{"type": V + kind, "kwargs": {"column": name, "value_set": []}}])
            fails = compile_rule(suite.expectations[0], KINDS).fails
            assert frame.select(fails.alias("f"))["f"].arg_true().to_list() == wanted, (kind, name)


def test_a_gate_is_not_made_of_suites_with_a_rule_that_is_refused() -> None:
    bad = suite_of([{"type": V + "be_unique", "kwargs": {"column": "step_id"}}])
    with pytest.raises(SuiteError, match=r"rule step_id\.be_unique"):
        compile_gate({"steps": bad})
    good, problems = compile_rules(bad)
    assert (good, [problem.rule for problem in problems]) == ([], ["step_id.be_unique"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON"),
        ("[]", "no suite"),
        ('{"name": "a"}', "no suite"),
        ('{"expectations": []}', 'no "name"'),
        ('{"name": "a", "expectations": [{"expectation_type": "x", "kwargs": {}}]}', "before 1.0"),
        ('{"name": "a", "expectations": [3]}', 'no "type"'),
        ('{"name": "a", "expectations": [{"type": "x"}]}', "kwargs"),
        ('{"name": "a", "expectations": [{"type": "x", "kwargs": {}, "severity": "grave"}]}', "severity"),
        ('{"name": "a", "expectations": [{"type": "x", "kwargs": {}, "meta": {"rule": "r"}},'
         ' {"type": "y", "kwargs": {}, "meta": {"rule": "r"}}]}', "twice"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_suite_says_so(text: str, problem: str) -> None:
    with pytest.raises(SuiteError, match=r"a\.json|suite a") as refused:
        read_suite(text, "a.json")
    assert problem in str(refused.value)


def test_rules_without_a_name_are_named_by_column_and_type() -> None:
    not_null = {"type": V + "not_be_null", "kwargs": {"column": "t"}}
    pair = {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "t", "column_B": "u"}}
    names = [rule.rule_id for rule in suite_of([not_null, not_null, pair]).expectations]
    assert names == ["t.not_be_null", "t.not_be_null#2", "t+u.to_be_equal"]
