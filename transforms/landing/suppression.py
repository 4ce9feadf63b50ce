"""Suppression: events of erased subjects and runs, recognised without their names, and what stands in their place.

Who was erased is known by digests only: HMAC-SHA-256, cut to 16 bytes, keyed by the lake, of the tenant and the
subject's or run's id. A digest is made where a run opens, never for each event: what an open run brings has been let
in with it.

An erased event keeps its offset, so that the accounting still closes: in the ledger stands a tombstone of type
`trajlake.erased`, which holds the tenant and the run's digest. So a fold that is fed from the ledger learns of runs
that were recognised by their start alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from trajlake.expectations.events import (
    ERASED_ID,
    ERASED_SOURCE,
    ERASED_TYPE,
    ConsentChangedEvent,
    RunStartedEvent,
)
from trajlake.transforms.assemble.state import OpenRun, PartitionState
from trajlake.transforms.records import AnyEvent, UnknownEvent

DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class Suppression:
    """Who is erased. `epoch`: number of the newest entry of the erasure ledger that it holds; 0 when there is none.

    `key`: of the lake's digests. `digests`: of subjects and of runs alike.
    """

    epoch: int = 0
    key: bytes = b""
    digests: frozenset[bytes] = frozenset()

    def of_run(self, tenant_id: str, run_id: str) -> bytes:
        """Digest of a run."""
        return self._digest(b"run", tenant_id, run_id)

    def of_subject(self, tenant_id: str, subject_id: str) -> bytes:
        """Digest of a data subject."""
        return self._digest(b"subject", tenant_id, subject_id)

    def has_run(self, tenant_id: str | None, run_id: str | None) -> bool:
        """Whether a run is erased."""
        return bool(tenant_id and run_id and self.of_run(tenant_id, run_id) in self.digests)

    def has_subject(self, tenant_id: str | None, subject_id: object) -> bool:
        """Whether a subject is erased."""
        return bool(
            tenant_id
            and isinstance(subject_id, str)
            and subject_id
            and self.of_subject(tenant_id, subject_id) in self.digests
        )

    def _digest(self, kind: bytes, *names: str) -> bytes:
        parts = [kind, *(name.encode("utf-8", "surrogatepass") for name in names)]
        # Lengths before the parts: no two lists of names give the same text.
        text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self.key, text, "sha256")[:DIGEST_BYTES]


NO_SUPPRESSION: Final = Suppression()


class Watch:
    """What the fold of one partition knows of erased runs: those of the suppression, and those that it met itself.

    `met`: digests of runs that are erased for their subject, parent or forked history.
    """

    def __init__(self, suppression: Suppression = NO_SUPPRESSION, met: Iterable[bytes] = ()) -> None:
        self.suppression = suppression
        self.met = set(met) - suppression.digests
        self.is_active = bool(suppression.digests or self.met)

    def meet(self, digest: bytes) -> None:
        """Take note of an erased run."""
        if digest not in self.suppression.digests:
            self.met.add(digest)
            self.is_active = True

    def recognise(self, event: AnyEvent) -> bytes | None:
        """Digest of what an event is erased for: its run, or its subject where it has no run; None where it stays."""
        suppression, tenant = self.suppression, event.tenantid
        if event.runid is None:
            subjects = [event.subject, event.data.subject_id if isinstance(event, ConsentChangedEvent) else None]
            found = next((name for name in subjects if suppression.has_subject(tenant, name)), None)
            return None if found is None else suppression.of_subject(tenant, found)
        digest = suppression.of_run(tenant, event.runid)
        if digest in suppression.digests or digest in self.met:
            return digest
        start = event.data if isinstance(event, RunStartedEvent) else None
        kin = [event.parentrunid, start.forked_from_id if start is not None else None]
        if any(self.has(tenant, run) for run in kin) or (
            start is not None and suppression.has_subject(tenant, start.subject_id)
        ):
            self.meet(digest)
            return digest
        if isinstance(event, ConsentChangedEvent) and suppression.has_subject(tenant, event.data.subject_id):
            # The statement alone: the run that it came in is not the subject's.
            return suppression.of_subject(tenant, event.data.subject_id)
        return None

    def recognise_refused(self, tenant_id: str | None, run_id: str | None, value: bytes) -> bool:
        """Whether a record that no stage let in belongs to somebody erased, as far as it can be read."""
        return self.has(tenant_id, run_id) or (b"ubject" in value and self._names_subject(value))

    def has(self, tenant_id: str | None, run_id: str | None) -> bool:
        """Whether a run is erased."""
        if not tenant_id or not run_id:
            return False
        digest = self.suppression.of_run(tenant_id, run_id)
        return digest in self.suppression.digests or digest in self.met

    def _names_subject(self, value: bytes) -> bool:
        try:
            body = orjson.loads(value)
        except ValueError:
            return False
        return any(self.suppression.has_subject(tenant, subject) for tenant, subject in subjects_of(body))


def subjects_of(body: Any) -> list[tuple[str, str]]:
    """(tenant, subject) pairs that the JSON of an event names where the contract has a place for them."""
    if not isinstance(body, dict) or not isinstance(tenant := body.get("tenantid"), str):
        return []
    data = body.get("data")
    named = [body.get("subject") if body.get("runid") is None else None]
    named += [data.get("subject_id")] if isinstance(data, dict) else []
    return [(tenant, name) for name in named if isinstance(name, str) and name]


def tombstone_text(tenant_id: str, digest: bytes | None) -> bytes:
    """What the ledger keeps in the place of an erased event."""
    body: dict[str, Any] = {
        "specversion": "1.0",
        "id": ERASED_ID,
        "source": ERASED_SOURCE,
        "type": ERASED_TYPE,
        "tenantid": tenant_id,
    }
    if digest is not None:
        body["data"] = {"digest": digest.hex()}
    return orjson.dumps(body)


def tombstone(tenant_id: str) -> AnyEvent:
    """The event of a tombstone."""
    return UnknownEvent(specversion="1.0", id=ERASED_ID, source=ERASED_SOURCE, tenantid=tenant_id, kind=ERASED_TYPE)


def digest_of(text: bytes) -> bytes | None:
    """Digest that a tombstone holds."""
    data = orjson.loads(text).get("data")
    try:
        return bytes.fromhex(data["digest"])
    except (TypeError, KeyError, ValueError):
        return None


def without_erased(state: PartitionState, suppression: Suppression) -> tuple[PartitionState, int]:
    """A partition's state without what is erased, and how many runs went. The struct itself is changed."""
    watch = Watch(suppression, state.erased)
    dropped = 0
    if watch.is_active:
        gone = -1
        while dropped != gone:
            # A run may be erased for its parent, which may come behind it.
            gone = dropped
            for runs in (state.open_runs, state.closed_runs):
                kept = [run for run in runs if not _is_erased(run, watch)]
                dropped += len(runs) - len(kept)
                runs[:] = kept
        state.blocked = [(key, at) for key, at in state.blocked if not _is_key_erased(key, watch)]
    state.erased = sorted(watch.met)
    state.suppression = max(suppression.epoch, state.suppression)
    return state, dropped


def _is_key_erased(key: bytes, watch: Watch) -> bool:
    tenant, _, run = key.decode("utf-8", "replace").partition("/")
    return watch.has(tenant, run)


def _is_erased(run: OpenRun, watch: Watch) -> bool:
    head, suppression = run.head, watch.suppression
    digest = suppression.of_run(head.tenant_id, head.run_id)
    kin = (head.parent_run_id, head.started.forked_from_id)
    erased = (
        digest in suppression.digests
        or digest in watch.met
        or suppression.has_subject(head.tenant_id, head.started.subject_id)
        or any(watch.has(head.tenant_id, name) for name in kin)
    )
    if erased:
        watch.meet(digest)
    return erased


def starts_of(watch: Watch) -> Callable[[AnyEvent], bool]:
    """For the fold: whether a start that came to an open run shows that the run is erased."""
    return lambda event: watch.recognise(event) is not None
