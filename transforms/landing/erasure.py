"""What erasure does to rows: which of a table's rows belong to somebody erased, and what is left of them.

    events       a tombstone in the place of each row: its offset, times and tenant stay
    quarantine   place, stage and size of time stay; nothing of the record
    all others   the row goes

Rows are told by their run, their subject, or the run that they came from, whichever columns a table has. Frames in,
frames out: nothing here reads a file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.events import ERASED_ID, ERASED_SOURCE, ERASED_TYPE, PAYLOAD_MARKER
from trajlake.expectations.reasons import Reason
from trajlake.transforms.landing.suppression import Suppression, digest_of, subjects_of, tombstone_text

START_TYPE: Final = "agent.run.started"
_REFERENCE: Final = re.compile(re.escape(PAYLOAD_MARKER) + r"([0-9a-f]{64})")
_KEPT_OF_EVENT: Final = ("topic", "partition", "offset", "append_time", "tenant_id", "rule_revision")
_KEPT_OF_REFUSAL: Final = ("topic", "partition", "offset", "append_time", "stage", "tenant_id", "rule_revision")
PLACE: Final = ("topic", "partition", "offset")
DECIDED: Final = frozenset({"policy_decisions"})
"""Tables that say something of a refused record, at its place."""
KIN_COLUMNS: Final = ("parent_run_id", "forked_from_id")


@dataclass
class Kin:
    """Runs of erased subjects, and their kin: runs that they spawned or whose history was taken from them.

    `runs`: (tenant, run) -> runs that it came from. `named`: runs that are erased by name or subject. `met`: tenants by
    digest of runs that land recognised by their start, and that are not suppressed by themselves yet.
    """

    suppression: Suppression
    runs: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    named: set[tuple[str, str]] = field(default_factory=set)
    met: dict[bytes, str] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        """Rows of `runs` or `events` with columns tenant_id, run_id and any of parent_run_id, forked_from_id,
        subject_id, type and event."""
        names = rows.column_names
        kin = [name for name in KIN_COLUMNS if name in names]
        wanted = ["tenant_id", "run_id", *kin, *(["subject_id"] if "subject_id" in names else [])]
        for row in rows.select(wanted).group_by(wanted).aggregate([]).to_pylist():
            self._note(row["tenant_id"], row["run_id"], [row[name] for name in kin], row.get("subject_id"))
        if "event" in names:
            self.add_tombstones(rows)
            starts = rows.filter(pc.equal(rows.column("type"), START_TYPE))
            for text in starts.column("event").to_pylist():
                body = orjson.loads(text)
                data = body.get("data") or {}
                self._note(
                    body["tenantid"], body["runid"], [data.get("forked_from_id")], data.get("subject_id")
                )  # fmt: skip

    def add_tombstones(self, rows: pa.Table) -> None:
        """Rows of `events` with columns tenant_id, type and event."""
        stones = rows.filter(pc.equal(rows.column("type"), ERASED_TYPE)).select(["tenant_id", "event"])
        for row in stones.group_by(["tenant_id", "event"]).aggregate([]).to_pylist():
            digest = digest_of(row["event"].encode())
            if digest is not None and digest not in self.suppression.digests:
                self.met[digest] = row["tenant_id"]

    def _note(self, tenant: str, run: str | None, kin: Sequence[str | None], subject: str | None) -> None:
        if run is None:
            return
        key = (tenant, run)
        known = self.runs.get(key)
        if known is None:
            known = self.runs[key] = set()
            if self.suppression.has_run(tenant, run):
                self.named.add(key)
        known.update(name for name in kin if name)
        if subject and key not in self.named and self.suppression.has_subject(tenant, subject):
            self.named.add(key)

    def erased(self) -> set[tuple[str, str]]:
        """All runs that are to go."""
        children: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for (tenant, run), parents in self.runs.items():
            for parent in parents:
                children.setdefault((tenant, parent), []).append((tenant, run))
        # A parent that left no rows of its own may be suppressed all the same.
        todo = [*self.named, *(parent for parent in children if self.suppression.has_run(*parent))]
        found: set[tuple[str, str]] = set()
        while todo:
            key = todo.pop()
            if key not in found:
                found.add(key)
                todo += children.get(key, ())
        return {key for key in found if key in self.runs}


class Eraser:
    """Takes the rows of somebody erased out of tables. `tenants`: those that anybody is erased of; None for all.

    `signs`: whether tombstones carry the digest of their run, so that it is recognised by them.
    `places`: (topic, partition, offset) of erased records that were refused. What was decided of such a record goes by
    its place: its text may claim a run that is somebody else's, so the run itself does not go for it.
    """

    def __init__(self, suppression: Suppression, tenants: frozenset[str] | None = None, *, signs: bool = True) -> None:
        self.suppression = suppression
        self.signs = signs
        self.tenants = tenants
        self.places: set[tuple[str, int, int]] = set()

    def mask(self, table: str, rows: pa.Table) -> pa.ChunkedArray | None:
        """True for each row that belongs to somebody erased; None where none does."""
        masks = [mask for mask in self._masks(table, rows) if mask is not None]
        if not masks:
            return None
        together = masks[0]
        for mask in masks[1:]:
            together = pc.or_(together, mask)
        return together if pc.any(together).as_py() else None

    def erase(self, table: str, rows: pa.Table) -> pa.Table | None:
        """Rows with what is erased taken out of them; None where nothing is."""
        mask = self.mask(table, rows)
        if mask is None:
            return None
        kept = rows.filter(pc.invert(mask))
        if table == "events":
            return pa.concat_tables([kept, self._tombstones(rows.filter(mask))])
        if table == "quarantine":
            return pa.concat_tables([kept, stripped(rows.filter(mask), Reason.ERASED)])
        return kept

    def add_places(self, rows: pa.Table) -> None:
        """Rows of `quarantine`: those of somebody erased, and those that were erased before, are noted by place."""
        mask = self.mask("quarantine", rows)
        gone = pc.equal(rows.column("reason_code"), Reason.ERASED.value)
        hits = rows.filter(gone if mask is None else pc.or_(gone, mask))
        self.places.update(zip(*(hits.column(name).to_pylist() for name in PLACE), strict=True))

    def _masks(self, table: str, rows: pa.Table) -> Iterator[pa.ChunkedArray | None]:
        names = rows.column_names
        if "tenant_id" in names and "run_id" in names:
            yield self._mask_of(rows, "run_id", self.suppression.has_run)
        if "tenant_id" in names and "subject_id" in names:
            yield self._mask_of(rows, "subject_id", self.suppression.has_subject)
        if table in DECIDED and self.places:
            columns = (rows.column(name).to_pylist() for name in PLACE)
            yield pa.chunked_array(
                [pa.array([place in self.places for place in zip(*columns, strict=True)], pa.bool_())]
            )
        if table == "events":
            yield self._mask_of_runless(rows)
        if table == "quarantine":
            yield self._mask_of_refused(rows)

    def _mask_of(self, rows: pa.Table, column: str, has: Any) -> pa.ChunkedArray | None:
        pairs = rows.select(["tenant_id", column]).group_by(["tenant_id", column]).aggregate([]).to_pylist()
        mask = None
        hits: dict[str, list[str]] = {}
        for pair in pairs:
            tenant, name = pair["tenant_id"], pair[column]
            if tenant and name and (self.tenants is None or tenant in self.tenants) and has(tenant, name):
                hits.setdefault(tenant, []).append(name)
        for tenant, found in hits.items():
            one = pc.and_(
                pc.fill_null(pc.equal(rows.column("tenant_id"), tenant), False),
                pc.is_in(rows.column(column), pa.array(found, pa.string())),
            )
            mask = one if mask is None else pc.or_(mask, one)
        return mask

    def _mask_of_runless(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Events without a run that name a subject: consent, and what is sent with a CloudEvents subject."""
        runless = pc.and_(pc.is_null(rows.column("run_id")), pc.match_substring(rows.column("event"), "subject"))
        if not pc.any(runless).as_py():
            return None
        verdicts = [
            bool(due) and self._names(text)
            for due, text in zip(runless.to_pylist(), rows.column("event").to_pylist(), strict=True)
        ]
        return pa.chunked_array([pa.array(verdicts, pa.bool_())])

    def _mask_of_refused(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Refused records whose text names an erased subject or run."""
        columns = (rows.column(name).to_pylist() for name in ("payload", "payload_encoding"))
        verdicts = [
            payload is not None and self._names(decoded(payload, encoding))
            for payload, encoding in zip(*columns, strict=True)
        ]
        return pa.chunked_array([pa.array(verdicts, pa.bool_())])

    def _names(self, text: str | bytes) -> bool:
        try:
            body = orjson.loads(text)
        except ValueError:
            return False
        if not isinstance(body, dict):
            return False
        tenant, suppression = body.get("tenantid"), self.suppression
        if not isinstance(tenant, str):
            return False
        runs = [name for key in ("runid", "parentrunid") if isinstance(name := body.get(key), str)]
        return any(suppression.has_run(tenant, run) for run in runs) or any(
            suppression.has_subject(*pair) for pair in subjects_of(body)
        )

    def _tombstones(self, rows: pa.Table) -> pa.Table:
        made: dict[tuple[str, str | None], str] = {}
        texts = []
        for tenant, run in zip(rows.column("tenant_id").to_pylist(), rows.column("run_id").to_pylist(), strict=True):
            if (tenant, run) not in made:
                digest = None if run is None or not self.signs else self.suppression.of_run(tenant, run)
                made[tenant, run] = tombstone_text(tenant, digest).decode()
            texts.append(made[tenant, run])
        fixed = {"id": ERASED_ID, "source": ERASED_SOURCE, "type": ERASED_TYPE}
        return _reduced(rows, _KEPT_OF_EVENT, fixed, {"event": texts})


def stripped(rows: pa.Table, reason: Reason | None = None) -> pa.Table:
    """Rows of `quarantine` without anything of their records. `reason`: the verdict to show, their own when None."""
    fixed: dict[str, Any] = {"payload_sha256": "", "payload_bytes": 0}
    if reason is not None:
        fixed |= {"reason_code": reason.value, "detail": "erased"}
        return _reduced(rows, _KEPT_OF_REFUSAL, fixed, {})
    gone = {"payload", "payload_encoding", "payload_ref", "sealed", "sealed_ref", "field_path"}
    return _reduced(rows, [name for name in rows.column_names if name not in gone], fixed, {})


def _reduced(rows: pa.Table, kept: Sequence[str], fixed: dict[str, Any], made: dict[str, list[Any]]) -> pa.Table:
    """Rows with some columns kept, some of one value, some made; all others null."""
    columns = []
    for column in rows.schema:
        if column.name in fixed:
            columns.append(pa.repeat(pa.scalar(fixed[column.name], column.type), rows.num_rows))
        elif column.name in made:
            columns.append(pa.array(made[column.name], column.type))
        elif column.name in kept:
            columns.append(rows.column(column.name))
        else:
            columns.append(pa.nulls(rows.num_rows, column.type))
    return pa.Table.from_arrays(columns, schema=rows.schema)


def decoded(payload: str, encoding: str | None) -> bytes:
    """Bytes of a quarantined record as far as its row holds them."""
    if encoding != "base64":
        return payload.encode("utf-8", "surrogatepass")
    return base64.b64decode(payload[: len(payload) // 4 * 4])


def references(table: str, rows: pa.Table) -> set[tuple[str, str, bool]]:
    """(tenant, SHA-256, in quarantine) of all content that rows of `events` or `quarantine` refer to."""
    quarantined = table == "quarantine"
    columns = ("payload", "payload_ref", "sealed_ref") if quarantined else ("event",)
    found = set()
    for name in columns:
        if name not in rows.column_names:
            continue
        hits = rows.filter(pc.fill_null(pc.match_substring(rows.column(name), PAYLOAD_MARKER), False))
        for tenant, text in zip(hits.column("tenant_id").to_pylist(), hits.column(name).to_pylist(), strict=True):
            found |= {(tenant or "", sha256, quarantined) for sha256 in _REFERENCE.findall(text)}
    return found
