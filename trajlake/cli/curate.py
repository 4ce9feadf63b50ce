"""`trajlake curate`: judge closed runs, and publish what passes to the training zone."""

from __future__ import annotations

import getpass
import signal
from collections.abc import Iterator
from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import aside, progress, working

if TYPE_CHECKING:
    from trajlake.expectations.progress import Progress
    from trajlake.streams.curate.curator import Done

_VERDICTS = ("published", "held", "refused", "withdrawn")
PoliciesOption = Annotated[
    str | None, typer.Option("--policies", metavar="FILE|DIR", help="Policies to judge by [setting: policies].")
]
PublicationArgument = Annotated[int, typer.Argument(metavar="PUBLICATION", help="Number, as `curate held` shows it.")]
OperatorOption = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="Who decides; it is kept [default: the user's name].")
]


def register(app: typer.Typer) -> None:
    """Add `curate` with its actions."""
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
    group.callback()(curate)
    group.command("held", short_help="List publications that hold runs back, and why.")(held)
    group.command("release", short_help="Publish the runs that a publication holds.")(release)
    group.command("reject", short_help="Keep the runs that a publication holds out for good.")(reject)
    app.add_typer(group, name="curate")


def curate(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="One pass over all that is there now, then stop.")] = False,
    every_s: Annotated[
        float | None, typer.Option("--every", metavar="S", min=0.1, help="A pass every S s [setting: curate_every_s].")
    ] = None,
    root: RootOption = None,
    policies: PoliciesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the runs that were closed since the last pass, and publish those that pass whole.

    A run is published, held or refused; each verdict is a row of `curation` with its reasons. Late rewards, late steps,
    consent that changes or runs out and changed policies lead to new verdicts. Without --once it goes on until stopped.

    Example: trajlake curate --once --policies policies/ --root ./lake
    """
    if context.invoked_subcommand is not None:
        _refuse_options_before(context)
        return
    from trajlake.streams.curate.service import curator_of, keep_curating, passes
    from trajlake.streams.health import serve_beside
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings
    from trajlake.streams.tracing import Tracing

    settings = load_settings(root=root, policies=policies)
    configure_logs(settings)
    if once:
        if every_s is not None:
            fail("--once and --every exclude each other", USAGE)
        with progress() as shown:
            any_done = _show(curator_of(settings, shown).run_once(), shown, as_json=as_json)
        if not any_done and not as_json:
            note("nothing new to judge")
        return
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    pause = settings.curate_every_s if every_s is None else every_s
    rounds, tracing = passes(), Tracing.of(settings, "curate")
    server = serve_beside(settings.health_host, settings.curate_port, rounds.view, rounds.metrics)
    try:
        keep_curating(settings, pause, stop, lambda done: _tell(done, as_json=as_json), rounds, tracing)
    finally:
        tracing.close()
        if server is not None:
            server.stop()


def _refuse_options_before(context: typer.Context) -> None:
    """Options before an action are not the action's: to go on without them would be to work on another lake."""
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if source is not None and source.name == "COMMANDLINE":
            action, name = context.invoked_subcommand, param.opts[0]
            fail(f"{name} stands before {action}; write it behind: `trajlake curate {action} ... {name}`", USAGE)


def held(root: RootOption = None, as_json: JsonOption = False) -> None:
    """List publications that hold runs back, with the rules that are not met.

    Example: trajlake curate held --root ./lake
    """
    import polars as pl

    from trajlake.reading.tables import LakeTables
    from trajlake.streams.settings import load_settings
    from trajlake.transforms.curate.standing import STANDING_COLUMNS, standing

    lake = LakeTables(load_settings(root=root).lake())
    with working("reading the verdicts"):
        verdicts = lake.frame("curation").select(STANDING_COLUMNS).collect()
        waiting = standing(verdicts).filter(pl.col("verdict") == "held")
    rows = (
        waiting.with_columns(rules=pl.col("reasons").list.eval(pl.element().struct.field("rule")).list.unique())
        .group_by("publication")
        .agg(
            pl.len().alias("runs"),
            pl.col("decided_at").min(),
            pl.col("rules").explode().unique().sort().str.join(", "),
        )
        .sort("publication")
    )
    if as_json:
        print_json(rows.to_dicts(), indent=True)
        return
    if rows.is_empty():
        note("no run waits")
        return
    print_table([{**row, "decided_at": f"{row['decided_at']:%Y-%m-%d %H:%M}"} for row in rows.to_dicts()], rows.columns)


def release(
    publication: PublicationArgument,
    operator: OperatorOption = None,
    root: RootOption = None,
    policies: PoliciesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish the runs that a publication holds, unless the policies deny them by now.

    Example: trajlake curate release 7 --as alice --root ./lake
    """
    _settle("release", publication, operator, root, policies, as_json=as_json)


def reject(
    publication: PublicationArgument,
    operator: OperatorOption = None,
    root: RootOption = None,
    policies: PoliciesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the runs that a publication holds out of the training zone for good.

    Example: trajlake curate reject 7 --as alice --root ./lake
    """
    _settle("reject", publication, operator, root, policies, as_json=as_json)


def _settle(
    action: str, publication: int, operator: str | None, root: str | None, policies: str | None, *, as_json: bool
) -> None:
    from trajlake.streams.curate.service import curator_of
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, policies=policies)
    configure_logs(settings)
    who = operator or getpass.getuser()
    try:
        with progress() as shown:
            curator = curator_of(settings, shown)
            done = curator.release(publication, who) if action == "release" else curator.reject(publication, who)
            _show(done, shown, as_json=as_json)
    except LookupError as error:
        fail(str(error.args[0]))


def _show(publications: Iterator[Done], shown: Progress, *, as_json: bool) -> bool:
    """Tell each publication as it has taken effect. Returns whether there was any."""
    any_done = False
    for done in publications:
        any_done = True
        with aside(shown):
            _tell(done, as_json=as_json)
    return any_done


def _tell(done: Done, *, as_json: bool) -> None:
    """One publication: a line of JSON, or a sentence."""
    if as_json:
        print_json(asdict(done))
        return
    counts = ", ".join(f"{count:,} {name}" for name in _VERDICTS if (count := getattr(done, name)))
    codes = "; ".join(f"{code} {runs:,}" for code, runs in sorted(done.reasons.items()))
    why = f" ({codes})" if codes else ""
    print(
        f"publication {done.publication} ({done.cause}): {done.runs:,} runs: {counts}{why}\n  report: {done.report}",
        flush=True,
    )
