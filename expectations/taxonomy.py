"""Outcome classes and failure kinds: the closed sets that statistics and levers are built on."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class OutcomeClass(StrEnum):
    """What a run (or step) says about the skill. Only `SCORABLE` classes enter the quality denominator."""

    SUCCESS = "success"
    QUALITY_FAILURE = "quality_failure"
    AGENT_ACTION = "agent_action"
    """The model's own malformed act: arguments that no tool accepts, a tool that does not exist."""
    TOOL_FAULT = "tool_fault"
    INFRA_FAULT = "infra_fault"
    QUOTA = "quota"
    CONFIG = "config"
    POLICY_DENIED = "policy_denied"
    VERIFIER_FAULT = "verifier_fault"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


SCORABLE: Final = frozenset({OutcomeClass.SUCCESS, OutcomeClass.QUALITY_FAILURE, OutcomeClass.AGENT_ACTION})
"""Classes that speak of quality. All others are counted, shown and kept out of the denominator."""


NO_ANSWER: Final = frozenset({OutcomeClass.INFRA_FAULT, OutcomeClass.QUOTA, OutcomeClass.CONFIG})
"""Classes of a step without calls in which the model did not answer: what stands in the message is the provider's."""


class FailureKind(StrEnum):
    """Finer kind within a class."""

    WRONG_ANSWER = "wrong_answer"
    TASK_FAILED = "task_failed"
    MALFORMED_ARGUMENTS = "malformed_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    OUTPUT_UNPARSABLE = "output_unparsable"
    CONTEXT_OVERFLOW = "context_overflow"
    TOOL_ERROR = "tool_error"
    TOOL_SERVER_ERROR = "tool_server_error"
    TOOL_TIMEOUT = "tool_timeout"
    NETWORK = "network"
    PROVIDER_ERROR = "provider_error"
    PROVIDER_OVERLOADED = "provider_overloaded"
    OUT_OF_MEMORY = "out_of_memory"
    SANDBOX_LOST = "sandbox_lost"
    PROCESS_KILLED = "process_killed"
    RATE_LIMIT = "rate_limit"
    QUOTA_EXHAUSTED = "quota_exhausted"
    BILLING = "billing"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    MODEL_NOT_FOUND = "model_not_found"
    BAD_REQUEST = "bad_request"
    GUARDRAIL = "guardrail"
    CONTENT_FILTER = "content_filter"
    GRADER_ERROR = "grader_error"
    USER_CANCELLED = "user_cancelled"
    NO_END = "no_end"
    WALL_CLOCK = "wall_clock"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    UNEXPLAINED = "unexplained"
