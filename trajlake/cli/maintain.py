"""`trajlake maintain`: upkeep of the tables, beside the workers that land in them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.sinks.maintenance import Upkeep

_SHOWN = ("table", "files", "compacted_files", "compacted_into", "checkpoint", "vacuumed_files", "log_entries")


def register(app: typer.Typer) -> None:
    """Add `maintain`."""
    app.command("maintain")(maintain)


def maintain(
    root: RootOption = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME", help="Only this table; may be given several times.")
    ] = None,
    every_s: Annotated[
        float | None, typer.Option("--every", metavar="S", min=1, help="Go on, one round every S seconds.")
    ] = None,
    retention: Annotated[
        bool, typer.Option("--retention", help="Also take away what is older than setting retention_days.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compact small files, write checkpoints, and remove what no version within the retention needs.

    Also finishes erasures that were begun and stopped.

    Safe while workers land and readers read: nobody waits, and versions within the retention can still be opened.
    Exits 1 when a step was refused by the store.

    Example: trajlake maintain --every 600 --root ./lake
    """
    from trajlake.expectations.tables import TABLES
    from trajlake.streams.health import serve_beside
    from trajlake.streams.keeping.retention import KINDS, closed_before, expire
    from trajlake.streams.keeping.upkeep import (
        finish_erasures,
        keep_going,
        maintain_lake,
        upkeep_rounds,
        upkeep_rules,
    )
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    configure_logs(settings)
    unknown = [name for name in table or () if name not in TABLES]
    if unknown:
        fail(f"no table named {unknown[0]}; tables: {', '.join(TABLES)}", 2)
    days = settings.retention_days
    if retention and (odd := sorted(set(days) - set(KINDS))):
        fail(f"setting retention_days: no retention for {odd[0]}; there is one for {' and '.join(KINDS)}", 2)
    if retention and not days:
        fail("--retention needs the setting retention_days, for example runs=400,quarantine=30", 2)
    lake = settings.lake()
    rules = upkeep_rules(settings)
    names = table or list(TABLES)
    stop = Event()
    problems: list[str] = []

    def one_round() -> list[Upkeep]:
        with progress() as shown:
            if not dry_run:
                for one in finish_erasures(lake, shown):
                    note(f"erasure {one.erasure} finished: {one.runs:,} runs, {sum(one.rows.values()):,} rows")
                if retention:
                    gone = expire(lake, days, datetime.now(UTC), progress=shown)
                    note(f"retention: {gone.runs:,} runs, content of {gone.quarantined:,} refused records")
            elif retention and "runs" in days:
                due = closed_before(lake, datetime.now(UTC) - timedelta(days=days["runs"]), shown)
                note(f"retention: {len(due):,} runs would go")
            done = list(maintain_lake(lake, rules, names, dry_run=dry_run, progress=shown))
        problems[:] = [f"{one.table}: {problem}" for one in done for problem in one.problems]
        _show(done, as_json=as_json)
        return done

    if every_s is None:
        one_round()
        if problems:
            fail(problems[0])
        return
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    rounds = upkeep_rounds()
    server = serve_beside(settings.health_host, settings.maintain_port, rounds.view, rounds.metrics)
    try:
        keep_going(one_round, every_s, stop, rounds)
    finally:
        if server is not None:
            server.stop()


def _show(done: Sequence[Upkeep], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(one) for one in done])
        return
    if not done:
        note("no tables yet; `trajlake land` makes them")
        return
    print_table([asdict(one) for one in done], _SHOWN, title="would be done" if done[0].dry_run else None)
    for one in done:
        for problem in one.problems:
            note(f"{one.table}: {problem}")
