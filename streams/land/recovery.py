"""State from the ledger: what lies between a partition's snapshot and its landed offset.

The log may have lost it, by retention or compaction, and today's settings may judge it otherwise than those under
which it landed. `events` and `quarantine` hold every record that has landed, so the fold is fed from them, window by
window of offsets, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError, TableNotFoundError

from trajlake.expectations.tables import TABLES
from trajlake.sinks.actions import add_actions
from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.refold import LedgerEvent, LedgerRefusal, refold
from trajlake.transforms.records import Redaction

if TYPE_CHECKING:
    import pyarrow.dataset as pds

WINDOW_BYTES: Final = 32 << 20
"""Event text held at a time."""
FIRST_WINDOW: Final = 4_096
_LEAST_WINDOW: Final = 32
_SCAN_ROWS: Final = 1_024
_EVENT_COLUMNS: Final = ["offset", "append_time", "event", "redactions", "rule_revision"]
_CHOSEN_BY: Final = ["tenant_id", "run_id", "type"]
_REFUSAL_COLUMNS: Final = [
    "offset", "append_time", "stage", "reason_code", "tenant_id", "run_id", "sequence", "rule_revision",
]  # fmt: skip


def refold_ledger(lake: Lake, fold: PartitionFold, last: int, window_bytes: int = WINDOW_BYTES) -> Iterator[int]:
    """Bring a fold from its next offset to `last`, yielding the number of ledger rows of each window.

    `window_bytes`: event text held at a time; windows shrink and grow to keep to it. Raises `SinkUnavailable`.
    """
    events = LedgerTable(lake, "events", fold.topic, fold.partition)
    refused = LedgerTable(lake, "quarantine", fold.topic, fold.partition)
    for end, rows in ledger_windows(events, refused, fold.next_offset, last, window_bytes):
        refold(fold, rows, end)
        yield len(rows)


class Choice(NamedTuple):
    """Which rows of `events` and `quarantine` are read: those that meet the condition, and of their batches what
    `keep` leaves. It is given columns `offset`, `tenant_id`, `run_id` and, of events, `type`."""

    events: pc.Expression
    refused: pc.Expression
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]


def ledger_windows(
    events: LedgerTable,
    refused: LedgerTable,
    first: int,
    last: int,
    window_bytes: int = WINDOW_BYTES,
    choice: Choice | None = None,
) -> Iterator[tuple[int, list[LedgerEvent | LedgerRefusal]]]:
    """Rows of the ledger with offsets `first..last` in order, window by window, each with the offset that it ends at.

    `window_bytes`: event text held at a time; windows shrink and grow to keep to it. Raises `SinkUnavailable`.
    """
    width = FIRST_WINDOW
    while first <= last:
        end = min(first + width - 1, last)
        size, rows = _read_events(events, first, end, window_bytes if width > _LEAST_WINDOW else None, choice)
        if rows is None:
            width = max(_LEAST_WINDOW, width // 4)
            continue
        for batch in refused.window(_REFUSAL_COLUMNS, first, end, None if choice is None else choice.refused):
            rows += _refusals(batch if choice is None else choice.keep(batch))
        rows.sort(key=lambda row: row.offset)
        # A lake that several application ids landed a topic in has each record several times.
        rows = list({row.offset: row for row in rows}.values())
        yield end, rows
        first = end + 1
        if size < window_bytes // 4:
            width *= 2


def quarantined_offsets(lake: Lake, topic: str, partition: int, first: int) -> Iterator[int]:
    """Offsets of a partition's quarantined records, from `first` on. Raises `SinkUnavailable`."""
    for batch in LedgerTable(lake, "quarantine", topic, partition).window(["offset"], first, 1 << 62):
        yield from batch.column("offset").to_pylist()


def _read_events(
    table: LedgerTable, first: int, last: int, limit: int | None, choice: Choice | None
) -> tuple[int, list[LedgerEvent | LedgerRefusal] | None]:
    """Events of a window and the bytes of their text; None instead where they are more than `limit` bytes."""
    rows: list[LedgerEvent | LedgerRefusal] = []
    size = 0
    columns = _EVENT_COLUMNS if choice is None else [*_EVENT_COLUMNS, *_CHOSEN_BY]
    for batch in table.window(columns, first, last, None if choice is None else choice.events):
        if choice is not None:
            batch = choice.keep(batch)
        size += pc.sum(pc.binary_length(batch.column("event"))).as_py() or 0
        if limit is not None and size > limit:
            return size, None
        times = batch.column("append_time").cast(pa.int64()).to_pylist()
        texts = batch.column("event").cast(pa.binary()).to_pylist()
        cuts = batch.column("redactions").to_pylist()
        offsets = batch.column("offset").to_pylist()
        revisions = batch.column("rule_revision").to_pylist()
        rows += map(LedgerEvent, offsets, times, texts, map(_redactions, cuts), revisions)
    return size, rows


def _redactions(cuts: list[dict[str, Any]] | None) -> list[Redaction] | None:
    return None if cuts is None else [Redaction(cut["path"], cut["rule"], cut["count"]) for cut in cuts]


def _refusals(batch: pa.RecordBatch) -> Iterator[LedgerRefusal]:
    times = batch.column("append_time").cast(pa.int64()).to_pylist()
    names = ("offset", "stage", "reason_code", "tenant_id", "run_id", "sequence", "rule_revision")
    offsets, *others = (batch.column(name).to_pylist() for name in names)
    return map(LedgerRefusal, offsets, times, *others)


class LedgerTable:
    """One table at the version at which it was opened, with what its files say of their offsets. What the contract has
    and the table has not is null."""

    def __init__(self, lake: Lake, name: str, topic: str, partition: int) -> None:
        self._name = name
        self._own = (pc.field("topic") == topic) & (pc.field("partition") == partition)
        self._fragments: list[tuple[int, int, pds.Fragment]] = []
        self._schema = pa.schema([])
        try:
            stored = lake.open(name)
            dataset = stored.to_pyarrow_dataset()
            bounds = _bounds(add_actions(stored), partition)
            absent = [field for field in TABLES[name].schema if field.name not in dataset.schema.names]
            self._schema = pa.schema([*dataset.schema, *(field.with_nullable(True) for field in absent)])
            for fragment in dataset.get_fragments():
                low, high = bounds.get(fragment.path, _ANYWHERE)
                if low <= high:
                    self._fragments.append((low, high, fragment))
            self._fragments.sort(key=lambda found: found[:2])
        except TableNotFoundError:
            return
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._unavailable(error) from error

    def window(
        self, columns: list[str], first: int, last: int, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows with offsets `first..last`, of which `where` holds."""
        offset = pc.field("offset")
        inside = (offset >= first) & (offset <= last)
        return self.scan(columns, inside if where is None else inside & where, first, last)

    def scan(
        self, columns: list[str], where: pc.Expression, first: int = 0, last: int = 1 << 62
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the partition that meet a condition, from files that may hold offsets `first..last`."""
        try:
            for low, high, fragment in self._fragments:
                if high < first or low > last:
                    continue
                scanner = fragment.scanner(
                    schema=self._schema, columns=columns, filter=self._own & where,
                    batch_size=_SCAN_ROWS, batch_readahead=1, use_threads=False,
                )  # fmt: skip
                yield from (batch for batch in scanner.to_batches() if batch.num_rows)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> SinkUnavailable:
        return SinkUnavailable(reason(error), self._name)


_ANYWHERE: Final = (0, 1 << 62)


def _bounds(files: pa.Table, partition: int) -> dict[str, tuple[int, int]]:
    """Lowest and highest offset that each file may hold for a partition, by path; an empty range where it holds
    none."""

    def stat(name: str, unknown: int) -> list[int]:
        if name not in files.schema.names:
            return [unknown] * files.num_rows
        return [unknown if value is None else value for value in files[name].to_pylist()]

    return {
        path: (low, high) if least <= partition <= most else (1, 0)
        for path, least, most, low, high in zip(
            files["path"].to_pylist(),
            stat("min.partition", partition),
            stat("max.partition", partition),
            stat("min.offset", _ANYWHERE[0]),
            stat("max.offset", _ANYWHERE[1]),
            strict=True,
        )
    }
