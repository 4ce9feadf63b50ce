"""Options that several commands share, so that each has one name, one help text and one default."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from trajlake.cli.output import USAGE, fail

RootOption = Annotated[
    str | None,
    typer.Option("--root", metavar="DIR|URI", help="Place that holds all zones of the lake [setting: root]."),
]
"""Declare as `root: RootOption = None`; None means the setting's value (`load_settings(root=root)` does that)."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]
"""Declare as `as_json: JsonOption = False`."""

BootstrapOption = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="Kafka to talk to [setting: bootstrap_servers]."),
]
"""Declare as `bootstrap_servers: BootstrapOption = None`; None means the setting's value."""


def read_time(name: str, text: str | None) -> datetime | None:
    """The time that an option gives (RFC 3339, UTC where it names no zone). Ends the command where it is none."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{name}: {text!r} is no RFC 3339 time", USAGE)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
