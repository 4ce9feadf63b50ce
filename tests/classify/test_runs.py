"""What a run came to: the decision table, told as the cases of the fault catalogue."""

from __future__ import annotations

from typing import Any

import pytest

from trajlake.expectations.failure_rules import rule_table
from trajlake.expectations.taxonomy import SCORABLE, FailureKind, OutcomeClass
from trajlake.transforms.classify.classifier import (
    Finding,
    RunEvidence,
    RunFinding,
    StepEvidence,
    classify_run,
    classify_step,
)

RULES = {rule.id: rule for rule in rule_table().rule}
RATE_LIMITED = classify_step([StepEvidence(http_status=429)])
TOOL_500 = classify_step([StepEvidence(is_tool=True, is_error=True, http_status=500)])
TOOL_SCHEMA = classify_step([StepEvidence(is_tool=True, is_error=True, provider_code="-32602")])
TOOL_HUNG = classify_step([StepEvidence(is_tool=True, exit_code=124)])
TOOL_SAYS_ERROR = classify_step([StepEvidence(is_tool=True, is_error=True, content="Error: no seats left")])
DENIED = classify_step([StepEvidence(denied=True)])


def run(end_state: str, last_failure: Finding | None = None, **evidence: Any) -> RunFinding:
    step_id = None if last_failure is None else "s4"
    return classify_run(
        RunEvidence(end_state=end_state, last_failure=last_failure, last_failure_step_id=step_id, **evidence)
    )


def outcome(found: RunFinding) -> tuple[str, str | None]:
    return found.outcome_class.value, None if found.failure_kind is None else found.failure_kind.value


def test_S1_a_429_with_status_success_and_zero_tokens_is_quota() -> None:
    found = run("completed", success=True, http_status=429, output_tokens=0, output="Rate limit reached, try later")
    assert outcome(found) == ("quota", "rate_limit")
    assert (found.basis, found.strength, found.http_status) == ("quota.rate_limit_status", "strong", 429)


def test_S1_a_429_of_the_last_model_call_is_quota_although_the_harness_reports_success() -> None:
    found = run("completed", RATE_LIMITED, success=True, output_tokens=512, output="Claude AI usage limit reached")
    assert outcome(found) == ("quota", "rate_limit")
    assert found.attributed_step_id == "s4"


@pytest.mark.parametrize("success", [True, None, False])
def test_S1_an_error_text_as_the_only_output_of_a_silent_model_is_quota(success: bool | None) -> None:
    text = 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"limit"}}'
    found = run("completed", success=success, output_tokens=0, output=text)
    assert outcome(found) == ("quota", "rate_limit")
    assert (found.basis, found.strength) == ("text:quota.rate_limit_name", "weak")


def test_S1_a_quota_outage_never_counts_as_a_wrong_answer() -> None:
    found = run("completed", output_tokens=0, reward_passed=False, output="Claude AI usage limit reached|1755615600")
    assert outcome(found) == ("quota", "quota_exhausted")


@pytest.mark.parametrize(
    "output",
    [
        "429",
        "The endpoint returned 429, so I added a retry.",
        "Error code: 429 - means Too Many Requests",
        "API Error: 429 {'type': 'rate_limit_error'} is what the log shows",
        "Rate limit reached is the message that the client prints",
        "",
    ],
)
def test_S2_an_answer_that_speaks_of_429_is_not_quota(output: str) -> None:
    assert run("completed", output_tokens=40, output=output).basis == "run.completed_ungraded"
    assert run("completed", output_tokens=40, output=output, success=True).outcome_class is OutcomeClass.SUCCESS


@pytest.mark.parametrize(
    "output",
    [
        "429",
        "The endpoint returned 429.",
        "HTTP 429 means too many requests",
        "Error: 429",
        "Too many requests were sent, so I added a pause.",
        "Usage limit reached: the page shows this text now.",
        "Rate limit reached",
        "TimeoutError: that is what the log says",
        "Error code: 429 - {'error': ...} stands in the log. " + "What follows explains it. " * 50,
    ],
)
def test_S2_without_token_counts_only_a_clients_own_error_shape_is_read(output: str) -> None:
    assert run("completed", output=output).basis == "run.completed_ungraded"


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("Claude AI usage limit reached|1755615600", "quota_exhausted"),
        ("You've hit your weekly limit · resets Jul 31, 2am (UTC)", "quota_exhausted"),
        ("API Error (Connection error.)", "network"),
        ('429 {"type":"error","error":{"type":"rate_limit_error"}}', "rate_limit"),
        ("litellm.RateLimitError: AnthropicException - slow down", "rate_limit"),
    ],
)
def test_S1_without_token_counts_a_clients_notice_is_read(output: str, kind: str) -> None:
    assert outcome(run("completed", output=output))[1] == kind


def test_S2_a_judged_run_is_not_reread_as_an_outage() -> None:
    text = "Error code: 429 - {'error': {'code': 'insufficient_quota'}}"
    assert run("completed", output=text, reward_passed=True).basis == "run.graded_pass"
    assert run("completed", output=text, success=True).basis == "run.claimed_success"
    assert run("completed", output=text, reward_passed=False).basis == "run.wrong_answer"


def test_S3_four_failures_are_four_classes() -> None:
    denied = run("failed", DENIED, denied=True)
    tool_500 = run("failed", TOOL_500)
    schema = run("completed", TOOL_SCHEMA, reward_passed=False)
    wrong = run("completed", reward_passed=False)
    assert [outcome(found) for found in (denied, tool_500, schema, wrong)] == [
        ("policy_denied", "guardrail"),
        ("tool_fault", "tool_server_error"),
        ("agent_action", "malformed_arguments"),
        ("quality_failure", "wrong_answer"),
    ]
    assert [found.attributed_step_id for found in (denied, tool_500, schema, wrong)] == ["s4", "s4", "s4", None]


def test_S3_a_denial_that_the_agent_survived_does_not_spoil_a_judged_success() -> None:
    assert run("completed", denied=True, reward_passed=True).outcome_class is OutcomeClass.SUCCESS
    assert run("completed", denied=True).basis == "run.completed_ungraded"


def test_S3_a_wrong_answer_after_ordinary_tool_errors_stays_a_quality_failure() -> None:
    found = run("completed", TOOL_SAYS_ERROR, reward_score=0.0)
    assert outcome(found) == ("quality_failure", "wrong_answer")


def test_S11_retries_that_ended_well_do_not_decide_the_run() -> None:
    found = run("completed", RATE_LIMITED, last_failure_recovered=True, success=True)
    assert (found.outcome_class, found.basis) == (OutcomeClass.SUCCESS, "run.claimed_success")
    ungraded = run("completed", TOOL_500, last_failure_recovered=True)
    assert ungraded.basis == "run.completed_ungraded"


def test_S11_a_recovered_failure_does_not_explain_a_later_one() -> None:
    found = run("failed", RATE_LIMITED, last_failure_recovered=True, exit_code=1)
    assert found.basis == "run.failed_unexplained"


def test_S15_abandoned_and_timed_out_runs_are_classes_of_their_own() -> None:
    assert outcome(run("abandoned", end_inferred=True)) == ("abandoned", "no_end")
    assert outcome(run("timeout")) == ("timeout", "wall_clock")
    assert outcome(run("timeout", reward_passed=False)) == ("timeout", "wall_clock")
    assert not {OutcomeClass.ABANDONED, OutcomeClass.TIMEOUT} & SCORABLE


def test_S15_a_silent_end_after_a_refused_model_call_is_laid_to_the_provider() -> None:
    found = run("abandoned", RATE_LIMITED, end_inferred=True)
    assert (outcome(found), found.attributed_step_id) == (("quota", "rate_limit"), "s4")


@pytest.mark.parametrize(
    "evidence",
    [
        {"end_state": "timeout", "exit_code": 137},
        {"end_state": "timeout", "error_type": "SandboxNotFoundError"},
        {"end_state": "failed", "error_type": "SandboxNotFoundError"},
        {"end_state": "failed", "exit_code": 137},
        {"end_state": "failed", "exit_signal": "SIGKILL", "reward_passed": False},
        {"end_state": "abandoned", "end_inferred": True},
        {"end_state": "failed", "error_type": "SandboxTimeoutError"},
    ],
)
def test_S17_a_sandbox_killed_by_a_slow_tool_is_a_timeout(evidence: dict[str, Any]) -> None:
    found = run(last_failure=TOOL_HUNG, **evidence)
    assert outcome(found) == ("timeout", "wall_clock")


def test_S17_a_sandbox_lost_for_no_reason_of_the_agents_is_infrastructure() -> None:
    assert outcome(run("failed", error_type="SandboxNotFoundError")) == ("infra_fault", "sandbox_lost")
    assert outcome(run("failed", exit_code=137)) == ("infra_fault", "process_killed")


def test_a_cancelled_run_is_cancelled_whatever_else_went_wrong() -> None:
    assert outcome(run("cancelled", RATE_LIMITED, http_status=500, exit_code=1)) == ("cancelled", "user_cancelled")
    assert outcome(run("failed", exit_code=130)) == ("cancelled", "user_cancelled")


def test_a_completed_run_that_nobody_judged_says_so_in_its_basis() -> None:
    found = run("completed", output_tokens=3)
    assert (found.outcome_class, found.basis, found.strength) == (
        OutcomeClass.SUCCESS,
        "run.completed_ungraded",
        "none",
    )


def test_an_exit_code_alone_explains_nothing() -> None:
    found = run("failed", exit_code=1)
    assert (outcome(found), found.basis) == (("unknown", "unexplained"), "run.failed_unexplained")


@pytest.mark.parametrize(
    ("evidence", "basis"),
    [
        ({"reward_passed": True, "reward_score": 0.0}, "run.graded_pass"),
        ({"reward_score": 1.0}, "run.graded_pass"),
        ({"reward_score": 0.0}, "run.wrong_answer"),
        ({"reward_score": -1.0, "success": True}, "run.wrong_answer"),
        ({"reward_score": 0.5}, "run.score_without_verdict"),
        ({"reward_score": float("nan"), "success": True}, "run.claimed_success"),
        ({"success": False}, "run.wrong_answer"),
    ],
)
def test_a_graders_verdict_counts_before_the_harnesss(evidence: dict[str, Any], basis: str) -> None:
    assert run("completed", **evidence).basis == basis


def test_a_missing_reward_is_no_fail() -> None:
    assert run("completed", reward_score=None, reward_passed=None).outcome_class is OutcomeClass.SUCCESS


def test_a_failed_grader_leaves_a_verifier_fault_and_no_wrong_answer() -> None:
    assert outcome(run("completed", grader_error=True)) == ("verifier_fault", "grader_error")
    assert outcome(run("failed", error_type="VerifierTimeoutError")) == ("verifier_fault", "grader_error")
    assert run("completed", grader_error=True, reward_passed=True).outcome_class is OutcomeClass.SUCCESS


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        ({"stop_condition": "max_turns"}, FailureKind.STEP_LIMIT),
        ({"stop_condition": "error_max_budget_usd"}, FailureKind.TOKEN_LIMIT),
        ({"error_type": "ContextWindowExceededError"}, FailureKind.CONTEXT_OVERFLOW),
        ({}, FailureKind.TASK_FAILED),
    ],
)
def test_a_budget_that_ran_out_is_a_quality_failure_unless_a_grader_passed_what_was_left(
    evidence: dict[str, Any], kind: FailureKind
) -> None:
    cut = run("truncated", **evidence)
    assert (cut.outcome_class, cut.failure_kind) == (OutcomeClass.QUALITY_FAILURE, kind)
    assert run("truncated", reward_passed=True, **evidence).outcome_class is OutcomeClass.SUCCESS


def test_a_run_marked_truncated_by_its_environment_is_not_a_completed_one() -> None:
    assert run("completed", truncated=True).basis == "run.truncated"


def test_a_grader_that_passed_the_result_outranks_trouble_on_the_way() -> None:
    assert run("completed", RATE_LIMITED, http_status=429, reward_passed=True).basis == "run.graded_pass"


def test_a_failed_run_is_never_a_success() -> None:
    found = run("failed", reward_passed=True, success=True)
    assert (found.outcome_class, found.basis) == (OutcomeClass.UNKNOWN, "run.failed_unexplained")


def test_the_error_of_the_end_is_laid_to_the_step_that_died_of_it() -> None:
    assert run("failed", RATE_LIMITED, http_status=429).attributed_step_id == "s4"
    assert run("failed", TOOL_500, http_status=429).attributed_step_id is None


def test_an_end_state_that_no_row_knows_is_unknown() -> None:
    assert run("exploded").basis == "run.unexplained"
