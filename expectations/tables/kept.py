"""Tables of what was refused, decided, said and erased."""

from __future__ import annotations

from trajlake.expectations.tables.columns import (
    I32,
    I64,
    POLICY_REVISION,
    REASONS,
    STR,
    TIME,
    Column,
    Table,
    list_of,
    position,
)

QUARANTINE = Table(
    "quarantine",
    "One record that was not let in: where it stands in the log, why, under which rules.",
    (
        *position("offset of the record"),
        Column("append_time", TIME, "broker's time for the record", nullable=False, unit="µs UTC"),
        Column("reason_code", STR, "closed set, see the reason codes", nullable=False),
        Column("stage", STR, "decode, redact, gate or assemble", nullable=False),
        Column("detail", STR, "what was wrong and where, without values", nullable=False),
        Column("field_path", STR, "path of the offending field"),
        Column("tenant_id", STR, "tenant, where it could be read"),
        Column("run_id", STR, "run, where it could be read"),
        Column("event_id", STR, "CloudEvents id, where it could be read"),
        Column("event_type", STR, "CloudEvents type, where it could be read"),
        Column("sequence", I64, "position in the run that the record used up; null where it took none"),
        Column("rule_revision", STR, "content hash of the rules that judged", nullable=False),
        Column("payload", STR, "the record after redaction, cut to the inline limit; null for duplicates"),
        Column("payload_encoding", STR, "utf8 or base64"),
        Column("payload_ref", STR, "reference to the whole record where it is larger than the inline limit"),
        Column("payload_sha256", STR, "SHA-256 of the record as received", nullable=False),
        Column("payload_bytes", I64, "size of the record as received", nullable=False, unit="bytes"),
        POLICY_REVISION,
        Column("sealed", STR, "the record as received, encrypted to the operators' key; where they want it kept"),
        Column("sealed_ref", STR, "reference to it where it is larger than the inline limit"),
        Column("released_from", STR, "topic/partition/offset of the row whose release brought the record here again"),
    ),
    dictionary=("topic", "reason_code", "stage", "rule_revision", "policy_revision"),
)

QUARANTINE_ACTIONS = Table(
    "quarantine_actions",
    "One act of an operator on a quarantined record. The record's own row keeps its first verdict.",
    (
        *position("offset of the quarantined record"),
        Column("action", STR, "releasing, released or purged", nullable=False),
        Column("at", TIME, "when, by the clock of the machine that did it", nullable=False, unit="µs UTC"),
        Column("by", STR, "who did it, as given"),
        Column("note", STR, "why, as given"),
        Column("reason_code", STR, "verdict of the row at that time", nullable=False),
        Column("rule_revision", STR, "rules of that verdict", nullable=False),
        Column("released_partition", I32, "where the record stands in the log now; its topic is the same"),
        Column("released_offset", I64, "offset at which land judges it again"),
    ),
    dictionary=("topic", "action", "by", "reason_code", "rule_revision"),
)

CONSENTS = Table(
    "consents",
    "One statement of a person about a purpose, as its event gave it. Of those in effect at a time the one made last "
    "counts.",
    (
        Column("tenant_id", STR, "tenant that the statement was made to", nullable=False, key=True),
        Column("subject_id", STR, "pseudonymous id of the person", nullable=False, key=True),
        Column("purpose", STR, "purpose that it is about", nullable=False),
        Column("state", STR, "granted, withdrawn or expired", nullable=False),
        *position("offset of the event"),
        Column("made_at", TIME, "when it was made, at most the broker's time", nullable=False, unit="µs UTC", key=True),
        Column("effective_at", TIME, "from when it holds", nullable=False, unit="µs UTC"),
        Column("expires_at", TIME, "until when it holds; open when null", unit="µs UTC"),
        Column("consent_revision", STR, "revision of the consent after it"),
        Column("event_id", STR, "CloudEvents id of the event", nullable=False),
        Column("source", STR, "CloudEvents source of the event", nullable=False),
        Column("append_time", TIME, "broker's time for the record", nullable=False, unit="µs UTC"),
        POLICY_REVISION,
    ),
    dictionary=("tenant_id", "purpose", "state", "topic", "source", "policy_revision"),
)

POLICY_DECISIONS = Table(
    "policy_decisions",
    "One decision of governance: whether a record may be stored here, or a run may serve a purpose, and why.",
    (
        *position("offset of the record, or of the event that closed the run"),
        Column("subject_kind", STR, "record or run", nullable=False),
        Column("tenant_id", STR, "tenant, where it could be read", key=True),
        Column("run_id", STR, "run, where it could be read", key=True),
        Column("event_id", STR, "CloudEvents id of the record"),
        Column("purpose", STR, "store, train, evaluate, statistics or audit", nullable=False),
        Column("stage", STR, "where it was decided: gate of the land path, or publication", nullable=False),
        Column("zone", STR, "zone in which it was decided; null where the process is bound to none"),
        Column("verdict", STR, "allow or deny", nullable=False),
        Column("rules", list_of(STR), "rules that decided: `policy:setting`, or the id of a deny rule"),
        Column("reasons", REASONS, "why it was denied: code, rule, detail without values"),
        Column("at", TIME, "as of when; of records the broker's time", nullable=False, unit="µs UTC", key=True),
        Column("holds_until", TIME, "when consent ends by what was known; to be judged again then", unit="µs UTC"),
        Column("input_digest", STR, "SHA-256 of what was judged: the record, or the run's evidence", nullable=False),
        Column("policy_revision", STR, "content hash of the policies that decided", nullable=False),
        Column("detector_revision", STR, "content hash of the rules that redacted and checked what was judged"),
        Column("code_version", STR, "version of trajlake that decided", nullable=False),
    ),
    dictionary=(
        "topic", "subject_kind", "tenant_id", "purpose", "stage", "zone", "verdict", "policy_revision",
        "detector_revision", "code_version",
    ),
)  # fmt: skip

INTEGRITY = Table(
    "integrity",
    "The chain of hashes over `events`: one row a complete block of 4096 offsets. See docs/integrity.md.",
    (
        Column("topic", STR, "Kafka topic", nullable=False),
        Column("partition", I32, "Kafka partition", nullable=False, key=True),
        Column("offset", I64, "last offset of the block", nullable=False, key=True),
        Column("first_offset", I64, "first offset of the block", nullable=False),
        Column("rows", I64, "rows of `events` in the partition up to this block's end", nullable=False),
        Column("block_sha256", STR, "hash of the block's rows, hex", nullable=False),
        Column("chain_sha256", STR, "hash of all blocks up to this one, hex", nullable=False),
    ),
    dictionary=("topic",),
)

ERASURE_MARKS = Table(
    "erasure_marks",
    "What stays of rows of `events` that were erased, so that the chain still proves the others; no content.",
    (
        Column("topic", STR, "Kafka topic", nullable=False),
        Column("partition", I32, "Kafka partition", nullable=False, key=True),
        Column("offset", I64, "offset of the erased row", nullable=False, key=True),
        Column("erasure_id", STR, "entry of the erasure ledger that ordered it", nullable=False),
        Column("append_time", TIME, "broker's time for the record", nullable=False, unit="µs UTC"),
        Column("rule_revision", STR, "content hash of the rules that had let it in", nullable=False),
        Column("row_sha256", STR, "hash of what its content was, hex", nullable=False),
    ),
    dictionary=("topic", "erasure_id", "rule_revision"),
)

ERASURES = Table(
    "erasures",
    "One entry of the erasure ledger: what was asked for, found, erased and proved. It names nobody.",
    (
        Column("number", I64, "number of the entry, from 1", nullable=False, key=True),
        Column("erasure", I64, "number of the entry that asked for it", nullable=False, key=True),
        Column("state", STR, "requested, found, payloads, erased, proved or lifted", nullable=False),
        Column("at", TIME, "when, by the clock of the machine that did it", nullable=False, unit="µs UTC"),
        Column("scope", STR, "what is erased: subject, run or retention", nullable=False),
        Column("tenant_id", STR, "tenant that it concerns; null for all"),
        Column(
            "digests",
            list_of(STR),
            "keyed digests of the subjects and runs that are suppressed from here on; of state payloads: references",
        ),
        Column("requested_by", STR, "who asked for it, as given"),
        Column("note", STR, "why, as given; a case number rather than a name"),
        Column("detail", STR, "figures as JSON: rows and files by table"),
    ),
    dictionary=("state", "scope", "tenant_id"),
)
