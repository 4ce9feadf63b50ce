"""What holds for any evidence: an answer from the closed sets, strong before weak, no success with a bad end."""

from __future__ import annotations

import timeit

from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.failure_rules import rule_table
from trajlake.expectations.taxonomy import FailureKind, OutcomeClass
from trajlake.transforms.classify.classifier import (
    Finding,
    RunEvidence,
    StepEvidence,
    classify_run,
    classify_step,
    deciding_rule,
)

NAMES = sorted({name for rule in rule_table().rule for name in (*rule.when.names, *rule.when.finish)})
PHRASES = sorted({text for rule in rule_table().rule for text in (*rule.when.message, *rule.when.opening)})
RULES = rule_table().rule

names = st.none() | st.sampled_from(NAMES) | st.text(max_size=30)
texts = st.none() | st.sampled_from(PHRASES) | st.text(max_size=200)
statuses = st.none() | st.integers(100, 999)
exit_codes = st.none() | st.sampled_from([0, 1, 124, 130, 137, -9, 255]) | st.integers(-300, 300)
signals = st.none() | st.sampled_from(["SIGKILL", "9", "term", ""]) | st.text(max_size=10)
flags = st.none() | st.booleans()
tokens = st.none() | st.integers(0, 5)

step_evidence = st.builds(
    StepEvidence,
    is_tool=st.booleans(), is_error=st.booleans(), error_type=names, error_message=texts, http_status=statuses,
    provider_code=names, retryable=flags, exit_code=exit_codes, exit_signal=signals, finish_reason=names,
    denied=st.booleans(), content=texts, output_tokens=tokens, tool_known=flags, arguments_valid=flags,
)  # fmt: skip
findings = st.none() | st.sampled_from(
    [Finding(rule.outcome_class, rule.kind, rule.id, rule.strength) for rule in RULES]
    + [Finding(OutcomeClass.UNKNOWN, FailureKind.UNEXPLAINED, "step.unexplained", "weak")]
)
run_evidence = st.builds(
    RunEvidence,
    end_state=st.sampled_from(["completed", "failed", "truncated", "timeout", "cancelled", "abandoned"]),
    end_inferred=st.booleans(), terminated=flags, truncated=flags, success=flags, stop_condition=names,
    error_type=names, error_message=texts, http_status=statuses, provider_code=names, retryable=flags,
    exit_code=exit_codes, exit_signal=signals, reward_score=st.none() | st.floats(), reward_passed=flags,
    grader_error=st.booleans(),
    last_failure=findings, last_failure_step_id=st.none() | st.just("s1"), last_failure_recovered=st.booleans(),
    denied=st.booleans(), step_count=st.integers(0, 9), output_tokens=tokens, output=texts,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(step_evidence, max_size=4))
def test_any_step_evidence_gives_an_outcome_of_the_closed_sets(evidence: list[StepEvidence]) -> None:
    found = classify_step(evidence)
    kinds = rule_table().classes[found.outcome_class].kinds
    assert found.failure_kind in kinds if kinds else found.failure_kind is None


@settings(max_examples=600, deadline=None)
@given(run_evidence)
def test_any_run_evidence_gives_an_outcome_of_the_closed_sets(evidence: RunEvidence) -> None:
    found = classify_run(evidence)
    kinds = rule_table().classes[found.outcome_class].kinds
    assert found.failure_kind in kinds if kinds else found.failure_kind is None
    assert deciding_rule(evidence) != "run.unexplained"


@settings(max_examples=600, deadline=None)
@given(run_evidence)
def test_no_run_with_a_bad_end_is_a_success(evidence: RunEvidence) -> None:
    found = classify_run(evidence)
    if found.outcome_class is OutcomeClass.SUCCESS:
        passed = evidence.reward_passed or (evidence.reward_passed is None and (evidence.reward_score or 0) >= 1)
        assert evidence.end_state == "completed" or (evidence.end_state == "truncated" and passed)
        assert found.basis in {"run.graded_pass", "run.claimed_success", "run.completed_ungraded"}


@settings(max_examples=300, deadline=None)
@given(st.lists(step_evidence, min_size=1, max_size=3), step_evidence)
def test_more_evidence_never_turns_a_strong_finding_into_a_weak_one(
    parts: list[StepEvidence], more: StepEvidence
) -> None:
    if classify_step(parts).strength == "strong":
        assert classify_step([*parts, more]).strength == "strong"


@settings(max_examples=300, deadline=None)
@given(step_evidence)
def test_text_does_not_change_a_strong_class_beside_a_server_error(evidence: StepEvidence) -> None:
    """Whatever a text says, a 5xx of a provider stays with the provider."""
    bare = StepEvidence(http_status=500, output_tokens=0)
    told = StepEvidence(
        http_status=500, output_tokens=0, content=evidence.content, error_message=evidence.error_message
    )
    assert classify_step([bare]).outcome_class == classify_step([told]).outcome_class


@settings(max_examples=400, deadline=None)
@given(run_evidence)
def test_an_answer_of_which_the_model_wrote_tokens_is_never_read_as_an_error(evidence: RunEvidence) -> None:
    evidence.output_tokens = 7
    with_text = classify_run(evidence)
    evidence.output = "Error code: 429 - {'error': {'code': 'insufficient_quota'}}"
    assert classify_run(evidence) == with_text


@settings(max_examples=200, deadline=None)
@given(run_evidence)
def test_classifying_twice_gives_the_same(evidence: RunEvidence) -> None:
    assert classify_run(evidence) == classify_run(evidence)


def test_classifying_costs_microseconds() -> None:
    """The budget is 20 µs for evidence as it comes; the bound is wide, because the machine may be shared."""
    step = [
        StepEvidence(http_status=429, error_type="rate_limit_error", error_message="Number of requests has exceeded"),
        StepEvidence(is_tool=True, is_error=True, content="Error: seat 14A is taken, choose another one please"),
    ]
    run = RunEvidence(end_state="failed", exit_code=1, error_message="agent exited with code 1", output="bye")
    for call in (lambda: classify_step(step), lambda: classify_run(run)):
        best = min(timeit.repeat(call, number=200, repeat=20)) / 200
        assert best < 100e-6, f"{best * 1e6:.0f} µs"
