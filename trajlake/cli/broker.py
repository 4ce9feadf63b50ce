"""`trajlake broker`: the embedded Apache Kafka of this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption
from trajlake.cli.output import fail, note, print_json
from trajlake.cli.progress import working

if TYPE_CHECKING:
    from trajlake.streams.broker import BrokerStatus
    from trajlake.streams.settings import Settings

DataOption = Annotated[
    str | None, typer.Option("--data", metavar="DIR", help="Folder of the broker's data and log [setting: broker_dir].")
]
PortOption = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Port on loopback; 0 or auto takes a free one [default: that of bootstrap_servers].",
    ),
]


def register(app: typer.Typer) -> None:
    """Add `broker` with its actions."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("start")(start)
    group.command("stop")(stop)
    group.command("status")(status)
    group.command("fetch")(fetch)
    app.add_typer(group, name="broker", help="Start, stop and look at the embedded Apache Kafka.")


def start(
    port: PortOption = None,
    data: DataOption = None,
    heap_mb: Annotated[int | None, typer.Option("--heap-mb", help="Heap in MiB [setting: broker_heap_mb].")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start Kafka here, or find it running. It goes on after this command, until `trajlake broker stop`.

    Example: trajlake broker start --port auto
    """
    from trajlake.streams.broker import BrokerError, EmbeddedBroker
    from trajlake.streams.broker.runtime import find_runtime
    from trajlake.streams.settings import load_settings
    from trajlake.streams.topics import ensure_topics

    settings = load_settings(broker_dir=data, broker_heap_mb=heap_mb)
    broker = EmbeddedBroker(
        settings.broker_dir, port=_port(port, settings.bootstrap_servers), heap_mb=settings.broker_heap_mb
    )
    ran = broker.pid is not None
    if find_runtime() is None:
        note("fetching Apache Kafka's jars, once")
    try:
        with working("starting Kafka"):
            servers = broker.start()
            ensure_topics(
                servers, {settings.events_topic: settings.events_partitions}, max_message_bytes=settings.event_max_bytes
            )
    except BrokerError as error:
        for line in error.log_tail:
            note(f"  {line}")
        fail(str(error))
    if as_json:
        print_json({**asdict(broker.status()), "already_running": ran})
        return
    print(f"Kafka {'is already running' if ran else 'runs'} at {servers} (pid {broker.pid})")
    note(f"data and log: {broker.folder}")
    note(f"stop it with: trajlake broker stop{_where(settings, data)}")
    if servers != settings.bootstrap_servers:
        note(f"tell the other commands: export TRAJLAKE_BOOTSTRAP_SERVERS={servers}")


def stop(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Stop Kafka cleanly. Its data stays.

    Example: trajlake broker stop
    """
    broker, _ = _open(data)
    pid = broker.pid
    with working("stopping Kafka"):
        ran = broker.stop()
    if as_json:
        print_json({"stopped": ran, "pid": pid})
    else:
        print(f"Kafka stopped (pid {pid})" if ran else _none_in(broker.folder))


def status(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Say whether Kafka runs here, and where it answers. Exit code 3 when it does not run.

    Example: trajlake broker status --json
    """
    broker, _ = _open(data)
    seen: BrokerStatus = broker.status()
    if as_json:
        print_json(asdict(seen))
    elif seen.running:
        print(f"Kafka runs at {seen.bootstrap_servers} (pid {seen.pid}), data in {seen.folder}")
    else:
        print(_none_in(seen.folder))
    if not seen.running:
        # The exit code that init scripts use for "not running" (LSB).
        raise typer.Exit(3)


def fetch(as_json: JsonOption = False) -> None:
    """Fetch Kafka's jars and prepare its quick start. Afterwards no command needs a network.

    Example: trajlake broker fetch
    """
    from trajlake.streams.broker.quickstart import prepare
    from trajlake.streams.broker.runtime import KAFKA_VERSION, find_runtime

    if find_runtime() is None:
        note(f"fetching Apache Kafka {KAFKA_VERSION} (45 jars, 44 MB)")
    with working("fetching jars, and starting Kafka once"):
        runtime, quick = prepare()
    if as_json:
        print_json({"kafka": KAFKA_VERSION, "jars": len(runtime.classpath), "java": str(runtime.java), "quick": quick})
    else:
        print(f"Apache Kafka {KAFKA_VERSION} is here: {len(runtime.classpath)} jars, Java {runtime.java_major}")


def _open(data: str | None) -> tuple[Any, Settings]:
    from trajlake.streams.broker import EmbeddedBroker
    from trajlake.streams.settings import load_settings

    settings = load_settings(broker_dir=data)
    return EmbeddedBroker(settings.broker_dir), settings


def _port(given: str | None, servers: str) -> int:
    if given is None:
        # The other commands look there by default, so the broker starts there by default.
        return int(servers.split(",")[0].rpartition(":")[2])
    if given == "auto":
        return 0
    if given.isdigit() and int(given) < 65536:
        return int(given)
    raise typer.BadParameter(f"{given!r} is no port: a number from 1 to 65535, or 0 or auto for a free one")


def _none_in(folder: object) -> str:
    """Which folder was looked at: the default is below the folder that one is in, so another folder has another."""
    return (
        f"no Kafka of this folder runs: looked at {folder} (setting broker_dir); one that was started elsewhere is "
        "found from there, or with --data DIR"
    )


def _where(settings: Settings, data: str | None) -> str:
    return f" --data {settings.broker_dir}" if data else ""
