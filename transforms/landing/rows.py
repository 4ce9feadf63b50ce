"""What the land path makes of a stretch of one partition: the rows of every table, before they are columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Struct

from trajlake.expectations.events import ConsentChangedEvent, ReclassifyEvent
from trajlake.expectations.reasons import LogGap, Reason, Stage
from trajlake.transforms.assemble.fold import RewardRow
from trajlake.transforms.assemble.runs import RunRow
from trajlake.transforms.assemble.steps import StepRow
from trajlake.transforms.landing.suppression import tombstone, tombstone_text
from trajlake.transforms.policy.verdicts import Decision
from trajlake.transforms.records import AnyEvent, Payload, Record, Redaction, Rejected


class LedgerRow(Struct, gc=False):
    """One accepted event with its place."""

    offset: int
    append_us: int
    event: AnyEvent
    text: bytes
    redactions: list[Redaction] | None


class ConsentRow(NamedTuple):
    """One accepted statement of a person, with its place."""

    offset: int
    append_us: int
    event: ConsentChangedEvent


class Asked(NamedTuple):
    """One request to classify a run again that is in force, with its place. The rows are still to be made."""

    offset: int
    event: ReclassifyEvent


@dataclass(slots=True)
class HoleRow:
    """Offsets `first..last` at which the log holds no record."""

    first: int
    last: int
    code: LogGap
    detail: str | None = None


@dataclass(slots=True)
class QuarantineRow:
    """One refused record with its place; `value` is what may be stored of it."""

    offset: int
    append_us: int
    rejected: Rejected
    stored: bytes | None
    sha256: str
    size: int
    payload_ref: str | None = None
    original: Record | None = None
    """The record as received; only what is sealed of it is ever stored."""
    sealed: str | None = None
    sealed_ref: str | None = None
    released_from: str | None = None


@dataclass(slots=True)
class Landing:
    """Rows of all tables for a stretch of one partition, `first..last` offsets, each list in offset order.

    `asked`: runs that are to be classified again; their rows of `steps` and `runs` come from the ledger.
    """

    topic: str
    partition: int
    first: int
    last: int
    events: list[LedgerRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    rewards: list[RewardRow] = field(default_factory=list)
    quarantine: list[QuarantineRow] = field(default_factory=list)
    holes: list[HoleRow] = field(default_factory=list)
    consents: list[ConsentRow] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    policy_revision: str = ""

    def extend(self, later: Landing) -> None:
        """Append the landing that follows this one in the same partition."""
        self.last = later.last
        for name in _ROWS:
            getattr(self, name).extend(getattr(later, name))

    def answer(self, steps: list[StepRow], runs: list[RunRow]) -> None:
        """Put in the rows of what was asked for, and note that nothing is asked any more."""
        self.steps = sorted([*self.steps, *steps], key=lambda row: row.offset)
        self.runs = sorted([*self.runs, *runs], key=lambda row: row.offset)
        self.asked = []


_ROWS: Final = (
    "events",
    "steps",
    "runs",
    "rewards",
    "quarantine",
    "holes",
    "consents",
    "decisions",
    "payloads",
    "asked",
)


def erased_row(offset: int, append_us: int, tenant_id: str, digest: bytes) -> LedgerRow:
    """What lands in the place of an erased event."""
    return LedgerRow(offset, append_us, tombstone(tenant_id), tombstone_text(tenant_id, digest), None)


def erased_refusal(record: Record, stage: Stage, tenant_id: str | None) -> QuarantineRow:
    """What lands in the place of a refused record of somebody erased."""
    rejected = Rejected(Reason.ERASED, stage, "erased", tenant_id=tenant_id, keep_payload=False)
    return QuarantineRow(record.offset, record.append_us, rejected, None, "", 0)
