"""What the fold remembers of a partition: open runs, their open steps, and a short memory of closed runs.

All of it is plain data that round-trips through MessagePack, because it is the snapshot: a worker that
resumes decodes it and goes on folding as if it had never stopped.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from trajlake.expectations.events import Model, ModelResponded, RunEnded, RunStarted, ToolCall, ToolReturned

SNAPSHOT_FORMAT = 3
"""Raised when the fold or these structs change so that an older snapshot would mean something else."""

GapNote = tuple[str, str | None]
VerdictNote = tuple[str, str | None, str, str | None, str | None]
"""policy_id, rule_id, verdict, action, tool_call_id."""
RedactionNote = tuple[str, str, int]
"""path, rule, count; a `records.Redaction` is one."""
CompactionNote = tuple[int, str | None, str | None, int | None, int | None]
"""sequence, trigger, summary, tokens_before, tokens_after."""

RUN_BYTES = 1024
"""What an open or remembered run costs besides its content."""


class Result(Struct, gc=False, array_like=True):
    """An observation with its place in the log."""

    data: ToolReturned
    offset: int
    latency_ms: float | None
    size: int = 0
    """Bytes of the event that brought it."""
    redactions: list[RedactionNote] | None = None


class Held(Struct, gc=False, array_like=True):
    """An event that came before its predecessors; kept as the ledger's text, applied when its turn comes.

    Without text it stands for a record that went to quarantine: its turn passes without an event.
    """

    offset: int
    append_us: int
    event_id: str
    text: bytes
    gaps: list[GapNote] | None = None
    redactions: list[RedactionNote] | None = None
    reason: str | None = None


class Head(Struct, gc=False, array_like=True):
    """Who and what a run is: the columns that all its rows share."""

    tenant_id: str
    run_id: str
    started: RunStarted
    parent_run_id: str | None = None


class OpenStep(Struct, gc=False, array_like=True):
    """A decision whose observations may still come. `results[i]` answers `calls[i]`."""

    index: int
    step_id: str
    message_id: str | None
    sequence: int | None
    first_offset: int
    started: datetime | None
    ended: datetime | None
    response: ModelResponded
    calls: list[ToolCall]
    results: list[Result | None]
    open_calls: int
    segment: int
    held_bytes: int
    source: str = "agent"
    flagged: bool = False
    revision: int = 0
    emitted: bool = False
    dirty: bool = False
    """Changed since its last row."""
    was_last: bool = False
    """Its last row says that it ends the run."""
    late: bool = False
    called_at: dict[str, datetime] | None = None
    gaps: list[GapNote] | None = None
    verdicts: list[VerdictNote] | None = None
    redactions: list[RedactionNote] | None = None
    places: dict[str, list[int]] | None = None
    """Index of `calls` by id, kept where there are many; answered places of a repeated id are dropped from its list."""


class StepFinding(Struct, gc=False, array_like=True):
    """How a step was classified; the last failing one is the run's evidence."""

    outcome_class: str
    failure_kind: str | None
    basis: str
    error_type: str | None = None
    http_status: int | None = None
    provider_code: str | None = None
    retryable: bool | None = None
    step_id: str | None = None
    step_index: int = 0
    failed_tools: list[str] = msgspec.field(default_factory=list)
    recovered: bool = False


class Totals(Struct, gc=False, array_like=True):
    """Sums over a run's steps that are its own (copied ones left out). None until a source reports the figure."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    retry_count: int | None = None
    tool_calls: int = 0
    tool_errors: int = 0
    copied_steps: int = 0


class OpenRun(Struct, gc=False, array_like=True):
    """A run between its first event and its close; after the close, what is needed to judge late events."""

    key: bytes
    head: Head
    first_offset: int
    last_append_us: int
    next_sequence: int = 1
    seen_from: int = 1
    """Sequence that `seen` begins with."""
    seen: bytearray = msgspec.field(default_factory=bytearray)
    """CRC-32 of each event id by sequence, 4 bytes each: tells a redelivery from a conflict. Zero where none came."""
    absent: int = 0
    """Sequences in `seen` that never came."""
    quarantined: dict[int, str] | None = None
    """Reason by sequence, of those that never came because quarantine has them."""
    held: dict[int, Held] = msgspec.field(default_factory=dict)
    held_since_us: int = 0
    held_bytes: int = RUN_BYTES
    """Estimate of what the run costs in memory: bytes of the events whose content is kept."""
    steps: list[OpenStep] = msgspec.field(default_factory=list)
    answered: bytearray = msgspec.field(default_factory=bytearray)
    """CRC-32 of the ids of answered calls whose steps are no longer kept."""
    orphans: dict[str, Result] = msgspec.field(default_factory=dict)
    unsequenced: dict[int, bool] = msgspec.field(default_factory=dict)
    """64-bit digests of the ids of events without a sequence."""
    totals: Totals = msgspec.field(default_factory=Totals)
    step_count: int = 0
    event_count: int = 0
    segment: int = 0
    has_start: bool = False
    ended: RunEnded | None = None
    earlier_end: RunEnded | None = None
    """End event of a run that went on afterwards; counts when no later one comes."""
    closed: bool = False
    late: bool = False
    revision: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    last_time_append_us: int = 0
    """Append time of the record that brought `last_time`."""
    skew_us: int | None = None
    duplicates: int = 0
    last_output: Any = None
    output_bytes: int = 0
    end_policy_version: str | None = None
    step_model: Model | None = None
    last_failure: StepFinding | None = None
    last_good_step: int = 0
    """Index of the newest step of the agent that was emitted without a failure."""
    reward_score: float | None = None
    reward_passed: bool | None = None
    denied: bool = False
    verdicts: list[VerdictNote] | None = None
    compactions: list[CompactionNote] | None = None
    gaps: list[GapNote] | None = None
    more_gaps: int = 0
    """Gap notes beyond those that are kept."""
    redactions: list[RedactionNote] | None = None


class PartitionState(Struct, array_like=True):
    """State of one partition after `offset`. `fingerprint`: what it was made under, see `transforms.fingerprint`.

    `blocked`: keys of runs that policy keeps out, and the append time of the last record of each in µs; oldest first.
    `suppression`: number of the newest erasure that it obeys. `erased`: digests of runs that were recognised as erased.
    `restated`, `restated_floor`: see `restated.Restated`.
    """

    format: int
    topic: str
    partition: int
    offset: int
    open_runs: list[OpenRun]
    closed_runs: list[OpenRun]
    fingerprint: str = ""
    blocked: list[tuple[bytes, int]] = msgspec.field(default_factory=list)
    suppression: int = 0
    erased: list[bytes] = msgspec.field(default_factory=list)
    restated: list[tuple[int, int]] = msgspec.field(default_factory=list)
    restated_floor: int = -1


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(PartitionState)


def encode_state(state: PartitionState) -> bytes:
    """Snapshot as MessagePack bytes."""
    return _ENCODER.encode(state)


def decode_state(content: bytes, fingerprint: str | None = None) -> PartitionState:
    """Read a snapshot. Raises `msgspec.DecodeError` (or its subclass `ValidationError`) when it is not one of this
    format, or was made under another fingerprint than the one given."""
    state = _DECODER.decode(content)
    if state.format != SNAPSHOT_FORMAT:
        raise msgspec.ValidationError(f"snapshot format {state.format}, this version reads {SNAPSHOT_FORMAT}")
    if fingerprint is not None and state.fingerprint != fingerprint:
        raise msgspec.ValidationError(f"snapshot made under {state.fingerprint!r}, not {fingerprint!r}")
    return state
