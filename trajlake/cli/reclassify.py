"""`trajlake reclassify`: run the history through the failure rules of now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption, read_time
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.streams.keeping.reclassify import Change, Reclassified

_COLUMNS = ("tenant", "skill", "from", "to", "runs")


def register(app: typer.Typer) -> None:
    """Add `reclassify`."""
    app.command("reclassify")(reclassify)


def reclassify(
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Runs closed at this time or later (RFC 3339).")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Runs closed before this time.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Runs of this tenant.")] = None,
    skill: Annotated[str | None, typer.Option("--skill", help="Runs of this skill.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="This run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would change; needs no Kafka and no worker.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="Who asks for it, for the ledger.")] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="S", min=0, help="Give up when nothing lands for so long.")
    ] = 60.0,
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Classify closed runs again by the failure rules of now, after these have changed.

    Each run is judged anew from its events in the ledger. One that comes to something else gets a further revision in
    runs and steps, through the log, while workers land; older rows stay. Statistics and curation follow by themselves.

    Exits 1 when nothing lands, or workers run under other rules. Stopped at any moment, the same call goes on.

    Example: trajlake reclassify --since 2026-03-01T00:00:00Z --dry-run
    """
    from trajlake.streams.errors import StreamError
    from trajlake.streams.keeping.reclassify import reclassify as classify_again
    from trajlake.streams.keeping.rejudging import Wanted
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers)
    lake = settings.lake()
    if not lake.exists("runs"):
        fail(f"no runs at {lake.uri}", USAGE)
    wanted = Wanted(tenant, skill, run, read_time("--since", since), read_time("--until", until))
    try:
        with progress() as shown:
            done = classify_again(lake, settings, wanted, dry_run=dry_run, by=by, patience_s=wait_s, progress=shown)
    except LookupError as error:
        fail(str(error), USAGE)
    except StreamError as error:
        fail(str(error))
    _show(done, dry_run=dry_run, as_json=as_json)


def _show(done: Reclassified, *, dry_run: bool, as_json: bool) -> None:
    changes = sorted(done.changes.items(), key=lambda each: (-each[1], [part or "" for part in each[0]]))
    if as_json:
        figures = {name: getattr(done, name) for name in ("revision", "judged", "changed", "steps", "untold")}
        if not dry_run:
            figures |= {"asked": done.asked, "done": done.done}
        print_json(
            {**figures, "changes": [{**change._asdict(), "runs": runs} for change, runs in changes]}, indent=True
        )
        return
    if changes:
        print_table([_row(change, runs) for change, runs in changes], _COLUMNS)
    verb = "would change" if dry_run else "change"
    told = f"{done.changed:,} {verb}, with {done.steps:,} of their steps"
    print(f"{done.judged:,} runs judged by rules {done.revision}: {told}")
    if done.untold:
        note(f"{done.untold:,} runs are left as they are: the ledger does not hold them any more as they were closed")
    if not dry_run and done.asked:
        print(f"{done.done:,} runs have a further revision")
        if done.done < done.asked:
            note(f"{done.asked - done.done:,} had changed meanwhile; run this again to see how they stand")


def _row(change: Change, runs: int) -> dict[str, Any]:
    then = _named(change.from_class, change.from_kind)
    now = _named(change.to_class, change.to_kind)
    skill = change.skill_name or "(no skill)"
    now = f"{now} (rule or step)" if now == then else now
    return {"tenant": change.tenant_id, "skill": skill, "from": then, "to": now, "runs": runs}


def _named(outcome: str, kind: str | None) -> str:
    return outcome if kind is None else f"{outcome}/{kind}"
