"""`trajlake attention`: the dashboard's first page in a terminal, for people and for alarms."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import working
from trajlake.reading.text import clean

if TYPE_CHECKING:
    from trajlake.dashboard.board import SkillRow

NEEDED = 10
"""Exit code when a skill is degraded or to be watched."""
_COLOURS = {"degraded": "bold red", "watch": "bold yellow", "not_enough_data": "dim", "ok": "green"}


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
    from trajlake.dashboard.attention import NEEDS, advice_words, common_causes, mostly, standing_advice
    from trajlake.dashboard.attention import attention as most_urgent
    from trajlake.dashboard.board import BoardKeeper
    from trajlake.dashboard.display import STATE_WORDS, interval, rate
    from trajlake.expectations.outcomes import WINDOWS
    from trajlake.reading.tables import open_lake

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
    causes = common_causes(board.skills(window), window)
    now = datetime.now(UTC)
    advice = [standing_advice(board, row.tenant, row.skill, now) for row in rows]
    needed = any(row.state in NEEDS for row in rows)
    if as_json:
        print_json(
            {
                "window": window,
                "data_to": board.data_to,
                "causes": [{**asdict(cause), "sentence": cause.sentence} for cause in causes],
                "skills": [
                    {**asdict(row), "mostly": mostly(row) or None, "advice": _advice(advised)}
                    for row, advised in zip(rows, advice, strict=True)
                ],
            },
            indent=True,
        )
        raise typer.Exit(NEEDED if needed else 0)
    title = f"attention, {window}, data to {board.data_to:%Y-%m-%d %H:%M:%SZ}"
    told = [clean(cause.sentence) for cause in causes]
    if sys.stdout.isatty():
        _draw(title, told, list(zip(rows, advice, strict=True)), window)
    else:
        note(title)
        for sentence in told:
            print(sentence)
        print_table(
            [
                [
                    STATE_WORDS[row.state], _name(row), row.tenant,
                    f"{rate(row.rate)} {interval(row.low, row.high)}".strip(), row.scorable, row.runs,
                    _why(row, window), clean(advice_words(advised)) or None,
                ]
                for row, advised in zip(rows, advice, strict=True)
            ],
            ["state", "skill", "tenant", "quality", "scorable", "runs", "why", "advice"],
        )  # fmt: skip
    raise typer.Exit(NEEDED if needed else 0)


def _draw(
    title: str, causes: Sequence[str], rows: Sequence[tuple[SkillRow, Mapping[str, Any] | None]], window: str
) -> None:
    """Skills below each other, each with its numbers in one line: reasons are sentences, and fit no column."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from trajlake.dashboard.attention import advice_words
    from trajlake.dashboard.display import STATE_MARKS, STATE_WORDS, interval, rate

    console = Console(highlight=False)
    console.print(Text(title, "bold"))
    for sentence in causes:
        console.print(Text(f"■ {sentence}", "magenta"))
    for row, advised in rows:
        console.print()
        state = (f"{STATE_MARKS[row.state]} {STATE_WORDS[row.state]}", _COLOURS[row.state])
        numbers = f"  {rate(row.rate)} {interval(row.low, row.high)}, {row.scorable:,} scorable of {row.runs:,}"
        console.print(Text.assemble(state, "  ", (_name(row), "bold"), f"  {clean(row.tenant)}{numbers}"))
        if why := _why(row, window):
            console.print(Padding(Text(why), (0, 0, 0, 4)))
        if advised is not None:
            words = f"→ {advised['lever'].replace('_', ' ')}: {clean(advice_words(advised))}"
            console.print(Padding(Text(words, "cyan"), (0, 0, 0, 4)))


def _name(row: SkillRow) -> str:
    return clean(f"{row.skill or '(no skill)'}@{row.version or '-'}")


def _why(row: SkillRow, window: str) -> str:
    """The reason, and what it is of where the numbers beside it are of another window."""
    from trajlake.dashboard.attention import mostly
    from trajlake.transforms.rolling.readings import STANDING_WINDOW

    within = "" if window == STANDING_WINDOW else f"within {STANDING_WINDOW}:"
    return clean(" ".join(part for part in (within, row.reason, mostly(row)) if part))


def _advice(advised: Mapping[str, Any] | None) -> dict[str, Any] | None:
    names = ("decision_id", "lever", "target_kind", "target", "summary")
    return None if advised is None else {name: advised[name] for name in names}
