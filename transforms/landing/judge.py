"""What is decided about one record before it is folded: decode, redact, and the row checks that need its place.

A record is judged by itself, except that a misplaced run takes its later records with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trajlake.expectations.events import (
    TICK_KEY,
    TICK_SOURCE,
    Event,
    ReclassifyEvent,
    RunStartedEvent,
    TickEvent,
    kafka_key,
)
from trajlake.expectations.names import unseen_in
from trajlake.expectations.reasons import PolicyReason, Reason, Stage
from trajlake.transforms.assemble.state import OpenRun
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION
from trajlake.transforms.decode.binary_mode import is_binary_mode
from trajlake.transforms.decode.decoder import decode, decode_value
from trajlake.transforms.landing.redaction import RecordRedaction, refer_again
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.policy.gate import Gate, reason_of
from trajlake.transforms.policy.verdicts import Finding
from trajlake.transforms.records import AnyEvent, Decoded, Payload, Record, Rejected
from trajlake.transforms.redact.errors import RedactionError
from trajlake.transforms.redact.standins import NOBODY

REFUSED_TENANTS: Final = frozenset({"", "0", "null", "none", "nil", "undefined", "nan", "unknown", "-"})
"""Placeholders that serializers write for a missing tenant."""


class RecordJudge:
    """Judges the records of one partition. `run_of`: the run that the fold knows by a Kafka key."""

    def __init__(
        self, rules: LandRules, redaction: RecordRedaction, gate: Gate, run_of: Callable[[bytes], OpenRun | None]
    ) -> None:
        self._rules = rules
        self._redaction = redaction
        self._gate = gate
        self._run_of = run_of

    def judge(self, record: Record, called: bool) -> Decoded | Rejected:
        """Decode, redact and check one record that did not take the fast path."""
        decoded = self.clean(record, called)
        return decoded if isinstance(decoded, Rejected) else self.place(record, decoded) or decoded

    def clean(self, record: Record, called: bool) -> Decoded | Rejected:
        """Decode and redact one record. Depends on nothing that came before it."""
        rules = self._rules
        decoded = decode(
            record, inline_max_bytes=rules.payload_inline_max_bytes, event_inline_max_bytes=rules.event_inline_max_bytes
        )
        if isinstance(decoded, Rejected):
            return decoded
        # Attributes in headers are not in the value that was looked over.
        if called or is_binary_mode(record.headers) or self._redaction.may_be_partial(decoded.text):
            redacted = self._redacted(decoded)
            if isinstance(redacted, Rejected):
                return redacted
            decoded = redacted
        return decoded

    def _redacted(self, decoded: Decoded) -> Decoded | Rejected:
        event = decoded.event
        try:
            text, cuts = self._redaction.apply(decoded.text, event.tenantid or NOBODY)
            payloads = _referred(decoded.payloads, text)
            clean = [self._redaction.apply_payload(payload) for payload in payloads or ()]
        except RedactionError as error:
            return refuse(Reason.REDACTION_FAILED, str(error), None, decoded, Stage.REDACT)
        text, more = refer_again(text, payloads or (), clean)
        cuts += more
        if not cuts:
            return decoded
        kept = [each.payload for each in clean] or None
        again = decode_value(
            text,
            inline_max_bytes=self._rules.payload_inline_max_bytes,
            event_inline_max_bytes=self._rules.event_inline_max_bytes,
            from_ledger=True,
        )
        if isinstance(again, Rejected):
            # A contract field that may not be text was denied: the event cannot be kept in part.
            again.stage, again.reason, again.text = Stage.REDACT, Reason.REDACTION_FAILED, text
            again.payloads = kept
            return again
        return Decoded(again.event, text, cuts, kept, decoded.gaps)

    def place(self, record: Record, decoded: Decoded) -> Rejected | None:
        """Row checks that need the record around the event."""
        event = decoded.event
        if isinstance(event, TickEvent):
            if event.source != TICK_SOURCE:
                return refuse(Reason.FORGED_TICK, "only the owner of a partition writes ticks", "source", decoded)
            if record.key != TICK_KEY:
                return refuse(Reason.FORGED_TICK, "a tick has a key of its own", "key", decoded)
            if event.tenantid or event.runid is not None:
                return refuse(Reason.FORGED_TICK, "a tick belongs to no tenant and no run", "runid", decoded)
            return None
        tenant = event.tenantid
        if tenant.strip().lower() in REFUSED_TENANTS:
            return refuse(Reason.TENANT_MISSING, "tenantid is blank or a placeholder", "tenantid", decoded)
        if self._gate.tenant_of_topic not in (None, tenant):
            return refuse(Reason.TENANT_MISMATCH, "the topic is another tenant's own", "topic", decoded)
        if "/" in tenant:
            return refuse(
                Reason.OUT_OF_RANGE, "tenantid holds '/', which separates it from runid in the key", "tenantid", decoded
            )
        if (problem := unseen_in(tenant)) is not None:
            # It would be told from the tenant that it looks like by no policy and by no person.
            return refuse(Reason.OUT_OF_RANGE, f"tenantid {problem}", "tenantid", decoded)
        if event.runid is not None:
            if record.key != kafka_key(tenant, event.runid):
                return refuse(Reason.KEY_MISMATCH, "Kafka key is not tenantid/runid of the event", "key", decoded)
        elif record.key is not None and record.key.split(b"/", 1)[0] != tenant.encode():
            return refuse(Reason.KEY_MISMATCH, "Kafka key names another tenant than the event", "key", decoded)
        if isinstance(event, ReclassifyEvent) and (refused := _unanswerable(event, record.offset, decoded)) is not None:
            return refused
        if self._rules.governance.forbids_places:
            return self._misplaced(decoded)
        return None

    def _misplaced(self, decoded: Decoded) -> Rejected | None:
        """Refuse what may not be stored where this worker writes, and what belongs to a run that may not."""
        event, gate = decoded.event, self._gate
        key = kafka_key(event.tenantid, event.runid or "")
        start = event if isinstance(event, RunStartedEvent) else None
        if start is None:
            run = self._run_of(key)
            if run is not None and run.has_start:
                return None
        found = gate.judge(event.tenantid, start)
        if found:
            refused = refuse(reason_of(found[0]), found[0].detail, "residency", decoded)
            refused.findings = tuple(Finding(*each) for each in found)
        elif start is None and key in gate.blocked:
            refused = refuse(Reason.OTHER_ZONE, "its run may not be stored here", "runid", decoded)
            refused.findings = (Finding(PolicyReason.OTHER_ZONE, "run", "the run's start was refused here"),)
        else:
            if start is not None:
                gate.admit(key)
            return None
        # Not even a refused record of another zone may lie in this one.
        refused.keep_payload = False
        return refused


def _unanswerable(event: ReclassifyEvent, offset: int, decoded: Decoded) -> Rejected | None:
    """Why a request to classify a run again cannot be met; None where it can."""
    asked = event.data
    if asked.classifier_revision != CLASSIFIER_REVISION:
        detail = f"asks for rules {asked.classifier_revision}, this worker has {CLASSIFIER_REVISION}"
        refused = refuse(Reason.OTHER_RULES, detail, "data.classifier_revision", decoded)
    elif not asked.first_offset <= asked.offset <= asked.seen < offset:
        refused = refuse(Reason.OUT_OF_RANGE, "its offsets lie behind one another, and before its own", "data", decoded)
    else:
        return None
    # It is no part of the run, so it uses up no number of it.
    refused.sequence = None
    return refused


def refuse(reason: Reason, detail: str, path: str | None, decoded: Decoded, stage: Stage = Stage.GATE) -> Rejected:
    """The refusal of a decoded event, with what is known of it."""
    event: Event | AnyEvent = decoded.event
    kind = getattr(event, "kind", None) or str(event.__struct_config__.tag)
    return Rejected(
        reason, stage, detail, path, event.tenantid or None, event.runid, event.id, kind, event.sequence,
        keep_payload=stage is not Stage.REDACT, payloads=decoded.payloads, text=decoded.text,
    )  # fmt: skip


def _referred(payloads: list[Payload] | None, text: bytes) -> list[Payload] | None:
    """Those of the payloads that a text still refers to."""
    return [payload for payload in payloads or () if payload.sha256.encode() in text] or None
