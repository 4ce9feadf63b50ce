"""Tables of the live side: statistics of skills, and decisions on levers."""

from __future__ import annotations

from typing import Final

from trajlake.expectations.tables.columns import (
    BOOL,
    F64,
    I32,
    I64,
    STR,
    TIME,
    Column,
    Table,
    list_of,
    list_of_structs,
    position,
)
from trajlake.expectations.taxonomy import OutcomeClass

_INTERVAL_DOCS = {
    "rate_low": "confidence sequence of the rate, lower bound; holds at all times at once",
    "rate_high": "confidence sequence of the rate, upper bound",
    "wilson_low": "Wilson's interval for a fixed number of runs, lower bound",
    "wilson_high": "Wilson's interval for a fixed number of runs, upper bound",
    "open_low": "the rate where every abandoned and timed-out run counts as failed",
    "open_high": "the rate where every abandoned and timed-out run counts as succeeded",
}

POSITIONS: Final = list_of_structs(("topic", STR), ("partition", I32), ("offset", I64))

SKILL_STATS = Table(
    "skill_stats",
    "A skill in one window as it stood at some moment: counts, rate and bounds. For each (tenant_id, skill_name, "
    "window_name) the row with the highest `offset` counts.",
    (
        *position("offset of the message in the statistics topic"),
        Column("tenant_id", STR, "tenant that owns the skill", nullable=False, key=True),
        Column("skill_name", STR, "skill; empty for runs that name none", nullable=False, key=True),
        Column("window_name", STR, "1h, 24h, 7d, 30d, or version (the newest versions)", nullable=False, key=True),
        Column("as_of", TIME, "end of the skill's newest run", nullable=False, unit="µs UTC", key=True),
        Column("window_start", TIME, "first moment of the window", nullable=False, unit="µs UTC"),
        Column("window_end", TIME, "first moment behind the window", nullable=False, unit="µs UTC"),
        Column("emitted_at", TIME, "when the numbers were put together", nullable=False, unit="µs UTC"),
        Column("positions", POSITIONS, "last closing offset of each partition that the numbers hold"),
        Column("runs", I64, "runs of all classes", nullable=False),
        *(
            Column(member.value, I64, f"runs of outcome class {member.value}", nullable=False)
            for member in OutcomeClass
        ),
        Column("scorable", I64, "runs of the classes that speak of quality", nullable=False),
        Column("successes", I64, "successes among them", nullable=False),
        Column("rate", F64, "successes of the scorable runs; null where none is scorable"),
        *(Column(name, F64, doc) for name, doc in _INTERVAL_DOCS.items()),
        Column("attempts", I64, "attempts of all runs, retries counted", nullable=False),
        Column("input_tokens", I64, "tokens read", nullable=False, unit="tokens"),
        Column("output_tokens", I64, "tokens written", nullable=False, unit="tokens"),
        Column("cost_usd", F64, "price of the runs that reported one, summed", nullable=False, unit="USD"),
        Column("priced_runs", I64, "runs that reported a price", nullable=False),
        Column("cost_p50_usd", F64, "median price of a run, from a sketch", unit="USD"),
        Column("cost_p95_usd", F64, "95th percentile of a run's price", unit="USD"),
        Column("latency_p50_ms", F64, "median time from first to last event, from a sketch", unit="ms"),
        Column("latency_p95_ms", F64, "95th percentile", unit="ms"),
        Column("latency_p99_ms", F64, "99th percentile", unit="ms"),
        Column("streak", I32, "scorable failures in a row up to the newest scorable run", nullable=False),
        Column("streak_since", TIME, "end of the streak's first run", unit="µs UTC"),
        Column("skill_version", STR, "version of the skill in the newest run"),
        Column("prompt_version", STR, "version of the prompt in the newest run"),
        Column("memory_version", STR, "version of the memory in the newest run"),
        Column("model_name", STR, "model of the newest run"),
        Column("model_tier", STR, "tier of the newest run that names one"),
        Column(
            "strata",
            list_of_structs(
                ("model_tier", STR), ("task_family", STR), ("successes", I64), ("failures", I64), ("priced_runs", I64),
                ("cost_usd", F64),
            ),
            "scorable runs by tier and task family, and the price of all runs there",
        ),
        Column(
            "causes",
            list_of_structs(
                ("outcome_class", STR), ("failure_kind", STR), ("model_provider", STR), ("failing_tool", STR),
                ("error_type", STR), ("count", I64),
            ),
            "runs that did not succeed, by what they failed of; the most frequent first",
        ),
        Column("state", STR, "standing of the skill: degraded, watch, not_enough_data or ok"),
        Column("state_code", STR, "stable name of the reason"),
        Column("state_reason", STR, "one sentence with the numbers"),
        Column("state_e_value", F64, "evidence against the skill"),
        Column("baseline_rate", F64, "rate of success that it is compared with"),
        Column("change_log_e_value", F64, "detector of change: logarithm of its e-value", unit="nats"),
        Column("change_alarm", BOOL, "whether the detector of change alarms"),
        Column("change_before", F64, "rate before the change, as estimated"),
        Column("change_after", F64, "rate after the change, as estimated"),
        Column("change_since", TIME, "likely time of the change", unit="µs UTC"),
        Column("unjudged_e_value", F64, "evidence that abandoned and timed-out runs rose"),
        Column("restatement", I32, "how often late data changed what had been counted", nullable=False),
        Column("code_revision", STR, "revision of the program that counted", nullable=False),
    ),
    dictionary=("topic", "tenant_id", "skill_name", "window_name", "skill_version", "prompt_version", "memory_version",
                "model_name", "model_tier", "code_revision"),
)  # fmt: skip

DECISIONS = Table(
    "decisions",
    "Advice with its evidence. For each `decision_id` the highest `revision` counts: a later one carries a flag.",
    (
        *position("offset of the message in the decisions topic"),
        Column("decision_id", STR, "digest of the decision's inputs", nullable=False, key=True),
        Column("revision", I32, "0, then one more for each flag", nullable=False),
        Column("tenant_id", STR, "tenant that it concerns", nullable=False, key=True),
        Column("skill_name", STR, "skill that it concerns; null where a cause is common to several", key=True),
        Column("skills", list_of(STR), "skills that share the cause"),
        Column("lever", STR, "what is advised", nullable=False),
        Column("target_kind", STR, "skill, tool, provider, model or tenant", nullable=False),
        Column("target", STR, "name of what the lever is to be pulled on", nullable=False),
        Column("summary", STR, "one sentence for a person", nullable=False),
        Column("confidence", F64, "how sure, within 0..1"),
        Column("expected_gain", F64, "what it is expected to bring"),
        Column("expected_gain_unit", STR, "unit of the gain"),
        Column("expected_cost_usd", F64, "what it is expected to cost", unit="USD"),
        Column(
            "rejected",
            list_of_structs(("lever", STR), ("reason", STR), ("detail", STR)),
            "levers that were looked at and not advised, with the reason",
        ),
        Column("evidence", list_of_structs(("name", STR), ("value", STR), ("detail", STR)), "what it rests on"),
        Column("inputs", STR, "JSON of all that the decision is a function of", nullable=False),
        Column("table_versions", list_of_structs(("name", STR), ("version", I64)), "versions of the tables it saw"),
        Column("positions", POSITIONS, "last closing offset of each partition that it saw"),
        Column("policy_revision", STR, "content hash of the lever policy", nullable=False),
        Column("code_revision", STR, "revision of the program that decided", nullable=False),
        Column("as_of", TIME, "event time of the newest outcome that it saw", nullable=False, unit="µs UTC", key=True),
        Column("made_at", TIME, "when it was made, by the worker's clock", nullable=False, unit="µs UTC"),
        Column("expires_at", TIME, "when the advice ends by itself", nullable=False, unit="µs UTC"),
        Column("supersedes", STR, "decision_id of the advice on the same target that it replaces"),
        Column("flag", STR, "why it is in doubt: restated, withdrawn"),
        Column("flag_detail", STR, "what put it in doubt"),
        Column("old_rule", STR, "what 'promote after two failures in a row' would have done: promote or keep"),
    ),
    dictionary=("topic", "tenant_id", "skill_name", "lever", "target_kind", "target", "policy_revision",
                "code_revision", "flag", "old_rule"),
)  # fmt: skip
