"""Wire contract: the audit events that agents publish, as CloudEvents 1.0 in JSON.

Every event is one CloudEvents envelope (`Envelope`) whose `type` selects one payload struct. The structs
below are the only declaration of the contract: decoding, JSON Schema, the docs page and the compatibility
test all read them.

Names come, in this order, from the OpenTelemetry GenAI conventions, ATIF, Gymnasium/RLDS
(`terminated`, `truncated`), then ours. Units are in the names (`latency_ms`, `cost_usd`).

Unknown fields are legal: they stay in the ledger (`events.event`) and are ignored by assembly. Unknown event types are
legal too (see `transforms.decode`). Content fields typed `Any` accept a string or any JSON value; a value that is not
a string is stored as compact JSON text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

SPEC_VERSION: Final = "1.0"
EVENTS_TOPIC: Final = "agent.audit.v1"
"""Topic of all tenants' events. One behind whose name a dot and a tenant stand is that tenant's own."""
CONTENT_TYPE: Final = "application/cloudevents+json"
TICK_SOURCE: Final = "trajlake/land"
TICK_KEY: Final = b"trajlake/tick"
"""Kafka key of ticks. Who may write to the topic is for its access list to say; this only catches accidents."""
RECLASSIFY_SOURCE: Final = "trajlake/reclassify"
ERASED_TYPE: Final = "trajlake.erased"
"""Type of what stands in the ledger in the place of an event that was erased: its offset, its tenant, nothing of it."""
ERASED_ID: Final = "erased"
ERASED_SOURCE: Final = "trajlake/forget"
TOMBSTONE_PREFIX: Final = (
    f'{{"specversion":"1.0","id":"{ERASED_ID}","source":"{ERASED_SOURCE}","type":"{ERASED_TYPE}","tenantid":"'
)
"""How the text of each such row begins."""
RELEASED_HEADER: Final = "trajlake-released-from"
"""Kafka header of a record that comes from quarantine: `topic/partition/offset` of its row there."""
PAYLOAD_MARKER: Final = "payload:sha256:"
"""Prefix of the string that stands for content stored by reference: `payload:sha256:<64 hex>:<bytes>`."""

Text = Annotated[str, Meta(max_length=1024)]
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""What every JSON reader holds exactly (RFC 8259, section 6), and 64-bit columns with room for sums."""
Retries = Annotated[int, Meta(ge=0, le=2**31 - 1)]
TokenId = Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
LossMark = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)]
"""Signed, or unsigned as Windows has them."""
Sequence = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Age = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Offset = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 2)]
"""A revision, so that one more fits into a column."""
Milliseconds = Annotated[float, Meta(ge=0.0)]
HttpStatus = Annotated[int, Meta(ge=100, le=999)]
AnnotatorKind = Literal["code", "model", "human", "self"]
EndState = Literal["completed", "failed", "truncated", "timeout", "cancelled", "abandoned"]
Verdict = Literal["allow", "deny", "redact", "escalate"]


class Named(Struct, frozen=True, gc=False, omit_defaults=True):
    """A versioned thing that took part in a run."""

    name: Text | None = None
    """What it is called."""
    version: Text | None = None
    """Its version, as its owner counts."""


class Model(Struct, frozen=True, gc=False, omit_defaults=True):
    """The model that decided."""

    name: Text | None = None
    """Model as the provider names it."""
    tier: Text | None = None
    """The operator's own price class, for example `cheap` or `upper`."""
    provider: Text | None = None
    """Who served it (OTel `gen_ai.provider.name`)."""


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts as the provider billed them, in tokens (OTel `gen_ai.usage.*`)."""

    input_tokens: Count | None = None
    """Tokens read, cached ones included."""
    output_tokens: Count | None = None
    """Tokens written, reasoning included."""
    cache_read_input_tokens: Count | None = None
    """Input tokens served from a cache."""
    cache_creation_input_tokens: Count | None = None
    """Input tokens written to a cache."""
    reasoning_tokens: Count | None = None
    """Output tokens spent on reasoning."""


class ToolCall(Struct, gc=False, omit_defaults=True):
    """One call that the model asked for. `arguments` is the text as the model emitted it, valid JSON or not."""

    tool_call_id: str
    """Id by which the result finds its call; unique within the run."""
    function_name: str | None = None
    """Tool that is called."""
    arguments: Any = None
    """Arguments as emitted."""


class Message(Struct, gc=False, omit_defaults=True):
    """One message that entered the context before a decision (system prompt, user turn, injected note)."""

    role: Text
    """Who speaks: system, user, tool or another role of the framework."""
    content: Any = None
    """What is said."""
    name: Text | None = None
    """Name of the speaker, where the role has several."""


class Failure(Struct, kw_only=True, omit_defaults=True):
    """Evidence of a failure, shared by responses, tool results and run ends. All fields optional."""

    error_type: Text | None = None
    """OTel `error.type`: exception class or the provider's error type."""
    error_message: str | None = None
    """The error as its source worded it."""
    http_status: HttpStatus | None = None
    """HTTP status of the failed request."""
    provider_code: Text | None = None
    """The provider's own machine-readable code, for example `insufficient_quota`."""
    retry_count: Retries | None = None
    """Attempts before this one that failed; 0 when the first attempt was kept."""
    retryable: bool | None = None
    """Whether the source says that a retry may help."""


class SourceGap(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a source itself says that it is missing."""

    code: Text
    """Code of the gap, as in `gaps[].code` of steps and runs."""
    detail: Text | None = None
    """What exactly: an id or a place in the source."""


class RunStarted(Struct, kw_only=True, omit_defaults=True):
    """`agent.run.started`: who runs what, with which versions, for which task, under which terms."""

    agent: Named | None = None
    """The agent that runs."""
    skill: Named | None = None
    """The skill it uses; statistics are kept by skill."""
    prompt: Named | None = None
    """Prompt template."""
    memory: Named | None = None
    """Memory that was loaded."""
    tools: list[Named] | None = None
    """Tools offered to the agent."""
    model: Model | None = None
    """Model that the run starts with."""
    policy_version: Text | None = None
    """Version of the weights at the start of the run (policy in the reinforcement-learning sense)."""
    tokenizer_id: Text | None = None
    """Tokenizer of the token ids."""
    chat_template_hash: Text | None = None
    """Hash of the chat template that rendered the prompts."""
    framework: Named | None = None
    """Agent framework."""
    environment: Named | None = None
    """Environment that the agent acts in."""
    session_id: Text | None = None
    """Session, conversation or thread that the run belongs to."""
    task_id: Text | None = None
    """Task that the run attempts."""
    task_family: Text | None = None
    """Kind of task, for statistics by kind."""
    group_id: Text | None = None
    """Attempts at one task that are compared with each other share a group."""
    attempt_id: Text | None = None
    """Which attempt of the group."""
    spawned_by_tool_call_id: Text | None = None
    """Tool call of the parent run that started this one."""
    forked_from_id: Text | None = None
    """Session or run whose history this one repeats."""
    purpose: list[Text] | None = None
    """Purposes that the data may serve."""
    residency: Text | None = None
    """Zone that the data must stay in."""
    classification: Text | None = None
    """Sensitivity, as the producer declares it."""
    license: Text | None = None
    """Licence of the material."""
    consent_revision: Text | None = None
    """Revision of the consent that the run is under."""
    subject_id: Text | None = None
    """Pseudonymous id of the person whose data the run holds; the key for consent and erasure."""
    input: Any = None
    """The task as given to the agent."""
    origin: Text | None = None
    """Where an imported run came from: format and file name, never a path."""


class ModelResponded(Failure, kw_only=True, omit_defaults=True):
    """`agent.model.responded`: one decision of the agent; opens a step.

    A response that streams may be published several times under one `message_id` (`partial` true until the last);
    the last and fullest counts.
    """

    step_id: Text | None = None
    """Id of the step that this response opens."""
    message_id: Text | None = None
    """Id of the message; one for all its partial copies."""
    partial: bool = False
    """More of this message is to come."""
    source: Text | None = None
    """Who decided (ATIF `source`); `agent` when absent."""
    message: Any = None
    """What the model said."""
    reasoning_content: Any = None
    """Reasoning as emitted."""
    tool_calls: list[ToolCall] | None = None
    """Calls that the model asks for, in order."""
    input_messages: list[Message] | None = None
    """Messages that are new to the context since the previous decision, tool results left out."""
    model: Model | None = None
    """Model that answered, where it is not the run's."""
    finish_reason: Text | None = None
    """Why the model stopped, in the provider's word."""
    usage: Usage | None = None
    """Tokens as billed."""
    cost_usd: Annotated[float, Meta(ge=0.0)] | None = None
    """Price of the response."""
    latency_ms: Milliseconds | None = None
    """Time from request to whole response."""
    is_copied_context: bool = False
    """True when a resumed or forked session repeats this step from its parent: its tokens are counted there."""
    policy_version: Text | None = None
    """Version of the weights that answered."""
    prompt_token_ids: list[TokenId] | None = None
    """Token ids of the prompt, as sampled."""
    completion_token_ids: list[TokenId] | None = None
    """Token ids of the completion, as sampled."""
    logprobs: list[float] | None = None
    """Log-probability of each completion token, in nats."""
    loss_mask: list[LossMark] | None = None
    """1 where a completion token may carry loss, else 0."""
    gaps: list[SourceGap] | None = None
    """What the source lacks around this response, for example the record that it answers."""


class ToolCalled(Struct, kw_only=True, omit_defaults=True):
    """`agent.tool.called`: a tool starts. Optional when the response already lists the call; gives its start time."""

    tool_call_id: str
    """Id of the call."""
    function_name: str | None = None
    """Tool that is called."""
    arguments: Any = None
    """Arguments as passed."""
    tool: Named | None = None
    """Name and version of the tool."""


class ToolReturned(Failure, kw_only=True, omit_defaults=True):
    """`agent.tool.returned`: the observation of one call, paired by `tool_call_id`, never by position."""

    tool_call_id: str
    """Id of the call that this answers."""
    function_name: str | None = None
    """Tool that answered."""
    content: Any = None
    """What the tool returned."""
    partial: bool = False
    """More of this result is to come."""
    is_error: bool = False
    """The tool marks its result as an error."""
    exit_code: ExitCode | None = None
    """Exit code of the tool's process."""
    exit_signal: Text | None = None
    """Signal that ended the tool's process."""
    latency_ms: Milliseconds | None = None
    """Time from call to result."""


class PolicyDecided(Struct, kw_only=True, omit_defaults=True):
    """`agent.policy.decided`: a guardrail or permission check spoke about a call or the whole run."""

    policy_id: Text
    """Policy that spoke."""
    verdict: Verdict
    """What it said."""
    rule_id: Text | None = None
    """Rule within the policy."""
    action: Text | None = None
    """What was done about it."""
    reason: str | None = None
    """Why, in words."""
    tool_call_id: Text | None = None
    """Call that it is about; absent for the run or the newest step."""


class ContextCompacted(Struct, kw_only=True, omit_defaults=True):
    """`agent.context.compacted`: a summary replaces earlier turns; steps before and after are kept apart."""

    summary: Any = None
    """Text that replaces earlier turns."""
    trigger: Text | None = None
    """What set it off."""
    tokens_before: Count | None = None
    """Tokens in the context before."""
    tokens_after: Count | None = None
    """Tokens in the context after."""


class FeedbackGiven(Struct, kw_only=True, omit_defaults=True):
    """`agent.feedback.given`: what a person said of a run or step; lands as a reward of kind `human`."""

    name: Text = "feedback"
    """What is judged."""
    score: float | None = None
    """Score, where one was given."""
    label: Text | None = None
    """Label, where one was given."""
    comment: str | None = None
    """What the person wrote."""
    annotator_id: Text | None = None
    """Pseudonymous id of the person."""
    step_id: Text | None = None
    """Step that it is about; absent for the whole run."""


class RewardAssigned(Struct, kw_only=True, omit_defaults=True):
    """`agent.reward.assigned`: a grader's score. A missing score is null, never 0; NaN and infinities are refused."""

    name: Text = "reward"
    """What is judged."""
    score: float | None = None
    """Score; absent when the grader gave none."""
    weight: float | None = None
    """Weight among the run's rewards."""
    passed: bool | None = None
    """The grader's own verdict where it has one; wins over `score` when the run is classified."""
    annotator_kind: AnnotatorKind
    """What kind of grader gave it."""
    annotator_id: Text | None = None
    """Which grader gave it."""
    annotator_version: Text | None = None
    """Version of the grader."""
    explanation: str | None = None
    """Why, in words."""
    step_id: Text | None = None
    """Step that it judges; absent for the whole run."""
    reward_id: Text | None = None
    """Id of this reward; the event's id when absent."""
    supersedes: Text | None = None
    """`reward_id` (or event id) of the reward that this one replaces."""


class RunEnded(Failure, kw_only=True, omit_defaults=True):
    """`agent.run.ended`: how the run ended, as its harness saw it."""

    end_state: EndState
    """How it ended."""
    terminated: bool | None = None
    """Gymnasium: a terminal state of the task was reached."""
    truncated: bool | None = None
    """Gymnasium: the episode was cut from outside (step, time or token limit)."""
    success: bool | None = None
    """The harness's own verdict on the task; absent when nothing graded it."""
    stop_condition: Text | None = None
    """What ended it, in the harness's word (for example `max_turns`)."""
    exit_code: ExitCode | None = None
    """Exit code of the agent's process."""
    exit_signal: Text | None = None
    """Signal that ended the agent's process."""
    output: Any = None
    """The final answer."""
    input_messages: list[Message] | None = None
    """Messages that came after the last decision."""
    policy_version: Text | None = None
    """Version of the weights at the end of the run."""


class ConsentChanged(Struct, kw_only=True, omit_defaults=True):
    """`agent.consent.changed`: a data subject grants or withdraws a purpose."""

    subject_id: Text
    """Pseudonymous id of the person."""
    purpose: Text
    """Purpose that is granted or withdrawn."""
    state: Literal["granted", "withdrawn", "expired"]
    """What holds from now on."""
    effective_at: datetime | None = None
    """Since when; the event's time when absent."""
    expires_at: datetime | None = None
    """Until when; open when absent."""
    consent_revision: Text | None = None
    """Revision of the consent after the change."""


class LeverApplied(Struct, kw_only=True, omit_defaults=True):
    """`agent.lever.applied`: somebody changed a prompt, skill, tool, memory, model tier or weights."""

    lever: Text
    """Lever that was pulled."""
    skill: Named | None = None
    """Skill that was changed."""
    change_from: Text | None = None
    """What it was."""
    change_to: Text | None = None
    """What it is now."""
    applied_by: Text | None = None
    """Who did it."""
    decision_id: Text | None = None
    """Decision that it follows."""


class Tick(Struct, kw_only=True, omit_defaults=True):
    """`trajlake.tick`: the owner of a partition writes time-outs into the log, so that they are offsets too.

    Each is an age at the tick's own append time, so the broker's clock alone decides. In microseconds.
    """

    close_idle_after_us: Age
    """Open runs whose last record is older than this are closed as abandoned."""
    release_held_after_us: Age
    """Events held for a missing sequence number for longer than this are applied, and the hole is recorded."""
    forget_closed_after_us: Age
    """Closed runs older than this are forgotten; what arrives later is a fragment of its own."""


class StepRevision(Struct, kw_only=True, omit_defaults=True):
    """A row of `steps`."""

    step_index: Number
    """Order of the step within its run."""
    revision: Number
    """Revision of its newest row."""


class Reclassify(Struct, kw_only=True, omit_defaults=True):
    """`trajlake.reclassify`: an operator asks that a closed run is classified again, by the failure rules of now.

    It asks and does not tell: what the run comes to, the worker finds from the run's own events in the ledger.
    """

    classifier_revision: Text
    """Rules that it is to be classified by; a worker under others refuses."""
    first_offset: Offset
    """Offset of the run's first event."""
    offset: Offset
    """Offset of the run's newest row in `runs`."""
    revision: Number
    """Revision of that row."""
    steps: Annotated[list[StepRevision], Meta(max_length=100_000)] = msgspec.field(default_factory=list)
    """Steps that are to be written again."""
    seen: Offset
    """Offset up to which the tables had been read. What changed the run behind it makes the request void."""
    requested_by: Text | None = None
    """Who asks."""


class Envelope(Struct, kw_only=True, tag_field="type", omit_defaults=True):
    """CloudEvents 1.0 attributes of every event. Extension names are lower-case alphanumerics by its rules."""

    specversion: Literal["1.0"]
    """CloudEvents version."""
    id: Annotated[str, Meta(min_length=1, max_length=512)]
    """Id of the event; a repeated id is a redelivery."""
    source: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Who publishes, as a URI reference."""
    tenantid: Annotated[str, Meta(min_length=1, max_length=128)]
    """Tenant that owns the run."""
    runid: Annotated[str, Meta(min_length=1, max_length=512)]
    """Run that the event belongs to, unique within the tenant."""
    sequence: Sequence
    """1-based position of the event within its run."""
    time: datetime | None = None
    """When it happened (RFC 3339)."""
    parentrunid: Annotated[str, Meta(max_length=512)] | None = None
    """Run that spawned this one."""
    traceparent: Text | None = None
    """W3C trace context."""
    subject: Text | None = None
    """CloudEvents subject; kept, not used."""


class Unsequenced(Envelope, kw_only=True):
    """Envelope of events whose producer (a grader, a reviewer) does not know the run's sequence."""

    sequence: Sequence | None = None  # type: ignore[assignment]


class Runless(Unsequenced, kw_only=True):
    """Envelope of events that concern a tenant rather than a run."""

    runid: Annotated[str, Meta(min_length=1, max_length=512)] | None = None  # type: ignore[assignment]


class RunStartedEvent(Envelope, kw_only=True, tag="agent.run.started"):
    data: RunStarted = msgspec.field(default_factory=RunStarted)


class ModelRespondedEvent(Envelope, kw_only=True, tag="agent.model.responded"):
    data: ModelResponded


class ToolCalledEvent(Envelope, kw_only=True, tag="agent.tool.called"):
    data: ToolCalled


class ToolReturnedEvent(Envelope, kw_only=True, tag="agent.tool.returned"):
    data: ToolReturned


class PolicyDecidedEvent(Unsequenced, kw_only=True, tag="agent.policy.decided"):
    data: PolicyDecided


class ContextCompactedEvent(Envelope, kw_only=True, tag="agent.context.compacted"):
    data: ContextCompacted = msgspec.field(default_factory=ContextCompacted)


class FeedbackGivenEvent(Unsequenced, kw_only=True, tag="agent.feedback.given"):
    data: FeedbackGiven


class RewardAssignedEvent(Unsequenced, kw_only=True, tag="agent.reward.assigned"):
    data: RewardAssigned


class RunEndedEvent(Envelope, kw_only=True, tag="agent.run.ended"):
    data: RunEnded


class ConsentChangedEvent(Runless, kw_only=True, tag="agent.consent.changed"):
    data: ConsentChanged


class LeverAppliedEvent(Runless, kw_only=True, tag="agent.lever.applied"):
    data: LeverApplied


class TickEvent(Runless, kw_only=True, tag="trajlake.tick"):
    tenantid: str = ""
    data: Tick


class ReclassifyEvent(Unsequenced, kw_only=True, tag="trajlake.reclassify"):
    data: Reclassify


Event = (
    RunStartedEvent
    | ModelRespondedEvent
    | ToolCalledEvent
    | ToolReturnedEvent
    | PolicyDecidedEvent
    | ContextCompactedEvent
    | FeedbackGivenEvent
    | RewardAssignedEvent
    | RunEndedEvent
    | ConsentChangedEvent
    | LeverAppliedEvent
    | TickEvent
    | ReclassifyEvent
)

EVENT_TYPES: Final[dict[str, type[Struct]]] = {
    cls.__struct_config__.tag: cls  # type: ignore[misc]
    for cls in (
        RunStartedEvent,
        ModelRespondedEvent,
        ToolCalledEvent,
        ToolReturnedEvent,
        PolicyDecidedEvent,
        ContextCompactedEvent,
        FeedbackGivenEvent,
        RewardAssignedEvent,
        RunEndedEvent,
        ConsentChangedEvent,
        LeverAppliedEvent,
        TickEvent,
        ReclassifyEvent,
    )
}
"""Event type -> struct of the whole event (envelope and `data`)."""


OWN_TYPES: Final = frozenset(str(cls.__struct_config__.tag) for cls in (TickEvent, ReclassifyEvent))
"""Types that trajlake itself writes into the log: no part of any run."""


def tenant_of_topic(topic: str) -> str | None:
    """The tenant whose own topic it is: `agent.audit.v1.<tenant>`; None for a topic of many tenants."""
    return topic.removeprefix(f"{EVENTS_TOPIC}.") if topic.startswith(f"{EVENTS_TOPIC}.") else None


def kafka_key(tenant_id: str, run_id: str) -> bytes:
    """Kafka key of a run's events: `tenantid/runid` in UTF-8, so that a run stays in one partition."""
    return f"{tenant_id}/{run_id}".encode()
