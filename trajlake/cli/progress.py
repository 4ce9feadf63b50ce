"""One line on stderr that says how far a command is: what, how many of how many, how fast, and how long yet."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from trajlake.expectations.progress import SILENT, Progress

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PATIENCE_S = 1.0
"""Work that ends sooner shows nothing."""
_DRAWN_A_SECOND = 8
_BAR_CHARS = 20
_RECENT_S = 20.0
"""The rate is that of so many seconds past: a stage may become slower."""
_LEAST_S = 0.5
"""A rate over less than this is noise, and not told."""
_TEXT_CHARS = 24
"""What is left of the text before anything else gives way in a narrow terminal."""


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Progress of a command, shown once it takes more than a second; nothing where stderr is no terminal.

    Nothing either where stdout is a pipe, for what reads it may write to the same terminal, and where it is to be
    `quiet`, for the command itself writes there all the time.
    """
    if quiet or not sys.stderr.isatty() or _leads_to_a_pipe(1):
        yield SILENT
        return
    line = Line()
    later = Timer(PATIENCE_S, line.show)
    later.daemon = True
    later.start()
    try:
        yield line
    finally:
        later.cancel()
        later.join()
        line.hide()


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show that something is done whose end cannot be told, and for how long it has been going on."""
    with progress() as shown:
        shown.stage(text)
        yield


def aside(shown: Progress) -> AbstractContextManager[None]:
    """Take the line away while something else is printed."""
    return shown.away() if isinstance(shown, Line) else nullcontext()


def _leads_to_a_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


class Line:
    """The progress of one stage after the other, as a line that is drawn over and over and leaves nothing behind.

    `clock` gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._drawing = Lock()
        self._live: Any = None
        self._is_due = False
        self.stage("")

    # What the work tells

    def stage(self, text: str, total: int | None = None, unit: str = "") -> None:
        with self._lock:
            self._text, self._total, self._unit, self._done = text, total, unit, 0
            self._began = self._clock()
            self._past = deque([(self._began, 0)])

    def name(self, text: str) -> None:
        with self._lock:
            self._text = text

    def advance(self, count: int = 1) -> None:
        with self._lock:
            self._done += count

    def reach(self, done: int, total: int | None = None) -> None:
        with self._lock:
            self._done = done
            self._total = self._total if total is None else total

    # What is seen of it

    def show(self) -> None:
        """Draw the line from now on."""
        with self._drawing:
            self._is_due = True
            self._start()

    def hide(self) -> None:
        """Take the line away."""
        with self._drawing:
            self._is_due = False
            self._stop()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Take the line away for a while."""
        with self._drawing:
            self._stop()
            try:
                yield
            finally:
                sys.stdout.flush()
                if self._is_due:
                    self._start()

    def _start(self) -> None:
        from rich.console import Console
        from rich.live import Live

        class Terminal(Console):
            def show_cursor(self, show: bool = True) -> bool:
                # A command that is killed could not show it again.
                return False

        # What is printed on stdout stays there, whoever reads it; lines on stderr appear above this one.
        self._live = Live(
            _Picture(self), console=Terminal(stderr=True, highlight=False), transient=True, redirect_stdout=False,
            refresh_per_second=_DRAWN_A_SECOND,
        )  # fmt: skip
        self._live.start(refresh=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def drawn(self, width: int) -> str:
        """The line for a terminal of so many columns."""
        now = self._clock()
        with self._lock:
            text, total, unit, done = self._text, self._total, self._unit, self._done
            self._past.append((now, done))
            while self._past[1][0] < now - _RECENT_S:
                self._past.popleft()
            then, before = self._past[0]
            spent = now - self._began
        if not text:
            return ""
        rate = (done - before) / (now - then) if now - then >= _LEAST_S else 0.0
        return fitted(text, _facts(total, unit, done, rate, spent), width)


class _Picture:
    """What Rich asks for whenever it draws."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text(self._line.drawn(options.max_width - 1), no_wrap=True, overflow="ellipsis", end="")


def _facts(total: int | None, unit: str, done: int, rate: float, spent_s: float) -> list[tuple[int, str]]:
    """Parts of a line from left to right, each with its rank: those of the highest rank give way first."""
    clock = (1, _clock(spent_s))
    if total is None:
        return [(1, f"{_amount(done, unit)}"), (2, _speed(rate, unit)), clock] if unit and done else [clock]
    share = min(1.0, done / total) if total > 0 else 1.0
    full = int(share * _BAR_CHARS)
    counted = f"{_amount(done, unit, bare=True)} of {_amount(total, unit)}"
    left = f"{_clock((total - done) / rate)} left" if rate > 0 and done < total else ""
    return [
        (4, "━" * full + "╌" * (_BAR_CHARS - full)), (1, counted), (3, _speed(rate, unit)),
        (2, left) if left else clock,
    ]  # fmt: skip


def fitted(text: str, facts: list[tuple[int, str]], width: int) -> str:
    """A text and the facts behind it within so many columns: facts go first, by rank, then the end of the text."""
    kept = [fact for fact in facts if fact[1]]
    while kept and min(len(text), _TEXT_CHARS) + sum(2 + len(words) for _, words in kept) > width:
        kept.remove(max(kept, key=lambda fact: fact[0]))
    behind = "".join(f"  {words}" for _, words in kept)
    room = max(0, width - len(behind))
    if len(text) > room:
        text = f"{text[: max(0, room - 1)]}…"
    return text + behind


def _amount(count: int, unit: str, *, bare: bool = False) -> str:
    if unit == "bytes":
        return _bytes(count)
    return f"{count:,}" if bare or not unit else f"{count:,} {unit}"


def _bytes(count: float) -> str:
    for name in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {name}" if name == "bytes" or count >= 100 else f"{count:.1f} {name}"
        count /= 1000
    return f"{count:.1f} TB"


def _speed(rate: float, unit: str) -> str:
    if rate <= 0:
        return ""
    if unit == "bytes":
        return f"{_bytes(rate)}/s"
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
