"""The erasure ledger: who is to be forgotten, by digests, and how far that has come. It is the suppression list too.

An entry gets its number by the commit that makes it visible: the table's own `txn` counts them, so of two that are
written at a time one comes after the other. Land workers read the list when they take up a partition, and say in each
commit up to which entry they know it. A *fence* in a table refuses commits that know less; so behind a fence nothing
lands that its entry erased, and no worker is asked or waited for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import obstore
import orjson
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

from trajlake.expectations.tables import ERASURES, TABLES
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.deltalog import FENCE_APP, Advance, DeltaLog
from trajlake.sinks.errors import SinkUnavailable, StaleWriter, reason
from trajlake.sinks.lake import Lake

ENTRIES_APP: Final = "trajlake/erasures"
"""Application id under which the table counts its entries."""
SUPPRESSES: Final = frozenset({"requested", "found"})
"""States whose digests are suppressed from then on."""
ATTEMPTS: Final = 100
_KEY_BYTES: Final = 32


@dataclass(frozen=True)
class Entry:
    """A row of `erasures`. `digests`: hexadecimal; of state `payloads` references instead."""

    number: int
    erasure: int
    state: str
    scope: str
    tenant_id: str | None
    digests: tuple[str, ...] = ()
    requested_by: str | None = None
    note: str | None = None
    detail: str | None = None
    at: datetime | None = None


class ErasureLedger:
    """The entries of one lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def entries(self) -> list[Entry]:
        """All entries, oldest first; none where nothing was ever erased. Raises `SinkUnavailable`."""
        try:
            rows = self.lake.open(ERASURES.name).to_pyarrow_table().to_pylist()
        except TableNotFoundError:
            return []
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise SinkUnavailable(reason(error), ERASURES.name) from error
        made = [Entry(**{**row, "digests": tuple(row["digests"] or ())}) for row in rows]
        return sorted(made, key=lambda entry: entry.number)

    def append(
        self,
        state: str,
        scope: str,
        tenant_id: str | None,
        *,
        erasure: int | None = None,
        digests: Sequence[str] = (),
        requested_by: str | None = None,
        note: str | None = None,
        detail: dict[str, Any] | None = None,
    ) -> Entry:
        """Write an entry under the next number. `erasure`: the entry that it belongs to; None for one of its own.

        Raises `SinkUnavailable`.
        """
        log = DeltaLog(self.lake, ERASURES)
        log.open()
        for _ in range(ATTEMPTS):
            last = max(log.landed(ENTRIES_APP), 0)
            entry = Entry(
                last + 1,
                erasure or last + 1,
                state,
                scope,
                tenant_id,
                tuple(digests),
                requested_by,
                note,
                None if detail is None else orjson.dumps(detail).decode(),
                datetime.now(UTC),
            )
            file = write_data_file(self.lake, ERASURES, [_batch(entry)])
            try:
                log.commit([file], [Advance(ENTRIES_APP, log.at(ENTRIES_APP), entry.number)])
            except StaleWriter:
                continue
            return entry
        raise SinkUnavailable(f"lost the race for an entry {ATTEMPTS} times", ERASURES.name)


def _batch(entry: Entry) -> pa.RecordBatch:
    row = {name: getattr(entry, name) for name in ERASURES.names}
    return pa.RecordBatch.from_pylist([{**row, "digests": list(entry.digests)}], ERASURES.schema)


def suppressed(entries: Sequence[Entry]) -> tuple[int, frozenset[bytes]]:
    """Number of the newest entry that suppresses or lifts, and all digests that are suppressed by then."""
    lifted = {entry.erasure for entry in entries if entry.state == "lifted"}
    counted = [entry for entry in entries if entry.state in SUPPRESSES or entry.state == "lifted"]
    digests = frozenset(
        bytes.fromhex(digest)
        for entry in counted
        if entry.state in SUPPRESSES and entry.erasure not in lifted
        for digest in entry.digests
    )
    return max((entry.number for entry in counted), default=0), digests


def erasure_key(lake: Lake, *, make: bool = False) -> bytes:
    """Key of the lake's digests; empty where there is none and `make` is not set. It never changes once it is there.

    Raises `SinkUnavailable`.
    """
    path = lake.erasure_key_path()
    try:
        if make:
            with suppress(AlreadyExistsError):
                obstore.put(lake.store, path, os.urandom(_KEY_BYTES), mode="create")
        return bytes(obstore.get(lake.store, path).bytes())
    except (FileNotFoundError, NotFoundError):
        return b""
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"key of the erasure ledger: {type(error).__name__}") from error


def fence(lake: Lake, name: str, number: int) -> None:
    """From now on refuse commits to a table by writers that do not know entry `number`. Raises `SinkUnavailable`."""
    if not lake.exists(name):
        return
    log = DeltaLog(lake, TABLES[name])
    log.open()
    for _ in range(ATTEMPTS):
        at = log.landed(FENCE_APP)
        try:
            log.commit([], [Advance(FENCE_APP, at, number)])
        except StaleWriter:
            continue
        return
    raise SinkUnavailable(f"lost the race for a fence {ATTEMPTS} times", name)
