"""`trajlake quarantine`: look at what was not let in, give it another chance, or take its content away."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption, read_time
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress
from trajlake.reading.text import clean

if TYPE_CHECKING:
    from trajlake.sinks.sealing import Opener
    from trajlake.streams.keeping.quarantine import Wanted

COLUMNS = (
    "topic", "partition", "offset", "append_time", "reason_code", "stage", "tenant_id", "run_id", "state",
    "released_as",
)  # fmt: skip
PlacesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="Only these.", show_default=False)
]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", metavar="CODE", help="Only with this reason.")]
StageOption = Annotated[str | None, typer.Option("--stage", help="decode, redact, gate or assemble.")]
RunOption = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only of this run.")]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Appended then or later (RFC 3339).")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Appended before (RFC 3339).")]
StateOption = Annotated[str | None, typer.Option("--state", help="held, releasing, released, purged or erased.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--key-file", metavar="FILE", help="The operators' private key.", envvar="TRAJLAKE_UNSEAL_KEY_FILE"),
]
ByOption = Annotated[str | None, typer.Option("--by", help="Who does it, for the record.")]
NoteOption = Annotated[str | None, typer.Option("--note", help="Why, for the record.")]


def register(app: typer.Typer) -> None:
    """Add `quarantine` with its actions."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_)
    group.command("show", short_help="Show one quarantined record.")(show)
    group.command("release", short_help="Publish quarantined records again.")(release)
    group.command("purge")(purge)
    app.add_typer(group, name="quarantine", help="List, show, release and purge what was not let in.")


def list_(
    tenant: TenantOption = None,
    reason: ReasonOption = None,
    stage: StageOption = None,
    run: RunOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    state: StateOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows shown, the newest first.")] = 100,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """List quarantined records, newest first, with what became of them. Shows no content.

    Example: trajlake quarantine list --reason key_mismatch --state held
    """
    from trajlake.streams.keeping.quarantine import listed
    from trajlake.streams.settings import load_settings

    lake = load_settings(root=root).lake()
    wanted = _wanted(Chosen(tenant, reason, stage, run, since, until, state))
    with progress() as shown:
        rows = listed(lake, wanted, limit, shown)
    if as_json:
        print_json(rows, indent=True)
        return
    print_table([{**row, "append_time": row["append_time"].isoformat(" ", "seconds")} for row in rows], COLUMNS)
    if len(rows) == limit:
        note(f"the newest {limit}; --limit shows more")


def show(
    place: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="As `list` shows it.")],
    unseal: Annotated[bool, typer.Option("--unseal", help="The sealed original instead; wants --key-file.")] = False,
    key_file: KeyOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one quarantined record: verdict, acts, later verdicts, and its content after redaction.

    Example: trajlake quarantine show agent.audit.v1/0/1234
    """
    from trajlake.sinks.sealing import SealError
    from trajlake.streams.keeping.quarantine import Wanted, acts, content_of, listed, seal_of, whole_rows
    from trajlake.streams.keeping.seals import unseal as open_seal
    from trajlake.streams.settings import load_settings

    lake = load_settings(root=root).lake()
    at = _place(place)
    with progress() as shown:
        rows = listed(lake, Wanted(places=frozenset((at,))), progress=shown)
        whole = whole_rows(lake, [at], shown).get(at)
    if not rows or whole is None:
        fail(f"{place} is not in quarantine of {lake.uri}")
    try:
        if unseal:
            sealed = seal_of(lake, whole)
            if sealed is None:
                fail(f"no sealed original is kept of {place}")
            content: bytes | None = open_seal(_opener(key_file), sealed, str(at)).value
        else:
            content = content_of(lake, whole)
    except (SealError, ValueError, FileNotFoundError) as error:
        fail(str(error))
    done = [{name: value for name, value in act.items() if value is not None} for act in acts(lake).get(at, [])]
    sealed_too = whole["sealed"] is not None or whole["sealed_ref"] is not None
    text = None if content is None else content.decode("utf-8", "backslashreplace")
    if as_json:
        print_json({**rows[0], "sealed": sealed_too, "acts": done, "content": text}, indent=True)
        return
    for name, value in {**rows[0], "sealed": sealed_too}.items():
        if value is not None:
            print(f"{name}: {clean(value)}")
    for act in done:
        when = act["at"].isoformat(" ", "seconds")
        print(clean(f"act: {act['action']} {when} by {act.get('by') or '?'} {act.get('note') or ''}"))
    # A pipe gets the content as it is; a terminal would obey it.
    print("content: nothing is kept" if text is None else clean(text) if sys.stdout.isatty() else text)


def release(
    places: PlacesArgument = None,
    tenant: TenantOption = None,
    reason: ReasonOption = None,
    stage: StageOption = None,
    run: RunOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    original: Annotated[
        bool, typer.Option("--original", help="Publish the sealed originals; wants --key-file.")
    ] = False,
    key_file: KeyOption = None,
    by: ByOption = None,
    why: NoteOption = None,
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish quarantined records again, so that land judges them under the rules of today. Both verdicts are kept.

    What is refused again is a new row whose `released_from` names the old one. Exits 1 when a record could not be
    released.

    Example: trajlake quarantine release --reason key_mismatch --tenant acme --note "keys fixed"
    """
    from trajlake.streams.errors import StreamError
    from trajlake.streams.keeping.release import release as publish
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers)
    wanted = _wanted(Chosen(tenant, reason, stage, run, since, until, None), places)
    _refuse_all(wanted, "released")
    opener = _opener(key_file) if original else None
    try:
        with progress() as shown:
            done = publish(settings.lake(), settings, wanted, opener=opener, by=by, note=why, progress=shown)
    except StreamError as error:
        fail(str(error))
    released = [
        {"place": str(place), "partition": partition, "offset": offset}
        for place, (partition, offset) in sorted(done.released.items())
    ]
    kept = [{"place": str(place), "why": cause} for place, cause in sorted(done.kept.items())]
    if as_json:
        print_json({"released": released, "kept": kept}, indent=True)
    else:
        for row in released:
            print(f"{row['place']}: released as offset {row['offset']} of partition {row['partition']}")
        for one in kept:
            note(f"{one['place']}: not released: {one['why']}")
        print(f"{len(released):,} released, {len(kept):,} not; land judges them when it comes to them")
    if kept:
        raise typer.Exit(1)


def purge(
    places: PlacesArgument = None,
    tenant: TenantOption = None,
    reason: ReasonOption = None,
    stage: StageOption = None,
    run: RunOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    state: StateOption = None,
    by: ByOption = None,
    why: NoteOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say how many records it would be.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take the content of quarantined records away for good. Their place and verdict stay.

    Example: trajlake quarantine purge --until 2026-01-01T00:00:00Z --yes
    """
    from trajlake.streams.keeping.quarantine import listed
    from trajlake.streams.keeping.quarantine import purge as take_away
    from trajlake.streams.settings import load_settings

    lake = load_settings(root=root).lake()
    wanted = _wanted(Chosen(tenant, reason, stage, run, since, until, state), places)
    _refuse_all(wanted, "purged")
    with progress() as shown:
        if yes:
            count = take_away(lake, wanted, by=by, note=why, progress=shown)
        else:
            count = len(listed(lake, wanted, progress=shown))
    if as_json:
        print_json({"purged" if yes else "would_purge": count})
    else:
        print(f"{count:,} purged" if yes else f"{count:,} records would lose their content; --yes does it")


@dataclass(frozen=True)
class Chosen:
    """The filters of a command, as typed."""

    tenant: str | None
    reason: str | None
    stage: str | None
    run: str | None
    since: str | None
    until: str | None
    state: str | None


def _wanted(chosen: Chosen, places: list[str] | None = None) -> Wanted:
    from trajlake.streams.keeping.quarantine import Wanted

    return Wanted(
        chosen.tenant,
        chosen.reason,
        chosen.stage,
        chosen.run,
        read_time("--since", chosen.since),
        read_time("--until", chosen.until),
        frozenset(_place(place) for place in places or ()),
        chosen.state,
    )


def _refuse_all(wanted: Wanted, verb: str) -> None:
    from trajlake.streams.keeping.quarantine import Wanted

    if wanted == Wanted():
        fail(f"name what is to be {verb}: places, or a filter such as --reason, --tenant or --until", 2)


def _place(text: str) -> Any:
    from trajlake.streams.keeping.quarantine import Place

    try:
        return Place.parse(text)
    except ValueError:
        fail(f"{text!r} is no place: it reads TOPIC/PARTITION/OFFSET", 2)


def _opener(key_file: str | None) -> Opener:
    from trajlake.sinks.sealing import Opener, SealError

    if key_file is None:
        fail("sealed originals want the operators' private key: --key-file FILE, or TRAJLAKE_UNSEAL_KEY_FILE", 2)
    try:
        return Opener(Path(key_file).expanduser().read_bytes())
    except OSError as error:
        fail(f"{key_file}: {error.strerror}", 2)
    except SealError as error:
        fail(f"{key_file} {error}", 2)
