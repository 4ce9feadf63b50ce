"""A partition that lands without a broker, through the program's own partition and ledger, and may be killed there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.landkit.events import Sent, event
from tests.landkit.stretches import TOPIC, records
from trajlake.expectations.events import TICK_KEY, kafka_key
from trajlake.reading.tables import LakeTables
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.sinks.snapshots import write_snapshot
from trajlake.streams.keeping.asking import request_of
from trajlake.streams.keeping.rejudging import Judged, Newest, Wanted, candidates, judge
from trajlake.streams.land.history import History
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.transforms.assemble.state import encode_state
from trajlake.transforms.landing.rules import LandRules
from trajlake.verification.report import Report
from trajlake.verification.verify import verify

APP = "trajlake-land"
QUOTA = {
    "error_type": "RateLimitError", "http_status": 429, "provider_code": "insufficient_quota",
    "error_message": "You exceeded your current quota",
}  # fmt: skip
NEVER = 1 << 50


class Partition:
    """A log and the lake that it lands in. `land` appends and lands; `restart` is what a new worker begins with."""

    def __init__(self, root: Path | str, rules: LandRules | None = None) -> None:
        self.lake = Lake(str(root))
        self.rules = rules or LandRules()
        self.log: list[Sent] = []
        self.on_step: Callable[[str], None] = lambda step: None
        self.restart()

    def restart(self) -> None:
        """Forget everything, and take the partition up from its tables."""
        self.restart_ledger()
        self.owned = AssignedPartition.resume(self.lake, self.ledger, TOPIC, 0, self.rules)
        for _ in self.owned.rebuild(self.lake):
            pass

    def restart_ledger(self) -> None:
        """See what others have committed to the tables."""
        self.ledger = Ledger(self.lake, APP, self._step)
        self.ledger.open()
        self.ledger.landed(TOPIC, 0)

    def _step(self, step: str) -> None:
        self.on_step(step)

    def land(self, sent: Sequence[Sent], per_batch: int = 1 << 30) -> None:
        """Append records and land all that the log holds."""
        self.log += sent
        self.catch_up(per_batch)

    def catch_up(self, per_batch: int = 1 << 30) -> None:
        """Land what the log holds and the tables do not."""
        while self.owned.next_offset < len(self.log):
            first = self.owned.next_offset
            waiting = records(self.log[first : first + per_batch], first)
            while waiting and self.owned.next_offset <= waiting[-1].offset:
                self.owned.take(waiting)
                self.commit()

    def commit(self) -> None:
        """Commit what waits."""
        if (stretch := self.owned.stretch()) is not None:
            self.ledger.commit([stretch])
        self.owned.committed()

    def snapshot(self) -> None:
        """Keep the state, as a worker does now and then."""
        write_snapshot(self.lake, TOPIC, 0, self.owned.landed, encode_state(self.owned.fold.snapshot()))

    # Classifying again

    def judged(self, wanted: Wanted | None = None) -> list[Judged]:
        """What closed runs come to by the rules of now."""
        history = History(self.lake, TOPIC, 0, LandRules())
        newest = Newest()
        newest.read(history.table("runs"), 0, self.owned.landed)
        return [
            one
            for part in candidates(history, wanted or Wanted(), newest, self.owned.landed)
            for one in judge(history, part)
        ]

    def requests(self, wanted: Wanted | None = None) -> list[Sent]:
        """Requests for the runs that come to something else."""
        return [
            Sent(
                kafka_key(one.candidate.row.tenant_id, one.candidate.row.run_id),
                request_of(one, self.owned.landed, "ops"),
            )
            for one in self.judged(wanted)
            if one.is_changed
        ]

    # Looking

    def rows(self, name: str, run: str | None = None) -> list[dict[str, Any]]:
        """Rows of a table in the order of their offsets."""
        rows = [dict(row) for row in self.lake.open(name).to_pyarrow_table().to_pylist()]
        rows = [row for row in rows if run is None or row["run_id"] == run]
        return sorted(rows, key=lambda row: (row["offset"], row.get("step_index") or 0))

    def verify(self) -> Report:
        """The proof over all tables."""
        return verify(LakeTables(self.lake), APP, integrity=True)


def run_of(name: str, *calls: dict[str, Any], end: dict[str, Any] | None = None, skill: str = "mail") -> list[Sent]:
    """A run with a decision for each mapping, which says how the model call failed (or nothing)."""
    sent = [event("run.started", name, 1, {"skill": {"name": skill}, "model": {"name": "m", "tier": "cheap"}})]
    for call in calls:
        sent.append(event("model.responded", name, len(sent) + 1, {"message": None if call else "done", **call}))
    sent.append(event("run.ended", name, len(sent) + 1, end or {"end_state": "completed", "success": True}))
    return sent


def tick(*, idle_us: int = NEVER, held_us: int = NEVER, forget_us: int = NEVER, name: str = "t") -> Sent:
    """A tick that closes, releases or forgets what is older."""
    data = {"close_idle_after_us": idle_us, "release_held_after_us": held_us, "forget_closed_after_us": forget_us}
    body = {
        "specversion": "1.0", "id": f"tick-{name}", "source": "trajlake/land", "type": "trajlake.tick",
        "time": "2026-03-01T10:00:00.000000Z", "data": data,
    }  # fmt: skip
    return Sent(TICK_KEY, orjson.dumps(body))
