"""What the classifier is asked and what it answers: evidence of steps and runs, findings."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from trajlake.expectations.taxonomy import FailureKind, OutcomeClass


class StepEvidence(Struct, kw_only=True, gc=False):
    """What one part of a step says: the model call, one tool result, or a policy's verdict. All fields optional.

    `content`: first two kilobytes of what the model wrote or the tool returned; looked at only by weak rules.
    `tool_known`: False when the run declared its tools and the called one is not among them. `arguments_valid`: False
    when the call's arguments are not a JSON object. Both count only beside an error.
    """

    is_tool: bool = False
    is_error: bool = False
    error_type: str | None = None
    error_message: str | None = None
    http_status: int | None = None
    provider_code: str | None = None
    retryable: bool | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    finish_reason: str | None = None
    denied: bool = False
    content: str | None = None
    output_tokens: int | None = None
    tool_known: bool | None = None
    arguments_valid: bool | None = None


class Finding(Struct, frozen=True, gc=False):
    """What a step's evidence means. `basis` is the id of the rule; `strength` is strong, weak, or none on success."""

    outcome_class: OutcomeClass
    failure_kind: FailureKind | None
    basis: str
    strength: str
    error_type: str | None = None
    http_status: int | None = None
    provider_code: str | None = None
    retryable: bool | None = None


class Judged(Protocol):
    """The parts of an earlier `Finding` that the run's classification reads; stored findings have them too."""

    @property
    def outcome_class(self) -> str: ...
    @property
    def failure_kind(self) -> str | None: ...
    @property
    def basis(self) -> str: ...
    @property
    def error_type(self) -> str | None: ...
    @property
    def http_status(self) -> int | None: ...
    @property
    def provider_code(self) -> str | None: ...
    @property
    def retryable(self) -> bool | None: ...


class RunEvidence(Struct, kw_only=True):
    """What is known of a run when it closes.

    `success` is the harness's own word; `reward_*` are of the last reward for the whole run that counts, given by
    anybody but the agent itself. `last_failure` is the finding of the step that failed last (see `outranks`);
    `last_failure_recovered` says that something made it good (see `recovers`). `denied`: a policy denied a call.
    `output`: first two kilobytes of the final answer. `output_tokens`: sum over the run's own steps.
    """

    end_state: str
    end_inferred: bool = False
    terminated: bool | None = None
    truncated: bool | None = None
    success: bool | None = None
    stop_condition: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    http_status: int | None = None
    provider_code: str | None = None
    retryable: bool | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    reward_score: float | None = None
    reward_passed: bool | None = None
    grader_error: bool = False
    last_failure: Judged | None = None
    last_failure_step_id: str | None = None
    last_failure_recovered: bool = False
    denied: bool = False
    step_count: int = 0
    output_tokens: int | None = None
    output: str | None = None


class RunFinding(Struct, frozen=True, gc=False):
    """What a run came to. `attributed_step_id`: the step that the outcome is laid to, or None."""

    outcome_class: OutcomeClass
    failure_kind: FailureKind | None
    basis: str
    strength: str
    error_type: str | None = None
    http_status: int | None = None
    provider_code: str | None = None
    retryable: bool | None = None
    attributed_step_id: str | None = None
