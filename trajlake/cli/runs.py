"""`trajlake runs`: closed runs with their outcome and their verdict."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import working

TERMINAL_RUNS = 40
_SHOWN = (
    "run_id", "tenant_id", "skill_name", "model_name", "outcome_class", "reward_score", "step_count", "ended_at",
    "verdict", "reason_codes",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add `runs`."""
    app.command("runs")(runs)


def runs(
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Condition on columns of runs, and on verdict, live, publication."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help="Runs at most; 0 for all [default: 40 in a terminal, else all]."),
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """List closed runs, the newest first, with outcome and verdict: published, held, refused, withdrawn, not judged.

    Example: trajlake runs --where "verdict = 'refused' and skill_name = 'refund'"
    """
    import polars as pl

    from trajlake.reading.runview import runs_with_verdicts
    from trajlake.reading.tables import open_lake
    from trajlake.reading.training import WhereError

    if limit is None:
        limit = TERMINAL_RUNS if sys.stdout.isatty() and not as_json else 0
    try:
        with working("reading runs and verdicts"):
            found = runs_with_verdicts(open_lake(root), where)
            # A run whose events have no time ended when it was closed, at the latest.
            newest = pl.coalesce("ended_at", "closed_at")
            found = found.sort(newest, "run_id", descending=True).select(_SHOWN)
            rows = (found.head(limit + 1) if limit else found).collect()
    except WhereError as error:
        fail(str(error), USAGE)
    if as_json:
        print_json((rows.head(limit) if limit else rows).to_dicts(), indent=True)
        return
    if rows.is_empty():
        note("no run has closed" if where is None else "no closed run meets the condition")
        return
    shown = [
        {
            **row,
            "ended_at": f"{row['ended_at']:%Y-%m-%d %H:%M:%S}" if row["ended_at"] else None,
            "reason_codes": ", ".join(row["reason_codes"]) or None,
        }
        for row in (rows.head(limit) if limit else rows).to_dicts()
    ]
    print_table(shown, _SHOWN)
    if limit and len(rows) > limit:
        note(f"the newest {limit}; --limit 0 shows all")
