"""Closed sets of codes: why a record is quarantined, and what a row is known to miss.

A code, once published, keeps its meaning; new ones are added at the end.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """`quarantine.reason_code`."""

    EMPTY = "empty"
    """Record without a value (or a tombstone of a compacted topic)."""
    NOT_UTF8 = "not_utf8"
    MALFORMED_JSON = "malformed_json"
    """Not one JSON value by RFC 8259; NaN and Infinity included."""
    TOO_DEEP = "too_deep"
    DUPLICATE_KEY = "duplicate_key"
    """An object names a key twice: readers would disagree about its value."""
    OVERSIZED = "oversized"
    """Larger than `event_inline_max_bytes` after its large strings were stored by reference."""
    NOT_AN_EVENT = "not_an_event"
    """JSON, but not a CloudEvents 1.0 envelope."""
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    BAD_TIME = "bad_time"
    TENANT_MISSING = "tenant_missing"
    KEY_MISMATCH = "key_mismatch"
    """The Kafka key is not `tenantid/runid`: the run would be spread over partitions, or claimed by another tenant."""
    BAD_NUMBER = "bad_number"
    """NaN, an infinity or a number that does not fit."""
    DUPLICATE = "duplicate"
    """The same event (same id) came again; the first one counts."""
    SEQUENCE_CONFLICT = "sequence_conflict"
    """Another event already holds this sequence number of the run."""
    FORGED_TICK = "forged_tick"
    FORGED_REFERENCE = "forged_reference"
    """A string poses as a reference to content that the lake stored."""
    REDACTION_FAILED = "redaction_failed"
    ROW_RULE = "row_rule"
    TENANT_MISMATCH = "tenant_mismatch"
    """The topic or the payload names another tenant than the event."""
    OTHER_ZONE = "other_zone"
    """The run's data has to stay in another zone; nothing of the record is stored here but its hash."""
    NOT_ISOLATED = "not_isolated"
    """The tenant's data may only lie in a root of its own; nothing of the record is stored here but its hash."""
    ERASED = "erased"
    """It belonged to a subject or run that was erased; nothing of it is kept but its offset."""
    OTHER_RULES = "other_rules"
    """It asks for a run to be classified by other failure rules than the worker's."""


class Stage(StrEnum):
    """`quarantine.stage`: where in the flow the record was stopped."""

    DECODE = "decode"
    REDACT = "redact"
    GATE = "gate"
    ASSEMBLE = "assemble"


class Gap(StrEnum):
    """`gaps[].code` of steps and runs."""

    MISSING_START = "missing_start"
    MISSING_END = "missing_end"
    MISSING_SEQUENCE = "missing_sequence"
    """Sequence numbers that never came; detail is the range."""
    MISSING_TOOL_RESULT = "missing_tool_result"
    ORPHAN_TOOL_RESULT = "orphan_tool_result"
    """A result whose call was never seen; kept as a step of source `environment`."""
    MISSING_MODEL_RESPONSE = "missing_model_response"
    """A tool was called before any response was seen."""
    TOOL_CALL_ID_REUSED = "tool_call_id_reused"
    DUPLICATE_TOOL_RESULT = "duplicate_tool_result"
    MISSING_TOOL_CALL_ID = "missing_tool_call_id"
    ORPHAN_PARENT = "orphan_parent"
    """The source names a parent record that it does not hold."""
    PARTIAL_RESPONSE = "partial_response"
    """The stream of a response stopped before its last part."""
    STEP_ID_REUSED = "step_id_reused"
    TIME_ASSUMED_UTC = "time_assumed_utc"
    EVICTED = "evicted"
    """Closed early because open runs held more memory than allowed."""
    EVENT_AFTER_END = "event_after_end"
    SECOND_START = "second_start"
    """Another start event came; the first one counts."""
    TOKENS_UNUSABLE = "tokens_unusable"
    """Token ids, log-probabilities or loss mask are empty or do not fit one another: not for token-level training."""


class LogGap(StrEnum):
    """`gaps.code` of the gaps table."""

    HOLE = "hole"
    """The log holds no record there: transaction marker, aborted transaction or compaction."""
    BELOW_RETENTION = "below_retention"
    """Records were deleted before they could land; declared by setting `offset_reset_policy=declare`."""


class PolicyReason(StrEnum):
    """`policy_decisions.reasons[].code`: why policy denied."""

    PURPOSE_NOT_ALLOWED = "purpose_not_allowed"
    """No policy allows the purpose for the tenant and skill."""
    PURPOSE_NOT_DECLARED = "purpose_not_declared"
    """The producer did not declare the purpose."""
    SUBJECT_UNKNOWN = "subject_unknown"
    """Consent is required and the run names no subject."""
    CONSENT_ABSENT = "consent_absent"
    CONSENT_OTHER_PURPOSE = "consent_other_purpose"
    """The subject has spoken of other purposes only."""
    CONSENT_EXPIRED = "consent_expired"
    CONSENT_WITHDRAWN = "consent_withdrawn"
    CONSENT_AFTER_RUN = "consent_after_run"
    """Consent holds now but did not when the run started, or when that was is unknown."""
    LICENCE_MISSING = "licence_missing"
    LICENCE_NOT_ALLOWED = "licence_not_allowed"
    ANNOTATOR_NOT_ALLOWED = "annotator_not_allowed"
    """A reward comes from a grader that may not be used."""
    DENY_RULE = "deny_rule"
    """A deny rule matches."""
    OTHER_ZONE = "other_zone"
    """The data has to stay in another zone than the one that it was on its way to."""
    NOT_ISOLATED = "not_isolated"
    """The tenant's data has to lie in a root of its own, or the root is another tenant's."""
    TENANT_DISAGREES = "tenant_disagrees"
    """Envelope, key, topic and payload do not name one tenant."""
    CONSENT_LAPSED = "consent_lapsed"
    """Consent ended while the run went on, and was given again later."""


class Publication(StrEnum):
    """`curation.verdict`: whether trainers may see a run."""

    PUBLISHED = "published"
    HELD = "held"
    """It waits for an operator, or for the rule of setting `curate_held_then`."""
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    """It was published and is so no longer."""


class Cause(StrEnum):
    """`curation.cause`: what led to a verdict."""

    NEW = "new"
    """The run was closed, or late parts made a new revision of it."""
    REWARD = "reward"
    """A reward came after the run had been judged."""
    CONSENT = "consent"
    """Consent of the run's subject changed."""
    POLICY = "policy"
    """The policies or the suites changed."""
    RELEASE = "release"
    REJECT = "reject"


class Exclusion(StrEnum):
    """`curation.reasons[].code`: why a run is not published; those of policies are in `PolicyReason`."""

    NO_START = "no_start"
    """Its start was never seen: who ran, for whom and under which consent is not known."""
    NO_STEPS = "no_steps"
    """The agent decided nothing."""
    EVENTS_MISSING = "events_missing"
    """Events of the run never came, or are in quarantine; what is left is not what the agent did."""
    EVICTED = "evicted"
    """It was closed before its end because open runs held more memory than allowed."""
    STEPS_MISSING = "steps_missing"
    """`steps` does not hold as many steps as the run counts."""
    TOO_LARGE = "too_large"
    """Its steps are larger than setting `curate_run_max_bytes`."""
    ROW_RULE = "row_rule"
    """The run's row, or one of its steps, does not meet an expectation of severity critical; it is held."""
    BATCH_RULE = "batch_rule"
    """The batch that it was part of did not meet an expectation of the publication suite."""
    REJECTED = "rejected"
    """An operator rejected it."""
    DEEP_SCAN = "deep_scan"
    """The deep scan before publication found what may be somebody's data; held or refused, as the policy says."""
    SCAN_FAILED = "scan_failed"
    """The deep scan could not be done: an error, or its bounds of time or size. What was not looked at is not
    published."""
