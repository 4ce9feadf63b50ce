"""`trajlake publications`: what each pass of curation let in and left out, and the report that people read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import working

if TYPE_CHECKING:
    import polars as pl

_SHOWN = ("publication", "cause", "decided_at", "runs", "published", "held", "refused", "withdrawn", "steps")
_PAGES = ("report.html", "report.md")


def register(app: typer.Typer) -> None:
    """Add `publications` with its actions."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list", short_help="List publications, the newest first.")(list_publications)
    group.command("show", short_help="Show the report of a publication.")(show)
    app.add_typer(group, name="publications", help="List publications, and show the report of one.")


def list_publications(
    limit: Annotated[int, typer.Option("--limit", min=0, help="The newest so many; 0 for all.")] = 20,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """List publications, the newest first: what led to each, and how many runs it let in and left out.

    Example: trajlake publications list --root ./lake
    """
    found = _publications(root).select(_SHOWN).sort("publication", descending=True)
    with working("reading the publications"):
        rows = (found.head(limit) if limit else found).collect().to_dicts()
    if as_json:
        print_json(rows, indent=True)
    elif rows:
        print_table([{**row, "decided_at": f"{row['decided_at']:%Y-%m-%d %H:%M:%S}"} for row in rows], _SHOWN)
    else:
        note("nothing has been published yet; `trajlake curate --once` judges what has closed")


def show(
    publication: Annotated[
        int | None, typer.Argument(metavar="PUBLICATION", help="Its number [default: the newest].")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for report.html and report.md; none prints it.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the report of a publication: what is in it, what is not and why, and what each batch rule found.

    Example: trajlake publications show --out ./look
    """
    import orjson
    import polars as pl

    from trajlake.sinks.reports import read_restricted, report_place
    from trajlake.streams.settings import load_settings

    found = _publications(root)
    if publication is not None:
        found = found.filter(pl.col("publication") == publication)
    with working("looking for the publication"):
        rows = found.sort("publication").tail(1).collect().to_dicts()
    if not rows:
        fail("nothing has been published yet" if publication is None else f"there is no publication {publication}")
    number = rows[0]["publication"]
    lake = load_settings(root=root).lake()
    place = report_place(lake, number, _PAGES[0])

    def stored(name: str) -> bytes:
        content = read_restricted(lake, number, name)
        if content is None:
            fail(f"{report_place(lake, number, name)} is gone")
        return content

    if as_json:
        from trajlake.streams.curate.rules import read_checkpoint

        row: dict[str, Any] = rows[0] | {"bias": orjson.loads(rows[0]["bias"])}
        decided_us = int(rows[0]["decided_at"].timestamp() * 1_000_000)
        checkpoint = [report.to_dict() for report in read_checkpoint(lake, number, decided_us)]
        print_json(row | {"checkpoint": checkpoint, "report": place}, indent=True)
    elif out is None:
        sys.stdout.write(stored(_PAGES[1]).decode())
        note(f"as a page: {place}")
    else:
        out.mkdir(parents=True, exist_ok=True)
        for name in _PAGES:
            (out / name).write_bytes(stored(name))
            note(f"wrote {out / name}")


def _publications(root: str | None) -> pl.LazyFrame:
    from trajlake.reading.tables import open_lake

    return open_lake(root).frame("publications")
