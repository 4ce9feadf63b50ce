"""Options that several commands share, so that each has one name, one help text and one default."""

from __future__ import annotations

from typing import Annotated

import typer

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
