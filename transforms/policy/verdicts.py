"""What policy says: findings, and decisions as rows of the table `policy_decisions`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trajlake.expectations.reasons import PolicyReason


class Finding(Struct, frozen=True, gc=False):
    """One reason to deny: the code, the rule that decided, and what it met. `detail` holds no content of the run."""

    code: PolicyReason
    rule_id: str
    detail: str


class Decision(Struct, frozen=True, kw_only=True):
    """A row of `policy_decisions`. Times in µs since the Unix epoch; the columns' meanings are in the table's
    contract."""

    topic: str
    partition: int
    offset: int
    subject_kind: Literal["record", "run"]
    tenant_id: str | None = None
    run_id: str | None = None
    event_id: str | None = None
    purpose: str
    stage: str
    zone: str | None = None
    verdict: Literal["allow", "deny"]
    rules: tuple[str, ...]
    reasons: tuple[Finding, ...] = ()
    at_us: int
    holds_until_us: int | None = None
    input_digest: str
    policy_revision: str
    detector_revision: str | None = None
    code_version: str
