"""Arrow datasets as queries scan them: bounded in memory, and watched where somebody wants to know how far they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as pds

from trajlake.expectations.progress import Progress

_SCAN_ROWS: Final = 32_768
_READ_AHEAD_BATCHES: Final = 2
_READ_AHEAD_FILES: Final = 2


class BoundedDataset(pds.FileSystemDataset):  # type: ignore[misc]  # Arrow is untyped here
    """An Arrow dataset whose scans hold little ahead of the reader; with Arrow's defaults wide rows take gigabytes."""

    def scanner(self, **options: Any) -> Any:
        ahead = {
            "batch_size": _SCAN_ROWS,
            "batch_readahead": _READ_AHEAD_BATCHES,
            "fragment_readahead": _READ_AHEAD_FILES,
        }
        return super().scanner(**{**ahead, **options})


class Watch:
    """Tells how many of the rows that a query's scans go through they have been through.

    DuckDB has a measure of its own, which knows nothing of Arrow's scans: it stays at 0 or -1 until a query ends. So
    the files that a scan has left behind are counted, with what has come of the file it is at. Rows that a pushed-down
    condition leaves out count as well. A scan is known when it begins, so the total may grow.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._done = self._total = 0

    def dataset(
        self, fragments: Sequence[pds.Fragment], schema: pa.Schema, format: Any, filesystem: Any, *,
        rows: Mapping[str, int],
    ) -> pds.Dataset:  # fmt: skip
        """A dataset whose scans are counted. rows: of each file, by its path."""
        made = _WatchedDataset(fragments, schema, format, filesystem)
        made.watch, made.rows = self, [rows.get(fragment.path, 0) for fragment in fragments]
        made.places = {fragment.path: place for place, fragment in enumerate(fragments)}
        return made

    def begin(self, rows: int) -> None:
        """A scan of so many rows begins."""
        with self._lock:
            self._total += rows
            self._progress.reach(self._done, self._total)

    def pass_by(self, rows: int) -> None:
        """A scan is past so many more rows."""
        with self._lock:
            self._done += rows
            self._progress.reach(self._done, self._total)


class _WatchedDataset(BoundedDataset):
    watch: Watch
    rows: list[int]
    places: dict[str, int]

    def scanner(self, **options: Any) -> Any:
        return _WatchedScanner(super().scanner(**options), self)


class _WatchedScanner:
    """As much of a scanner as DuckDB asks for."""

    def __init__(self, scanner: pds.Scanner, dataset: _WatchedDataset) -> None:
        self._scanner = scanner
        self._dataset = dataset
        self.projected_schema = scanner.projected_schema

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        watch, rows = self._dataset.watch, self._dataset.rows
        watch.begin(sum(rows))
        at, come = 0, 0
        for found in self._scanner.scan_batches():
            place = self._dataset.places[found.fragment.path]
            if place > at:
                watch.pass_by(sum(rows[at:place]) - come)
                at, come = place, 0
            news = min(found.record_batch.num_rows, rows[at] - come)
            come += news
            watch.pass_by(news)
            yield found.record_batch
        watch.pass_by(sum(rows[at:]) - come)
