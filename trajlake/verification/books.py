"""Books of offsets: in which table each offset of a partition was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from trajlake.reading.tables import PartitionId
from trajlake.transforms.reconcile import accounting
from trajlake.transforms.reconcile.accounting import Ranges
from trajlake.transforms.reconcile.faults import MAX_LISTED, Fault, FaultCode, Faults
from trajlake.verification.report import OffsetRange, PartitionReport

MAX_RANGES: Final = 1000
"""Ranges of offsets that a report lists; counts are whole."""


@dataclass(slots=True)
class Book:
    """Offsets of one partition by where they were found."""

    report: PartitionReport
    events: list[Ranges] = field(default_factory=list)
    quarantine: list[Ranges] = field(default_factory=list)
    holes: list[Ranges] = field(default_factory=list)
    lost: list[Ranges] = field(default_factory=list)
    erased: list[Ranges] = field(default_factory=list)
    beyond: int = 0
    """Rows of `events` above the landed offset."""

    def close(self) -> tuple[accounting.Coverage, Ranges]:
        """Fill in the report. Returns the coverage and the declared losses."""
        report = self.report
        last = report.landed_offset
        parts = [accounting.merge(found) for found in (self.events, self.quarantine, self.holes, self.lost)]
        due = [part.up_to(last) for part in parts]
        report.events, report.quarantined, report.holes, report.below_retention = (part.count for part in due)
        self.beyond = parts[0].count - due[0].count
        report.in_flight = sum(p.count - d.count for p, d in zip(parts[1:], due[1:], strict=True))
        gone = accounting.without(accounting.merge(self.erased), parts[0]).up_to(last)
        report.erased = gone.count
        coverage = accounting.cover(accounting.merge([*due, gone]), last)
        report.missing, report.duplicates = coverage.missing.count, coverage.doubled.count
        return coverage, due[3]


def close_books(books: dict[PartitionId, Book]) -> tuple[dict[str, Any], list[Faults]]:
    """Close all books. Returns the report's fields on offsets, and what is wrong with them."""
    missing: list[OffsetRange] = []
    doubled: list[OffsetRange] = []
    gaps: list[OffsetRange] = []
    found: list[Faults] = []
    for key, book in books.items():
        coverage, lost = book.close()
        for code, ranges, into in (
            (FaultCode.MISSING_OFFSETS, coverage.missing, missing),
            (FaultCode.DUPLICATE_OFFSETS, coverage.doubled, doubled),
        ):
            if len(ranges):
                found.append(_offset_faults(code, key, ranges))
                into += _listed(key, ranges)
        if book.beyond:
            found.append(_beyond(key, book))
        gaps += _listed(key, lost)
    reports = [book.report for book in books.values()]
    fields = {
        "missing": missing[:MAX_RANGES],
        "missing_count": sum(report.missing for report in reports),
        "duplicates": doubled[:MAX_RANGES],
        "duplicate_count": sum(report.duplicates for report in reports),
        "gaps": gaps[:MAX_RANGES],
        "holes": sum(report.holes for report in reports),
    }
    return fields, found


def _listed(key: PartitionId, ranges: Ranges) -> list[OffsetRange]:
    return [
        OffsetRange(*key, span.first, span.last, span.offsets)
        for span, _ in zip(ranges, range(MAX_RANGES), strict=False)
    ]


def _offset_faults(code: FaultCode, key: PartitionId, ranges: Ranges) -> Faults:
    listed = []
    for span, _ in zip(ranges, range(MAX_LISTED), strict=False):
        where = f"offset {span.first}" if span.offsets == 1 else f"offsets {span.first} to {span.last}"
        what = "no table" if code is FaultCode.MISSING_OFFSETS else "more than one row"
        verb = "accounts" if span.offsets == 1 or what == "no table" else "account"
        place = {"topic": key[0], "partition": key[1], "offset": span.first, "last_offset": span.last}
        listed.append(Fault(code, f"{what} {verb} for {where}", "events, quarantine, gaps", place))
    return Faults(code, ranges.count, listed)


def _beyond(key: PartitionId, book: Book) -> Faults:
    last = book.report.landed_offset
    detail = f"{book.beyond} rows lie above the landed offset {last}"
    place = {"topic": key[0], "partition": key[1], "offset": last + 1}
    return Faults(FaultCode.BEYOND_LANDED, book.beyond, [Fault(FaultCode.BEYOND_LANDED, detail, "events", place)])
