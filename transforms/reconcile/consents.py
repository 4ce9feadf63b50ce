"""Consents against the ledger: every statement that landed has its row, and every row its statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from trajlake.transforms.reconcile.faults import MAX_LISTED, Fault, FaultCode, Faults

CONSENT_TYPE: Final = "agent.consent.changed"
PLACE: Final = {"topic": pl.String, "partition": pl.Int32, "offset": pl.Int64}
_KEYS: Final = list(PLACE)


def check_consents(rows: pl.DataFrame, given: pl.DataFrame, erased: pl.DataFrame) -> Iterator[Faults]:
    """`rows` of `consents`, `given`, the consent events of `events`, and `erased`, its tombstones, all at or below what
    has landed, with the columns of `PLACE`. A person's statement outlives the erasure of the run that it came in."""
    missing = given.join(rows, on=_KEYS, how="anti")
    yield _faults(FaultCode.MISSING_CONSENT, missing, "the ledger has a statement here, and there is no row of it")
    extra = rows.join(given, on=_KEYS, how="anti").join(erased, on=_KEYS, how="anti")
    yield _faults(FaultCode.EXTRA_CONSENT, extra, "no statement of the ledger made this row")
    counted = rows.group_by(_KEYS).agg(pl.len().alias("rows")).filter(pl.col("rows") > 1)
    yield _faults(FaultCode.DUPLICATE_CONSENT, counted.select(_KEYS), "the row stands more than once")


def _faults(code: FaultCode, found: pl.DataFrame, detail: str) -> Faults:
    listed = [
        Fault(code, detail, "consents", place)
        for place in found.select(_KEYS).sort(_KEYS).head(MAX_LISTED).iter_rows(named=True)
    ]
    return Faults(code, len(found), listed)
