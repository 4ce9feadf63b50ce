"""Runs as the pages list them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from markupsafe import Markup, escape

from trajlake.dashboard.display import CELL_CHARS, duration, size
from trajlake.reading.text import clean

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables

MOST_RUNS: Final = 101
LINES_AT_ONCE: Final = 500
_LOOKED_AT: Final = 400
"""Rows looked at for `MOST_RUNS` runs: some are older revisions of others."""
_COLUMNS: Final = (
    "tenant_id", "run_id", "revision", "offset", "has_start", "skill_name", "skill_version", "model_name", "model_tier",
    "started_at", "ended_at", "closed_at", "step_count", "tool_error_count", "outcome_class", "failure_kind",
    "failure_basis", "error_type", "end_state", "reward_score", "cost_usd", "late",
)  # fmt: skip


def list_runs(
    lake: LakeTables,
    *,
    tenant: str | None = None,
    skill: str | None = None,
    classes: Sequence[str] | None = None,
    run_prefix: str | None = None,
) -> list[dict[str, Any]]:
    """The newest closed runs that fit, at most `MOST_RUNS`, each as its row that counts."""
    fits = pl.lit(True)
    if tenant is not None:
        fits &= pl.col("tenant_id") == tenant
    if skill is not None:
        fits &= pl.col("skill_name").fill_null("") == skill
    if run_prefix is not None:
        fits &= pl.col("run_id").str.starts_with(run_prefix)
    runs = lake.frame("runs").select(_COLUMNS).filter(fits)
    of_class = pl.lit(True) if classes is None else pl.col("outcome_class").is_in([str(name) for name in classes])
    newest = runs.filter(of_class).top_k(_LOOKED_AT, by="closed_at").select("tenant_id", "run_id").unique()
    counting = (
        runs.join(newest, on=["tenant_id", "run_id"], how="semi")
        .sort("has_start", "revision", "offset")
        .unique(["tenant_id", "run_id"], keep="last")
    )
    return counting.filter(of_class).sort("closed_at", descending=True).head(MOST_RUNS).collect().to_dicts()


def step_lines(steps: pl.DataFrame, base: str) -> Iterator[Markup]:
    """A run's steps as HTML, a list of `LINES_AT_ONCE` lines a piece.

    A run may have tens of thousands: the first are to be seen before the last are made, and a browser lays out those
    lists that are seen. `base`: address of the run's page, escaped.
    """
    for part in steps.iter_slices(LINES_AT_ONCE):
        first, last = part["step_index"][0], part["step_index"][-1]
        lines = "".join(_line(row, base) for row in part.iter_rows(named=True))
        yield Markup(f'<ol class=steps aria-label="steps {first} to {last}">\n{lines}</ol>\n')


def _line(row: dict[str, Any], base: str) -> str:
    index, outcome = row["step_index"], row["outcome_class"]
    tools = [name for name in row["tools"] or () if name]
    took = row["latency_ms"]
    if took is None and row["started_at"] is not None and row["ended_at"] is not None:
        took = (row["ended_at"] - row["started_at"]) / timedelta(milliseconds=1)
    marks = dict.fromkeys(row["gap_codes"] or ())
    marks.update({word: None for word, column in _MARKS if row[column]})
    kind = "environment" if row["source"] == "environment" else "call" if tools else "answer"
    shown = ", ".join(tools[:3]) + (f" and {len(tools) - 3} more" if len(tools) > 3 else "")
    chars = row["message_chars"] + (row["observation_chars"] or 0)
    failed = outcome != "success"
    words = f"{outcome} {row['failure_kind'] or ''}".replace("_", " ") if failed else ""
    tag = f" <span class=tag>{_safe(', '.join(marks).replace('_', ' '))}</span>" if marks else ""
    return (
        f'<li id="step-{index}"{" class=bad" if failed else ""}>'
        f'<a href="{base}/steps/{index}">{index}</a> <b>{kind}</b> '
        f"{_safe(shown)}{f' <span class=outcome>{_safe(words)}</span>' if failed else ''} "
        f"<i>{duration(took)}, {size(chars)} chars</i>"
        f"{tag}</li>\n"
    )


_MARKS: Final = (("late", "late"), ("redacted", "redacted"), ("copied", "is_copied_context"))


def _safe(text: str) -> str:
    return str(escape(clean(text, CELL_CHARS))) if text else ""
