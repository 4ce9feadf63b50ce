"""What a step's evidence means: strong before weak, text only where an error belongs."""

from __future__ import annotations

import pytest

from trajlake.expectations.taxonomy import FailureKind, OutcomeClass
from trajlake.transforms.classify.classifier import (
    StepEvidence,
    classify_step,
    is_failure_finish,
    outranks,
    recovers,
)


def test_S1_a_429_beside_zero_tokens_is_quota_although_the_text_says_success() -> None:
    found = classify_step([StepEvidence(http_status=429, output_tokens=0, content="success: rate limit reached")])
    assert (found.outcome_class, found.basis, found.strength) == (
        OutcomeClass.QUOTA,
        "quota.rate_limit_status",
        "strong",
    )


def test_S1_an_error_as_the_whole_answer_of_a_model_that_wrote_no_token_is_read_as_weak_evidence() -> None:
    text = 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    found = classify_step([StepEvidence(http_status=200, output_tokens=0, content=text)])
    assert (found.outcome_class, found.basis, found.strength) == (
        OutcomeClass.QUOTA,
        "text:quota.rate_limit_name",
        "weak",
    )


def test_S2_text_about_an_error_is_no_error() -> None:
    for text in ("The server answers 429", "Error code: 429 - {'error': {}}", "Rate limit reached"):
        found = classify_step([StepEvidence(http_status=200, output_tokens=12, content=text)])
        assert (found.outcome_class, found.basis) == (OutcomeClass.SUCCESS, "step.no_failure")


def test_S2_the_result_of_a_tool_that_worked_is_not_searched_for_errors() -> None:
    page = "HTTP 500 Internal Server Error: what it means and how to fix it"
    assert classify_step([StepEvidence(is_tool=True, content=page)]).outcome_class is OutcomeClass.SUCCESS


def test_S3_denial_tool_500_and_malformed_arguments_are_three_classes() -> None:
    denied = classify_step([StepEvidence(denied=True)])
    broken = classify_step([StepEvidence(is_tool=True, is_error=True, http_status=500)])
    malformed = classify_step([StepEvidence(is_tool=True, is_error=True, error_type="InputValidationError")])
    assert [f.outcome_class for f in (denied, broken, malformed)] == [
        OutcomeClass.POLICY_DENIED,
        OutcomeClass.TOOL_FAULT,
        OutcomeClass.AGENT_ACTION,
    ]


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        (StepEvidence(http_status=429, provider_code="rate_limit_exceeded"), FailureKind.RATE_LIMIT),
        (StepEvidence(http_status=429, provider_code="insufficient_quota"), FailureKind.QUOTA_EXHAUSTED),
        (StepEvidence(http_status=429, error_message="Usage limit reached for this week"), FailureKind.QUOTA_EXHAUSTED),
        (StepEvidence(http_status=402), FailureKind.BILLING),
    ],
)
def test_a_429_tells_a_rate_limit_from_a_spent_allowance_where_the_provider_does(
    evidence: StepEvidence, kind: FailureKind
) -> None:
    found = classify_step([evidence])
    assert (found.outcome_class, found.failure_kind) == (OutcomeClass.QUOTA, kind)


def test_strong_evidence_of_one_part_beats_weak_evidence_of_an_earlier_part() -> None:
    weak = StepEvidence(is_tool=True, is_error=True, content="something went wrong")
    strong = StepEvidence(is_tool=True, is_error=True, http_status=503)
    for order in ([weak, strong], [strong, weak]):
        found = classify_step(order)
        assert (found.outcome_class, found.http_status) == (OutcomeClass.TOOL_FAULT, 503)


def test_a_status_outranks_what_the_message_echoes_of_the_request() -> None:
    echo = "Invalid 'messages[3].content': " + "x" * 300 + " you exceeded your current quota, 429, usage limit reached"
    found = classify_step([StepEvidence(http_status=400, error_type="invalid_request_error", error_message=echo)])
    assert found.outcome_class is OutcomeClass.CONFIG


def test_a_nonzero_exit_code_of_a_command_is_its_answer_and_blames_nobody() -> None:
    found = classify_step([StepEvidence(is_tool=True, is_error=True, exit_code=1, content="2 tests failed")])
    assert (found.outcome_class, found.basis) == (OutcomeClass.UNKNOWN, "tool.exit_nonzero")


@pytest.mark.parametrize("signal", ["SIGKILL", "9", "kill", "Kill"])
def test_signals_are_known_by_name_and_number(signal: str) -> None:
    found = classify_step([StepEvidence(is_tool=True, exit_signal=signal)])
    assert found.failure_kind is FailureKind.PROCESS_KILLED


def test_a_negative_exit_code_is_a_signal() -> None:
    assert classify_step([StepEvidence(is_tool=True, exit_code=-9)]).failure_kind is FailureKind.PROCESS_KILLED


def test_an_unknown_error_is_visible_as_unknown_with_its_evidence() -> None:
    found = classify_step([StepEvidence(error_type="FrobnicationError", retryable=True)])
    assert (found.outcome_class, found.failure_kind, found.basis) == (
        OutcomeClass.UNKNOWN,
        FailureKind.UNEXPLAINED,
        "step.unexplained",
    )
    assert (found.error_type, found.retryable) == ("FrobnicationError", True)


def test_no_evidence_is_no_failure() -> None:
    assert classify_step([]).basis == "step.no_failure"
    assert classify_step([StepEvidence(http_status=204), StepEvidence(is_tool=True, exit_code=0)]).strength == "none"


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("content_filter", True),
        ("SAFETY", True),
        ("max_tokens", True),
        ("stop", False),
        ("tool_use", False),
        (None, False),
    ],
)
def test_finish_reasons_that_are_failure_evidence_are_known(reason: str | None, failure: bool) -> None:
    assert is_failure_finish(reason) is failure


def test_S11_a_failed_model_call_is_made_good_by_the_next_response() -> None:
    assert recovers("quota.rate_limit_status", (), ())
    assert recovers("text:infra.provider_status", (), ("search",))


def test_S3_a_failed_tool_is_made_good_only_by_that_tool() -> None:
    assert not recovers("tool.server_status", ("search",), ())
    assert not recovers("tool.server_status", ("search",), ("read_file",))
    assert recovers("tool.server_status", ("search",), ("read_file", "search"))
    assert recovers("tool.server_status", (), ("read_file",))
    assert not recovers("policy.denied", ("rm",), ())


def test_a_weak_failure_does_not_hide_an_earlier_strong_one() -> None:
    assert not outranks("tool.error", "tool.server_status")
    assert outranks("tool.server_status", "tool.error")
    assert outranks("tool.server_status", "quota.rate_limit_status")
    assert outranks("tool.error", "text:quota.rate_limit_name")
