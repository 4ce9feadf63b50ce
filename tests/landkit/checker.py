"""Whether every record landed exactly once, judged from the topic and the tables' files alone, with sets.

Nothing of the program is used but the names of the tables' folders: what it says of itself proves nothing here.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.landkit.kafka import log_of

FOLDERS = {
    "events": "restricted/events",
    "steps": "restricted/steps",
    "runs": "restricted/runs",
    "rewards": "restricted/rewards",
    "gaps": "restricted/gaps",
    "quarantine": "quarantine/quarantine",
    "consents": "restricted/consents",
    "policy_decisions": "restricted/policy_decisions",
}
IDENTITY = {
    "events": ("topic", "partition", "offset"),
    "quarantine": ("topic", "partition", "offset"),
    "steps": ("tenant_id", "run_id", "first_offset", "step_index", "revision"),
    "runs": ("tenant_id", "run_id", "first_offset", "revision"),
    "rewards": ("tenant_id", "run_id", "reward_id", "offset"),
    "gaps": ("topic", "partition", "offset"),
    "consents": ("topic", "partition", "offset"),
    "policy_decisions": ("topic", "partition", "offset"),
}


def read(root: Path | str, table: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    try:
        rows: pa.Table = DeltaTable(str(Path(root) / FOLDERS[table])).to_pyarrow_table()
    except TableNotFoundError:
        return []
    return [{**row} for row in rows.to_pylist()]


def offsets_of_gaps(root: Path | str, partition: int = 0) -> list[int]:
    """Every offset that `gaps` accounts for, as often as it does."""
    rows = [row for row in read(root, "gaps") if row["partition"] == partition]
    return [offset for row in rows for offset in range(row["first_offset"], row["offset"] + 1)]


@dataclass
class Landed:
    """All tables of a lake, in an order that does not depend on how they were written."""

    tables: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path | str) -> Landed:
        return cls(
            {name: sorted(repr(sorted(row.items())) for row in read(root, name)) for name in FOLDERS if name != "gaps"}
            # Where one range of missing offsets ends and the next begins may depend on the moment of looking.
            | {"gaps": [str(offset) for offset in sorted(offsets_of_gaps(root))]}
        )


def assert_same_rows(one: Path | str, other: Path | str) -> None:
    """Two lakes hold the same rows."""
    first, second = Landed.of(one), Landed.of(other)
    for name in FOLDERS:
        only_first = Counter(first.tables[name]) - Counter(second.tables[name])
        only_second = Counter(second.tables[name]) - Counter(first.tables[name])
        assert not only_first, (name, list(only_first)[:2], list(only_second)[:2])
        assert not only_second, (name, list(only_second)[:2])


def commits_of(root: Path | str, table: str) -> list[list[dict[str, Any]]]:
    """Actions of every version of a table, oldest first."""
    log = Path(root) / FOLDERS[table] / "_delta_log"
    return [[json.loads(line) for line in path.read_text().splitlines() if line] for path in sorted(log.glob("*.json"))]


def assert_offsets_only_grow(root: Path | str) -> None:
    """In no table did a commit ever move a partition's offset back, or to where it was."""
    for table in FOLDERS:
        newest: dict[str, int] = {}
        for actions in commits_of(root, table):
            for action in actions:
                if "txn" in action:
                    app, offset = action["txn"]["appId"], action["txn"]["version"]
                    assert offset > newest.get(app, -1), (table, app, offset)
                    newest[app] = offset


def assert_exactly_once(root: Path | str, broker: str, topic: str, partitions: int = 1) -> None:
    """Every offset of the topic is in `events`, `quarantine` or `gaps`, once; no row of any table comes twice."""
    events, refused = read(root, "events"), read(root, "quarantine")
    for partition in range(partitions):
        records, _, high = log_of(broker, topic, partition)
        landed = [row["offset"] for row in events if row["partition"] == partition]
        quarantined = [row["offset"] for row in refused if row["partition"] == partition]
        holes = offsets_of_gaps(root, partition)
        twice = [offset for offset, count in Counter(landed + quarantined + holes).items() if count > 1]
        assert not twice, f"partition {partition}: offsets {sorted(twice)[:10]} are accounted for more than once"
        assert set(landed) | set(quarantined) | set(holes) == set(range(high)), f"partition {partition} of {high}"
        # What the log still holds is an event or refused, never a hole.
        assert set(records) <= set(landed) | set(quarantined)
    assert_offsets_only_grow(root)
    for name, identity in IDENTITY.items():
        counted = Counter(tuple(row[column] for column in identity) for row in read(root, name))
        assert not [key for key, count in counted.items() if count > 1], name
