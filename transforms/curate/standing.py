"""Where runs stand by the verdicts so far."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import polars as pl
import pyarrow as pa

from trajlake.expectations.reasons import Exclusion, Publication
from trajlake.transforms.curate.soundness import Reason
from trajlake.transforms.curate.verdicts import Judgement

RUN: Final = ("tenant_id", "run_id")
STANDING_COLUMNS: Final = (
    *RUN, "publication", "topic", "partition", "offset", "first_offset", "run_revision", "fragment", "reward_offset",
    "verdict", "reasons", "subject_id", "consent_basis", "holds_until", "left_out_rewards", "field_actions",
    "policy_revision", "suite_revision", "detector_revision", "decided_at",
)  # fmt: skip
"""Columns of `curation` that tell where a run stands."""


def standing(verdicts: pl.DataFrame) -> pl.DataFrame:
    """One row a run: its newest verdict; `live`, whether a row of it is in the training zone; and `live_until`, when
    the consent that this row stands on runs out, null where it does not.

    `verdicts`: rows of `curation` with at least `STANDING_COLUMNS`. A fragment without a start never counts before a
    whole run of the same id. A verdict that holds or refuses a later state of a run leaves the earlier one published.
    """
    ordered = verdicts.sort("publication", "offset")
    newest = ordered.sort("fragment", descending=True, maintain_order=True).unique(
        RUN, keep="last", maintain_order=True
    )
    effective = (
        ordered.filter(pl.col("verdict").is_in([Publication.PUBLISHED.value, Publication.WITHDRAWN.value]))
        .group_by(RUN)
        .agg(
            (pl.col("verdict").last() == Publication.PUBLISHED.value).alias("live"),
            pl.col("holds_until").last().alias("live_until"),
        )
    )
    return newest.join(effective, on=RUN, how="left").with_columns(pl.col("live").fill_null(False))


def prior_of(stand: pl.DataFrame, runs: pa.Table) -> list[dict[str, Any] | None]:
    """Where each run stood before, in the order of `runs`; None where it was not judged."""
    known = {(row["tenant_id"], row["run_id"]): row for row in stand.iter_rows(named=True)}
    names = zip(runs.column("tenant_id").to_pylist(), runs.column("run_id").to_pylist(), strict=True)
    return [known.get(name) for name in names]


def stay_rejected(judged: list[Judgement], prior: list[dict[str, Any] | None]) -> None:
    """Whom an operator, or the rule in place of one, has rejected stays out, whatever comes later for the run."""
    for one, before in zip(judged, prior, strict=True):
        for reason in (before or {}).get("reasons") or ():
            if reason["code"] == Exclusion.REJECTED.value:
                one.reasons.append(Reason(reason["code"], reason["rule"]))
                one.held = False


def says_the_same(before: dict[str, Any], one: Judgement, verdict: Publication) -> bool:
    """Whether a verdict says what the one before said, so that it is no news."""
    reasons = [(reason["code"], reason["rule"]) for reason in before["reasons"] or ()]
    if reasons != [(reason.code, reason.rule) for reason in one.reasons]:
        return False
    if before["verdict"] != verdict.value:
        # Of a run that was taken out "refused" is no news.
        return before["verdict"] == Publication.WITHDRAWN.value and verdict is Publication.REFUSED
    actions = [(action["field"], action["action"]) for action in before["field_actions"] or ()]
    return (
        actions == [tuple(action) for action in one.field_actions]
        and list(before["left_out_rewards"] or ()) == list(one.left_out_rewards)
        and (
            verdict is not Publication.PUBLISHED
            or (
                before["consent_basis"] == one.consent_basis
                and _micros(before["holds_until"]) == one.holds_until_us
                and before["detector_revision"] == one.detector_revision
            )
        )
    )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else int(pa.scalar(moment, pa.timestamp("us", "UTC")).value)
