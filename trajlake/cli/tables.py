"""`trajlake tables`: what is in the lake, and how far it is behind the log."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables
    from trajlake.streams.settings import Settings

BROKER_TIMEOUT_S = 2.0
NOTHING_THERE = 2
"""Exit code of every command that looks at a root which holds no table."""


def register(app: typer.Typer) -> None:
    """Add `tables`."""
    app.command("tables")(tables)


def tables(root: RootOption = None, bootstrap_servers: BootstrapOption = None, as_json: JsonOption = False) -> None:
    """List tables with version, rows, files, bytes and last commit, and partitions with landed offset and lag.

    Lag is shown where Kafka answers within two seconds. Exits 2 where the root holds no table.

    Example: trajlake tables --root ./lake
    """
    from trajlake.expectations.tables import TABLES
    from trajlake.reading.tables import LakeTables
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers)
    lake = LakeTables(settings.lake())
    with progress() as shown:
        found = []
        shown.stage("looking at the tables", len(TABLES), "tables")
        for name in TABLES:
            found.append(asdict(lake.describe(name)))
            shown.advance()
        shown.stage("reading offsets, and asking Kafka for its own")
        partitions, reachable = _partitions(lake, settings)
    if as_json:
        print_json({"root": lake.root, "broker": reachable, "tables": found, "partitions": partitions}, indent=True)
    if all(table["version"] is None for table in found):
        fail(nothing_landed(lake.root), NOTHING_THERE)
    if as_json:
        return
    for table in found:
        table["committed_at"] = table["committed_at"] and table["committed_at"].isoformat(" ", "seconds")
    print_table(found, list(found[0]), title=f"tables of {lake.root}")
    if partitions:
        print_table(partitions, list(partitions[0]), title="partitions")
    if not reachable:
        note(f"lag is unknown: no broker answers at {settings.bootstrap_servers}")


def nothing_landed(root: str) -> str:
    """What to say of a root without tables."""
    return (
        f"no tables in {root}: nothing has landed there yet; `trajlake land` lands events, --root names another place"
    )


def _partitions(lake: LakeTables, settings: Settings) -> tuple[list[dict[str, Any]], bool]:
    """Each partition with its landed offset, and lag where Kafka answers."""
    from trajlake.reading.lag import measure_lag

    landed = lake.landed(settings.app_id)
    lags = measure_lag(settings.kafka(), landed, {settings.events_topic}, BROKER_TIMEOUT_S)
    rows = []
    for key in sorted({*landed, *(lags or {})}):
        lag = lags.get(key) if lags else None
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "landed_offset": landed.get(key, -1),
                "end_offset": lag.end_offset if lag else None,
                "lag_records": lag.records if lag else None,
                "lag_s": round(lag.seconds, 3) if lag and lag.seconds is not None else None,
            }
        )
    return rows, lags is not None
