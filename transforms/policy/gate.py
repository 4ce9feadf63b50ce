"""The gate's part of policy: may a record be stored where its worker writes?

Three things can forbid it. Identity: envelope, key, topic and payload have to name one tenant. Residency: the data has
to stay in the zone that policy or the run itself names. Isolation: a dedicated tenant's data lies in a root of its own.

The zone and the skill of a run are in its start event, so a run whose start was refused is remembered, and all that
follows is refused with it. What came before its start (out of order) has landed by then, unless the tenant's policy
alone forbids it: where residency matters, name the zone in the tenant's policy.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from trajlake.expectations.events import RunStartedEvent, tenant_of_topic
from trajlake.expectations.policies import PolicySet, default_policies
from trajlake.expectations.reasons import PolicyReason, Reason
from trajlake.transforms.policy.place import Misplaced, WritePlace, misplaced
from trajlake.transforms.policy.terms import terms_for
from trajlake.transforms.policy.verdicts import Finding
from trajlake.transforms.records import Rejected

BLOCKED_KEPT: Final = 200_000
"""Refused runs that are remembered per partition; some tens of bytes each."""

MISPLACED: Final = frozenset({Reason.OTHER_ZONE, Reason.NOT_ISOLATED})
"""Reasons for which nothing of a record is stored here but its hash."""

_IDENTITY: Final = frozenset({Reason.TENANT_MISSING, Reason.TENANT_MISMATCH, Reason.KEY_MISMATCH})
_REASONS: Final = {PolicyReason.OTHER_ZONE: Reason.OTHER_ZONE, PolicyReason.NOT_ISOLATED: Reason.NOT_ISOLATED}


@dataclass(frozen=True)
class Governance:
    """The policies of a worker, and where it may write. `code_version` goes into decisions, and not into the
    revision."""

    policies: PolicySet = field(default_factory=default_policies)
    place: WritePlace = field(default_factory=WritePlace)
    code_version: str = "unknown"

    @cached_property
    def revision(self) -> str:
        """Content hash of all that decides."""
        parts = [self.policies.revision, self.place]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:12]

    @cached_property
    def forbids_places(self) -> bool:
        """Whether anything could be misplaced at all; if not, no run is looked at."""
        place = self.place
        if place.zone is not None or place.tenant_id is not None:
            return True
        return any(policy.zone is not None or policy.isolation is not None for policy in self.policies.policies)


class Gate:
    """The gate of one partition. `blocked`: key of a refused run -> append time of the last record refused with it,
    µs; oldest first."""

    def __init__(self, governance: Governance, topic: str, blocked: Iterable[tuple[bytes, int]] = ()) -> None:
        self.governance = governance
        self.tenant_of_topic = tenant_of_topic(topic)
        self.blocked: OrderedDict[bytes, int] = OrderedDict(blocked)

    def judge(self, tenant_id: str, start: RunStartedEvent | None = None) -> list[Misplaced]:
        """What keeps a tenant's record, or the run that a start opens, from being stored here."""
        if start is None:
            return self.judge_run(tenant_id, None, None)
        skill = start.data.skill
        return self.judge_run(tenant_id, skill.name if skill is not None else None, start.data.residency)

    def judge_run(self, tenant_id: str, skill: str | None, residency: str | None) -> list[Misplaced]:
        """The same for a run by its skill and the residency that it declares."""
        governance = self.governance
        if not governance.forbids_places:
            return []
        scope = terms_for(governance.policies, tenant_id, skill)
        return list(misplaced(scope, governance.place, tenant_id, residency))

    def block(self, key: bytes, append_us: int) -> None:
        """Remember a refused run, or that one more of its records came."""
        self.blocked[key] = append_us
        self.blocked.move_to_end(key)
        if len(self.blocked) > BLOCKED_KEPT:
            self.blocked.popitem(last=False)

    def admit(self, key: bytes) -> None:
        """A start of the run was let in."""
        self.blocked.pop(key, None)

    def forget(self, before_us: int) -> None:
        """Forget refused runs of which nothing came since a time."""
        while self.blocked and next(iter(self.blocked.values())) < before_us:
            self.blocked.popitem(last=False)


def reason_of(found: Misplaced) -> Reason:
    """Code under which a misplaced record is quarantined."""
    return _REASONS[found.code]


def is_governed(rejected: Rejected) -> bool:
    """Whether governance refused a record, so that a decision says why."""
    return rejected.reason in MISPLACED or rejected.reason in _IDENTITY


def findings_of(rejected: Rejected) -> tuple[Finding, ...]:
    """Why governance refused a record."""
    if rejected.findings:
        return rejected.findings
    what = (rejected.field_path or "tenantid").partition(".")[0]
    rule = f"identity.{'payload' if what == 'data' else what}"
    return (Finding(PolicyReason.TENANT_DISAGREES, rule, rejected.detail),)
