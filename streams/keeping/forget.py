"""Erasure: a subject or run leaves every table, file, snapshot and old version, while workers land.

    1  request     an entry in the erasure ledger: from here on workers that take up a partition suppress it
    2  find        the subject's runs and their kin, as digests in an entry of their own
    3  fence       in every table that workers land or publish in: who does not know the entries is refused, and
                   starts again from the tables
    4  look again  for runs that began before the fence; if there are any, back to 2
    5  note        content that the erased rows refer to, as an entry; what the chain of hashes needs of the rows
    6  rewrite     every table, file by file
    7  payloads    that no row refers to any more; the register of exports
    8  snapshots   of open runs, without the erased ones
    9  old files   and bounds in the tables' logs
    10 done        an entry with the figures

Killed anywhere, the same erasure goes on where it stopped: `resume` does all that has an entry and is not done. Each
step does nothing where it was done before, and none needs the names: rows are told by digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, NotFoundError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import ERASURES, TABLES
from trajlake.sinks.erasures import Entry, ErasureLedger, erasure_key, fence
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.sinks.ledger import COMMIT_POINT, SIDE_TABLES
from trajlake.sinks.payloads import write_payloads
from trajlake.sinks.rewriting import live_files, read_file, rewrite_files, stored_schema
from trajlake.sinks.scrubbing import remove_dead_files, scrub_log
from trajlake.sinks.snapshots import change_snapshot, snapshot_paths
from trajlake.streams.keeping.proof import Proof
from trajlake.streams.keeping.register import clear_register
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.streams.land.chaining import mark_erasure
from trajlake.transforms.assemble.state import decode_state, encode_state
from trajlake.transforms.landing.erasure import DECIDED, Eraser, Kin, references
from trajlake.transforms.landing.suppression import Suppression, without_erased
from trajlake.transforms.records import Payload

FENCED: Final = (COMMIT_POINT, *SIDE_TABLES, "curation", "trajectories")
"""Tables with rows of runs or subjects. What `roll` lands are counts by skill, which name neither."""
REFERRING: Final = ("events", "quarantine")
FIND_COLUMNS: Final = {
    "runs": ("tenant_id", "run_id", "parent_run_id", "forked_from_id", "subject_id"),
    "events": ("tenant_id", "run_id", "parent_run_id", "type", "event"),
    "curation": ("tenant_id", "run_id", "subject_id"),
    "trajectories": ("tenant_id", "run_id", "parent_run_id", "forked_from_id", "subject_id"),
}


@dataclass
class Forgotten:
    """What an erasure did. `rows`, `files`: by table; of `files` those that went. `exports`: registered ones that
    hold what went. `names`: the runs' own names, for the proof; they are kept nowhere."""

    erasure: int
    runs: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    payloads: int = 0
    snapshots: int = 0
    log_entries: int = 0
    exports: int = 0
    names: set[tuple[str, str]] = field(default_factory=set, repr=False)


def request(
    lake: Lake,
    tenant_id: str,
    *,
    subject_id: str | None = None,
    forms: Sequence[str] = (),
    run_id: str | None = None,
    requested_by: str | None = None,
    note: str | None = None,
) -> Entry:
    """Step 1: note who is to be forgotten. `forms`: others of the subject's id, see `subjects`.

    Raises `SinkUnavailable`.
    """
    names = Suppression(key=erasure_key(lake, make=True))
    if subject_id is not None:
        scope, digests = "subject", [names.of_subject(tenant_id, name) for name in dict.fromkeys([subject_id, *forms])]
    elif run_id is not None:
        scope, digests = "run", [names.of_run(tenant_id, run_id)]
    else:
        raise ValueError("neither a subject nor a run is named")
    return ErasureLedger(lake).append(
        "requested",
        scope,
        tenant_id,
        digests=[digest.hex() for digest in digests],
        requested_by=requested_by,
        note=note,
    )


def unfinished(lake: Lake) -> list[Entry]:
    """Requests that are not done yet, oldest first. Raises `SinkUnavailable`."""
    entries = ErasureLedger(lake).entries()
    over = {entry.erasure for entry in entries if entry.state in ("erased", "lifted")}
    return [entry for entry in entries if entry.state == "requested" and entry.erasure not in over]


def forget(
    lake: Lake,
    entry: Entry,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Forgotten:
    """Steps 2 to 10 of a request. May be called again, for the same or with others that are not done.

    `progress` counts the files of each step. Raises `SinkUnavailable` when the store refuses: what is left is done by
    the next call.
    """
    return Erasure(lake, entry, on_step, progress).run()


@dataclass
class Erasure:
    """One erasure while it is done: steps 2 to 10."""

    lake: Lake
    entry: Entry
    on_step: Callable[[str], None]
    progress: Progress

    def run(self) -> Forgotten:
        self.done = Forgotten(self.entry.erasure)
        self.ledger = ErasureLedger(self.lake)
        tenant = self.entry.tenant_id
        self.tenants = None if tenant is None else frozenset((tenant,))
        self._find_and_fence()
        eraser = self._eraser()
        self.on_step("5 note")
        self._note(eraser)
        for name in self._tables():
            self.on_step(f"6 rewrite {name}")
            self._rewrite(name, eraser)
        self.on_step("7 payloads")
        self._remove_payloads()
        self.on_step("7 register")
        self.done.exports = clear_register(self.lake, self.suppression)
        self.on_step("8 snapshots")
        self._renew_snapshots()
        for name in self._tables():
            self.on_step(f"9 old files {name}")
            self._clean(name, eraser)
        self.on_step("10 done")
        detail = {"runs": self.done.runs, "rows": self.done.rows, "payloads": self.done.payloads}
        self.ledger.append("erased", self.entry.scope, tenant, erasure=self.entry.erasure, detail=detail)
        return self.done

    def _tables(self) -> list[str]:
        """Tables that name a run or subject of a tenant; quarantine last, for it tells what was decided of whom."""
        found = [
            name
            for name, table in TABLES.items()
            if name != ERASURES.name
            and "tenant_id" in table.names
            and {"run_id", "subject_id"} & set(table.names)
            and self.lake.exists(name)
        ]
        return sorted(found, key=lambda name: name == "quarantine")

    def _eraser(self) -> Eraser:
        return Eraser(self.suppression, self.tenants)

    # Who

    def _find_and_fence(self) -> None:
        fenced = 0
        while True:
            self.suppression = read_suppression(self.lake)
            self.on_step("2 find")
            self.progress.stage("finding runs")
            kin = self._find()
            runs = kin.erased()
            self.done.names |= runs
            new = ({self.suppression.of_run(*run) for run in runs} | kin.met.keys()) - self.suppression.digests
            if new:
                digests = sorted(digest.hex() for digest in new)
                self.ledger.append(
                    "found", self.entry.scope, self.entry.tenant_id, erasure=self.entry.erasure, digests=digests
                )
                self.suppression = read_suppression(self.lake)
            elif fenced:
                break
            self.progress.stage("fencing the tables", len(FENCED), "tables")
            for name in FENCED:
                self.on_step(f"3 fence {name}")
                fence(self.lake, name, self.suppression.epoch)
                self.progress.advance()
            fenced += 1
        self.done.runs = len(self.done.names)

    def _find(self) -> Kin:
        kin = Kin(self.suppression)
        for name, columns in FIND_COLUMNS.items():
            for rows in self._rows(name, columns):
                kin.add(rows)
        return kin

    def _rows(self, name: str, columns: tuple[str, ...] | None = None) -> Iterator[pa.Table]:
        """Rows of the entry's tenant, file by file."""
        for rows in table_rows(self.lake, name, columns, self.progress):
            if self.tenants is not None and name != "quarantine":
                rows = rows.filter(pa.compute.is_in(rows.column("tenant_id"), pa.array(sorted(self.tenants))))
            if rows.num_rows:
                yield rows

    # Rows

    def _rewrite(self, name: str, eraser: Eraser) -> None:
        removed = 0

        def change(rows: pa.Table) -> pa.Table | None:
            nonlocal removed
            mask = eraser.mask(name, rows)
            if mask is None:
                return None
            removed += pa.compute.sum(mask).as_py() or 0
            return eraser.erase(name, rows)

        for _ in rewrite_files(
            self.lake, name, change, operation="DELETE", on_step=self.on_step, progress=self.progress
        ):
            pass
        if removed:
            self.done.rows[name] = removed

    def _clean(self, name: str, eraser: Eraser) -> None:
        gone = remove_dead_files(self.lake, name, lambda rows: eraser.mask(name, rows) is not None, self.progress)
        if gone:
            self.done.files[name] = len(gone)
        tenants = self.tenants or frozenset()

        def holds(column: str, value: str) -> bool:
            has = {"run_id": self.suppression.has_run, "subject_id": self.suppression.has_subject}.get(column)
            return has is not None and any(has(tenant, value) for tenant in tenants)

        if {"run_id", "subject_id"} & set(TABLES[name].keys):
            absent = name in DECIDED and bool(eraser.places)
            self.done.log_entries += scrub_log(self.lake, name, holds, absent=absent, progress=self.progress)

    # Content by reference

    def _note(self, eraser: Eraser) -> None:
        found: set[tuple[str, str, bool]] = set()
        places: dict[tuple[str, int], list[int]] = {}
        for name in REFERRING:
            for rows in self._rows(name):
                if name == "quarantine":
                    eraser.add_places(rows)
                mask = eraser.mask(name, rows)
                if mask is None:
                    continue
                hits = rows.filter(mask)
                found |= references(name, hits)
                if name == COMMIT_POINT:
                    for row in hits.select(["topic", "partition", "offset"]).to_pylist():
                        places.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
        for (topic, partition), offsets in places.items():
            mark_erasure(self.lake, topic, partition, offsets, str(self.entry.erasure))
        if found:
            noted = [
                f"{'quarantine' if refused else 'restricted'}/{sha256}/{tenant}" for tenant, sha256, refused in found
            ]
            self.ledger.append(
                "payloads",
                self.entry.scope,
                self.entry.tenant_id,
                erasure=self.entry.erasure,
                digests=sorted(noted),
            )

    def _remove_payloads(self) -> None:
        """Content that erased rows referred to goes, unless another row refers to it too."""
        noted = {
            reference
            for entry in self.ledger.entries()
            if entry.state == "payloads" and entry.erasure == self.entry.erasure
            for reference in entry.digests
        }
        wanted = {_parsed(reference) for reference in noted}
        for tenant, sha256, refused in sorted(wanted - self._referred(wanted)):
            path = self.lake.payload_path(tenant, sha256, quarantined=refused)
            try:
                content = bytes(obstore.get(self.lake.store, path).bytes())
                obstore.delete(self.lake.store, path)
            except (FileNotFoundError, NotFoundError):
                continue
            except (BaseError, OSError) as error:
                raise SinkUnavailable(f"payload store: {type(error).__name__}") from error
            if self._referred({(tenant, sha256, refused)}):
                # A commit that refers to it came between the look and the removal.
                write_payloads(self.lake, [Payload(tenant, sha256, content, refused)])
            else:
                self.done.payloads += 1

    def _referred(self, wanted: set[tuple[str, str, bool]]) -> set[tuple[str, str, bool]]:
        found: set[tuple[str, str, bool]] = set()
        for name in REFERRING:
            if any(refused == (name == "quarantine") for _, _, refused in wanted):
                for rows in self._rows(name):
                    found |= references(name, rows) & wanted
        return found

    # Snapshots

    def _renew_snapshots(self) -> None:
        paths = snapshot_paths(self.lake)
        self.progress.stage("renewing snapshots", len(paths), "snapshots")
        for path in paths:
            self.progress.advance()
            change_snapshot(self.lake, path, self._without)

    def _without(self, content: bytes) -> bytes | None:
        state, dropped = without_erased(decode_state(content), self.suppression)
        self.done.snapshots += dropped > 0
        return encode_state(state)


def table_rows(
    lake: Lake, name: str, columns: tuple[str, ...] | None = None, progress: Progress = SILENT
) -> Iterator[pa.Table]:
    """Rows of a table's newest version, file by file; those of a file that is compacted meanwhile may come twice.

    `progress` counts files."""
    if not lake.exists(name):
        return
    stored = lake.open(name)
    schema = stored_schema(stored)
    files = live_files(stored)
    progress.stage(f"reading {name}", len(files), "files")
    for file in files:
        try:
            yield read_file(lake, name, file.path, schema, columns)
        except FileNotFoundError:
            # Compacted meanwhile: what it held is in a file of a newer version.
            yield from table_rows(lake, name, columns, progress)
            return
        progress.advance()


def _parsed(reference: str) -> tuple[str, str, bool]:
    zone, sha256, tenant = reference.split("/", 2)
    return tenant, sha256, zone == "quarantine"


def resume(
    lake: Lake, on_step: Callable[[str], None] = lambda step: None, progress: Progress = SILENT
) -> list[Forgotten]:
    """Do all erasures that were requested and are not done. Raises `SinkUnavailable`."""
    return [forget(lake, entry, on_step, progress) for entry in unfinished(lake)]


def request_for_met(lake: Lake, progress: Progress = SILENT) -> list[Entry]:
    """Note runs that land recognised as erased by a start that came behind other events of theirs: these had landed.

    Raises `SinkUnavailable`.
    """
    suppression = read_suppression(lake)
    if not suppression.epoch:
        return []
    kin = Kin(suppression)
    for rows in table_rows(lake, "events", ("tenant_id", "type", "event"), progress):
        kin.add_tombstones(rows)
    ledger = ErasureLedger(lake)
    return [
        ledger.append(
            "requested", "run", tenant, digests=[digest.hex() for digest in kin.met if kin.met[digest] == tenant]
        )
        for tenant in sorted(set(kin.met.values()))
    ]


def in_flight(lake: Lake, app_id: str) -> bool:
    """Whether a batch is on its way: side tables hold rows above what `events` says has landed.

    Whose they are is only told by the ledger, so they may belong to somebody erased; once the batch has landed,
    `request_for_met` finds them. Raises `SinkUnavailable`.
    """
    landed: dict[tuple[str, int], int] = {}
    events = lake.open(COMMIT_POINT) if lake.exists(COMMIT_POINT) else None
    for name in SIDE_TABLES:
        for rows in table_rows(lake, name, ("topic", "partition", "offset")):
            for row in rows.group_by(["topic", "partition"]).aggregate([("offset", "max")]).to_pylist():
                key = (row["topic"], row["partition"])
                if key not in landed:
                    app = transaction_app(app_id, *key)
                    version = None if events is None else events.transaction_version(app)
                    landed[key] = -1 if version is None else version
                if row["offset_max"] > landed[key]:
                    return True
    return False


def note_proof(lake: Lake, done: list[Forgotten], proof: Proof) -> None:
    """Put what a search found into the erasure ledger. Raises `SinkUnavailable`."""
    for one in done:
        detail = {"absent": proof.absent, "files": proof.files, "bytes": proof.bytes, "mentions": proof.mention_count}
        entry = next(entry for entry in ErasureLedger(lake).entries() if entry.number == one.erasure)
        ErasureLedger(lake).append("proved", entry.scope, entry.tenant_id, erasure=one.erasure, detail=detail)
