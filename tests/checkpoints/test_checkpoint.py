"""A real checkpoint of Great Expectations judges each batch; what it says is scrubbed of values."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.checkpoints.batches import MARK, batch
from trajlake.expectations.suites.suite import Severity, Suite, SuiteError, load_suites, read_suite
from trajlake.streams.checkpoints.checkpoint import AGGREGATES, OWN, run_checkpoint
from trajlake.streams.checkpoints.reads import columns_read
from trajlake.streams.checkpoints.results import CheckpointReport
from trajlake.transforms.gate.batchframe import baseline_of


@pytest.fixture(scope="module")
def publication() -> Suite:
    return load_suites()["publication"]


def suite_of(*entries: dict[str, Any]) -> Suite:
    return read_suite(json.dumps({"name": "mine", "expectations": list(entries)}), "mine.json")


def failed(report: CheckpointReport) -> set[str]:
    return {result.rule_id for result in report.failed}


def test_a_healthy_batch_may_be_published(publication: Suite) -> None:
    healthy = batch()
    report = run_checkpoint(healthy, publication, batch="b-1", baseline=baseline_of(healthy))
    assert (report.success, failed(report), report.row_count) == (True, set(), 120)
    assert [result.rule_id for result in report.results] == [rule.rule_id for rule in publication.expectations]
    assert (report.batch, report.suite, report.suite_revision) == ("b-1", "publication", publication.revision)


def test_the_same_batch_gives_the_same_report(publication: Suite) -> None:
    once, again = (run_checkpoint(batch(), publication) for _ in range(2))
    assert once == again
    assert CheckpointReport.from_dict(json.loads(json.dumps(once.to_dict()))) == once


def test_a_batch_is_judged_by_the_columns_that_the_rules_read(publication: Suite) -> None:
    read = columns_read(publication)
    assert read is not None
    assert read < set(batch().columns)
    ends = ["timeout"] * 40 + ["completed"] * 80
    uneven = batch(end_state=ends, tool_error_count=1, group_id=[f"g{n // 3}" for n in range(120)], step_count=0)
    known: dict[str, Any] = {"baseline": baseline_of(batch(tool_error_count=0)), "excluded": {"timeout": 40}}
    assert run_checkpoint(uneven.select(sorted(read)), publication, **known) == run_checkpoint(
        uneven, publication, **known
    )


CLOSED = {"type": "comparison", "column": {"name": "end_state"}, "operator": "==", "parameter": "completed"}
FREE = "end_state == 'completed'"


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        ({"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}, set()),
        ({"type": "expect_table_column_count_to_be_between", "kwargs": {"min_value": 1}}, None),
        ({"type": "expect_groups_to_be_complete", "kwargs": {"min_share": 0.9}}, {"tenant_id", "run_id", "group_id"}),
        ({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "skill_name"}}, {"skill_name"}),
        (
            {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "output", "row_condition": CLOSED}},
            {"output", "end_state"},
        ),
        (
            {
                "type": "expect_column_values_to_not_be_null",
                "kwargs": {"column": "output", "row_condition": FREE, "condition_parser": "pandas"},
            },
            None,
        ),
    ],
)
def test_columns_that_a_rule_reads(entry: dict[str, Any], read: set[str] | None) -> None:
    suite = suite_of(entry)
    assert columns_read(suite) == read
    assert run_checkpoint(batch(), suite).success


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"run_id": "same"}, "batch.run_once"),
        ({"outcome_class": None}, "batch.outcome_known"),
        ({"skill_name": None}, "batch.skill_named"),
        ({"has_start": False}, "batch.start_seen"),
        ({"outcome_class": "unknown"}, "batch.outcome_explained"),
        ({"step_count": 0}, "batch.completed_has_steps"),
        ({"max_time_skew_ms": 1e9}, "batch.clocks_agree"),
        ({"end_inferred": True}, "batch.missing_end_share"),
        ({"group_id": [f"g{n // 4}" if n < 60 else f"lone{n}" for n in range(120)]}, None),
        ({"group_id": [f"g{n // 4}" if n < 80 else f"h{n // 2}" for n in range(120)]}, None),
    ],
)
def test_each_shipped_rule_finds_its_fault(publication: Suite, columns: dict[str, Any], rule: str | None) -> None:
    found = failed(run_checkpoint(batch(**columns), publication))
    assert rule is None or rule in found


def test_s15_abandoned_and_timed_out_runs_are_counted_apart(publication: Suite) -> None:
    ends = ["timeout"] * 40 + ["abandoned"] * 20 + ["completed"] * 60
    report = run_checkpoint(batch(end_state=ends), publication)
    (found,) = [result for result in report.results if result.rule_id == "batch.unfinished_share"]
    assert (found.success, found.observed_value, found.unexpected_count) == (False, 0.5, 60)
    assert (found.details["timeout"], found.details["abandoned"]) == (40, 20)


def test_s16_tool_calls_that_start_to_fail_stop_the_batch(publication: Suite) -> None:
    before = baseline_of(batch(tool_error_count=0))
    report = run_checkpoint(batch(tool_error_count=1), publication, baseline=before)
    assert [result.rule_id for result in report.blocking] == ["batch.tool_error_share"]
    assert report.results[9].observed_value == 0.1


def test_s16_answers_that_grow_shorter_stop_the_batch(publication: Suite) -> None:
    report = run_checkpoint(batch(output="Yes."), publication, baseline=baseline_of(batch()))
    assert [result.rule_id for result in report.blocking] == ["batch.answer_length_drift"]


def test_s17_an_outcome_that_is_left_out_more_than_the_others_shows(publication: Suite) -> None:
    report = run_checkpoint(batch(), publication, excluded={"timeout": 30, "success": 2})
    (found,) = report.failed
    assert (found.rule_id, found.details["outcome_class"]) == ("batch.exclusion_even", "timeout")
    assert report.success  # a warning: it stands on the report


def test_a_warning_does_not_hold_a_batch_and_a_critical_rule_does() -> None:
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "skill_name"}}
    for severity, held in (("info", False), ("warning", False), ("critical", True)):
        report = run_checkpoint(batch(skill_name=None), suite_of({**rule, "severity": severity}))
        assert (not report.success, failed(report)) == (held, {"skill_name.not_be_null"})


def test_a_rule_that_cannot_be_judged_counts_as_failed() -> None:
    suite = suite_of({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "no_such"}})
    report = run_checkpoint(batch(), suite)
    assert not report.success
    assert report.results[0].error
    between = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "skill_name", "min_value": 3}}
    report = run_checkpoint(batch(), suite_of(between))
    assert (report.results[0].error or "").isidentifier()


def test_a_type_that_great_expectations_does_not_know_is_named() -> None:
    with pytest.raises(SuiteError, match="expect_column_to_sing"):
        run_checkpoint(batch(), suite_of({"type": "expect_column_to_sing", "kwargs": {"column": "output"}}))


def test_no_value_of_a_row_gets_into_a_report_or_log(caplog: pytest.LogCaptureFixture) -> None:
    column = {"column": "output"}
    entries = [
        ("expect_column_values_to_be_in_set", {**column, "value_set": ["a"]}),
        ("expect_column_values_to_match_regex", {**column, "regex": "^b$"}),
        ("expect_column_value_lengths_to_be_between", {**column, "max_value": 1}),
        ("expect_column_values_to_be_unique", {"column": "tenant_id"}),
        ("expect_column_distinct_values_to_be_in_set", {**column, "value_set": ["a"]}),
        ("expect_column_most_common_value_to_be_in_set", {**column, "value_set": ["a"]}),
        ("expect_column_values_to_be_dateutil_parseable", column),
        ("expect_column_values_to_be_json_parseable", column),
        ("expect_column_min_to_be_between", {"column": "reward_score", "max_value": 0}),
        ("expect_column_values_to_be_between", {"column": "run_id", "max_value": 3}),
        ("expect_column_pair_values_to_be_equal", {"column_A": "run_id", "column_B": "output"}),
        ("expect_compound_columns_to_be_unique", {"column_list": ["tenant_id", "skill_name"]}),
        ("expect_table_columns_to_match_set", {"column_set": ["a"]}),
        ("expect_column_max_to_be_between", {"column": "reward_score", "max_value": 0}),
        ("expect_column_median_to_be_between", {"column": "reward_score", "max_value": 0}),
        ("expect_column_mean_to_be_between", {"column": "reward_score", "max_value": 0}),
        ("expect_column_quantile_values_to_be_between",
         {"column": "reward_score", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[0, 1]]}}),
    ]  # fmt: skip
    odd = 8128.515625
    frame = batch(3, reward_score=odd)
    report = run_checkpoint(frame, suite_of(*({"type": kind, "kwargs": kwargs} for kind, kwargs in entries)))
    assert len(report.failed) == len(entries)
    text = json.dumps(report.to_dict()) + caplog.text
    assert MARK not in text
    assert str(odd) not in text


def test_counts_and_aggregates_are_kept() -> None:
    report = run_checkpoint(
        batch(skill_name=[None] * 30 + ["a"] * 45 + ["b"] * 45),
        suite_of(
            {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "skill_name", "value_set": ["a"]}},
            {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "step_count", "max_value": 1}},
        ),
    )
    in_set, mean = report.results
    assert (in_set.element_count, in_set.unexpected_count, in_set.unexpected_share) == (90, 45, 0.5)
    assert mean.observed_value == 3


def test_distributions_and_mostly_are_great_expectations_own() -> None:
    partition = {"values": ["success", "timeout"], "weights": [0.5, 0.5]}
    kl = {
        "type": "expect_column_kl_divergence_to_be_less_than",
        "kwargs": {"column": "outcome_class", "partition_object": partition, "threshold": 0.1},
    }
    even = batch(outcome_class=["success", "timeout"] * 60)
    assert run_checkpoint(even, suite_of(kl)).success
    assert not run_checkpoint(batch(), suite_of(kl)).success
    for mostly, holds in ((0.4, True), (0.6, False)):
        in_set = {"type": "expect_column_values_to_be_in_set",
                  "kwargs": {"column": "outcome_class", "value_set": ["success"], "mostly": mostly}}  # fmt: skip
        assert run_checkpoint(even, suite_of(in_set)).success is holds


def test_every_own_type_is_on_the_list_of_aggregates() -> None:
    from trajlake.streams.checkpoints.custom import OWN as CLASSES

    assert {own.expectation_type for own in CLASSES} == OWN
    assert OWN < AGGREGATES


def test_an_empty_batch_is_not_published(publication: Suite) -> None:
    report = run_checkpoint(batch(4).clear(), publication)
    assert "batch.not_empty" in {result.rule_id for result in report.blocking}


def test_great_expectations_is_imported_only_by_a_checkpoint_and_calls_nobody() -> None:
    program = """
import socket, sys
asked = []
def refuse(self, address, *more):
    asked.append(address)
    raise OSError("no network here")
socket.socket.connect = refuse
socket.getaddrinfo = lambda host, *more, **named: asked.append(host) or []
from tests.checkpoints.batches import batch
from trajlake.expectations.suites.suite import load_suites
from trajlake.streams.checkpoints import checkpoint
import trajlake.cli, trajlake.streams.land.worker
assert "great_expectations" not in sys.modules
assert checkpoint.run_checkpoint(batch(), load_suites()["publication"]).success
assert "great_expectations" in sys.modules
assert asked == [], asked
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": "", "HOME": "/nonexistent", "GX_ANALYTICS_ENABLED": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Calculating" not in done.stderr


def test_severity_is_part_of_the_revision(publication: Suite) -> None:
    lax = tuple(replace(rule, severity=Severity.INFO) for rule in publication.expectations)
    assert replace(publication, expectations=lax).revision != publication.revision
    assert replace(publication, document={}).revision == publication.revision


def test_rewards_that_were_superseded_do_not_count() -> None:
    from tests.checkpoints.batches import rewards
    from trajlake.transforms.gate.batchframe import batch_frame

    given = pl.concat([rewards(["self"] * 100), rewards(["self"] * 100).with_columns(
        reward_id=pl.lit("later-") + pl.col("reward_id"), supersedes=pl.col("reward_id"), annotator_kind=pl.lit("code")
    )])  # fmt: skip
    frame = batch_frame(batch().drop("reward_count", "self_reward_count", "output_chars"), given)
    assert frame["reward_count"].sum() == 100
    assert frame["self_reward_count"].sum() == 0
    alone = batch_frame(batch().drop("reward_count", "self_reward_count", "output_chars"), rewards(["self"] * 100))
    rule = {"type": "expect_self_graded_share_to_be_at_most", "kwargs": {"max_share": 0.5}}
    assert run_checkpoint(frame, suite_of(rule)).success
    assert not run_checkpoint(alone, suite_of(rule)).success
