"""A lake that the tests write themselves: rows in order, then one change that `verify` has to name."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake, transaction_app

APP = "trajlake-land"
TOPIC = "agent.audit.v1"
COMMIT_ORDER = ("quarantine", "gaps", "rewards", "steps", "runs", "events")
START = datetime(2026, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


@dataclass
class Rows:
    """Rows of every table, as mappings, in the order of the log. Tests change them before they are written."""

    topic: str = TOPIC
    tables: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    next_offset: dict[int, int] = field(default_factory=dict)
    payloads: list[tuple[str, bytes]] = field(default_factory=list)

    def __getitem__(self, name: str) -> list[Row]:
        return self.tables[name]

    def take(self, partition: int, count: int = 1) -> int:
        """The next offset of a partition."""
        offset = self.next_offset.get(partition, 0)
        self.next_offset[partition] = offset + count
        return offset

    def event(
        self, partition: int, kind: str, run: str | None, sequence: int | None, tenant: str = "acme", **data: Any
    ) -> int:
        offset = self.take(partition)
        name = f"{run}-{sequence}" if sequence is not None else f"{run}-at-{partition}-{offset}"
        self["events"].append(
            {
                "topic": self.topic, "partition": partition, "offset": offset,
                "append_time": START + timedelta(milliseconds=offset), "id": name, "source": "test", "type": kind,
                "time": START + timedelta(milliseconds=offset), "tenant_id": tenant, "run_id": run,
                "sequence": sequence, "event": orjson.dumps({"type": kind, "data": data}).decode(),
                "rule_revision": "r0",
            }
        )  # fmt: skip
        return offset

    def refuse(self, partition: int, reason: str = "malformed_json") -> int:
        offset = self.take(partition)
        self["quarantine"].append(
            {
                "topic": self.topic, "partition": partition, "offset": offset, "append_time": START,
                "reason_code": reason, "stage": "decode", "detail": "not JSON", "rule_revision": "r0",
                "payload_sha256": "0" * 64, "payload_bytes": 3,
            }
        )  # fmt: skip
        return offset

    def gap(self, partition: int, count: int, code: str = "hole") -> None:
        first = self.take(partition, count)
        self["gaps"].append(
            {
                "topic": self.topic,
                "partition": partition,
                "first_offset": first,
                "offset": first + count - 1,
                "code": code,
            }
        )

    def step(self, partition: int, run: str, index: int, first: int, offset: int, *, last: bool, **extra: Any) -> Row:
        call = f"{run}-call-{index}"
        row = {
            "tenant_id": "acme", "run_id": run, "step_index": index, "step_id": f"s{index}", "revision": 0,
            "topic": self.topic, "partition": partition, "offset": offset, "first_offset": first, "source": "agent",
            "skill_name": "review", "started_at": START + timedelta(milliseconds=first), "input_tokens": 10,
            "tool_calls": [{"tool_call_id": call, "function_name": "ls", "arguments": "{}"}],
            "observations": [{"source_call_id": call, "content": "a b", "is_error": False, "offset": offset}],
            "is_copied_context": False, "context_segment": 0, "is_first": index == 1, "is_last": last,
            "outcome_class": "success", "failure_basis": "step.no_failure", "classifier_revision": "c0", "late": False,
        } | extra  # fmt: skip
        self["steps"].append(row)
        return row

    def run_row(self, partition: int, run: str, first: int, offset: int, events: int, steps: int, **extra: Any) -> Row:
        row = {
            "tenant_id": "acme", "run_id": run, "revision": 0, "topic": self.topic, "partition": partition,
            "offset": offset, "first_offset": first, "closed_at": START, "event_count": events, "step_count": steps,
            "skill_name": "review", "copied_step_count": 0, "tool_call_count": steps, "tool_error_count": 0,
            "end_state": "completed", "end_inferred": False, "outcome_class": "success", "failure_basis": "run.success",
            "classifier_revision": "c0", "duplicate_count": 0, "has_start": True, "late": False,
        } | extra  # fmt: skip
        self["runs"].append(row)
        return row

    def reward(self, partition: int, run: str, offset: int, **extra: Any) -> None:
        self["rewards"].append(
            {
                "tenant_id": "acme", "run_id": run, "reward_id": f"{run}-reward-{offset}", "topic": self.topic,
                "partition": partition, "offset": offset, "name": "reward", "score": 1.0, "annotator_kind": "code",
                "late": False,
            }
            | extra
        )  # fmt: skip

    def whole_run(self, partition: int, run: str, steps: int = 2, *, rewarded: bool = True) -> None:
        """A run that starts, decides, acts, is rewarded and ends."""
        sequence = 1
        first = self.event(partition, "agent.run.started", run, sequence)
        opened = []
        for _ in range(steps):
            opened.append(self.event(partition, "agent.model.responded", run, sequence + 1))
            self.event(partition, "agent.tool.returned", run, sequence + 2)
            sequence += 2
        events = sequence
        if rewarded:
            self.reward(partition, run, self.event(partition, "agent.reward.assigned", run, None))
            events += 1
        end = self.event(partition, "agent.run.ended", run, sequence + 1)
        for index, at in enumerate(opened, start=1):
            done = opened[index] if index < steps else end
            self.step(partition, run, index, at, done, last=index == steps)
        self.run_row(partition, run, first, end, events + 1, steps)

    def store(self, tenant: str, content: bytes) -> str:
        """Content by reference; returns the reference."""
        self.payloads.append((tenant, content))
        return f"payload:sha256:{hashlib.sha256(content).hexdigest()}:{len(content)}"

    def offsets(self, name: str, **where: Any) -> list[int]:
        return [row["offset"] for row in self[name] if all(row[key] == value for key, value in where.items())]

    def drop(self, name: str, **where: Any) -> Row:
        """Take out the first row that matches."""
        row = self.first(name, **where)
        self[name].remove(row)
        return row

    def first(self, name: str, **where: Any) -> Row:
        return next(row for row in self[name] if all(row[key] == value for key, value in where.items()))

    def last_offsets(self) -> dict[int, int]:
        return {partition: offset - 1 for partition, offset in self.next_offset.items()}

    def write(self, root: Path, *, landed: dict[int, int] | None = None, names: Iterable[str] = COMMIT_ORDER) -> Lake:
        """Write all tables as the flow does: side tables first, `events` last, each with its transactions."""
        lake = Lake(str(root))
        for tenant, content in self.payloads:
            lake.store.put(lake.payload_path(tenant, hashlib.sha256(content).hexdigest()), content)
        for name in names:
            append(lake, name, self[name], self.last_offsets() if landed is None else landed, self.topic)
        return lake


def to_table(name: str, rows: list[Row]) -> pa.Table:
    """Rows as an Arrow table of the contract."""
    schema = TABLES[name].schema
    return pa.table({f.name: pa.array([row.get(f.name) for row in rows], f.type) for f in schema}, schema=schema)


def append(lake: Lake, name: str, rows: list[Row], landed: dict[int, int], topic: str = TOPIC) -> None:
    """One commit of a table with the offsets that it brings up to date."""
    notes = [Transaction(transaction_app(APP, topic, partition), offset) for partition, offset in landed.items()]
    write_deltalake(
        lake.table_uri(name),
        to_table(name, rows),
        mode="append",
        commit_properties=CommitProperties(app_transactions=notes),
    )


@pytest.fixture
def rows() -> Rows:
    """Two partitions with runs, poison, holes, a declared loss and an open run."""
    made = Rows()
    made.gap(0, 3, "below_retention")
    made.whole_run(0, "run-a")
    made.refuse(0)
    made.whole_run(0, "run-b", steps=3)
    made.gap(0, 1)
    made.event(1, "trajlake.tick", None, None, tenant="")
    made.refuse(1)
    made.whole_run(1, "run-c", steps=1, rewarded=False)
    made.event(1, "agent.run.started", "run-open", 1)
    made.event(1, "agent.model.responded", "run-open", 2)
    return made


class Command:
    """Runs `trajlake` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trajlake", *words],
            cwd=self.folder, input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def trajlake(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    return Command(tmp_path)


@pytest.fixture
def make_rows() -> type[Rows]:
    return Rows


@pytest.fixture
def append_rows() -> Callable[..., None]:
    return append
