"""`trajlake roll`: rolling statistics of skills and advice on levers."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from trajlake.cli.options import BootstrapOption, RootOption
from trajlake.cli.output import USAGE, fail, note
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.streams.settings import Settings


def register(app: typer.Typer) -> None:
    """Add `roll`."""
    app.command("roll")(roll)


def roll(
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=64, help="Processes; they share the skills between them.")
    ] = 1,
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the state from the lake's tables and end; no worker may run.")
    ] = False,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="Views of the first worker; the next take the next.")
    ] = None,
) -> None:
    """Keep the rolling statistics of every skill, and advise on levers, until stopped.

    Reads what `trajlake land` announces. State is in Kafka's changelogs: killed at any moment, the next start goes on
    with the same numbers. Views are at http://127.0.0.1:8790/skills, metrics at /metrics, health at /ready.

    --rebuild makes the state anew from the table `runs`, after a changelog was lost or the rules of counting changed.

    Example: trajlake roll --workers 2
    """
    from trajlake.expectations.levers import LeverError
    from trajlake.streams.levers import read_lever_file
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.roll.supervisor import RollSupervisor
    from trajlake.streams.roll.topics import ensure_roll_topics
    from trajlake.streams.settings import load_settings
    from trajlake.streams.topics import TopicError

    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers, roll_port=port)
    configure_logs(settings)
    try:
        read_lever_file(settings.levers_file)
    except LeverError as error:
        fail(str(error), USAGE)
    try:
        settings, warnings = ensure_roll_topics(settings)
    except TopicError as error:
        fail(str(error))
    for warning in warnings:
        note(f"warning: {warning}")
    if rebuild:
        _rebuild(settings)
        return
    supervisor = RollSupervisor(settings, workers)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, supervisor.stop)
    supervisor.run()


def _rebuild(settings: Settings) -> None:
    from trajlake.sinks.errors import SinkUnavailable
    from trajlake.streams.roll.rebuild import RollError, rebuild

    try:
        with progress() as shown:
            skills = rebuild(settings, shown)
    except (RollError, SinkUnavailable) as error:
        fail(str(error))
    print(f"{len(skills)} skills, {sum(state.head.runs for state in skills.values()):,} runs")
