"""Table contract: every Delta table's columns, declared once with type, unit and meaning.

`Table.schema` is the Arrow schema that writers cast to and readers may rely on. Times are microseconds since the
Unix epoch, UTC. Offsets are Kafka offsets. Token counts are tokens, money is US dollars.

Each row of `steps`, `runs`, `rewards` and `quarantine` carries `topic`, `partition` and `offset`: the position of the
event that made the row appear. A row is a function of the log up to that offset; the pair (table, offset) therefore
names the same row in every replay.

Stage: before everything; all that reads and writes tables is checked against it. Reads: nothing. Writes: nothing.
May import: the rest of expectations.
`columns` has what tables are declared with; `landed`, `kept`, `live` and `curated` have the tables.
"""

from __future__ import annotations

from typing import Final

from trajlake.expectations.tables.columns import (
    COMPACTIONS,
    GAPS,
    MESSAGES,
    OBSERVATIONS,
    QUALITY,
    REASONS,
    REDACTIONS,
    TIME,
    TOOL_CALLS,
    VERDICTS,
    VERSIONS,
    Column,
    Table,
)
from trajlake.expectations.tables.curated import (
    CURATION,
    EXCLUSIONS,
    FIELD_ACTIONS,
    PUBLICATIONS,
    TRAJECTORIES,
    TRAJECTORY_REWARD,
    TRAJECTORY_STEP,
)
from trajlake.expectations.tables.kept import (
    CONSENTS,
    ERASURE_MARKS,
    ERASURES,
    INTEGRITY,
    POLICY_DECISIONS,
    QUARANTINE,
    QUARANTINE_ACTIONS,
)
from trajlake.expectations.tables.landed import EVENTS, LOG_GAPS, REWARDS, RUNS, STEPS
from trajlake.expectations.tables.live import DECISIONS, POSITIONS, SKILL_STATS

__all__ = [
    "COMPACTIONS",
    "CONSENTS",
    "CURATION",
    "DECISIONS",
    "ERASURES",
    "ERASURE_MARKS",
    "EVENTS",
    "EXCLUSIONS",
    "FIELD_ACTIONS",
    "GAPS",
    "INTEGRITY",
    "LOG_GAPS",
    "MESSAGES",
    "OBSERVATIONS",
    "POLICY_DECISIONS",
    "POSITIONS",
    "PUBLICATIONS",
    "QUALITY",
    "QUARANTINE",
    "QUARANTINE_ACTIONS",
    "REASONS",
    "REDACTIONS",
    "REWARDS",
    "RUNS",
    "SKILL_STATS",
    "STEPS",
    "TABLES",
    "TIME",
    "TOOL_CALLS",
    "TRAJECTORIES",
    "TRAJECTORY_REWARD",
    "TRAJECTORY_STEP",
    "VERDICTS",
    "VERSIONS",
    "Column",
    "Table",
]

TABLES: Final[dict[str, Table]] = {
    t.name: t
    for t in (
        EVENTS,
        STEPS,
        RUNS,
        REWARDS,
        QUARANTINE,
        LOG_GAPS,
        CONSENTS,
        POLICY_DECISIONS,
        SKILL_STATS,
        DECISIONS,
        CURATION,
        PUBLICATIONS,
        TRAJECTORIES,
        INTEGRITY,
        ERASURE_MARKS,
        ERASURES,
        QUARANTINE_ACTIONS,
    )
}
"""Every table by name. Of those that land, `events` is committed last: its offsets are the lake's commit point."""
