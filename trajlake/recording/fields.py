"""The fields that each recording method takes, for editors and type checkers.

They are the fields of the event contract (`trajlake.expectations.events`, which documents them), with short forms
added: a thing with a name and a version may be given as its name, and its version as `<thing>_version`. A test keeps
the two in step. Fields that are not listed here are recorded too; type checkers then warn, landing keeps them in the
ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from trajlake.expectations.events import (
    AnnotatorKind,
    EndState,
    Message,
    Model,
    Named,
    SourceGap,
    ToolCall,
    Usage,
    Verdict,
)

NamedLike = str | Named | Mapping[str, Any]
ModelLike = str | Model | Mapping[str, Any]
UsageLike = Usage | Mapping[str, Any]
CallLike = ToolCall | Mapping[str, Any] | Any
"""A tool call: ours, or OpenAI's (`id`, `function`) or Anthropic's (`id`, `name`, `input`), as mapping or object."""
MessageLike = Message | Mapping[str, Any]
GapLike = SourceGap | Mapping[str, Any]


class RunFields(TypedDict, total=False):
    """Of `agent.run.started`."""

    agent: NamedLike
    agent_version: str
    skill: NamedLike
    skill_version: str
    prompt: NamedLike
    prompt_version: str
    memory: NamedLike
    memory_version: str
    tools: Sequence[NamedLike]
    model: ModelLike
    model_tier: str
    model_provider: str
    policy_version: str
    tokenizer_id: str
    chat_template_hash: str
    framework: NamedLike
    framework_version: str
    environment: NamedLike
    environment_version: str
    session_id: str
    task_id: str
    task_family: str
    group_id: str
    attempt_id: str
    spawned_by_tool_call_id: str
    forked_from_id: str
    purpose: Sequence[str]
    residency: str
    classification: str
    license: str
    consent_revision: str
    subject_id: str
    input: Any
    origin: str


class FailureFields(TypedDict, total=False):
    """Evidence of a failure; of responses, tool results and run ends."""

    error_type: str
    error_message: str
    http_status: int
    provider_code: str
    retry_count: int
    retryable: bool


class ResponseFields(FailureFields, total=False):
    """Of `agent.model.responded`."""

    message_id: str
    partial: bool
    source: str
    message: Any
    reasoning_content: Any
    tool_calls: Sequence[CallLike]
    input_messages: Sequence[MessageLike]
    model: ModelLike
    model_tier: str
    model_provider: str
    finish_reason: str
    usage: UsageLike
    cost_usd: float
    latency_ms: float
    is_copied_context: bool
    policy_version: str
    prompt_token_ids: Sequence[int]
    completion_token_ids: Sequence[int]
    logprobs: Sequence[float]
    loss_mask: Sequence[int]
    gaps: Sequence[GapLike]


class CallFields(TypedDict, total=False):
    """Of `agent.tool.called`, beside the call's name, arguments and id."""

    tool: NamedLike
    tool_version: str


class ResultFields(FailureFields, total=False):
    """Of `agent.tool.returned`, beside the content."""

    partial: bool
    is_error: bool
    exit_code: int
    exit_signal: str
    latency_ms: float


class PolicyFields(TypedDict, total=False):
    """Of `agent.policy.decided`, beside the policy and its verdict."""

    rule_id: str
    action: str
    reason: str
    tool_call_id: str


class CompactionFields(TypedDict, total=False):
    """Of `agent.context.compacted`, beside the summary."""

    trigger: str
    tokens_before: int
    tokens_after: int


class FeedbackFields(TypedDict, total=False):
    """Of `agent.feedback.given`, beside the score."""

    name: str
    label: str
    comment: str
    annotator_id: str
    step_id: str


class RewardFields(TypedDict, total=False):
    """Of `agent.reward.assigned`, beside name, score and kind of annotator."""

    weight: float
    passed: bool
    annotator_id: str
    annotator_version: str
    explanation: str
    step_id: str
    reward_id: str
    supersedes: str


class EndFields(FailureFields, total=False):
    """Of `agent.run.ended`, beside the end state."""

    terminated: bool
    truncated: bool
    success: bool
    stop_condition: str
    exit_code: int
    exit_signal: str
    output: Any
    input_messages: Sequence[MessageLike]
    policy_version: str


__all__ = [
    "AnnotatorKind",
    "CallFields",
    "CallLike",
    "CompactionFields",
    "EndFields",
    "EndState",
    "FailureFields",
    "FeedbackFields",
    "MessageLike",
    "ModelLike",
    "NamedLike",
    "PolicyFields",
    "ResponseFields",
    "ResultFields",
    "RewardFields",
    "RunFields",
    "UsageLike",
    "Verdict",
]
