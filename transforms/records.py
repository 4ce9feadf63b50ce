"""The values that pass between the stages of the land path.

`Record` is one Kafka record. Decoding turns it into a `Decoded` event or a `Rejected` record. Both know their place
in the log; nothing else identifies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trajlake.expectations.events import Event, Runless
from trajlake.expectations.reasons import Reason, Stage
from trajlake.transforms.policy.verdicts import Finding

Headers = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One Kafka record of a partition. `append_us`: broker's append time, microseconds since the Unix epoch."""

    offset: int
    append_us: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class UnknownEvent(Runless, kw_only=True, tag="*"):
    """A valid envelope of a type that this version does not know: kept in the ledger, ignored by assembly."""

    kind: str


AnyEvent = Event | UnknownEvent


class Redaction(NamedTuple):
    """What was removed from a record: where, by which rule, how often; never the value."""

    path: str
    rule: str
    count: int  # type: ignore[assignment]


@dataclass(slots=True)
class Payload:
    """Content that is stored by reference. `sha256` is the hex digest of `content`."""

    tenant_id: str
    sha256: str
    content: bytes
    quarantined: bool = False


@dataclass(slots=True)
class Decoded:
    """An event that was let in. `text` is what the ledger keeps: the event's JSON after redaction, UTF-8."""

    event: AnyEvent
    text: bytes
    redactions: list[Redaction] | None = None
    payloads: list[Payload] | None = None
    gaps: list[tuple[str, str | None]] | None = None


@dataclass(slots=True)
class Rejected:
    """A record that goes to quarantine. `detail` and `field_path` hold names and places, never values."""

    reason: Reason
    stage: Stage
    detail: str
    field_path: str | None = None
    tenant_id: str | None = None
    run_id: str | None = None
    event_id: str | None = None
    event_type: str | None = None
    sequence: int | None = None
    keep_payload: bool = True
    payloads: list[Payload] | None = None
    """Content that `text` refers to."""
    text: bytes | None = None
    """The record after redaction, where it got that far; otherwise the raw record is masked as text."""
    findings: tuple[Finding, ...] = ()
    """Why policy refused it, where policy did."""
