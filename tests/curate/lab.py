"""A lake in which runs land through the program's own fold and ledger, and a curator whose clock the test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from tests.landkit.events import Sent, event
from tests.landkit.stretches import APPENDED_US, Batches
from trajlake.expectations.events import TICK_KEY, TICK_SOURCE
from trajlake.expectations.policies import PolicySet, policy_set, read_policies
from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.suites.suite import Suite, load_suites, read_suite
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.streams.curate.curator import Curator, Done, Limits
from trajlake.streams.curate.rules import Rules
from trajlake.transforms.gate.rowgate import compile_gate
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules

OPEN = """
version: 1
policies:
  - id: open
    purposes:
      train:
        allow: true
        declared: ignored
        consent: if_subject
        consent_given: any_time
        licences: any
        annotators: any
        refused_rewards: leave_out
"""
"""A policy that lets everything in to which a named subject consents."""

LENIENT = '{"name": "publication", "expectations": [{"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}, "meta": {"rule": "batch.not_empty"}}], "meta": {}}'  # noqa: E501
START_US = APPENDED_US
DAY_US = 86_400_000_000


def policies(text: str = OPEN) -> PolicySet:
    """A set of policies from the text of a file."""
    return policy_set([read_policies("test.yaml", text)])


def lenient() -> Suite:
    """A publication suite that lets every batch pass that is not empty."""
    return read_suite(LENIENT, "publication")


def shipped() -> Suite:
    """The publication suite that trajlake ships."""
    return load_suites()["publication"]


def shipped_rows() -> LandRules:
    """Landing by the row suites that trajlake ships."""
    return LandRules(row_rules=compile_gate(load_suites()))


class Lab:
    """`land` events, `curate`, and look. The clock stands a day behind the log's first record until a test moves it."""

    def __init__(
        self,
        root: Path,
        policy: PolicySet | None = None,
        suite: Suite | None = None,
        land_rules: LandRules | None = None,
    ) -> None:
        self.lake = Lake(str(root))
        self.rules = Rules(policy or policies(), suite or lenient())
        self.limits = Limits()
        self.now_us = START_US + DAY_US
        self.on_step: Callable[[str], None] = lambda step: None
        self._ledger = Ledger(self.lake, "land")
        self._ledger.open()
        self._batches = Batches(rules=land_rules)
        self._curator: Curator | None = None

    def land(self, sent: list[Sent]) -> None:
        """Land the next records of the log in one batch."""
        self._ledger.commit([self._batches.take(sent)])

    def land_with(self, fold: PartitionFold) -> None:
        """Land what comes from now on through another fold, as a worker that was started under other rules would."""
        self._batches.fold, self._batches.rules = fold, fold.rules

    def curator(self, progress: Progress = SILENT) -> Curator:
        """A curator as a new process would have it."""
        return Curator(self.lake, self.rules, self.limits, lambda: self.now_us, self.on_step, progress)

    def curate(self) -> list[Done]:
        """One pass, in a process that knows nothing of the earlier ones."""
        return list(self.curator().run_once())

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table, as anybody's reader sees them."""
        if not self.lake.exists(name):
            return []
        table: pa.Table = self.lake.open(name).to_pyarrow_table()
        return [dict(row) for row in table.to_pylist()]

    def current(self) -> dict[str, dict[str, Any]]:
        """The published row that counts, by run id."""
        newest: dict[str, dict[str, Any]] = {}
        for row in sorted(self.rows("trajectories"), key=lambda row: row["publication"]):
            newest[row["run_id"]] = row
        return {run: row for run, row in newest.items() if not row["withdrawn"]}

    def verdicts(self, run: str) -> list[tuple[str, list[str]]]:
        """All verdicts on a run in order: verdict and codes."""
        rows = sorted(
            (row for row in self.rows("curation") if row["run_id"] == run), key=lambda row: row["publication"]
        )
        return [(row["verdict"], [reason["code"] for reason in row["reasons"] or ()]) for row in rows]

    def trainer_files(self) -> Iterator[bytes]:
        """Every object of the training zone: what its readers may find."""
        for path in sorted(Path(self.lake.training_uri).rglob("*")):
            if path.is_file():
                yield path.read_bytes()
                yield path.name.encode()

    def trainer_rows(self) -> str:
        """Every row of the newest version of every table in the training zone, as text."""
        return repr(self.rows("trajectories"))


def story(run: str, *, tenant: str = "acme", start: dict[str, Any] | None = None, steps: int = 2, reward: Any = 1.0,
          end: dict[str, Any] | None = None, text: str = "hello", rewards: int = 1) -> list[Sent]:  # fmt: skip
    """A run from start to end: `steps` decisions with a call and its result each, rewards, the end."""
    sent: list[Sent] = []

    def add(kind: str, data: dict[str, Any]) -> None:
        sent.append(event(kind, run, len(sent) + 1, data, tenant=tenant))

    add("run.started", {"skill": {"name": "refund", "version": "3"}, "model": {"name": "model-1"}, "input": text}
        | (start or {}))  # fmt: skip
    for number in range(steps):
        call = f"{run}-{number}"
        calls = [{"tool_call_id": call, "function_name": "look", "arguments": '{"at":1}'}]
        add("model.responded", {"message": f"{text} {number}", "tool_calls": calls})
        add("tool.returned", {"tool_call_id": call, "content": f"saw {text}"})
    for number in range(rewards):
        data = {"name": "reward", "annotator_kind": "code", "annotator_id": "tests", "reward_id": f"{run}-r{number}"}
        add("reward.assigned", data if reward is None else data | {"score": reward})
    add("run.ended", {"end_state": "completed", "success": True, "output": text} | (end or {}))
    return sent


def reward(run: str, reward_id: str, score: float | None, **data: Any) -> Sent:
    """A reward that a grader gives without knowing the run's sequence."""
    given = {"name": "reward", "annotator_kind": "code", "annotator_id": "tests", "reward_id": reward_id, **data}
    return event("reward.assigned", run, None, given if score is None else given | {"score": score},
                 id=f"{run}:{reward_id}")  # fmt: skip


def frame_of(rows: list[dict[str, Any]], name: str) -> pl.DataFrame:
    """Rows of a table as a frame."""
    return pl.DataFrame(pl.from_arrow(pa.Table.from_pylist(rows, TABLES[name].schema)))


def tick(*, idle_us: int = 10**12, held_us: int = 0) -> Sent:
    """A tick that gives up on what others have waited for longer than `held_us`, and closes what is idle as long."""
    data = {"close_idle_after_us": idle_us, "release_held_after_us": held_us, "forget_closed_after_us": 10**12}
    body = {
        "specversion": "1.0", "id": f"tick-{next(_NUMBERS)}", "source": TICK_SOURCE, "type": "trajlake.tick",
        "tenantid": "", "data": data,
    }  # fmt: skip
    return Sent(TICK_KEY, orjson.dumps(body))


def renumbered(sent: Sent, by: int) -> Sent:
    """The same event, later in its run."""
    body = orjson.loads(sent.value or b"")
    return sent._replace(value=orjson.dumps(body | {"sequence": body["sequence"] + by, "id": body["id"] + "+"}))


def with_parent(sent: Sent, parent: str) -> Sent:
    """The same event of a run that another one spawned."""
    return sent._replace(value=orjson.dumps(orjson.loads(sent.value or b"") | {"parentrunid": parent}))


_NUMBERS = count()


def never(word: str, table: str, column: str) -> Suite:
    """A row suite in which a word is a grave fault."""
    entry = {
        "type": "expect_column_values_to_not_match_regex", "severity": "critical", "meta": {"rule": f"{table}.never"},
        "kwargs": {"column": column, "regex": word},
    }  # fmt: skip
    return read_suite(orjson.dumps({"name": table, "expectations": [entry]}).decode(), table)
