"""Tables of curation: verdicts, publications, and the training zone."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from trajlake.expectations.tables.columns import (
    BOOL,
    F64,
    I32,
    I64,
    RUN_IDENTITY,
    STR,
    TIME,
    Column,
    Table,
    list_of,
    list_of_structs,
    position,
)
from trajlake.expectations.tables.landed import REWARDS, RUNS, STEPS

_STEP_FIELDS: Final = (
    "step_index", "step_id", "revision", "offset", "first_offset", "sequence", "started_at", "ended_at", "source",
    "input_messages", "message", "reasoning_content", "tool_calls", "observations", "finish_reason",
    "is_copied_context", "context_segment", "is_first", "is_last", "terminated", "truncated", "model_name",
    "model_tier", "model_provider", "input_tokens", "output_tokens", "cache_read_input_tokens",
    "cache_creation_input_tokens", "reasoning_tokens", "cost_usd", "latency_ms", "policy_version",
    "prompt_token_ids", "completion_token_ids", "logprobs", "loss_mask", "outcome_class", "failure_kind",
    "failure_basis", "error_type", "http_status", "provider_code", "retry_count", "retryable", "policy_verdicts",
    "redactions", "gaps", "late",
)  # fmt: skip
"""Columns of `steps` that are fields of a trajectory's steps; the others say of each step what the run says once."""

TRAJECTORY_STEP: Final = pa.struct(
    [
        *(pa.field(name, STEPS.schema.field(name).type) for name in _STEP_FIELDS),
        pa.field("trains", BOOL),
        pa.field("tokens_usable", BOOL),
    ]
)
"""`trains`: the agent's own decision, made in this run: what repeats another session's history carries no loss here,
nor does a model's call that failed or gave nothing.
`tokens_usable`: real token ids are there, and log-probabilities and loss mask fit them."""

_REWARD_FIELDS: Final = (
    "reward_id", "offset", "step_id", "name", "score", "weight", "passed", "label", "annotator_kind", "annotator_id",
    "annotator_version", "explanation", "supersedes", "time", "late",
)  # fmt: skip

TRAJECTORY_REWARD: Final = pa.struct(
    [*(pa.field(name, REWARDS.schema.field(name).type) for name in _REWARD_FIELDS), pa.field("counts", BOOL)]
)
"""`counts`: false where a later reward supersedes it, or where its grader is not let speak."""

FIELD_ACTIONS: Final = list_of_structs(("field", STR), ("action", STR))

EXCLUSIONS: Final = list_of_structs(("code", STR), ("rule", STR), ("detail", STR))

SCAN_FINDINGS: Final = list_of_structs(("path", STR), ("entity_type", STR), ("score", F64), ("count", I32))

_NOT_IN_TRAJECTORIES: Final = frozenset(
    {
        "tenant_id",
        "run_id",
        "revision",
        "topic",
        "partition",
        "offset",
        "close_offset",
        "policy_revision",
        "quality",
        "suite_revision",
    }
)

TRAJECTORIES = Table(
    "trajectories",
    "Training zone: one published run with its steps and rewards. Of a run's rows the highest `publication` counts; "
    "one that is `withdrawn` takes the run out and holds nothing of it.",
    (
        *RUN_IDENTITY,
        Column("publication", I64, "number of the publication that put the row here", nullable=False, key=True),
        Column("withdrawn", BOOL, "the run is no longer published; every other column is null", nullable=False),
        Column("reasons", list_of(STR), "why it was withdrawn: codes of exclusion"),
        Column("run_revision", I32, "`revision` of the row of `runs` that it was made from"),
        *(column for column in position("offset of that row of `runs`") if column.name != "offset"),
        Column("offset", I64, "offset of that row of `runs`", key=True),
        Column("reward_offset", I64, "offset up to which rewards are taken in"),
        Column("as_of", TIME, "broker's time of the close, or time of the last reward where that is later"),
        Column("verdict_id", STR, "row of `curation` that let it in", nullable=False),
        Column("policy_revision", STR, "content hash of the policies that let it in"),
        Column("suite_revision", STR, "content hash of the expectations that it met"),
        Column("detector_revision", STR, "content hash of the deep scan that it passed; null where none was asked for"),
        Column("code_revision", STR, "content hash of the code that judged and built it"),
        Column("consent_basis", STR, "revision of the consent that it is published under; null where none is needed"),
        Column("purposes", list_of(STR), "what it may be used for"),
        Column("quality", EXCLUSIONS, "row rules that it broke without being refused for them"),
        *(replace(column, nullable=True) for column in RUNS.columns if column.name not in _NOT_IN_TRAJECTORIES),
        Column("reward", F64, "the run's score: the last that counts; null is not 0"),
        Column("reward_passed", BOOL, "that grader's own verdict"),
        Column("trained_step_count", I32, "steps that carry loss: `trains` is true"),
        Column("rewards", pa.list_(pa.field("element", TRAJECTORY_REWARD)), "every score as given, in log order"),
        Column("steps", pa.list_(pa.field("element", TRAJECTORY_STEP)), "the latest revision of each step, in order"),
    ),
    dictionary=(*RUNS.dictionary, "verdict_id", "code_revision", "consent_basis", "detector_revision"),
)

CURATION = Table(
    "curation",
    "One verdict on one state of a run: whether trainers may see it, and why not. Of a run's rows the highest "
    "`publication` counts; all are kept.",
    (
        *RUN_IDENTITY,
        Column("publication", I64, "number of the publication that the verdict is part of", nullable=False, key=True),
        *position("offset of the judged row of `runs`"),
        Column("first_offset", I64, "offset of the run's first event", nullable=False, key=True),
        Column("run_revision", I32, "`revision` of the judged row of `runs`", nullable=False),
        Column("fragment", BOOL, "no start was seen: it never counts before a whole run of this id", nullable=False),
        Column("reward_offset", I64, "offset up to which rewards were taken in", nullable=False),
        Column("verdict_id", STR, "digest of what was judged and of the rules that judged", nullable=False),
        Column("verdict", STR, "published, held, refused or withdrawn", nullable=False),
        Column("reasons", EXCLUSIONS, "why it was not published: code, rule that said so, place"),
        Column("quality", EXCLUSIONS, "row rules that it broke without being refused for them"),
        Column("cause", STR, "what led to the verdict: new, reward, consent, policy, release, reject", nullable=False),
        Column("decided_by", STR, "curate, or the operator who released or rejected", nullable=False),
        Column("decided_at", TIME, "when, by the clock of the machine that judged", nullable=False, unit="µs UTC"),
        Column("skill_name", STR, "skill that ran"),
        Column("model_name", STR, "model that decided"),
        Column("subject_id", STR, "pseudonymous id of the person concerned"),
        Column("outcome_class", STR, "outcome of the run", nullable=False),
        Column("step_count", I32, "steps of the run", nullable=False),
        Column("reward", F64, "the run's score; null is not 0"),
        Column("purposes", list_of(STR), "what it may be used for"),
        Column("consent_basis", STR, "revision of the consent that was found"),
        Column("holds_until", TIME, "when consent ends by what was known; judged again then", unit="µs UTC", key=True),
        Column("left_out_rewards", list_of(STR), "rewards whose graders may not be used"),
        Column("field_actions", FIELD_ACTIONS, "content fields that are masked or dropped before publication"),
        Column("evidence_digest", STR, "SHA-256 over what the policies looked at"),
        Column("scan_findings", SCAN_FINDINGS, "what the deep scan found: path, kind, score, count; never the value"),
        Column("detector_revision", STR, "content hash of the deep scan; null where none was done"),
        Column("policy_revision", STR, "content hash of the policies", nullable=False),
        Column("suite_revision", STR, "content hash of the expectations", nullable=False),
        Column("classifier_revision", STR, "content hash of the failure rules", nullable=False),
        Column("code_revision", STR, "content hash of the code that judged", nullable=False),
        Column("runs_version", I64, "version of `runs` that was read", nullable=False),
        Column("steps_version", I64, "version of `steps` that was read", nullable=False),
        Column("rewards_version", I64, "version of `rewards` that was read; -1 where there was none", nullable=False),
        Column("consents_version", I64, "version of `consents` that was read; -1 where there was none", nullable=False),
    ),
    dictionary=(
        "topic", "tenant_id", "verdict", "cause", "decided_by", "skill_name", "model_name", "outcome_class",
        "consent_basis", "policy_revision", "suite_revision", "classifier_revision", "code_revision",
        "detector_revision",
    ),
)  # fmt: skip

PUBLICATIONS = Table(
    "publications",
    "One publication: a batch of verdicts that took effect together.",
    (
        Column("publication", I64, "its number, from 1", nullable=False, key=True),
        Column("cause", STR, "what led to it: new, reward, consent, policy, release, reject", nullable=False),
        Column("decided_at", TIME, "when, by the clock of the machine that judged", nullable=False, unit="µs UTC"),
        Column("runs", I64, "runs judged", nullable=False),
        Column("published", I64, "runs let in", nullable=False),
        Column("held", I64, "runs that wait for an operator", nullable=False),
        Column("refused", I64, "runs kept out", nullable=False),
        Column("withdrawn", I64, "runs taken out again", nullable=False),
        Column("steps", I64, "steps of the runs let in", nullable=False),
        Column("policy_revision", STR, "content hash of the policies", nullable=False),
        Column("suite_revision", STR, "content hash of the expectations", nullable=False),
        Column("detector_revision", STR, "content hash of the deep scan; null where no policy asked for one"),
        Column("code_revision", STR, "content hash of the code that judged", nullable=False),
        Column("runs_version", I64, "version of `runs` that was read", nullable=False),
        Column("steps_version", I64, "version of `steps` that was read", nullable=False),
        Column("rewards_version", I64, "version of `rewards` that was read; -1 where there was none", nullable=False),
        Column("consents_version", I64, "version of `consents` that was read; -1 where there was none", nullable=False),
        Column("trajectories_version", I64, "version of `trajectories` after it took effect", nullable=False),
        Column("bias", STR, "what was excluded, by reason, outcome, skill and model: JSON text", nullable=False),
    ),
    dictionary=("cause", "policy_revision", "suite_revision", "detector_revision", "code_revision"),
)
