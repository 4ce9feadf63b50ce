"""The land path of one partition as a pure function: records in log order in, rows of every table out.

    decode -> redact -> gate (row checks, identity, place) -> assemble (fold) -> rows

`PartitionFold` holds the fold and passes each record through the stages exactly once. What a stage refuses becomes a
quarantine row; offsets that the log skipped become holes. Same records, same rows: batch boundaries play no part.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from trajlake.expectations.events import (
    RELEASED_HEADER,
    ConsentChangedEvent,
    ReclassifyEvent,
    RunStartedEvent,
    Tick,
    TickEvent,
    kafka_key,
)
from trajlake.expectations.reasons import LogGap, Reason, Stage
from trajlake.transforms.assemble.fold import Assembler
from trajlake.transforms.assemble.state import PartitionState, RedactionNote
from trajlake.transforms.decode.binary_mode import is_binary_mode
from trajlake.transforms.decode.decoder import decode_fast, redecode
from trajlake.transforms.decode.payloads import reference
from trajlake.transforms.landing.fingerprint import snapshot_fingerprint
from trajlake.transforms.landing.judge import RecordJudge, refuse
from trajlake.transforms.landing.redaction import RecordRedaction, Swept
from trajlake.transforms.landing.rowrules import rows_refused
from trajlake.transforms.landing.rows import (
    Asked,
    ConsentRow,
    HoleRow,
    Landing,
    LedgerRow,
    QuarantineRow,
    erased_refusal,
    erased_row,
)
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.landing.suppression import (
    NO_SUPPRESSION,
    Suppression,
    Watch,
    starts_of,
    without_erased,
)
from trajlake.transforms.policy.gate import (
    MISPLACED,
    Gate,
    findings_of,
    is_governed,
)
from trajlake.transforms.policy.verdicts import Decision
from trajlake.transforms.records import AnyEvent, Decoded, Headers, Payload, Record, Rejected

STRUCTURED_HEADERS: Final[Headers] = [("content-type", b"application/cloudevents+json")]
"""Headers of the usual record, compared whole before anything else is asked of them."""

LOOKED_AT: Final[frozenset[type]] = frozenset({TickEvent, ReclassifyEvent, RunStartedEvent, ConsentChangedEvent})
"""Events that the gate or a table of their own wants to see even where their run is open."""

MOST_ASKED: Final = 500
"""Runs that are classified again in one landing: each takes reading of the ledger and holds rows."""

_PLACE: Final = re.compile(rb"[A-Za-z0-9._-]{1,249}/[0-9]{1,10}/[0-9]{1,19}")


class PartitionFold:
    """All stages of one partition. `next_offset`: the first offset that has not been folded."""

    def __init__(
        self,
        topic: str,
        partition: int,
        rules: LandRules,
        state: PartitionState | None = None,
        suppression: Suppression = NO_SUPPRESSION,
        refused_before: frozenset[int] = frozenset(),
    ) -> None:
        """`suppression`: who is erased. `refused_before`: offsets that stand in quarantine already, because a batch
        that an erasure came upon got that far."""
        self.topic = topic
        self.partition = partition
        self.rules = rules
        self._redaction = RecordRedaction(rules.deny, rules.redactor)
        self._declared: list[HoleRow] = []
        self._refused_before = refused_before
        if state is not None and suppression.epoch > state.suppression:
            state, _ = without_erased(state, suppression)
        self.watch = Watch(suppression, state.erased if state is not None else ())
        self.gate = Gate(rules.governance, topic, state.blocked if state is not None else ())
        self._opened_before = True
        self._landed = -1
        self.assembler = Assembler(
            topic,
            partition,
            redecode,
            closed_runs_kept=rules.closed_runs_kept,
            state_max_bytes=rules.state_max_bytes,
            state=state,
            fingerprint=snapshot_fingerprint(rules.revision),
        )
        self.judge = RecordJudge(rules, self._redaction, self.gate, self.assembler.known)
        self.assembler.catches = starts_of(self.watch) if suppression.digests else None

    def snapshot(self) -> PartitionState:
        """State after the last offset. Shares its structs with the fold: encode it before the next record."""
        state = self.assembler.snapshot()
        state.suppression = self.watch.suppression.epoch
        state.erased = sorted(self.watch.met)
        state.blocked = list(self.gate.blocked.items())
        return state

    @property
    def next_offset(self) -> int:
        return self.assembler.offset + 1

    def declare_gap(self, log_start: int, code: LogGap, detail: str) -> None:
        """The log begins above the next offset: go on from there; the next landing carries the gap's row."""
        self._declared.append(HoleRow(self.next_offset, log_start - 1, code, detail))
        self.assembler.pass_by(log_start - 1)

    def fold(self, records: list[Record], up_to: int | None = None, landed: int | None = None) -> Landing:
        """Fold records in offset order. Records below `next_offset` are redeliveries and are dropped.

        `up_to`: the log is known to have nothing more up to this offset (a trailing transaction marker). `landed`: last
        offset that the tables hold; all before the records where None. A request to classify a run again is answered
        from the tables, so records from one on that knows more than they hold are left for the next call.
        """
        first = self.next_offset
        records = [record for record in records if record.offset >= first]
        policy_revision = self.rules.governance.policies.revision
        landing = Landing(self.topic, self.partition, first, first - 1, policy_revision=policy_revision)
        if self._declared:
            landing.first = self._declared[0].first
            landing.holes, self._declared = self._declared, []
        if self._opened_before:
            self._judge_opened()
        self._landed = first - 1 if landed is None else landed
        whole = self._fold_all(landing, records, self._redaction.sweep(records))
        if whole and up_to is not None and up_to >= self.next_offset:
            landing.holes.append(HoleRow(self.next_offset, up_to, LogGap.HOLE))
            self.assembler.pass_by(up_to)
        landing.last = self.next_offset - 1
        self._collect(landing)
        if self.assembler.caught:
            self._drop_caught(landing)
        return landing

    def _fold_all(self, landing: Landing, records: list[Record], swept: Swept) -> bool:
        """Pass records through all stages. The usual record, a canonical event of an open run, takes the short way
        here. Returns whether none was left over."""
        assembler = self.assembler
        runs, apply = assembler.open, assembler.apply
        accept = landing.events.append
        called, done = swept
        ruled = self._refused_by_rules(records, swept)
        if ruled:
            called, done = called.union(ruled), {place: each for place, each in done.items() if place not in ruled}
        inline_max_bytes = self.rules.payload_inline_max_bytes
        for place, record in enumerate(records):
            offset, append_us, key, value, headers = record
            if offset > assembler.offset + 1:
                landing.holes.append(HoleRow(assembler.offset + 1, offset - 1, LogGap.HOLE))
            event = cuts = None
            if (
                value is not None
                and len(value) <= inline_max_bytes
                and (headers is None or headers == STRUCTURED_HEADERS or not is_binary_mode(headers))
            ):
                if place not in called:
                    event = decode_fast(value)
                elif place in done:
                    value, cuts = done[place]
                    event = decode_fast(value)
            if event is None or value is None:
                judged = self.judge.judge(record, place in called)
                if place in ruled and isinstance(judged, Decoded):
                    judged = refuse(Reason.ROW_RULE, *ruled[place], judged)
                if self._comes_too_early(landing, judged):
                    assembler.pass_by(offset - 1)
                    return False
                self._settle(landing, record, judged)
                continue
            run = runs.get(key) if key is not None else None
            if (
                run is None
                or event.__class__ in LOOKED_AT
                or run.head.run_id != event.runid
                or run.head.tenant_id != event.tenantid
            ):
                decoded = Decoded(event, value, cuts or None)
                judged = self.judge.place(record, decoded) or decoded
                if self._comes_too_early(landing, judged):
                    assembler.pass_by(offset - 1)
                    return False
                self._settle(landing, record, judged)
                continue
            if cuts:
                refused = apply(event, offset, append_us, run.key, value, None, [*cuts])
            else:
                refused = apply(event, offset, append_us, run.key, value)
            if refused is None:
                accept(LedgerRow(offset, append_us, event, value, cuts or None))
            else:
                self._quarantine(landing, record, refused)
        return True

    def _comes_too_early(self, landing: Landing, judged: Decoded | Rejected) -> bool:
        """Whether a request has to wait until what came before it has landed, or others have been met."""
        if not isinstance(judged, Decoded) or not isinstance(judged.event, ReclassifyEvent):
            return False
        return judged.event.data.seen > self._landed or len(landing.asked) >= MOST_ASKED

    def _refused_by_rules(self, records: list[Record], swept: Swept) -> dict[int, tuple[str, str]]:
        """Places of records whose event fails a critical row rule, with the rules and the field; empty where no suite
        has such a rule. Looks at each record by itself, so batch boundaries play no part."""
        suite = self.rules.row_rules.refusing
        if suite is None:
            return {}
        rows: list[tuple[int, Record, Decoded]] = []
        for place, record in enumerate(records):
            done = swept.done.get(place)
            event = None if done is None else decode_fast(done[0])
            if done is not None and event is not None:
                rows.append((place, record, Decoded(event, done[0])))
            elif isinstance(decoded := self.judge.clean(record, place in swept.called), Decoded):
                rows.append((place, record, decoded))
        return rows_refused(suite, rows)

    def _settle(self, landing: Landing, record: Record, judged: Decoded | Rejected) -> None:
        """Put a judged record where it belongs: ledger and fold, or quarantine."""
        assembler = self.assembler
        offset = record.offset
        if self.watch.is_active and self._is_erased(landing, record, judged):
            assembler.pass_by(offset)
            return
        if isinstance(judged, Rejected):
            self._redaction.clean_names(judged)
            key = record.key
            if judged.reason in MISPLACED and judged.run_id is not None:
                self.block(kafka_key(judged.tenant_id or "", judged.run_id), record.append_us)
            if key is None or not _key_agrees(key, judged.tenant_id, judged.run_id):
                # It may not use up a number of a run that its key does not name, nor may its row say so.
                judged.sequence = None
            self._quarantine(landing, record, judged)
            if key is not None and judged.sequence is not None:
                assembler.skip(key, judged.sequence, offset, record.append_us, judged.reason)
            else:
                assembler.pass_by(offset)
            return
        event = judged.event
        refused = None
        if isinstance(event, TickEvent):
            self.tick(event.data, offset, record.append_us)
        elif isinstance(event, ReclassifyEvent):
            if assembler.reclassify(event.data, kafka_key(event.tenantid, event.runid or ""), offset):
                landing.asked.append(Asked(offset, event))
        elif event.runid is not None:
            key = kafka_key(event.tenantid, event.runid)
            cuts: list[RedactionNote] | None = None if judged.redactions is None else [*judged.redactions]
            refused = assembler.apply(event, offset, record.append_us, key, judged.text, judged.gaps, cuts)
        else:
            assembler.pass_by(offset)
        if refused is None:
            landing.events.append(LedgerRow(offset, record.append_us, event, judged.text, judged.redactions))
            landing.payloads += judged.payloads or ()
            if isinstance(event, ConsentChangedEvent):
                landing.consents.append(ConsentRow(offset, record.append_us, event))
        else:
            refused.payloads = judged.payloads
            self._quarantine(landing, record, refused)

    # Placing, as the log and the ledger both drive it

    def tick(self, tick: Tick, offset: int, append_us: int) -> None:
        """Apply the limits that a tick wrote into the log."""
        self.assembler.tick(tick, offset, append_us)
        self.gate.forget(append_us - tick.forget_closed_after_us)

    def block(self, key: bytes, append_us: int) -> None:
        """A record of a run was misplaced: nothing of the run is stored here from now on."""
        self.gate.block(key, append_us)
        self.assembler.drop(key)

    def _judge_opened(self) -> None:
        """Judge the runs that are known from before the start: the policies may have become stricter meanwhile."""
        self._opened_before = False
        if not self.rules.governance.forbids_places:
            return
        for run in [*self.assembler.open.values(), *self.assembler.closed.values()]:
            start = run.head.started
            skill = start.skill.name if start.skill is not None else None
            if self.gate.judge_run(run.head.tenant_id, skill, start.residency):
                self.block(run.key, run.last_append_us)

    # Erased subjects and runs

    def _is_erased(self, landing: Landing, record: Record, judged: Decoded | Rejected) -> bool:
        """Whether a record belongs to somebody erased. If so, its offset lands and nothing else of it."""
        if isinstance(judged, Rejected):
            if not self.watch.recognise_refused(judged.tenant_id, judged.run_id, record.value or b""):
                return False
            landing.quarantine.append(erased_refusal(record, judged.stage, judged.tenant_id))
            return True
        event = judged.event
        digest = None if isinstance(event, TickEvent) else self.watch.recognise(event)
        if digest is None:
            return False
        if event.runid is not None and digest == self.watch.suppression.of_run(event.tenantid, event.runid):
            key = kafka_key(event.tenantid, event.runid)
            if key in self.assembler.open:
                # Its start came late: what came before it goes too.
                self.assembler.drop(key)
                self.assembler.caught.append(key)
        if record.offset in self._refused_before:
            landing.quarantine.append(erased_refusal(record, Stage.ASSEMBLE, event.tenantid))
        else:
            landing.events.append(erased_row(record.offset, record.append_us, event.tenantid, digest))
        return True

    def _drop_caught(self, landing: Landing) -> None:
        """Runs whose start came late and shows that they are erased: nothing of them stays in this landing, nor in the
        fold. What had landed of them before is for the next round of erasure."""
        keys = set(self.assembler.caught)
        self.assembler.caught.clear()
        for key in keys:
            self.assembler.drop(key)

        def digest(event: AnyEvent) -> bytes | None:
            if event.runid is None or kafka_key(event.tenantid, event.runid) not in keys:
                return None
            return self.watch.suppression.of_run(event.tenantid, event.runid)

        def stays(tenant_id: str, run_id: str | None) -> bool:
            return run_id is None or kafka_key(tenant_id, run_id) not in keys

        for place, row in enumerate(landing.events):
            if (found := digest(row.event)) is not None:
                landing.events[place] = erased_row(row.offset, row.append_us, row.event.tenantid, found)
        landing.steps = [row for row in landing.steps if stays(row.head.tenant_id, row.head.run_id)]
        landing.runs = [row for row in landing.runs if stays(row.head.tenant_id, row.head.run_id)]
        landing.rewards = [row for row in landing.rewards if stays(row.event.tenantid, row.event.runid)]
        landing.decisions = [row for row in landing.decisions if stays(row.tenant_id or "", row.run_id)]
        landing.asked = [row for row in landing.asked if stays(row.event.tenantid, row.event.runid)]

    # Results

    def _quarantine(self, landing: Landing, record: Record, rejected: Rejected) -> None:
        """Add a refused record's row, and what is stored of it beside the table where it is large."""
        value = record.value or b""
        stored: bytes | None = None
        if rejected.keep_payload:
            stored = (
                rejected.text
                if rejected.text is not None
                else self._redaction.mask(value, doubled=rejected.reason is Reason.DUPLICATE_KEY)
                if value
                else None
            )
        row = QuarantineRow(
            record.offset, record.append_us, rejected, stored, hashlib.sha256(value).hexdigest(), len(value)
        )
        landing.quarantine.append(row)
        row.released_from = released_from(record.headers)
        row.original = record if rejected.reason not in MISPLACED and rejected.reason is not Reason.DUPLICATE else None
        if is_governed(rejected):
            landing.decisions.append(self._decision(record, rejected, row.sha256))
        if rejected.keep_payload:
            for payload in rejected.payloads or ():
                landing.payloads.append(Payload(payload.tenant_id, payload.sha256, payload.content, quarantined=True))
        if stored is not None and len(stored) > self.rules.payload_inline_max_bytes:
            digest = hashlib.sha256(stored).hexdigest()
            row.payload_ref = reference(digest, len(stored))
            landing.payloads.append(Payload(rejected.tenant_id or "", digest, stored, quarantined=True))

    def _decision(self, record: Record, rejected: Rejected, digest: str) -> Decision:
        """The row that says why governance refused a record. Its time is the log's."""
        governance, findings = self.rules.governance, findings_of(rejected)
        return Decision(
            topic=self.topic,
            partition=self.partition,
            offset=record.offset,
            subject_kind="record",
            tenant_id=rejected.tenant_id,
            run_id=rejected.run_id,
            event_id=rejected.event_id,
            purpose="store",
            stage=rejected.stage.value,
            zone=governance.place.zone,
            verdict="deny",
            rules=tuple(dict.fromkeys(finding.rule_id for finding in findings)),
            reasons=findings,
            at_us=record.append_us,
            input_digest=digest,
            policy_revision=governance.policies.revision,
            detector_revision=self.rules.revision,
            code_version=governance.code_version,
        )

    def _collect(self, landing: Landing) -> None:
        rows = self.assembler.take()
        landing.steps, landing.runs, landing.rewards = rows.steps, rows.runs, rows.rewards


def released_from(headers: Headers | None) -> str | None:
    """Place in quarantine that a record was released from, where its headers name one."""
    for name, value in headers or ():
        if name == RELEASED_HEADER and value is not None and _PLACE.fullmatch(value):
            return value.decode()
    return None


def _key_agrees(key: bytes, tenant_id: str | None, run_id: str | None) -> bool:
    return tenant_id is not None and run_id is not None and key == kafka_key(tenant_id, run_id)
