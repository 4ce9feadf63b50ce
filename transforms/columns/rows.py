"""Landed rows to record batches: one function per table, each a list of columns in the contract's names."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa

from trajlake.expectations.events import (
    EVENT_TYPES,
    FeedbackGiven,
    Model,
    ModelResponded,
    Named,
    RewardAssigned,
    RunStarted,
    Usage,
)
from trajlake.expectations.tables import (
    COMPACTIONS,
    EVENTS,
    GAPS,
    LOG_GAPS,
    QUARANTINE,
    REWARDS,
    RUNS,
    STEPS,
    TIME,
    VERDICTS,
    VERSIONS,
)
from trajlake.transforms.assemble.fold import RewardRow
from trajlake.transforms.assemble.openrun import type_of
from trajlake.transforms.assemble.runs import RunRow
from trajlake.transforms.assemble.state import Head, OpenStep
from trajlake.transforms.assemble.steps import StepRow
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION
from trajlake.transforms.columns.arrow import constant, list_column, shared, text_column, to_batch
from trajlake.transforms.columns.governance import consent_batch, decision_batch
from trajlake.transforms.columns.nested import (
    messages_column,
    observations_column,
    redactions_column,
    signed,
    tool_calls_column,
)
from trajlake.transforms.landing.rows import HoleRow, Landing, LedgerRow, QuarantineRow
from trajlake.transforms.text import as_text

_NAMED: Final = Named()
_MODEL: Final = Model()
_USAGE: Final = Usage()
_TYPE_NAMES: Final[dict[type, str]] = {struct: name for name, struct in EVENT_TYPES.items()}


class Position(msgspec.Struct, frozen=True):
    """Topic, partition and revisions that all rows of a landing share."""

    topic: str
    partition: int
    rule_revision: str
    payload_inline_max_bytes: int
    policy_revision: str = ""


def batches(landing: Landing, rule_revision: str, payload_inline_max_bytes: int) -> dict[str, pa.RecordBatch]:
    """Record batches by table for one landing; tables without rows are left out."""
    policies = landing.policy_revision
    at = Position(landing.topic, landing.partition, rule_revision, payload_inline_max_bytes, policies)
    parts: tuple[tuple[str, list[Any], Callable[[list[Any], Position], pa.RecordBatch]], ...] = (
        ("events", landing.events, event_batch),
        ("steps", landing.steps, step_batch),
        ("runs", landing.runs, run_batch),
        ("rewards", landing.rewards, reward_batch),
        ("quarantine", landing.quarantine, quarantine_batch),
        ("gaps", landing.holes, gap_batch),
    )
    made = {name: build(rows, at) for name, rows, build in parts if rows}
    if landing.consents:
        made["consents"] = consent_batch(landing.consents, at.topic, at.partition, policies)
    if landing.decisions:
        made["policy_decisions"] = decision_batch(landing.decisions)
    return made


def _place(at: Position, offsets: list[int]) -> dict[str, Any]:
    count = len(offsets)
    return {
        "topic": constant(at.topic, pa.string(), count),
        "partition": constant(at.partition, pa.int32(), count),
        "offset": offsets,
    }


def _judged(columns: dict[str, Any], at: Position, count: int) -> dict[str, Any]:
    """Columns with the revision of the policies: one value for all rows of a worker, so it costs nothing a row."""
    columns["policy_revision"] = constant(at.policy_revision, pa.string(), count)
    return columns


def event_batch(rows: list[LedgerRow], at: Position) -> pa.RecordBatch:
    """Columns of `events`."""
    events = [row.event for row in rows]
    kinds = _TYPE_NAMES
    columns = _place(at, [row.offset for row in rows])
    columns.update(
        append_time=_micros([row.append_us for row in rows]),
        id=[e.id for e in events],
        source=[e.source for e in events],
        type=[kinds.get(type(e)) or type_of(e) for e in events],
        time=[e.time for e in events],
        tenant_id=[e.tenantid for e in events],
        run_id=[e.runid for e in events],
        sequence=[e.sequence for e in events],
        parent_run_id=[e.parentrunid for e in events],
        traceparent=[e.traceparent for e in events],
        event=text_column([row.text for row in rows]),
        redactions=redactions_column([row.redactions for row in rows]),
        rule_revision=constant(at.rule_revision, pa.string(), len(rows)),
    )
    return to_batch(EVENTS, _judged(columns, at, len(rows)), len(rows))


def step_batch(rows: list[StepRow], at: Position) -> pa.RecordBatch:
    """Columns of `steps`."""
    steps = [row.step for row in rows]
    heads, places = _distinct([row.head for row in rows])
    starts = [head.started for head in heads]
    models = [row.step.response.model or row.head.started.model or _MODEL for row in rows]
    responses = [step.response for step in steps]
    usages = [response.usage or _USAGE for response in responses]
    ends = [row.end for row in rows]
    columns = _place(at, [row.offset for row in rows])
    of_run = {**_identity(heads), **_versions(starts)}
    columns.update({name: shared(STEPS.schema.field(name).type, values, places) for name, values in of_run.items()})
    columns.update(_models(models))
    columns.update(
        step_index=[s.index for s in steps],
        step_id=[s.step_id for s in steps],
        revision=[row.revision for row in rows],
        first_offset=[s.first_offset for s in steps],
        sequence=[s.sequence for s in steps],
        started_at=[s.started for s in steps],
        ended_at=[s.ended for s in steps],
        source=[s.source for s in steps],
        input_messages=messages_column([r.input_messages for r in responses]),
        message=[as_text(r.message) for r in responses],
        reasoning_content=[as_text(r.reasoning_content) for r in responses],
        tool_calls=tool_calls_column(steps),
        observations=observations_column(steps),
        finish_reason=[r.finish_reason for r in responses],
        is_copied_context=[r.is_copied_context for r in responses],
        context_segment=[s.segment for s in steps],
        is_first=[s.index == 1 for s in steps],
        is_last=[row.is_last for row in rows],
        terminated=[end.terminated if end else None for end in ends],
        truncated=[end.truncated if end else None for end in ends],
        **{name: [getattr(usage, name) for usage in usages] for name in Usage.__struct_fields__},
        cost_usd=[r.cost_usd for r in responses],
        latency_ms=[r.latency_ms for r in responses],
        policy_version=[r.policy_version for r in responses],
        retry_count=_retries(steps),
        policy_verdicts=list_column(VERDICTS, [s.verdicts for s in steps]),
        gaps=list_column(GAPS, [row.gaps for row in rows]),
        late=[s.late for s in steps],
        redactions=redactions_column([s.redactions for s in steps]),
        **_token_columns(responses),
        **_findings([row.finding for row in rows]),
    )
    return to_batch(STEPS, _judged(columns, at, len(rows)), len(rows))


def run_batch(rows: list[RunRow], at: Position) -> pa.RecordBatch:
    """Columns of `runs`."""
    heads = [row.head for row in rows]
    starts = [head.started for head in heads]
    ends = [row.end for row in rows]
    totals = [row.totals for row in rows]
    columns = _place(at, [row.offset for row in rows])
    columns.update(_identity(heads))
    columns.update(_versions(starts))
    columns.update(_models([row.model or _MODEL for row in rows]))
    columns.update(
        {
            name: [getattr(start, name) for start in starts]
            for name in (
                "spawned_by_tool_call_id", "forked_from_id", "task_family", "tokenizer_id", "chat_template_hash",
                "origin", "purpose", "residency", "classification", "license", "consent_revision", "subject_id",
            )
        }
    )  # fmt: skip
    columns.update(
        {
            name: [getattr(total, name) for total in totals]
            for name in (*Usage.__struct_fields__, "cost_usd", "retry_count")
        }
    )
    columns.update(
        {
            name: [None if end is None else getattr(end, name) for end in ends]
            for name in ("terminated", "truncated", "success", "stop_condition", "exit_signal")
        }
    )
    columns.update(
        revision=[row.revision for row in rows],
        exit_code=[None if end is None else signed(end.exit_code) for end in ends],
        first_offset=[row.first_offset for row in rows],
        close_offset=[row.close_offset for row in rows],
        parent_run_id=[head.parent_run_id for head in heads],
        tool_versions=list_column(
            VERSIONS, [None if s.tools is None else [(t.name, t.version) for t in s.tools] for s in starts]
        ),
        policy_version_start=[s.policy_version for s in starts],
        policy_version_end=[row.policy_version_end for row in rows],
        framework=[(s.framework or _NAMED).name for s in starts],
        framework_version=[(s.framework or _NAMED).version for s in starts],
        environment=[(s.environment or _NAMED).name for s in starts],
        environment_version=[(s.environment or _NAMED).version for s in starts],
        started_at=[row.first_time for row in rows],
        ended_at=[row.last_time for row in rows],
        closed_at=_micros([row.closed_us for row in rows]),
        input=[as_text(s.input) for s in starts],
        output=[as_text(row.output) for row in rows],
        final_messages=messages_column([row.final_messages for row in rows]),
        event_count=[row.event_count for row in rows],
        step_count=[row.step_count for row in rows],
        copied_step_count=[t.copied_steps for t in totals],
        tool_call_count=[t.tool_calls for t in totals],
        tool_error_count=[t.tool_errors for t in totals],
        end_state=[row.end_state for row in rows],
        end_inferred=[end is None for end in ends],
        reward_score=[row.reward_score for row in rows],
        attributed_step_id=[row.finding.attributed_step_id for row in rows],
        failing_tool=[row.failing_tool for row in rows],
        policy_verdicts=list_column(VERDICTS, [row.verdicts for row in rows]),
        compactions=list_column(COMPACTIONS, [row.compactions for row in rows]),
        duplicate_count=[row.duplicates for row in rows],
        has_start=[row.has_start for row in rows],
        max_time_skew_ms=[None if row.skew_us is None else row.skew_us / 1e3 for row in rows],
        gaps=list_column(GAPS, [row.gaps for row in rows]),
        redactions=redactions_column([row.redactions for row in rows]),
        late=[row.late for row in rows],
        **_findings([row.finding for row in rows]),
    )
    return to_batch(RUNS, _judged(columns, at, len(rows)), len(rows))


def reward_batch(rows: list[RewardRow], at: Position) -> pa.RecordBatch:
    """Columns of `rewards`; feedback of people lands as a reward of kind `human`."""
    events = [row.event for row in rows]
    given: list[RewardAssigned | FeedbackGiven] = [event.data for event in events]
    columns = _place(at, [row.offset for row in rows])
    columns.update(
        tenant_id=[e.tenantid for e in events],
        run_id=[e.runid for e in events],
        reward_id=[getattr(d, "reward_id", None) or e.id for e, d in zip(events, given, strict=True)],
        explanation=[d.comment if isinstance(d, FeedbackGiven) else d.explanation for d in given],
        annotator_kind=["human" if isinstance(d, FeedbackGiven) else d.annotator_kind for d in given],
        time=[e.time for e in events],
        late=[row.late for row in rows],
        **{name: [getattr(d, name) for d in given] for name in ("step_id", "name", "score", "annotator_id")},
        **{
            name: [getattr(d, name, None) for d in given]
            for name in ("weight", "passed", "label", "annotator_version", "supersedes")
        },
    )
    return to_batch(REWARDS, _judged(columns, at, len(rows)), len(rows))


def quarantine_batch(rows: list[QuarantineRow], at: Position) -> pa.RecordBatch:
    """Columns of `quarantine`. Payloads over the inline limit are stored by reference next to the table."""
    columns = _place(at, [row.offset for row in rows])
    shown = [_inline(row, at.payload_inline_max_bytes) for row in rows]
    columns.update(
        append_time=_micros([row.append_us for row in rows]),
        reason_code=[row.rejected.reason.value for row in rows],
        stage=[row.rejected.stage.value for row in rows],
        rule_revision=constant(at.rule_revision, pa.string(), len(rows)),
        payload=[payload for payload, _ in shown],
        payload_encoding=[encoding for _, encoding in shown],
        payload_ref=[row.payload_ref for row in rows],
        **{name: [getattr(row, name) for row in rows] for name in ("sealed", "sealed_ref", "released_from")},
        sequence=[row.rejected.sequence for row in rows],
        payload_sha256=[row.sha256 for row in rows],
        payload_bytes=[row.size for row in rows],
        **{
            name: [getattr(row.rejected, name) for row in rows]
            for name in ("detail", "field_path", "tenant_id", "run_id", "event_id", "event_type")
        },
    )
    return to_batch(QUARANTINE, _judged(columns, at, len(rows)), len(rows))


def gap_batch(rows: list[HoleRow], at: Position) -> pa.RecordBatch:
    """Columns of `gaps`: ranges of offsets without a record."""
    columns = _place(at, [row.last for row in rows])
    columns.update(
        first_offset=[row.first for row in rows],
        code=[row.code.value for row in rows],
        detail=[row.detail for row in rows],
    )
    return to_batch(LOG_GAPS, columns, len(rows))


def _inline(row: QuarantineRow, limit: int) -> tuple[str | None, str | None]:
    stored = row.stored
    if stored is None:
        return None, None
    try:
        return stored.decode()[:limit], "utf8"
    except UnicodeDecodeError:
        return base64.b64encode(stored[: limit * 3 // 4]).decode(), "base64"


def _micros(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int64()).view(TIME)


def _identity(heads: list[Head]) -> dict[str, Any]:
    starts = [head.started for head in heads]
    return {
        "tenant_id": [head.tenant_id for head in heads],
        "run_id": [head.run_id for head in heads],
        "session_id": [start.session_id for start in starts],
        "task_id": [start.task_id for start in starts],
        "group_id": [start.group_id for start in starts],
        "attempt_id": [start.attempt_id for start in starts],
    }


def _versions(starts: list[RunStarted]) -> dict[str, Any]:
    agents = [start.agent or _NAMED for start in starts]
    skills = [start.skill or _NAMED for start in starts]
    prompts = [start.prompt or _NAMED for start in starts]
    return {
        "agent_name": [agent.name for agent in agents],
        "agent_version": [agent.version for agent in agents],
        "skill_name": [skill.name for skill in skills],
        "skill_version": [skill.version for skill in skills],
        "prompt_name": [prompt.name for prompt in prompts],
        "prompt_version": [prompt.version for prompt in prompts],
        "memory_version": [(start.memory or _NAMED).version for start in starts],
    }


def _models(models: list[Model]) -> dict[str, Any]:
    return {
        "model_name": [model.name for model in models],
        "model_tier": [model.tier for model in models],
        "model_provider": [model.provider for model in models],
    }


def _distinct(heads: list[Head]) -> tuple[list[Head], pa.Array]:
    """The different heads, and for each row the place of its own among them."""
    places: dict[int, int] = {}
    distinct: list[Head] = []
    taken: list[int] = []
    for head in heads:
        place = places.get(id(head))
        if place is None:
            place = places[id(head)] = len(distinct)
            distinct.append(head)
        taken.append(place)
    return distinct, pa.array(taken, pa.int32())


def _findings(findings: list[Any]) -> dict[str, Any]:
    return {
        "outcome_class": [found.outcome_class for found in findings],
        "failure_kind": [found.failure_kind for found in findings],
        "failure_basis": [found.basis for found in findings],
        "classifier_revision": constant(CLASSIFIER_REVISION, pa.string(), len(findings)),
        **{
            name: [getattr(found, name) for found in findings]
            for name in ("error_type", "http_status", "provider_code", "retryable")
        },
    }


def _token_columns(responses: list[ModelResponded]) -> dict[str, Any]:
    names = ("prompt_token_ids", "completion_token_ids", "logprobs", "loss_mask")
    return {name: [getattr(response, name) for response in responses] for name in names}


def _retries(steps: list[OpenStep]) -> list[int | None]:
    """Failed attempts of each step's response and calls, summed; None where no source counts them."""
    return [
        None
        if step.response.retry_count is None
        and not any(r is not None and r.data.retry_count is not None for r in step.results)
        else _sum_retries(step)
        for step in steps
    ]


def _sum_retries(step: OpenStep) -> int:
    counts = [step.response.retry_count, *(r.data.retry_count for r in step.results if r is not None)]
    return min(sum(count for count in counts if count is not None), 2**31 - 1)
