"""What runs on one machine: each service is a `trajlake` command with a health endpoint or without."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from trajlake.streams.broker.ports import HOST, free_port
from trajlake.streams.settings import Settings


@dataclass(frozen=True)
class Choices:
    """What somebody may choose. Ports: 0 takes a free one."""

    workers: int = 1
    dashboard_port: int = 8765
    dashboard: bool = True
    curate_every_s: float = 30.0
    maintain_every_s: float = 600.0


@dataclass(frozen=True)
class Service:
    """One service. `ready_url`: answers 200 when all is well; empty where being alive is all that can be asked."""

    name: str
    arguments: tuple[str, ...]
    ready_url: str = ""
    address: str = ""
    """Where people look at it."""
    variables: tuple[tuple[str, str], ...] = ()
    """What it gets in its environment on top of what all get."""


def services(settings: Settings, choices: Choices) -> list[Service]:
    """All services but the broker, in the order in which they start."""
    health = settings.health_port or free_port()
    page = choices.dashboard_port or free_port()
    found = [
        Service(
            "land",
            ("--workers", str(choices.workers), "--health-port", str(health)),
            f"http://{settings.health_host}:{health}/ready",
            f"http://{settings.health_host}:{health}/status",
        ),
        Service(
            "roll",
            ("--port", str(settings.roll_port)),
            f"http://{settings.roll_host}:{settings.roll_port}/ready",
            f"http://{settings.roll_host}:{settings.roll_port}/skills",
        ),
        _in_rounds("curate", choices.curate_every_s, settings.health_host, settings.curate_port),
        _in_rounds("maintain", choices.maintain_every_s, settings.health_host, settings.maintain_port),
    ]
    if choices.dashboard:
        address = f"http://{HOST}:{page}/"
        found.append(Service("dashboard", ("--port", str(page)), f"{address}ready", address))
    return found


def _in_rounds(name: str, every_s: float, host: str, port: int) -> Service:
    """A service that works every so many seconds. Its port is a setting alone."""
    port = port or free_port()
    variables = ((f"TRAJLAKE_{name.upper()}_PORT", str(port)),)
    return Service(name, ("--every", f"{every_s:g}"), f"http://{host}:{port}/ready", "", variables)


def has_dashboard() -> bool:
    """Whether the packages of the dashboard are installed."""
    return all(find_spec(name) for name in ("starlette", "uvicorn", "altair", "vl_convert"))
