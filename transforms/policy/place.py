"""Places: where a process may write, and whether a tenant's data may be there.

A process is bound to one zone and, where its topic and root are a tenant's own, to that tenant. It holds the
credentials of that place only; this is the check that nothing else comes with the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from trajlake.expectations.reasons import PolicyReason
from trajlake.transforms.policy.terms import ScopeTerms

WORKER: Final = "worker"
"""Rule id of what follows from where a worker is bound to, not from a policy."""


class WritePlace(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a process writes. `zone`: None where it is bound to none. `tenant_id`: the only tenant whose data may come
    here; None for a shared place. `checked`: False where nothing is written, so that nothing can be misplaced."""

    zone: str | None = None
    tenant_id: str | None = None
    checked: bool = True


NOWHERE: Final = WritePlace(checked=False)


class Misplaced(NamedTuple):
    """Why data may not be at a place."""

    code: PolicyReason
    rule_id: str
    detail: str


def misplaced(scope: ScopeTerms, place: WritePlace, tenant_id: str, residency: str | None) -> Iterator[Misplaced]:
    """What keeps a tenant's data from a place: residency by policy or as the run declares it, and isolation."""
    if not place.checked:
        return
    here = place.zone or "no zone"
    zone, rule = scope.zone
    if zone is not None and zone != place.zone:
        yield Misplaced(PolicyReason.OTHER_ZONE, rule, f"has to stay in {zone}; this is {here}")
    if residency is not None and place.zone is not None and residency.strip().lower() != place.zone:
        yield Misplaced(PolicyReason.OTHER_ZONE, WORKER, f"the run declares another zone; this is {here}")
    if place.tenant_id is not None and place.tenant_id != tenant_id:
        yield Misplaced(PolicyReason.NOT_ISOLATED, WORKER, "this root is another tenant's own")
    elif scope.isolation.value == "dedicated" and place.tenant_id is None:
        yield Misplaced(PolicyReason.NOT_ISOLATED, scope.isolation.rule, "needs a root of its own; this one is shared")
