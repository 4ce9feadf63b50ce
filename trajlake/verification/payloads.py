"""Content by reference: reads what a reference stands for, and checks that all referred content is there and whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from trajlake.expectations.events import PAYLOAD_MARKER
from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks import payloads
from trajlake.sinks.lake import Lake
from trajlake.transforms.reconcile.faults import MAX_LISTED, Fault, FaultCode, Faults
from trajlake.transforms.text import REFERENCE

_IN_JSON: Final = f'"{PAYLOAD_MARKER}[0-9a-f]{{64}}:[0-9]+"'
"""A reference as a whole JSON string. Inside a text that itself holds JSON the quote is escaped, which does not
match."""


_COLUMNS: Final = ("topic", "partition", "offset", "tenant_id", "payload_ref")
_NO_HASH: Final = "0" * 64


class PayloadError(ValueError):
    """A reference is none, or what it stands for is absent or not what it should be."""


class Reference(NamedTuple):
    """What a reference says: SHA-256 in hex, and size in bytes."""

    sha256: str
    size: int


def parse_reference(text: str) -> Reference:
    """Read `payload:sha256:<64 hex>:<bytes>`. Raises PayloadError when it is not of that form."""
    match = REFERENCE.match(text.strip())
    if match is None:
        raise PayloadError(f"{text[:100]!r} is no reference: it reads {PAYLOAD_MARKER}<64 hex digits>:<bytes>")
    return Reference(match[1], int(match[2]))


def read_payload(lake: Lake, tenant_id: str, reference: Reference) -> bytes:
    """Content of a reference, checked against its size and hash: of the restricted zone, else of quarantine.

    Tenants never see each other's content. Raises PayloadError when it is absent or has been changed.
    """
    if lake.is_local and not Path(lake.uri).is_dir():
        raise PayloadError(f"{lake.uri} is no lake: there is no such folder")
    for quarantined in (False, True):
        try:
            content = payloads.read_payload(lake, tenant_id, reference.sha256, quarantined=quarantined)
        except FileNotFoundError:
            continue
        except ValueError as error:
            path = lake.payload_path(tenant_id, reference.sha256, quarantined=quarantined)
            raise PayloadError(f"{path}: {error}") from None
        if len(content) != reference.size:
            raise PayloadError(
                f"payload {reference.sha256} has {len(content)} bytes, the reference says {reference.size}"
            )
        return content
    raise PayloadError(f"tenant {tenant_id!r} has no payload {reference.sha256} in {lake.uri}")


class _Folder(NamedTuple):
    """Where content of a tenant lies: with the tables, or with what was not let in."""

    tenant_id: str
    quarantined: bool


@dataclass(slots=True)
class _Referrer:
    """The first row that holds a reference."""

    table: str
    place: dict[str, Any]


class PayloadRefs:
    """All references of a lake, each with the first row that holds it."""

    def __init__(self) -> None:
        self._known: dict[_Folder, dict[Reference, _Referrer]] = {}
        self.malformed: list[Fault] = []
        self.malformed_count = 0

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def by_folder(self) -> Iterator[tuple[_Folder, dict[Reference, _Referrer]]]:
        """The references into each tenant's folder."""
        yield from self._known.items()

    def add_rows(self, table: str, rows: pl.DataFrame) -> None:
        """Rows with columns topic, partition, offset, tenant_id, payload_ref (no nulls)."""
        for row in rows.select(*_COLUMNS).iter_rows(named=True):
            text = row.pop("payload_ref")
            try:
                self._add(table, row, parse_reference(text))
            except PayloadError as error:
                self.malformed_count += 1
                if len(self.malformed) < MAX_LISTED:
                    self.malformed.append(Fault(FaultCode.PAYLOAD_REFERENCE, str(error), table, row))

    def add_texts(self, table: str, rows: pl.DataFrame) -> None:
        """Rows of events with their JSON in `event`: every string that is a reference counts."""
        hits = rows.filter(pl.col("event").str.contains(PAYLOAD_MARKER, literal=True))
        found = hits.with_columns(pl.col("event").str.extract_all(_IN_JSON).alias("payload_ref"))
        for row in found.select(*_COLUMNS).iter_rows(named=True):
            for text in row.pop("payload_ref"):
                self._add(table, row, parse_reference(text.strip('"')))

    def _add(self, table: str, place: dict[str, Any], reference: Reference) -> None:
        folder = _Folder(place["tenant_id"] or "", table == "quarantine")
        self._known.setdefault(folder, {}).setdefault(reference, _Referrer(table, place))


def check_payloads(lake: Lake, refs: PayloadRefs, *, deep: bool, progress: Progress = SILENT) -> Iterator[Faults]:
    """Whether everything referred to is stored with its size; `deep` reads it and compares the hash too."""
    if refs.malformed_count:
        yield Faults(FaultCode.PAYLOAD_REFERENCE, refs.malformed_count, refs.malformed)
    for folder, wanted in refs.by_folder():
        sizes = _stored_sizes(lake, folder, {reference.sha256 for reference in wanted})
        for reference, referrer in wanted.items():
            path = lake.payload_path(folder.tenant_id, reference.sha256, quarantined=folder.quarantined)
            problem = _judge(lake, path, reference, sizes.get(reference.sha256), deep)
            progress.advance()
            if problem is not None:
                code, detail = problem
                place = {**referrer.place, "sha256": reference.sha256}
                yield Faults(code, 1, [Fault(code, detail, referrer.table, place)])


def _stored_sizes(lake: Lake, folder: _Folder, wanted: set[str]) -> dict[str, int]:
    """Bytes of each wanted object of a folder that is stored. One listing costs less than a question an object."""
    sizes = {}
    prefix = lake.payload_path(folder.tenant_id, _NO_HASH, quarantined=folder.quarantined).removesuffix(
        f"00/{_NO_HASH}"
    )
    for page in lake.store.list(prefix):
        for item in page:
            sha256 = str(item["path"]).rpartition("/")[2]
            if sha256 in wanted:
                sizes[sha256] = int(item["size"])
    return sizes


def _judge(lake: Lake, path: str, reference: Reference, stored: int | None, deep: bool) -> tuple[FaultCode, str] | None:
    if stored is None:
        return FaultCode.PAYLOAD_MISSING, f"{path} is not stored"
    if stored != reference.size:
        return FaultCode.PAYLOAD_SIZE, f"{path} has {stored} bytes, the reference says {reference.size}"
    if deep:
        digest = hashlib.sha256()
        for chunk in lake.store.get(path).stream():
            digest.update(chunk)
        if digest.hexdigest() != reference.sha256:
            return FaultCode.PAYLOAD_HASH, f"{path} has been changed: its SHA-256 is not the one in its name"
    return None
