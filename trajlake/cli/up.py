"""`trajlake up`: the whole system on this machine."""

from __future__ import annotations

import fcntl
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note

if TYPE_CHECKING:
    from trajlake.machine.services import Service
    from trajlake.streams.broker import EmbeddedBroker
    from trajlake.streams.settings import Settings


def register(app: typer.Typer) -> None:
    """Add `up`."""
    app.command("up")(up)


def up(
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="Land workers.")] = 1,
    policies: Annotated[
        str | None, typer.Option("--policies", metavar="FILE|DIR", help="Policies to land and judge by.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")
    ] = 8765,
    dashboard: Annotated[bool, typer.Option("--dashboard/--no-dashboard", help="Serve the dashboard too.")] = True,
    broker_port: Annotated[
        int | None,
        typer.Option("--broker-port", min=0, max=65535, help="Port of the Kafka that is started; 0 takes a free one."),
    ] = None,
    curate_every_s: Annotated[
        float | None, typer.Option("--curate-every", metavar="S", min=1, help="Curation passes.")
    ] = None,
    maintain_every_s: Annotated[
        float, typer.Option("--maintain-every", metavar="S", min=1, help="Rounds of upkeep.")
    ] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Run the whole system on this machine until Ctrl-C or SIGTERM: Kafka, land, roll, curate, maintain, dashboard.

    Kafka is the embedded one of this folder, unless bootstrap_servers is given, as an option or a variable; one that
    runs already is used and left running. What ends is started again, with growing pauses. In a terminal a table shows
    how everything is; in a pipe each change is a line, with --json a JSON object. Each service has a log beside the
    lake.

    Exits 0 after a stop that was asked for, 1 when Kafka cannot be started or another `up` has the lake, 2 when a
    setting is wrong.

    Example: trajlake up --root ./lake --workers 2
    """
    from trajlake.beside import beside
    from trajlake.cli.output import print_json
    from trajlake.expectations.levers import LeverError
    from trajlake.expectations.suites.suite import SuiteError
    from trajlake.machine.services import Choices, has_dashboard, services
    from trajlake.machine.supervisor import ServiceRefused, Supervisor
    from trajlake.machine.view import live_table, watcher
    from trajlake.streams.broker import BrokerError, EmbeddedBroker
    from trajlake.streams.land.preflight import check_root
    from trajlake.streams.land.rules import check_rules
    from trajlake.streams.levers import read_lever_file
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers, policies=policies)
    try:
        check_rules(settings)
        read_lever_file(settings.levers_file)
    except (SuiteError, LeverError) as error:
        fail(str(error), USAGE)
    check_root(settings)
    if dashboard and not has_dashboard():
        note("no dashboard: its packages are missing; pip install 'trajlake[dashboard]'")
        dashboard = False
    broker: EmbeddedBroker | None = None
    if "bootstrap_servers" not in settings.model_fields_set:
        wanted = int(settings.bootstrap_servers.rpartition(":")[2]) if broker_port is None else broker_port
        broker = EmbeddedBroker(settings.broker_dir, port=wanted, heap_mb=settings.broker_heap_mb)
    elif broker_port is not None:
        fail("--broker-port is of the Kafka that is started; bootstrap_servers names another", USAGE)
    every_s = settings.curate_every_s if curate_every_s is None else curate_every_s
    choices = Choices(workers, port, dashboard, every_s, maintain_every_s)
    found = services(settings, choices)
    folder = beside(settings.root, "up")
    environment = _environment(settings, broker)
    supervisor = Supervisor(found, broker, folder, environment, watcher(as_json=as_json))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, supervisor.stop)
    below = _below(settings, found, folder)
    try:
        with _alone(folder), ExitStack() as stack:
            if as_json:
                print_json({"root": settings.root, "logs": str(folder), "addresses": _addresses(found)})
            elif sys.stdout.isatty():
                stack.enter_context(live_table(supervisor.states, below))
            else:
                for line in below:
                    note(line)
            supervisor.run()
    except ServiceRefused as error:
        fail(str(error), USAGE)
    except BrokerError as error:
        tail = "; ".join(error.log_tail)
        fail(f"{error}{': ' if tail else ''}{tail}")


def _environment(settings: Settings, broker: EmbeddedBroker | None) -> dict[str, str]:
    """Variables that hand the settings of this command on to the services."""
    chosen = {"root": settings.root, "policies": settings.policies, "log_format": "json"}
    if broker is None:
        chosen["bootstrap_servers"] = settings.bootstrap_servers
    else:
        # The options of another Kafka (TLS, passwords) are neither needed nor shown to this one.
        chosen["kafka_options"] = "{}"
    return {f"TRAJLAKE_{name.upper()}": value for name, value in chosen.items()}


def _addresses(found: list[Service]) -> dict[str, str]:
    return {service.name: service.address for service in found if service.address}


def _below(settings: Settings, found: list[Service], folder: Path) -> list[str]:
    """What a person has to know beside the states."""
    seen = "   ".join(f"{name} {address}" for name, address in _addresses(found).items())
    return [f"root {settings.root}   logs {folder}", seen, "Ctrl-C stops everything."]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lake for one `up` at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        fail(f"cannot use {folder} ({error.strerror}); give another --root")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another `trajlake up` runs on this lake ({folder}); stop it, or give another --root")
        yield
