"""Every Prometheus metric that a process of trajlake may show, declared once.

Names follow Prometheus' conventions: prefix `trajlake_` and the process, base units (`_seconds`, `_bytes`), `_total`
for counters. A moment is a `_timestamp_seconds` (Unix time), so that its age is `time() - metric`, whoever asks.
No label holds what an event said; only `trajlake_skill_*` name tenants and skills.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trajlake.expectations.outcomes import CLASSES
from trajlake.expectations.reasons import Cause, Exclusion, Gap, LogGap, PolicyReason, Publication, Reason
from trajlake.expectations.tables import TABLES


class Kind(StrEnum):
    """What a metric is, in Prometheus' terms."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `process`: whose endpoint shows it. `values`: for a metric of one label, its values that are shown
    from the start with 0, so that the first increase is seen. `buckets`: upper bounds of a histogram."""

    name: str
    kind: Kind
    help: str
    process: str
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def series(self) -> tuple[str, ...]:
        """Names under which its samples are found."""
        if self.kind is Kind.HISTOGRAM:
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


LAND: Final = "land"
CURATE: Final = "curate"
ROLL: Final = "roll"
MAINTAIN: Final = "maintain"
DASHBOARD: Final = "dashboard"
PROCESSES: Final = {
    LAND: "`trajlake land`, at `health_host:health_port`",
    CURATE: "`trajlake curate`, at `health_host:curate_port`",
    ROLL: "`trajlake roll`, each worker at `roll_host:roll_port` + its number",
    MAINTAIN: "`trajlake maintain --every`, at `health_host:maintain_port`",
    DASHBOARD: "`trajlake dashboard`, at its own address; the token of readers is asked for",
}
"""Process -> where its metrics answer."""

_PARTITION: Final = ("topic", "partition")
_SKILL: Final = ("tenant", "skill")
_FAST: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SLOW: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_WINDOW: Final = "24h"

METRICS: dict[str, Metric] = {}
"""Name -> metric, in the order in which they are declared."""


def _declare(
    process: str,
    kind: Kind,
    name: str,
    help_text: str,
    labels: tuple[str, ...] = (),
    *,
    values: tuple[str, ...] = (),
    buckets: tuple[float, ...] = (),
) -> Metric:
    metric = Metric(f"trajlake_{name}", kind, help_text, process, labels, values, buckets)
    METRICS[metric.name] = metric
    return metric


# fmt: off
# land
LAND_READY = _declare(LAND, Kind.GAUGE, "land_ready", "1 when every worker runs, reports and has no problem.")
LAND_WORKERS = _declare(LAND, Kind.GAUGE, "land_workers", "Worker processes that report.")
LAND_WORKERS_WANTED = _declare(LAND, Kind.GAUGE, "land_workers_wanted", "Worker processes that there should be.")
LAND_RESTARTS = _declare(
    LAND, Kind.COUNTER, "land_worker_restarts_total", "Worker processes that ended and were started again.",
    ("worker",))
LAND_MEMORY = _declare(
    LAND, Kind.GAUGE, "land_worker_resident_memory_bytes", "Resident memory of a worker process.", ("worker",))
LAND_PROBLEMS = _declare(
    LAND, Kind.GAUGE, "land_problems",
    "Things that are wrong now, by what they concern: start, broker, topic, sink, partition, outcomes, told.",
    ("concern",), values=("start", "broker", "topic", "sink", "partition", "outcomes", "told"))
LAND_RECORDS = _declare(LAND, Kind.COUNTER, "land_records_total", "Offsets of the events topic that have landed.")
LAND_BYTES = _declare(LAND, Kind.COUNTER, "land_bytes_total", "Bytes of record values that have landed.")
LAND_COMMITS = _declare(LAND, Kind.COUNTER, "land_commits_total", "Batches committed to the tables.")
LAND_COMMIT_FAILURES = _declare(
    LAND, Kind.COUNTER, "land_commit_failures_total", "Commits that the store refused; the batch is tried again.")
LAND_COMMIT_DURATION = _declare(
    LAND, Kind.HISTOGRAM, "land_commit_duration_seconds", "Time that the commit of a batch to all tables took.",
    buckets=_FAST)
LAND_DELAY = _declare(
    LAND, Kind.HISTOGRAM, "land_delay_seconds",
    "From the broker's time of a batch's oldest event until the commit that made it visible.", buckets=_SLOW)
LAND_QUARANTINED = _declare(
    LAND, Kind.COUNTER, "land_quarantined_total",
    "Records that went to quarantine, by reason; `duplicate` and `redaction_failed` are two of the reasons.",
    ("reason",), values=tuple(Reason))
LAND_GAP_OFFSETS = _declare(
    LAND, Kind.COUNTER, "land_gap_offsets_total",
    "Offsets at which the log held no record for us; `below_retention` is a loss that was declared.",
    ("code",), values=tuple(LogGap))
LAND_RUNS = _declare(
    LAND, Kind.COUNTER, "land_runs_total",
    "Rows of closed runs, by outcome class; revisions that late events made included.",
    ("outcome",), values=tuple(CLASSES))
LAND_RECLASSIFIED = _declare(
    LAND, Kind.COUNTER, "land_reclassified_runs_total",
    "Rows of runs that `trajlake reclassify` asked to classify again, by the new outcome class.",
    ("outcome",), values=tuple(CLASSES))
LAND_RUN_GAPS = _declare(
    LAND, Kind.COUNTER, "land_run_gaps_total", "What closed runs are known to miss, by code.",
    ("code",), values=tuple(Gap))
LAND_LAG = _declare(
    LAND, Kind.GAUGE, "land_lag_records", "Records in the log that have not landed, by partition.", _PARTITION)
LAND_LAG_SECONDS = _declare(
    LAND, Kind.GAUGE, "land_lag_seconds",
    "How far what has landed is behind now, where records wait; 0 where none does.", _PARTITION)
LAND_OFFSET = _declare(
    LAND, Kind.GAUGE, "land_offset", "Last offset that every table holds, -1 for none.", _PARTITION)
LAND_COMMITTED = _declare(
    LAND, Kind.GAUGE, "land_commit_timestamp_seconds",
    "When this owner last committed rows of a partition; absent before the first time.", _PARTITION)
LAND_OPEN_RUNS = _declare(
    LAND, Kind.GAUGE, "land_open_runs", "Runs that have begun and not ended, held in memory.", _PARTITION)
LAND_HELD = _declare(
    LAND, Kind.GAUGE, "land_held_bytes", "State of open runs in memory; setting state_max_bytes bounds it.", _PARTITION)
LAND_SNAPSHOT_LAG = _declare(
    LAND, Kind.GAUGE, "land_snapshot_lag_records",
    "Records that landed since the newest snapshot: what a restart folds again.", _PARTITION)
LAND_OUTCOMES_LAG = _declare(
    LAND, Kind.GAUGE, "land_outcomes_lag_records",
    "Landed records whose closed runs Kafka has not acknowledged on the outcomes topic yet.", _PARTITION)

# roll
ROLL_READY = _declare(
    ROLL, Kind.GAUGE, "roll_ready", "1 when nothing is wrong: the loop turns, the state is recovered.")
ROLL_RESTARTS = _declare(
    ROLL, Kind.COUNTER, "roll_worker_restarts_total", "Times that this worker ended and was started again.")
ROLL_BATCHES = _declare(ROLL, Kind.COUNTER, "roll_batches_total", "Outcome messages applied or skipped.")
ROLL_REPEATED = _declare(
    ROLL, Kind.COUNTER, "roll_repeated_batches_total", "Outcome messages that had been applied before.")
ROLL_RUNS = _declare(ROLL, Kind.COUNTER, "roll_runs_total", "Runs in the messages that changed something.")
ROLL_FOREIGN = _declare(ROLL, Kind.COUNTER, "roll_foreign_batches_total", "Outcome messages of another events topic.")
ROLL_REFUSED = _declare(
    ROLL, Kind.COUNTER, "roll_refused_messages_total", "Messages on the outcomes topic that are none.")
ROLL_STATISTICS = _declare(ROLL, Kind.COUNTER, "roll_statistics_total", "Statistics that were told.")
ROLL_DECISIONS = _declare(ROLL, Kind.COUNTER, "roll_decisions_total", "Decisions made or flagged.")
ROLL_WAITING = _declare(ROLL, Kind.GAUGE, "roll_waiting_skills", "Skills whose statistics wait to be told.")
ROLL_WAITED = _declare(
    ROLL, Kind.GAUGE, "roll_waiting_seconds", "How long the statistics that have waited longest have waited.")
ROLL_BEHIND = _declare(
    ROLL, Kind.GAUGE, "roll_behind_seconds", "Age of the newest outcome message when it was applied.")
ROLL_APPLIED = _declare(
    ROLL, Kind.GAUGE, "roll_applied_timestamp_seconds", "When an outcome message was last applied; absent before.")
ROLL_LAG = _declare(
    ROLL, Kind.GAUGE, "roll_lag_messages",
    "Messages on the outcomes topic that this worker has not read, in its own partitions.")
SKILL_RUNS = _declare(
    ROLL, Kind.GAUGE, "skill_runs", f"Runs in {_WINDOW} by outcome class.", (*_SKILL, "outcome"))
SKILL_STREAK = _declare(ROLL, Kind.GAUGE, "skill_streak", "Quality failures in a row.", _SKILL)
SKILL_DEGRADED = _declare(ROLL, Kind.GAUGE, "skill_degraded", "1 when the skill is degraded.", _SKILL)

# curate
CURATE_READY = _declare(
    CURATE, Kind.GAUGE, "curate_ready", "1 when the newest pass did what it should, or none has ended yet.")
CURATE_PASSES = _declare(
    CURATE, Kind.COUNTER, "curate_passes_total",
    "Passes by how they ended: done, store (it did not answer), rules (policies or suites cannot be read), stale "
    "(another curator was at work).", ("result",), values=("done", "store", "rules", "stale"))
CURATE_PASSED = _declare(
    CURATE, Kind.GAUGE, "curate_pass_timestamp_seconds", "When a pass last ended well; absent before the first time.")
CURATE_DURATION = _declare(
    CURATE, Kind.HISTOGRAM, "curate_pass_duration_seconds", "Time that a pass took.", buckets=_SLOW)
CURATE_PUBLICATIONS = _declare(
    CURATE, Kind.COUNTER, "curate_publications_total", "Publications by what led to them.",
    ("cause",), values=tuple(Cause))
CURATE_RUNS = _declare(
    CURATE, Kind.COUNTER, "curate_runs_total", "Runs that were judged anew, by verdict.",
    ("verdict",), values=tuple(Publication))
CURATE_STEPS = _declare(CURATE, Kind.COUNTER, "curate_steps_total", "Steps of runs that were published.")
CURATE_EXCLUDED = _declare(
    CURATE, Kind.COUNTER, "curate_exclusions_total", "Runs that were not published, by reason; a run may have several.",
    ("code",), values=tuple(dict.fromkeys([*Exclusion, *PolicyReason])))

# maintain
MAINTAIN_READY = _declare(
    MAINTAIN, Kind.GAUGE, "maintain_ready", "1 when the newest round met no problem, or none has ended yet.")
MAINTAIN_ROUNDS = _declare(
    MAINTAIN, Kind.COUNTER, "maintain_rounds_total",
    "Rounds by how they ended: done, problems (the store refused a step), failed.",
    ("result",), values=("done", "problems", "failed"))
MAINTAIN_DONE = _declare(
    MAINTAIN, Kind.GAUGE, "maintain_round_timestamp_seconds",
    "When a round last ended without a problem; absent before the first time.")
MAINTAIN_DURATION = _declare(
    MAINTAIN, Kind.HISTOGRAM, "maintain_round_duration_seconds", "Time that a round over all tables took.",
    buckets=_SLOW)
MAINTAIN_COMPACTED = _declare(
    MAINTAIN, Kind.COUNTER, "maintain_compacted_files_total", "Small files that were joined to larger ones.",
    ("table",), values=tuple(TABLES))
MAINTAIN_COMPACTED_BYTES = _declare(
    MAINTAIN, Kind.COUNTER, "maintain_compacted_bytes_total", "Size of the files that were joined.",
    ("table",), values=tuple(TABLES))
MAINTAIN_VACUUMED = _declare(
    MAINTAIN, Kind.COUNTER, "maintain_vacuumed_files_total", "Old files that were removed.",
    ("table",), values=tuple(TABLES))
MAINTAIN_PROBLEMS = _declare(
    MAINTAIN, Kind.COUNTER, "maintain_problems_total", "Steps that the store refused.", ("table",),
    values=tuple(TABLES))

# dashboard: itself, and the lake, which it reads anyway
DASHBOARD_READY = _declare(DASHBOARD, Kind.GAUGE, "dashboard_ready", "1 while the tables can be read.")
LAKE_READ = _declare(
    DASHBOARD, Kind.GAUGE, "lake_read_timestamp_seconds", "When the `trajlake_lake_*` figures were last read.")
LAKE_VERSION = _declare(DASHBOARD, Kind.GAUGE, "lake_table_version", "Newest version of a table.", ("table",))
LAKE_FILES = _declare(DASHBOARD, Kind.GAUGE, "lake_table_files", "Data files of a table's newest version.", ("table",))
LAKE_BYTES = _declare(DASHBOARD, Kind.GAUGE, "lake_table_size_bytes", "Size of these files.", ("table",))
LAKE_ROWS = _declare(DASHBOARD, Kind.GAUGE, "lake_table_rows", "Rows in these files.", ("table",))
LAKE_COMMITTED = _declare(
    DASHBOARD, Kind.GAUGE, "lake_commit_timestamp_seconds",
    "When a table was last committed to, by its writer's clock.", ("table",))
LAKE_UNJUDGED = _declare(
    DASHBOARD, Kind.GAUGE, "lake_unjudged_seconds",
    "How long the oldest version of `runs` that curation has not looked at has been there; 0 when it has seen all. "
    "Absent while nothing was ever curated.")
LAKE_HELD_RUNS = _declare(
    DASHBOARD, Kind.GAUGE, "lake_held_runs", "Runs that curation holds back until somebody decides.")
LAKE_HELD_BATCHES = _declare(DASHBOARD, Kind.GAUGE, "lake_held_batches", "Publications that hold such runs.")
LAKE_HELD_SINCE = _declare(
    DASHBOARD, Kind.GAUGE, "lake_held_since_timestamp_seconds", "When the oldest of them was held; absent without any.")
LAKE_STATISTICS = _declare(
    DASHBOARD, Kind.GAUGE, "lake_statistics_timestamp_seconds",
    "When the newest row of `skill_stats` was told by `trajlake roll`; absent without any.")
LAKE_CLOSED = _declare(
    DASHBOARD, Kind.GAUGE, "lake_data_timestamp_seconds", "Event time of the newest run in the statistics.")
LAKE_SKILLS = _declare(
    DASHBOARD, Kind.GAUGE, "lake_skills", f"Skills with runs in {_WINDOW}, by standing.",
    ("state",), values=("degraded", "watch", "not_enough_data", "ok"))
# fmt: on
