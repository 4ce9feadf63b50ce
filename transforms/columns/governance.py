"""Columns of the tables of governance: consents and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from trajlake.expectations.tables import CONSENTS, POLICY_DECISIONS, REASONS, TIME
from trajlake.transforms.columns.arrow import list_column, to_batch
from trajlake.transforms.policy.times import micros
from trajlake.transforms.policy.verdicts import Decision

if TYPE_CHECKING:
    from trajlake.transforms.landing.rows import ConsentRow


def consent_batch(rows: Sequence[ConsentRow], topic: str, partition: int, policy_revision: str) -> pa.RecordBatch:
    """Columns of `consents`. A statement is made when its event says, at most at the broker's time, and takes effect
    then unless it says otherwise."""
    events = [row.event for row in rows]
    said = [event.data for event in events]
    made = [min(micros(row.event.time) or row.append_us, row.append_us) for row in rows]
    effective = [micros(data.effective_at) for data in said]
    columns = {
        "topic": [topic] * len(rows),
        "partition": [partition] * len(rows),
        "offset": [row.offset for row in rows],
        "tenant_id": [event.tenantid for event in events],
        "made_at": _times(made),
        "effective_at": _times([at if since is None else since for at, since in zip(made, effective, strict=True)]),
        "expires_at": _times([micros(data.expires_at) for data in said]),
        "event_id": [event.id for event in events],
        "source": [event.source for event in events],
        "append_time": _times([row.append_us for row in rows]),
        "policy_revision": [policy_revision] * len(rows),
        **{
            name: [getattr(data, name) for data in said]
            for name in ("subject_id", "purpose", "state", "consent_revision")
        },
    }
    return to_batch(CONSENTS, columns, len(rows))


_PLAIN = (
    "topic", "partition", "offset", "subject_kind", "tenant_id", "run_id", "event_id", "purpose", "stage", "zone",
    "verdict", "input_digest", "policy_revision", "detector_revision", "code_version",
)  # fmt: skip


def decision_batch(rows: Sequence[Decision]) -> pa.RecordBatch:
    """Columns of `policy_decisions`."""
    columns = {
        **{name: [getattr(row, name) for row in rows] for name in _PLAIN},
        "rules": [list(row.rules) for row in rows],
        "reasons": list_column(REASONS, [[(r.code.value, r.rule_id, r.detail) for r in row.reasons] for row in rows]),
        "at": _times([row.at_us for row in rows]),
        "holds_until": _times([row.holds_until_us for row in rows]),
    }
    return to_batch(POLICY_DECISIONS, columns, len(rows))


def _times(values: Sequence[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).view(TIME)
