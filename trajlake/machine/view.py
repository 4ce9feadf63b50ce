"""What is shown of a running system: a table that stays in its place in a terminal, a line a change elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from trajlake.cli.output import one_line, print_json
from trajlake.machine.supervisor import State

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_REDRAWS_A_SECOND: Final = 2
_COLOURS: Final = {"ready": "green", "not ready": "yellow", "ended": "red", "starting": "cyan"}
_LINE_CHARS: Final = 200
_WIDE: Final = 70


def tell_line(state: State) -> None:
    """A change as a line for people."""
    pid = f" (pid {state.pid})" if state.pid else ""
    again = f", start {state.restarts + 1}" if state.restarts else ""
    detail = f": {one_line(state.detail, _LINE_CHARS)}" if state.detail else ""
    print(f"{state.name} {state.state}{pid}{again}{detail}", flush=True)


def tell_json(state: State) -> None:
    """A change as a line of JSON, with the time at which it was seen."""
    told = {name: value for name, value in asdict(state).items() if name != "since"}
    print_json({"time": datetime.now(UTC), **told})


@contextmanager
def live_table(states: Callable[[], list[State]], below: list[str]) -> Iterator[None]:
    """Draw the states over and over while the block runs. `below`: lines under the table."""
    from rich.live import Live

    class Picture:
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
            yield draw(states(), below, time.monotonic(), options.max_width)

    with Live(Picture(), refresh_per_second=_REDRAWS_A_SECOND, screen=False):
        yield


def draw(states: list[State], below: list[str], now: float, width: int) -> RenderableType:
    """One picture of the states. `now`: seconds of the monotonic clock. `width`: columns of the terminal; a narrow one
    shows less."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    wide = width >= _WIDE
    table.add_column("service", no_wrap=True)
    table.add_column("state", no_wrap=True)
    if wide:
        table.add_column("for", justify="right", no_wrap=True)
        table.add_column("pid", justify="right", no_wrap=True)
        table.add_column("starts", justify="right", no_wrap=True)
    table.add_column("what", overflow="ellipsis", no_wrap=True, ratio=1)
    for state in states:
        table.add_row(
            state.name,
            Text(state.state, _COLOURS.get(state.state, "")),
            *([spoken(now - state.since), str(state.pid or "-"), str(state.restarts + 1)] if wide else []),
            Text(one_line(state.detail, _LINE_CHARS)),
        )
    return Group(table, *(Text(line, overflow="fold") for line in below))


def spoken(seconds: float) -> str:
    """A length of time in the two largest units that say it."""
    whole = int(seconds)
    for size, unit, smaller, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {below}"
    return f"{whole} s"


def watcher(*, as_json: bool) -> Callable[[State], None]:
    """How changes are told: JSON when asked for, nothing where the table shows them, else lines."""
    if as_json:
        return tell_json
    return _nothing if sys.stdout.isatty() else tell_line


def _nothing(_: Any) -> None:
    return
