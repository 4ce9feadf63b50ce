"""What was not let in, for operators: rows with what became of them, their content, and purging it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.exceptions import BaseError, NotFoundError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.reasons import Reason
from trajlake.expectations.tables import QUARANTINE_ACTIONS
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.deltalog import DeltaLog
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.sinks.payloads import read_payload
from trajlake.sinks.rewriting import rewrite_files
from trajlake.sinks.scrubbing import remove_dead_files
from trajlake.streams.keeping.forget import table_rows
from trajlake.transforms.landing.erasure import decoded, references, stripped

ACTIONS: Final = "quarantine_actions"
CONTENT: Final = ("payload", "payload_ref", "sealed", "sealed_ref")
LISTED: Final = (
    "topic", "partition", "offset", "append_time", "reason_code", "stage", "detail", "field_path", "tenant_id",
    "run_id", "event_id", "event_type", "rule_revision", "payload_bytes", "released_from",
)  # fmt: skip


class Place(NamedTuple):
    """Where a record stands in the log."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read `topic/partition/offset`. Raises ValueError."""
        topic, partition, offset = text.rsplit("/", 2)
        return cls(topic, int(partition), int(offset))


@dataclass(frozen=True)
class Wanted:
    """Which rows. `since`, `until`: append times, UTC. `places`: these alone. None and empty mean all."""

    tenant: str | None = None
    reason: str | None = None
    stage: str | None = None
    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    places: frozenset[Place] = field(default_factory=frozenset)
    state: str | None = None

    def filter(self, rows: pa.Table) -> pa.Table:
        """The rows that are wanted, their state aside."""
        same = {"tenant_id": self.tenant, "reason_code": self.reason, "stage": self.stage, "run_id": self.run}
        for column, value in same.items():
            if value is not None:
                rows = rows.filter(pc.fill_null(pc.equal(rows.column(column), value), False))
        times = rows.column("append_time")
        if self.since is not None:
            rows = rows.filter(pc.greater_equal(times, pa.scalar(self.since, times.type)))
        if self.until is not None:
            times = rows.column("append_time")
            rows = rows.filter(pc.less(times, pa.scalar(self.until, times.type)))
        if self.places:
            rows = rows.filter(pa.array([place in self.places for place in places_of(rows)], pa.bool_()))
        return rows


def places_of(rows: pa.Table) -> list[Place]:
    """Places of rows."""
    return [Place(*found) for found in zip(*(rows.column(name).to_pylist() for name in Place._fields), strict=True)]


# Acts


def acts(lake: Lake) -> dict[Place, list[dict[str, Any]]]:
    """All acts of operators by record, oldest first."""
    found: dict[Place, list[dict[str, Any]]] = {}
    for rows in table_rows(lake, ACTIONS):
        for row in rows.to_pylist():
            found.setdefault(Place(row["topic"], row["partition"], row["offset"]), []).append(row)
    for done in found.values():
        done.sort(key=lambda row: row["at"])
    return found


def note_acts(lake: Lake, made: Sequence[dict[str, Any]]) -> None:
    """Write acts down. Each names its record (topic, partition, offset), action, reason_code and rule_revision.

    Raises `SinkUnavailable`.
    """
    if not made:
        return
    now = datetime.now(UTC)
    rows = [{name: act.get(name) for name in QUARANTINE_ACTIONS.names} | {"at": now} for act in made]
    log = DeltaLog(lake, QUARANTINE_ACTIONS)
    log.open()
    batch = pa.RecordBatch.from_pylist(rows, QUARANTINE_ACTIONS.schema)
    log.commit([write_data_file(lake, QUARANTINE_ACTIONS, [batch])], [])


def act_on(row: dict[str, Any], action: str, by: str | None, note: str | None, **more: Any) -> dict[str, Any]:
    """An act on a row, which keeps the verdict that it acted on."""
    kept = {name: row[name] for name in (*Place._fields, "reason_code", "rule_revision")}
    return {**kept, "action": action, "by": by, "note": note, **more}


# Listing


def listed(lake: Lake, wanted: Wanted, limit: int | None = None, progress: Progress = SILENT) -> list[dict[str, Any]]:
    """Wanted rows, newest first, each with its `state` and, where it was released, `released_as` and `verdict`.

    state: held, releasing, released, purged or erased. verdict: what land made of it where it stands now: landed,
    quarantined, or waiting where it has not landed. `progress` counts files, as elsewhere here.
    """
    known = acts(lake)
    parts = table_rows(lake, "quarantine", LISTED, progress)
    rows = [row for part in parts for row in wanted.filter(part).to_pylist()]
    for row in rows:
        row.update(_state(row, known.get(Place(row["topic"], row["partition"], row["offset"]), [])))
    if wanted.state is not None:
        rows = [row for row in rows if row["state"] == wanted.state]
    rows.sort(key=lambda row: (row["append_time"], row["topic"], row["partition"], row["offset"]), reverse=True)
    rows = rows if limit is None else rows[:limit]
    _add_verdicts(lake, rows, progress)
    return rows


def _state(row: dict[str, Any], done: list[dict[str, Any]]) -> dict[str, Any]:
    if row["reason_code"] == Reason.ERASED:
        return {"state": "erased", "released_as": None}
    if not done:
        return {"state": "held", "released_as": None}
    released = [act for act in done if act["action"] == "released"]
    place = None
    if released:
        place = str(Place(row["topic"], released[-1]["released_partition"], released[-1]["released_offset"]))
    actions = {act["action"] for act in done}
    if "purged" in actions:
        return {"state": "purged", "released_as": place}
    return {"state": "released" if released else "releasing", "released_as": place}


def _add_verdicts(lake: Lake, rows: list[dict[str, Any]], progress: Progress) -> None:
    asked = {Place.parse(row["released_as"]) for row in rows if row["released_as"]}
    verdicts: dict[Place, str] = {}
    if asked:
        offsets = pa.array(sorted({place.offset for place in asked}), pa.int64())
        for table, verdict in (("quarantine", "quarantined"), ("events", "landed")):
            for part in table_rows(lake, table, Place._fields, progress):
                hits = part.filter(pc.is_in(part.column("offset"), offsets))
                verdicts.update(dict.fromkeys(asked & set(places_of(hits)), verdict))
    for row in rows:
        place = row["released_as"]
        row["verdict"] = None if place is None else verdicts.get(Place.parse(place), "waiting")


def whole_rows(lake: Lake, places: Iterable[Place], progress: Progress = SILENT) -> dict[Place, dict[str, Any]]:
    """Rows with all their columns."""
    asked = frozenset(places)
    found: dict[Place, dict[str, Any]] = {}
    for rows in table_rows(lake, "quarantine", progress=progress):
        hits = Wanted(places=asked).filter(rows) if asked else rows.slice(0, 0)
        found.update(zip(places_of(hits), hits.to_pylist(), strict=True))
    return found


def content_of(lake: Lake, row: dict[str, Any]) -> bytes | None:
    """The record after redaction, whole; None where nothing of it is kept.

    Raises `FileNotFoundError` or ValueError where content stored beside the table is gone or changed.
    """
    if row["payload_ref"] is not None:
        return referred(lake, row["tenant_id"], row["payload_ref"])
    return None if row["payload"] is None else decoded(row["payload"], row["payload_encoding"])


def seal_of(lake: Lake, row: dict[str, Any]) -> str | None:
    """The sealed original; None where none is kept. Raises as `content_of`."""
    if row["sealed_ref"] is not None:
        return referred(lake, row["tenant_id"], row["sealed_ref"]).decode()
    sealed: str | None = row["sealed"]
    return sealed


def referred(lake: Lake, tenant: str | None, reference: str) -> bytes:
    """Content that a row of quarantine refers to."""
    return read_payload(lake, tenant or "", reference.split(":")[2], quarantined=True)


# Purging


def purge(
    lake: Lake,
    wanted: Wanted,
    *,
    by: str | None = None,
    note: str | None = None,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> int:
    """Take the content of quarantined records away: rows keep place and verdict. Returns how many rows changed.

    1 acts   2 content beside the table   3 rows   4 old files. Killed anywhere, the same call goes on.
    """
    rows = [row for row in listed(lake, wanted, progress=progress) if row["state"] != "erased"]
    places = frozenset(Place(row["topic"], row["partition"], row["offset"]) for row in rows)
    on_step("1 acts")
    note_acts(lake, [act_on(row, "purged", by, note) for row in rows if row["state"] != "purged"])
    on_step("2 content")
    _remove_content(lake, places, progress)

    def holds(part: pa.Table) -> pa.ChunkedArray | None:
        mask = pa.chunked_array([pa.array([place in places for place in places_of(part)], pa.bool_())])
        kept = pc.is_valid(part.column(CONTENT[0]))
        for name in CONTENT[1:]:
            kept = pc.or_(kept, pc.is_valid(part.column(name)))
        due = pc.and_(mask, kept)
        return due if pc.any(due).as_py() else None

    changed = 0

    def change(part: pa.Table) -> pa.Table | None:
        nonlocal changed
        mask = holds(part)
        if mask is None:
            return None
        changed += pc.sum(mask).as_py() or 0
        return pa.concat_tables([part.filter(pc.invert(mask)), stripped(part.filter(mask))])

    on_step("3 rows")
    for _ in rewrite_files(lake, "quarantine", change, operation="DELETE", on_step=on_step, progress=progress):
        pass
    on_step("4 old files")
    if places:
        remove_dead_files(lake, "quarantine", lambda part: holds(part) is not None, progress)
    return changed


def _remove_content(lake: Lake, places: frozenset[Place], progress: Progress) -> None:
    going: set[tuple[str, str, bool]] = set()
    staying: set[tuple[str, str, bool]] = set()
    for rows in table_rows(lake, "quarantine", progress=progress):
        mask = pa.array([place in places for place in places_of(rows)], pa.bool_())
        going |= references("quarantine", rows.filter(mask))
        staying |= references("quarantine", rows.filter(pc.invert(mask)))
    progress.stage("removing content", len(going - staying), "payloads")
    for tenant, sha256, _ in sorted(going - staying):
        progress.advance()
        try:
            obstore.delete(lake.store, lake.payload_path(tenant, sha256, quarantined=True))
        except (FileNotFoundError, NotFoundError):
            continue
        except (BaseError, OSError) as error:
            raise SinkUnavailable(f"payload store: {type(error).__name__}") from error
