"""The bias report of a publication: what it left out, by reason and by outcome, skill and model.

Dropping what timed out or failed teaches that nothing ever does. So each publication says how much of each kind is in
it and how much is not, in numbers; a trainer decides with them in view.

The report that lies in the training zone names skills and models of runs that are there anyway; all others are summed
under `OTHERS`, so that nothing of a run that was kept out is told, its skill's name included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl
import pyarrow as pa

from trajlake.expectations.reasons import Publication
from trajlake.transforms.text import markdown_plain

OTHERS: Final = "(not published)"
NONE: Final = "(none)"
DIMENSIONS: Final = {"outcome": "outcome_class", "skill": "skill_name", "model": "model_name"}
_NAMED: Final = ("skill", "model")


def bias_report(verdicts: pa.Table, *, published_names_only: bool = False) -> dict[str, Any]:
    """Counts of a publication's rows of `curation`.

    Returns {"publication", "runs", "published", "held", "refused", "withdrawn", "reasons": [{code, verdict, runs}],
    "outcome"|"skill"|"model": [{name, runs, published, excluded, share_published, reasons: {code: runs}}]}.
    A run with several reasons counts once under each. Rows are in the order of their names.
    """
    columns = ["verdict", "reasons", *DIMENSIONS.values(), "publication"]
    frame = pl.DataFrame(pl.from_arrow(verdicts.select(columns))).with_columns(
        codes=pl.col("reasons").list.eval(pl.element().struct.field("code")).list.unique().fill_null([]),
        published=pl.col("verdict") == Publication.PUBLISHED.value,
    )
    counts = dict(frame.group_by("verdict").len().iter_rows())
    report: dict[str, Any] = {
        "publication": frame["publication"].max(),
        "runs": len(frame),
        **{verdict.value: counts.get(verdict.value, 0) for verdict in Publication},
        "reasons": _by_reason(frame),
    }
    for name, column in DIMENSIONS.items():
        keyed = frame.with_columns(pl.col(column).fill_null(NONE).alias("name"))
        if published_names_only and name in _NAMED:
            known = keyed.filter("published")["name"].unique()
            keyed = keyed.with_columns(
                pl.when(pl.col("name").is_in(known.implode())).then("name").otherwise(pl.lit(OTHERS)).alias("name")
            )
        report[name] = _by_name(keyed)
    return report


def _by_reason(frame: pl.DataFrame) -> list[dict[str, Any]]:
    rows = frame.select("verdict", "codes").explode("codes").drop_nulls("codes").group_by("codes", "verdict").len()
    return [
        {"code": code, "verdict": verdict, "runs": runs}
        for code, verdict, runs in rows.sort("codes", "verdict").iter_rows()
    ]


def _by_name(frame: pl.DataFrame) -> list[dict[str, Any]]:
    totals = frame.group_by("name").agg(pl.len().alias("runs"), pl.col("published").sum()).sort("name")
    reasons: dict[str, dict[str, int]] = {}
    exploded = frame.select("name", "codes").explode("codes").drop_nulls("codes").group_by("name", "codes").len()
    for name, code, runs in exploded.sort("name", "codes").iter_rows():
        reasons.setdefault(name, {})[code] = runs
    return [
        {
            "name": name, "runs": runs, "published": published, "excluded": runs - published,
            "share_published": round(published / runs, 4), "reasons": reasons.get(name, {}),
        }
        for name, runs, published in totals.iter_rows()
    ]  # fmt: skip


def bias_markdown(report: Mapping[str, Any]) -> str:
    """The report for people, below a heading of theirs."""
    parts = [
        f"{report['runs']:,} runs judged: {report['published']:,} published, {report['held']:,} held, "
        f"{report['refused']:,} refused, {report['withdrawn']:,} withdrawn."
    ]
    if report["reasons"]:
        lines = ["| reason | verdict | runs |", "|---|---|---:|"]
        lines += [
            f"| {markdown_plain(row['code'])} | {row['verdict']} | {row['runs']:,} |" for row in report["reasons"]
        ]
        parts += ["## Why runs were left out", "\n".join(lines), "A run with several reasons counts once under each."]
    for dimension in DIMENSIONS:
        lines = [f"| {dimension} | runs | published | share | reasons |", "|---|---:|---:|---:|---|"]
        for row in report[dimension]:
            reasons = ", ".join(f"{markdown_plain(code)} {runs:,}" for code, runs in row["reasons"].items())
            lines.append(
                f"| {markdown_plain(row['name'])} | {row['runs']:,} | {row['published']:,} "
                f"| {row['share_published']:.1%} | {reasons} |"
            )
        parts += [f"## By {dimension}", "\n".join(lines)]
    return "\n\n".join(parts)
