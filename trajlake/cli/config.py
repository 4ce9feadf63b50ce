"""`trajlake config`: every setting, its value here, and what it trades."""

from __future__ import annotations

import os

import typer

from trajlake.cli.options import JsonOption
from trajlake.cli.output import print_json, print_table


def register(app: typer.Typer) -> None:
    """Add `config`."""
    app.command("config")(config)


def config(as_json: JsonOption = False) -> None:
    """Show every setting: the variable that sets it, its value and where that comes from, its unit, what it trades.

    Values that may be secrets are shown as ***.

    Example: trajlake config --json
    """
    from trajlake.streams.settings import describe, load_settings

    shown = load_settings().shown()
    rows = [
        {
            "setting": doc.name,
            "env": doc.env,
            "value": shown[doc.name],
            "from": doc.env if doc.env in os.environ else "default",
            "unit": doc.unit,
            "trades": doc.doc,
        }
        for doc in describe()
    ]
    if as_json:
        print_json(rows, indent=True)
    else:
        print_table(rows, ["setting", "env", "value", "from", "unit", "trades"])
