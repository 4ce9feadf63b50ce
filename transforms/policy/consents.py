"""Consents: what a subject has said about a purpose, as of a time.

What counts at a time is the newest statement, by the time it was made and then by offset, among those that have taken
effect by then. Statements of one time in different partitions have no order: there the one that does not grant counts.
A statement's own time is trusted only up to the broker's: a clock that runs ahead must not outlast a later withdrawal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from trajlake.transforms.policy.times import micros

Status = Literal["granted", "absent", "other_purpose", "expired", "withdrawn"]


class ConsentRecord(Struct, frozen=True, gc=False, kw_only=True):
    """One statement: a row of the table `consents`. Times in µs since the Unix epoch."""

    tenant_id: str
    subject_id: str
    purpose: str
    state: Literal["granted", "withdrawn", "expired"]
    made_us: int
    """When it was made, at most the broker's append time."""
    effective_us: int
    expires_us: int | None = None
    consent_revision: str | None = None
    topic: str = ""
    partition: int = 0
    offset: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ConsentRecord:
        """A row of `consents` as Python values; times as datetimes or µs."""
        names = ("tenant_id", "subject_id", "purpose", "state", "consent_revision", "topic", "partition", "offset")
        made, effective = micros(row["made_at"]), micros(row["effective_at"])
        assert made is not None
        assert effective is not None
        return cls(
            **{name: row[name] for name in names},
            made_us=made,
            effective_us=effective,
            expires_us=micros(row["expires_at"]),
        )


class ConsentFound(NamedTuple):
    """What holds at a time, and the statement that says so; None where there is none."""

    status: Status
    record: ConsentRecord | None = None


class Consents:
    """Statements of many subjects, to be looked up by tenant, subject, purpose and time."""

    def __init__(self, records: Iterable[ConsentRecord] = ()) -> None:
        self._purposes: dict[tuple[str, str], dict[str, list[ConsentRecord]]] = {}
        for record in records:
            purposes = self._purposes.setdefault((record.tenant_id, record.subject_id), {})
            purposes.setdefault(record.purpose, []).append(record)

    def find(self, tenant_id: str, subject_id: str, purpose: str, at_us: int) -> ConsentFound:
        """What holds for a purpose at a time."""
        purposes = self._purposes.get((tenant_id, subject_id))
        if purposes is None:
            return ConsentFound("absent")
        record = _newest(purposes.get(purpose, ()), at_us)
        if record is None:
            others = any(_newest(records, at_us) for name, records in purposes.items() if name != purpose)
            return ConsentFound("other_purpose" if others else "absent")
        if record.state == "withdrawn":
            return ConsentFound("withdrawn", record)
        if record.state == "expired" or (record.expires_us is not None and record.expires_us <= at_us):
            return ConsentFound("expired", record)
        return ConsentFound("granted", record)

    def holds_until(self, tenant_id: str, subject_id: str, purpose: str, at_us: int) -> int | None:
        """The first time after `at_us` at which the purpose is not granted, by what is known; None if it stays so."""
        records = self._purposes.get((tenant_id, subject_id), {}).get(purpose, ())
        turns = {record.effective_us for record in records} | {record.expires_us for record in records}
        later = sorted(turn for turn in turns if turn is not None and turn > at_us)
        return next(
            (turn for turn in later if self.find(tenant_id, subject_id, purpose, turn).status != "granted"), None
        )


def _newest(records: Iterable[ConsentRecord], at_us: int) -> ConsentRecord | None:
    """The statement that counts at a time."""
    effective = [record for record in records if record.effective_us <= at_us]
    if not effective:
        return None
    last_us = max(record.made_us for record in effective)
    by_partition: dict[tuple[str, int], ConsentRecord] = {}
    for record in effective:
        if record.made_us == last_us:
            place = (record.topic, record.partition)
            if place not in by_partition or record.offset >= by_partition[place].offset:
                by_partition[place] = record
    return min(by_partition.values(), key=lambda record: (record.state == "granted", record.topic, record.partition))
