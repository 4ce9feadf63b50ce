"""`trajlake attention`: the dashboard's first page in a terminal, for people and for alarms."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, print_json, print_table
from trajlake.cli.progress import working

NEEDED = 10
"""Exit code when a skill is degraded or to be watched."""


def register(app: typer.Typer) -> None:
    """Add `attention`."""
    app.command("attention")(attention)


def attention(
    root: RootOption = None,
    window: Annotated[str, typer.Option("--window", help="1h, 24h, 7d, 30d or version.")] = "24h",
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="This tenant alone.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Which skills need attention, and why. Exit code: 0 none does, 10 some do, 1 the tables could not be asked.

    Example: trajlake attention --window 7d --root ./lake
    """
    from trajlake.dashboard.attention import NEEDS, common_causes
    from trajlake.dashboard.attention import attention as most_urgent
    from trajlake.dashboard.board import BoardKeeper
    from trajlake.dashboard.display import STATE_WORDS, interval, rate
    from trajlake.expectations.outcomes import WINDOWS
    from trajlake.reading.tables import open_lake
    from trajlake.reading.text import clean

    if window not in WINDOWS:
        fail(f"no window {window}; there are {', '.join(WINDOWS)}", 2)
    with working("reading the statistics"):
        keeper = BoardKeeper(open_lake(root))
        keeper.refresh()
    board = keeper.board.of_tenant(tenant)
    if board.failure:
        fail(board.failure)
    if board.data_to is None:
        fail(f"no statistics in {board.root}: `trajlake land` and `trajlake roll` make them")
    rows = most_urgent(board, window)
    causes = common_causes(board.skills(window))
    needed = any(row.state in NEEDS for row in rows)
    if as_json:
        print_json(
            {
                "window": window,
                "data_to": board.data_to,
                "causes": [{**asdict(cause), "sentence": cause.sentence} for cause in causes],
                "skills": [asdict(row) for row in rows],
            },
            indent=True,
        )
        raise typer.Exit(NEEDED if needed else 0)
    for cause in causes:
        print(clean(cause.sentence))
    print_table(
        [
            [
                STATE_WORDS[row.state], f"{row.skill or '(no skill)'}@{row.version or '-'}", row.tenant,
                f"{rate(row.rate)} {interval(row.low, row.high)}".strip(), row.scorable, row.runs, clean(row.reason),
            ]
            for row in rows
        ],
        ["state", "skill", "tenant", "quality", "scorable", "runs", "why"],
        title=f"attention, {window}, data to {board.data_to:%Y-%m-%d %H:%M:%SZ}",
    )  # fmt: skip
    raise typer.Exit(NEEDED if needed else 0)
