"""Rows of `curation`: the verdict on each run, with everything that it rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson
import pyarrow as pa

from trajlake.expectations.policies import DeepScan
from trajlake.expectations.reasons import Cause, Publication
from trajlake.expectations.tables import CURATION
from trajlake.transforms.curate.evidence import ScanFinding
from trajlake.transforms.curate.soundness import Reason

_FROM_RUN: Final = (
    "tenant_id", "run_id", "topic", "partition", "offset", "first_offset", "skill_name", "model_name", "subject_id",
    "outcome_class", "step_count", "classifier_revision",
)  # fmt: skip


@dataclass(slots=True)
class Judgement:
    """What is said of one run before it is written down. `reasons` empty: it may be published."""

    reasons: list[Reason] = field(default_factory=list)
    quality: list[Reason] = field(default_factory=list)
    held: bool = False
    """The reasons are the batch's: it waits instead of being refused."""
    consent_basis: str | None = None
    holds_until_us: int | None = None
    left_out_rewards: Sequence[str] = ()
    field_actions: Sequence[tuple[str, str]] = ()
    evidence_digest: str | None = None
    deep_scan: DeepScan = "skip"
    """What the policies ask for, and by which rule."""
    deep_scan_rule: str = ""
    detector_revision: str | None = None
    """Of the deep scan that was done; None where there was none."""
    scan_findings: Sequence[ScanFinding] = ()

    @property
    def verdict(self) -> Publication:
        if not self.reasons:
            return Publication.PUBLISHED
        return Publication.HELD if self.held else Publication.REFUSED


@dataclass(frozen=True)
class Basis:
    """What all verdicts of one publication rest on. `decided_us`: µs since the Unix epoch. Versions: -1 for none."""

    publication: int
    cause: Cause
    decided_by: str
    decided_us: int
    policy_revision: str
    suite_revision: str
    code_revision: str
    versions: Mapping[str, int]


def verdict_rows(
    runs: pa.Table,
    judged: Sequence[Judgement],
    verdicts: Sequence[Publication],
    reward_offsets: Sequence[int],
    scores: pa.Array,
    basis: Basis,
) -> pa.Table:
    """One row a run, in the order of `runs`. `scores`: the run's reward by run."""
    count = runs.num_rows
    columns: dict[str, Any] = {name: runs.column(name) for name in _FROM_RUN}
    fragments = [not started for started in runs.column("has_start").to_pylist()]
    columns |= {
        "publication": [basis.publication] * count,
        "run_revision": runs.column("revision"),
        "fragment": fragments,
        "reward_offset": list(reward_offsets),
        "verdict": [verdict.value for verdict in verdicts],
        "reasons": [_structs(one.reasons) for one in judged],
        "quality": [_structs(one.quality) for one in judged],
        "cause": [basis.cause.value] * count,
        "decided_by": [basis.decided_by] * count,
        "decided_at": [basis.decided_us] * count,
        "reward": scores,
        "purposes": [["train"] if verdict is Publication.PUBLISHED else None for verdict in verdicts],
        "consent_basis": [one.consent_basis for one in judged],
        "holds_until": [
            one.holds_until_us if verdict is Publication.PUBLISHED else None
            for one, verdict in zip(judged, verdicts, strict=True)
        ],
        "left_out_rewards": [list(one.left_out_rewards) or None for one in judged],
        "field_actions": [
            [{"field": name, "action": action} for name, action in one.field_actions] or None for one in judged
        ],
        "evidence_digest": [one.evidence_digest for one in judged],
        "scan_findings": [[asdict(found) for found in one.scan_findings] or None for one in judged],
        "detector_revision": [one.detector_revision for one in judged],
        "policy_revision": [basis.policy_revision] * count,
        "suite_revision": [basis.suite_revision] * count,
        "code_revision": [basis.code_revision] * count,
        **{
            f"{name}_version": [basis.versions.get(name, -1)] * count
            for name in ("runs", "steps", "rewards", "consents")
        },
    }
    columns["verdict_id"] = [
        _verdict_id(key, one, verdict, basis)
        for key, one, verdict in zip(
            zip(
                runs.column("tenant_id").to_pylist(), runs.column("run_id").to_pylist(),
                runs.column("topic").to_pylist(), runs.column("partition").to_pylist(),
                runs.column("offset").to_pylist(), reward_offsets, strict=True,
            ),
            judged,
            verdicts,
            strict=True,
        )
    ]  # fmt: skip
    return _in_contract(columns, count)


def _structs(reasons: Sequence[Reason]) -> list[dict[str, str | None]] | None:
    return [reason._asdict() for reason in reasons] or None


def _verdict_id(key: tuple[Any, ...], judged: Judgement, verdict: Publication, basis: Basis) -> str:
    """First 24 hex digits of the SHA-256 over the state of the run, the rules, and what they said."""
    reasons = [list(reason) for reason in judged.reasons]
    parts = [
        key, verdict.value, reasons, judged.field_actions, judged.left_out_rewards, judged.evidence_digest,
        basis.policy_revision, basis.suite_revision, basis.code_revision, basis.publication, judged.detector_revision,
    ]  # fmt: skip
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:24]


def _in_contract(columns: dict[str, Any], count: int) -> pa.Table:
    arrays = []
    for column in CURATION.schema:
        values = columns[column.name]
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            arrays.append(values.cast(column.type))
        else:
            arrays.append(pa.array(values, column.type))
    assert all(len(array) == count for array in arrays)
    return pa.table(arrays, schema=CURATION.schema)
