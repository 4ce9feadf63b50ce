"""`trajlake land`: from Kafka to the tables, exactly once."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from trajlake.cli.options import BootstrapOption, RootOption
from trajlake.cli.output import fail, note


def register(app: typer.Typer) -> None:
    """Add `land`."""
    app.command("land")(land)


def land(
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=256, help="Processes; one per core is a good start.")
    ] = 1,
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop when all that the topic holds now has landed.")
    ] = False,
    run_timeout_s: Annotated[
        int | None, typer.Option("--run-timeout", metavar="S", help="A run silent for so long ends as abandoned.")
    ] = None,
    health_port: Annotated[
        int | None, typer.Option("--health-port", metavar="PORT", help="Health endpoint; 0 takes a free port.")
    ] = None,
) -> None:
    """Land events in the tables of the lake, exactly once, until stopped (Ctrl-C or SIGTERM flush first).

    Several workers, here or on other machines, share the partitions of the topic. Killed at any moment, the next
    start goes on where the tables end. Exits 2 at once where the root can never be written; a store that is merely away
    is waited for. Health is at http://127.0.0.1:8780/ready, lag at /status,
    figures for Prometheus at /metrics.

    Example: trajlake land --workers 2 --root ./lake
    """
    from trajlake.expectations.suites.suite import SuiteError
    from trajlake.streams.errors import StreamError
    from trajlake.streams.land.preflight import check_root
    from trajlake.streams.land.rules import check_rules
    from trajlake.streams.land.supervisor import LandSupervisor
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings
    from trajlake.streams.topics import TopicError, ensure_topics

    settings = load_settings(
        root=root, bootstrap_servers=bootstrap_servers, run_timeout_s=run_timeout_s, health_port=health_port
    )
    try:
        check_rules(settings)
    except SuiteError as error:
        fail(f"{error}; `trajlake expectations check` lists all that is wrong")
    check_root(settings)
    configure_logs(settings)
    try:
        made = ensure_topics(
            settings.bootstrap_servers,
            {
                settings.events_topic: settings.events_partitions,
                settings.outcomes_topic: settings.outcomes_partitions,
                settings.stats_topic: settings.outcomes_partitions,
                settings.decisions_topic: settings.outcomes_partitions,
            },
            max_message_bytes=settings.event_max_bytes,
            options=settings.kafka_options,
        )
    except TopicError as error:
        fail(str(error))
    for warning in made.warnings:
        note(f"warning: {warning}")
    supervisor = LandSupervisor(settings, workers, until_end=until_end)
    signal.signal(signal.SIGTERM, supervisor.stop)
    signal.signal(signal.SIGINT, supervisor.stop)
    # A closed terminal must not cost the last batch its flush.
    signal.signal(signal.SIGHUP, supervisor.stop)
    try:
        supervisor.run()
    except StreamError as error:
        fail(str(error))
    except OSError as error:
        fail(f"health endpoint at {settings.health_host}:{settings.health_port}: {error.strerror}; try --health-port 0")
