"""A log told as a story: runs act in turn, the broker appends, and the fold lands it all.

log = Log()
run = log.run("r1")
run.starts(); run.responds("looking", calls=["c1"]); run.returns("c1", "found"); run.ends()
landed = log.land()
assert landed.one("runs")["step_count"] == 1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pyarrow as pa

from trajlake.expectations.events import TICK_SOURCE, kafka_key
from trajlake.expectations.tables import TABLES
from trajlake.sinks.ledger import COMMIT_POINT, SIDE_TABLES
from trajlake.transforms.assemble.state import decode_state, encode_state
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Headers, Payload, Record

TOPIC = "agent.audit.v1"
TENANT = "acme"
START_US = 1_767_225_600_000_000
SECOND_US = 1_000_000
INLINE_MAX = 256 << 10
EVENT_TIME = "2026-01-01T00:00:00.000001Z"


class Log:
    """Records of one partition in offset order. Every record is appended one second after the one before."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.next_offset = 0
        self.now_us = START_US

    def run(self, run_id: str = "r1", tenant: str = TENANT, **envelope: Any) -> Run:
        """Somebody who acts in this log."""
        return Run(self, run_id, tenant, envelope)

    def append(self, value: bytes | None, key: bytes | None = None, headers: Headers | None = None) -> int:
        """Append one record as it is. Returns its offset."""
        offset = self.next_offset
        self.records.append(Record(offset, self.now_us, key, value, headers))
        self.next_offset += 1
        self.now_us += SECOND_US
        return offset

    def append_event(self, event: dict[str, Any], key: bytes | None = None, *, pretty: bool = False) -> int:
        """Append an event's JSON, compact unless `pretty`, under its own key unless another is given."""
        if key is None and isinstance(event.get("tenantid"), str) and isinstance(event.get("runid"), str):
            key = kafka_key(event["tenantid"], event["runid"])
        text = orjson.dumps(event, option=orjson.OPT_INDENT_2 if pretty else None)
        return self.append(text, key)

    def tick(self, *, idle_s: int = 10**6, held_s: int = 10**6, forget_s: int = 10**6) -> int:
        """The partition's owner writes time: what is older than so many seconds is closed, released, forgotten."""
        return self.append_event(tick(self.now_us, idle_s, held_s, forget_s), b"trajlake/tick")

    def hole(self, count: int = 1) -> None:
        """The log uses offsets for itself."""
        self.next_offset += count

    def waits(self, seconds: int) -> None:
        self.now_us += seconds * SECOND_US

    def land(self, rules: LandRules | None = None, cuts: Iterable[int] = ()) -> Landed:
        """Fold the whole log, in batches that end before the given offsets."""
        return Landed.of(fold_in_batches(PartitionFold(TOPIC, 0, rules or LandRules()), self.records, cuts))


class Run:
    """An agent's run: each act is the next event of its sequence unless `sequence` says otherwise."""

    def __init__(self, log: Log, run_id: str, tenant: str, envelope: dict[str, Any]) -> None:
        self.log = log
        self.run_id = run_id
        self.tenant = tenant
        self.envelope = envelope
        self.sequence = 0

    def act(self, kind: str, data: dict[str, Any] | None = None, *, pretty: bool = False, **envelope: Any) -> int:
        """Append an event of the run. `sequence=None` leaves it out; any envelope field may be overridden."""
        return self.log.append_event(self.event(kind, data, **envelope), pretty=pretty)

    def event(self, kind: str, data: dict[str, Any] | None = None, **envelope: Any) -> dict[str, Any]:
        if "sequence" not in envelope:
            self.sequence += 1
            envelope["sequence"] = self.sequence
        elif envelope["sequence"] is not None:
            self.sequence = max(self.sequence, envelope["sequence"])
        body = {
            "specversion": "1.0",
            "id": f"{self.run_id}:{kind}:{envelope['sequence']}",
            "source": "urn:test:agent",
            "type": kind if "." in kind and kind.startswith(("agent.", "other.", "trajlake.")) else f"agent.{kind}",
            "time": EVENT_TIME,
            "tenantid": self.tenant,
            "runid": self.run_id,
            **self.envelope,
            **envelope,
            "data": data if data is not None else {},
        }
        return {name: value for name, value in body.items() if value is not None}

    def starts(self, **data: Any) -> int:
        envelope = _envelope(data)
        return self.act("run.started", {"skill": {"name": "search", "version": "1"}, **data}, **envelope)

    def responds(self, message: Any = "thinking", calls: Sequence[str] = (), **data: Any) -> int:
        envelope = _envelope(data)
        if calls:
            data["tool_calls"] = [
                {"tool_call_id": call, "function_name": "look", "arguments": '{"at":1}'} for call in calls
            ]
        return self.act("model.responded", {"message": message, **data}, **envelope)

    def calls(self, call: str, **data: Any) -> int:
        envelope = _envelope(data)
        return self.act("tool.called", {"tool_call_id": call, **data}, **envelope)

    def returns(self, call: str, content: Any = "seen", **data: Any) -> int:
        envelope = _envelope(data)
        return self.act("tool.returned", {"tool_call_id": call, "content": content, **data}, **envelope)

    def decides(self, verdict: str = "allow", **data: Any) -> int:
        envelope = _envelope(data)
        return self.act("policy.decided", {"policy_id": "p1", "verdict": verdict, **data}, **envelope)

    def compacts(self, summary: str = "so far", **data: Any) -> int:
        envelope = _envelope(data)
        return self.act("context.compacted", {"summary": summary, **data}, **envelope)

    def rewarded(self, score: Any = 1.0, **data: Any) -> int:
        """A grader speaks; it does not know the run's sequence."""
        envelope = {"sequence": None, "id": f"{self.run_id}:reward:{self.log.next_offset}", **_envelope(data)}
        return self.act("reward.assigned", {"score": score, "annotator_kind": "code", **data}, **envelope)

    def ends(self, end_state: str = "completed", **data: Any) -> int:
        envelope = _envelope(data)
        return self.act("run.ended", {"end_state": end_state, **data}, **envelope)


def _envelope(data: dict[str, Any]) -> dict[str, Any]:
    """Take the envelope's fields out of an act's arguments."""
    return {name: data.pop(name) for name in ("sequence", "id", "time", "parentrunid", "pretty") if name in data}


def tick(now_us: int, idle_s: int, held_s: int, forget_s: int) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"tick-{now_us}",
        "source": TICK_SOURCE,
        "type": "trajlake.tick",
        "time": EVENT_TIME,
        "data": {
            "close_idle_after_us": idle_s * SECOND_US,
            "release_held_after_us": held_s * SECOND_US,
            "forget_closed_after_us": forget_s * SECOND_US,
        },
    }


# Landing


class Landed:
    """What a log became: every table in full, and the payloads beside them."""

    def __init__(self, tables: dict[str, pa.Table], payloads: list[Payload]) -> None:
        self.tables = tables
        self.payloads = payloads

    @classmethod
    def of(cls, landings: Iterable[Landing]) -> Landed:
        parts: dict[str, list[pa.RecordBatch]] = {name: [] for name in (*SIDE_TABLES, COMMIT_POINT)}
        payloads: list[Payload] = []
        for landing in landings:
            payloads += landing.payloads
            for name, batch in batches(landing, "rules", INLINE_MAX).items():
                parts[name].append(batch)
        return cls(
            {name: pa.Table.from_batches(rows, TABLES[name].schema).combine_chunks() for name, rows in parts.items()},
            payloads,
        )

    def rows(self, table: str, **where: Any) -> list[dict[str, Any]]:
        """Rows of a table as dicts, those that have all the given values."""
        found: list[dict[str, Any]] = self.tables[table].to_pylist()
        return [row for row in found if all(row[name] == value for name, value in where.items())]

    def one(self, table: str, **where: Any) -> dict[str, Any]:
        """The only such row."""
        rows = self.rows(table, **where)
        assert len(rows) == 1, f"{len(rows)} rows of {table} where {where}"
        return rows[0]

    def steps(self, run: str = "r1") -> list[dict[str, Any]]:
        """The run's steps in order, each in its latest revision."""
        latest: dict[int, dict[str, Any]] = {}
        for row in self.rows("steps", run_id=run):
            latest[row["step_index"]] = row
        return [latest[index] for index in sorted(latest)]

    def last_run(self, run: str = "r1") -> dict[str, Any]:
        """The run's row with the highest revision."""
        return max(self.rows("runs", run_id=run), key=lambda row: (row["revision"], row["offset"]))

    def gaps(self, run: str = "r1") -> list[str]:
        """Codes of the gaps of the run's latest row."""
        return [gap["code"] for gap in self.last_run(run)["gaps"] or ()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Landed) and self.differs(other) is None

    __hash__ = None  # type: ignore[assignment]

    def differs(self, other: Landed) -> str | None:
        """Name of the first table that is not the same, or None."""
        for name, table in self.tables.items():
            if not table.equals(other.tables[name]):
                return name
        mine = {(p.tenant_id, p.sha256, p.quarantined) for p in self.payloads}
        theirs = {(p.tenant_id, p.sha256, p.quarantined) for p in other.payloads}
        return None if mine == theirs else "payloads"

    def holds(self, text: str) -> list[str]:
        """Names of the tables (and `payloads`) in which a text stands anywhere, as it is or escaped."""
        needle = text.encode()
        found = []
        for name, table in self.tables.items():
            buffers = [
                b for column in table.columns for chunk in column.chunks for b in chunk.buffers() if b is not None
            ]
            if any(needle in bytes(b) for b in buffers):
                found.append(name)
        return found + ["payloads" for p in self.payloads if needle in p.content]


def fold_in_batches(fold: PartitionFold, records: Sequence[Record], cuts: Iterable[int] = ()) -> list[Landing]:
    """Fold records in batches that end before the given offsets."""
    landings = []
    at = 0
    for cut in (*sorted(set(cuts)), None):
        end = len(records) if cut is None else next((i for i, r in enumerate(records) if r.offset >= cut), len(records))
        if end > at or cut is None:
            landings.append(fold.fold(list(records[at:end])))
        at = max(at, end)
    return landings


def restarted(fold: PartitionFold) -> PartitionFold:
    """Another worker's fold, made from this one's snapshot."""
    state = decode_state(encode_state(fold.snapshot()))
    return PartitionFold(fold.topic, fold.partition, fold.rules, state)


def same_state(one: PartitionFold, other: PartitionFold) -> bool:
    """Whether two folds would write the same snapshot."""
    return encode_state(one.snapshot()) == encode_state(other.snapshot())
