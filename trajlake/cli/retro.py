"""`trajlake retro`: the weekly review of skills, as Markdown and as one HTML file."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json
from trajlake.cli.progress import progress


def register(app: typer.Typer) -> None:
    """Add `retro`."""
    app.command("retro")(retro)


def retro(
    root: RootOption = None,
    week: Annotated[
        str | None, typer.Option("--week", metavar="YYYY-Www", help="ISO week, such as 2026-W48; the last whole one.")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="Only this tenant.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the two files; none prints Markdown.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the weekly review: skills that need a look, shared trouble, advice beside the old rule, levers and
    effects.

    Example: trajlake retro --week 2026-W48 --out ./retro
    """
    from trajlake.reading.tables import open_lake
    from trajlake.reading.weeks import read_week
    from trajlake.streams.settings import load_settings
    from trajlake.transforms.levers.report import to_html, to_markdown
    from trajlake.transforms.levers.retro import review

    settings = load_settings(root=root)
    lake = open_lake(settings.root, storage_options=settings.storage_options)
    name = _last_week() if week is None else week
    try:
        with progress() as shown:
            told = read_week(lake, name, tenant=tenant, progress=shown)
    except ValueError as error:
        fail(str(error), code=2)
    if as_json:
        print_json(_plain(told), indent=True)
        return
    blocks = review(told)
    if out is None:
        sys.stdout.write(to_markdown(blocks))
        return
    out.mkdir(parents=True, exist_ok=True)
    for ending, text in (("md", to_markdown(blocks)), ("html", to_html(f"Skills in week {told.name}", blocks))):
        path = out / f"retro-{told.name}.{ending}"
        path.write_text(text, encoding="utf-8")
        note(f"wrote {path}")


def _plain(week: object) -> object:
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(week))


def _last_week() -> str:
    year, number, _ = (datetime.now(UTC) - timedelta(days=7)).isocalendar()
    return f"{year}-W{number:02d}"
