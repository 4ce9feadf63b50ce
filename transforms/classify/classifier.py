"""Says what a failed step or a closed run means, from its evidence and the rule table; nothing else.

Strong evidence (statuses, codes, types, exit codes and signals, finish reasons, verdicts) beats weak evidence (text,
and signs that say little). Text is looked at only where the source marks an error or the model wrote nothing, and it
never is the task's own text. A run is a success only when it completed, or when a grader passed what a cut run left.

Both functions are total: any evidence gives one of the closed classes. The rules and their reasons are in
`expectations/failure_rules.toml`, printed as docs/failures.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

from trajlake.expectations.failure_rules import TEXT_PREFIX, RunRule, classifier_revision, normal_name, rule_table
from trajlake.expectations.taxonomy import FailureKind, OutcomeClass
from trajlake.transforms.classify.evidence import Finding, Judged, RunEvidence, RunFinding, StepEvidence
from trajlake.transforms.classify.rules import (
    BY_ID,
    DEFAULTS,
    Match,
    judge,
    judge_text,
)
from trajlake.transforms.classify.view import FINISH_NAMES, View, failure_view

__all__ = [
    "CLASSIFIER_REVISION",
    "Finding",
    "Judged",
    "RunEvidence",
    "RunFinding",
    "StepEvidence",
    "classify_run",
    "classify_step",
    "deciding_rule",
    "is_failure_finish",
    "outranks",
    "recovers",
]

CLASSIFIER_REVISION: Final = classifier_revision()
"""Content hash of the rules in force; stands in `classifier_revision` of steps and runs."""


def classify_step(evidence: Sequence[StepEvidence]) -> Finding:
    """What a step's evidence means: strong before weak, then in the order of the table, over all its parts."""
    best: Match | None = None
    whose: StepEvidence | None = None
    failing: StepEvidence | None = None
    for part in evidence:
        view = _step_view(part)
        if view.failing:
            failing = failing or part
            found = judge(view) or _step_text(part, view)
        elif part.output_tokens == 0 and part.content and not part.is_tool:
            found = judge_text(view, None, part.content, strict=False)
        else:
            continue
        if found is not None and (best is None or found.rank < best.rank):
            best, whose = found, part
    if best is not None and whose is not None:
        return _finding(best, whose)
    default = DEFAULTS["step.unexplained" if failing is not None else "step.no_failure"]
    if failing is None:
        return Finding(default.outcome_class, None, default.id, "none")
    return Finding(
        default.outcome_class, default.kind, default.id, "weak",
        failing.error_type, failing.http_status, failing.provider_code, failing.retryable,
    )  # fmt: skip


def classify_run(evidence: RunEvidence) -> RunFinding:
    """What a run came to: the first row of the decision table that fits its facts."""
    error, told_by = _run_error(evidence)
    row = _deciding_row(_facts(evidence, error, told_by))
    if row is not None:
        return _outcome(row, evidence, error)
    default = DEFAULTS["run.unexplained"]
    return RunFinding(
        default.outcome_class, default.kind, default.id, "weak",
        evidence.error_type, evidence.http_status, evidence.provider_code, evidence.retryable,
    )  # fmt: skip


def deciding_rule(evidence: RunEvidence) -> str:
    """Id of the row of the decision table that decides a run; its `basis` is the evidence's where the row takes one."""
    row = _deciding_row(_facts(evidence, *_run_error(evidence)))
    return DEFAULTS["run.unexplained"].id if row is None else row.id


@lru_cache(maxsize=512)
def is_failure_finish(finish_reason: str | None) -> bool:
    """Whether a model's finish reason is failure evidence, so that its step has to be classified."""
    return finish_reason is not None and normal_name(finish_reason) in FINISH_NAMES


def recovers(failed_basis: str, failed_tools: Collection[str], succeeded_tools: Collection[str]) -> bool:
    """Whether a later step without a failure makes an earlier failed step good.

    `failed_tools`, `succeeded_tools`: names of the functions whose calls failed then and succeeded now. A failed model
    call is made good by any later response; a failed tool call only by a later success of one of the same tools (of any
    tool where the names are not known): an agent that goes on to say "the tool is down" has repaired nothing.
    """
    if _speaker(failed_basis) == "model":
        return True
    if not failed_tools:
        return bool(succeeded_tools)
    return not set(failed_tools).isdisjoint(succeeded_tools)


def outranks(basis: str, earlier_basis: str) -> bool:
    """Whether a newly failed step replaces an earlier one, not made good, as the run's last failure.

    It does unless its evidence is weak and the earlier one's strong.
    """
    return _strength(basis) == "strong" or _strength(earlier_basis) != "strong"


def _step_view(part: StepEvidence) -> View:
    return failure_view(
        "tool" if part.is_tool else "model",
        (part.error_type, part.provider_code),
        part.http_status,
        part.error_message,
        part.exit_code,
        part.exit_signal,
        part.finish_reason,
        part.denied,
        part.is_error,
        part.tool_known,
        part.arguments_valid,
    )


def _step_text(part: StepEvidence, view: View) -> Match | None:
    """Weak findings: from the error's message, then from content where that can only be an error; then the rest."""
    content = None
    if part.content and (part.is_error if part.is_tool else not part.output_tokens):
        content = part.content
    return judge_text(view, part.error_message, content, strict=not part.is_tool and part.output_tokens is None)


def _finding(match: Match, part: StepEvidence) -> Finding:
    rule = match.rule
    return Finding(
        rule.outcome_class, rule.kind, match.basis, match.strength,
        part.error_type, part.http_status, part.provider_code, part.retryable,
    )  # fmt: skip


def _run_error(evidence: RunEvidence) -> tuple[Match | None, str]:
    """What the end event's own error means, and how well that is known: strong, weak, text (of the output) or none."""
    view = failure_view(
        "run",
        (evidence.error_type, evidence.provider_code, evidence.stop_condition),
        evidence.http_status,
        evidence.error_message,
        evidence.exit_code,
        evidence.exit_signal,
    )
    if view.failing:
        found = judge(view) or judge_text(view, evidence.error_message, None, strict=False)
        if found is not None:
            return found, found.strength
    if evidence.output and not evidence.output_tokens:
        found = judge_text(view, None, evidence.output, strict=evidence.output_tokens is None)
        if found is not None:
            return found, "text"
    return None, "none"


def _deciding_row(facts: tuple[str, ...]) -> RunRule | None:
    for row, conditions in _ROWS.get(facts[0], ()):
        for place, values in conditions:
            if facts[place] not in values:
                break
        else:
            return row
    return None


def _facts(evidence: RunEvidence, error: Match | None, told_by: str) -> tuple[str, ...]:
    """The facts that rows of the table ask for, in the order of `_FACTS`."""
    failed = None if evidence.last_failure_recovered else evidence.last_failure
    end = evidence.end_state
    if end == "completed" and evidence.truncated:
        end = "truncated"
    tokens = evidence.output_tokens
    return (
        end,
        _verdict(evidence),
        "none" if failed is None else _step_fact(failed.basis, failed.outcome_class),
        "none" if failed is None else str(failed.outcome_class),
        "none" if failed is None or failed.failure_kind is None else str(failed.failure_kind),
        told_by,
        "none" if error is None else error.rule.outcome_class.value,
        "none" if error is None else error.rule.kind.value,
        "yes" if evidence.denied else "no",
        "yes" if evidence.grader_error else "no",
        "unknown" if tokens is None else ("no" if tokens else "yes"),
    )


def _verdict(evidence: RunEvidence) -> str:
    """The verdict on a run: a grader's before the harness's. A score decides at 1 and above, and at 0 and below."""
    if evidence.reward_passed is not None:
        return "pass" if evidence.reward_passed else "fail"
    score = evidence.reward_score
    if score is not None and score == score:
        return "pass" if score >= 1 else ("fail" if score <= 0 else "partial")
    if evidence.success is not None:
        return "claimed_pass" if evidence.success else "claimed_fail"
    return "none"


def _outcome(row: RunRule, evidence: RunEvidence, error: Match | None) -> RunFinding:
    failed = evidence.last_failure
    step_id = evidence.last_failure_step_id if row.attribute else None
    if row.take == "step" and failed is not None:
        kind = failed.failure_kind
        return RunFinding(
            OutcomeClass(failed.outcome_class), None if kind is None else FailureKind(kind), failed.basis,
            _strength(failed.basis), failed.error_type, failed.http_status, failed.provider_code, failed.retryable,
            step_id,
        )  # fmt: skip
    if row.take == "error" and error is not None:
        if failed is not None and not evidence.last_failure_recovered:
            # The run died of what its last step died of: lay it to that step.
            step_id = evidence.last_failure_step_id if failed.outcome_class == error.rule.outcome_class else None
        return RunFinding(
            error.rule.outcome_class, error.rule.kind, error.basis, error.strength,
            evidence.error_type, evidence.http_status, evidence.provider_code, evidence.retryable, step_id,
        )  # fmt: skip
    if row.outcome_class is None:
        raise AssertionError(f"run rule {row.id} takes what is not there; the table's conditions exclude this")
    if row.outcome_class is OutcomeClass.SUCCESS:
        return RunFinding(OutcomeClass.SUCCESS, None, row.id, "none")
    return RunFinding(
        row.outcome_class, row.kind, row.id, "weak" if row.outcome_class is OutcomeClass.UNKNOWN else "strong",
        evidence.error_type, evidence.http_status, evidence.provider_code, evidence.retryable, step_id,
    )  # fmt: skip


def _strength(basis: str) -> str:
    rule = BY_ID.get(basis)
    return "weak" if rule is None else rule.strength


def _speaker(basis: str) -> str:
    name = basis.removeprefix(TEXT_PREFIX)
    return "tool" if name.startswith("tool.") or name == "policy.denied" else "model"


def _step_fact(basis: str, outcome_class: str) -> str:
    if _strength(basis) == "weak":
        return "weak"
    speaker = _speaker(basis)
    return "policy" if speaker == "tool" and outcome_class == OutcomeClass.POLICY_DENIED else speaker


_FACTS: Final = (
    "end", "verdict", "step", "step_classes", "step_kinds", "error", "error_classes", "error_kinds", "denied",
    "grader_error", "empty",
)  # fmt: skip

_Conditions = tuple[tuple[int, frozenset[str]], ...]


def _compile_rows() -> dict[str, tuple[tuple[RunRule, _Conditions], ...]]:
    """Rows by end state, each with the facts that it still has to ask for, cheapest first."""
    rows: dict[str, list[tuple[RunRule, _Conditions]]] = {}
    for row in rule_table().run_rule:
        conditions = tuple(
            (place, frozenset(values))
            for place, name in enumerate(_FACTS)
            if place and (values := getattr(row.when, name))
        )
        for end in row.when.end:
            rows.setdefault(end, []).append((row, conditions))
    return {end: tuple(found) for end, found in rows.items()}


_ROWS: Final = _compile_rows()
