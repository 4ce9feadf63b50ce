"""The fold fed from the ledger instead of the log: the same state from the rows that the log's records became.

The log forgets (retention, compaction), and today's settings may judge its records otherwise than they were judged;
the ledger is what landed. An event's text in `events` decodes to what its record decoded to, and a row of `quarantine`
says what a refused record did to its run. Each row is folded under the memory limits of the rules that let it in, so
what was closed or forgotten for want of room is so again. Rows come out again and are dropped: they have landed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trajlake.expectations.events import ERASED_TYPE, ReclassifyEvent, RunStartedEvent, TickEvent, kafka_key
from trajlake.expectations.reasons import Reason, Stage
from trajlake.transforms.assemble.state import RedactionNote
from trajlake.transforms.decode.decoder import decode_value
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import memory_limits
from trajlake.transforms.landing.suppression import digest_of
from trajlake.transforms.policy.gate import MISPLACED
from trajlake.transforms.records import Redaction, Rejected, UnknownEvent


class LedgerEvent(NamedTuple):
    """A row of `events`. `append_us`: microseconds since the Unix epoch. `text`: the event as the ledger keeps it."""

    offset: int
    append_us: int
    text: bytes
    redactions: list[Redaction] | None = None
    rule_revision: str | None = None


class LedgerRefusal(NamedTuple):
    """A row of `quarantine`. `sequence`: place in the run's order that the record used up; None where it took none."""

    offset: int
    append_us: int
    stage: str
    reason: str
    tenant_id: str | None
    run_id: str | None
    sequence: int | None
    rule_revision: str | None = None


def refold(fold: PartitionFold, rows: Iterable[LedgerEvent | LedgerRefusal], up_to: int) -> None:
    """Bring a fold from its next offset to `up_to`. `rows`: all that the ledger holds between, in offset order.

    Raises ValueError when a text of the ledger does not decode.
    """
    own = (fold.rules.closed_runs_kept, fold.rules.state_max_bytes)
    revision = None
    for row in rows:
        if row.rule_revision != revision:
            revision = row.rule_revision
            fold.assembler.limit(*((memory_limits(revision) if revision else None) or own))
        refold_row(fold, row)
    fold.assembler.limit(*own)
    fold.assembler.pass_by(up_to)
    fold.assembler.take()


def refold_row(fold: PartitionFold, row: LedgerEvent | LedgerRefusal) -> None:
    """Fold one row of the ledger. Raises ValueError as `refold`."""
    if isinstance(row, LedgerEvent):
        _fold_event(fold, row)
    else:
        _fold_refusal(fold, row)
    fold.assembler.pass_by(row.offset)


def _fold_event(fold: PartitionFold, row: LedgerEvent) -> None:
    assembler = fold.assembler
    size = len(row.text)
    decoded = decode_value(row.text, inline_max_bytes=size, event_inline_max_bytes=size + 1, from_ledger=True)
    if isinstance(decoded, Rejected):
        place = f"{fold.topic}/{fold.partition} offset {row.offset}"
        raise ValueError(f"{place}: the ledger's text is {decoded.reason}: {decoded.detail}")
    event = decoded.event
    watch = fold.watch
    if isinstance(event, TickEvent):
        fold.tick(event.data, row.offset, row.append_us)
    elif isinstance(event, UnknownEvent) and event.kind == ERASED_TYPE:
        if (digest := digest_of(row.text)) is not None:
            watch.meet(digest)
    elif watch.is_active and watch.recognise(event) is not None:
        # Erased, and still in the ledger: the erasure is on its way.
        return
    elif event.runid is not None:
        key = kafka_key(event.tenantid, event.runid)
        if isinstance(event, ReclassifyEvent):
            # What is in the ledger was in force, whatever the rules are by now.
            assembler.reclassify(event.data, key, row.offset)
            return
        if isinstance(event, RunStartedEvent):
            fold.gate.admit(key)
        cuts: list[RedactionNote] | None = None if row.redactions is None else [*row.redactions]
        assembler.apply(event, row.offset, row.append_us, key, row.text, decoded.gaps, cuts)


def _fold_refusal(fold: PartitionFold, row: LedgerRefusal) -> None:
    if row.tenant_id is None or row.run_id is None:
        return
    if fold.watch.is_active and fold.watch.recognise_refused(row.tenant_id, row.run_id, b""):
        return
    key = kafka_key(row.tenant_id, row.run_id)
    if row.reason in MISPLACED:
        fold.block(key, row.append_us)
    if row.stage != Stage.ASSEMBLE:
        if row.sequence is not None:
            fold.assembler.skip(key, row.sequence, row.offset, row.append_us, Reason(row.reason))
    elif row.reason == Reason.DUPLICATE:
        run = fold.assembler.open.get(key) or fold.assembler.closed.get(key)
        if run is not None:
            run.duplicates += 1
