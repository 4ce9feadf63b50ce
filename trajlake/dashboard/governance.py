"""What governance let through and kept out, as far as the lake's tables say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from trajlake.exporting.registered import registered
from trajlake.transforms.curate.standing import STANDING_COLUMNS, standing

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

MOST_ROWS: Final = 50


class Ledger(NamedTuple):
    """How a ledger is shown: the column that says when, and its columns in order."""

    time: str
    columns: tuple[str, ...]


LEDGERS: Final[Mapping[str, Ledger]] = {
    "publications": Ledger(
        "decided_at",
        ("publication", "decided_at", "cause", "runs", "published", "held", "refused", "withdrawn", "policy_revision"),
    ),
    "policy_decisions": Ledger(
        "at", ("at", "tenant_id", "run_id", "purpose", "stage", "zone", "verdict", "reasons", "policy_revision")
    ),
    "consents": Ledger(
        "made_at", ("made_at", "tenant_id", "subject_id", "purpose", "state", "effective_at", "expires_at")
    ),
    "erasures": Ledger("at", ("at", "number", "erasure", "state", "scope", "tenant_id", "requested_by", "note")),
}
"""Tables whose newest rows are shown as they are. Verdicts on runs (`curation`) are counted instead."""


@dataclass(frozen=True)
class Governance:
    """Redactions by rule, verdicts on closed runs by reason and outcome, and the newest rows of the other ledgers.

    Exports hold runs of all tenants together: a reader of one sees none.
    """

    redactions: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    ledgers: dict[str, list[dict[str, Any]]]
    revisions: list[dict[str, Any]]
    """Revisions of the policies that curation judged by, the newest first."""
    manifests: list[dict[str, Any]]
    """Registered exports, and how many of their runs were withdrawn or erased since."""


def read_governance(lake: LakeTables, tenant: str | None) -> Governance:
    """Read all of it."""
    redactions = (
        _of(lake.current_runs(), tenant)
        .select("redactions")
        .drop_nulls()
        .explode("redactions")
        .unnest("redactions")
        .group_by("rule")
        .agg(pl.col("count").sum().alias("values"), pl.len().alias("runs"))
        .sort("values", descending=True)
        .collect()
    )
    ledgers = {name: _newest(lake, name, ledger, tenant) for name, ledger in LEDGERS.items()}
    return Governance(
        redactions.to_dicts(),
        _verdicts(lake, tenant),
        {name: rows for name, rows in ledgers.items() if rows},
        _revisions(lake, tenant),
        [] if tenant is not None else registered(lake.lake)[:MOST_ROWS],
    )


def _revisions(lake: LakeTables, tenant: str | None) -> list[dict[str, Any]]:
    return (
        _of(lake.frame("curation"), tenant)
        .group_by("policy_revision")
        .agg(
            pl.col("decided_at").min().alias("first"),
            pl.col("decided_at").max().alias("last"),
            pl.len().alias("verdicts"),
            pl.col("publication").n_unique().alias("publications"),
        )
        .top_k(MOST_ROWS, by="last")
        .sort("last", descending=True)
        .collect()
        .to_dicts()
    )


def _verdicts(lake: LakeTables, tenant: str | None) -> list[dict[str, Any]]:
    """Closed runs by the verdict that stands, its reason and their outcome; a run with two reasons is in two rows."""
    stand = standing(_of(lake.frame("curation"), tenant).select(*STANDING_COLUMNS, "outcome_class").collect())
    return (
        stand.lazy()
        .select("verdict", "outcome_class", "reasons")
        .with_columns(
            pl.when(pl.col("reasons").list.len() > 0).then(pl.col("reasons")).otherwise(None).alias("reasons")
        )
        .explode("reasons")
        .with_columns(
            pl.col("reasons").struct.field("code").alias("reason"), pl.col("reasons").struct.field("rule").alias("rule")
        )
        .group_by("verdict", "reason", "rule", "outcome_class")
        .agg(pl.len().alias("runs"))
        .sort("verdict", "runs", "reason", "outcome_class", descending=[False, True, False, False])
        .collect()
        .to_dicts()
    )


def _of(frame: pl.LazyFrame, tenant: str | None) -> pl.LazyFrame:
    return frame if tenant is None else frame.filter(pl.col("tenant_id") == tenant)


def _newest(lake: LakeTables, name: str, ledger: Ledger, tenant: str | None) -> list[dict[str, Any]]:
    frame = lake.frame(name)
    if tenant is not None and "tenant_id" not in ledger.columns:
        # It counts runs of all tenants together: not for a reader of one.
        return []
    return _of(frame, tenant).select(ledger.columns).top_k(MOST_ROWS, by=ledger.time).collect().to_dicts()
