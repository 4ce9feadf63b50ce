"""The end of a process at a step of its work, without a process."""

from __future__ import annotations

from collections.abc import Callable


class Killed(BaseException):
    """Stands for the end of the process: nothing of the program catches it."""


def kill_at(wanted: str) -> Callable[[str], None]:
    """An observer that ends the work just before a step is taken."""

    def on_step(step: str) -> None:
        if step == wanted:
            raise Killed(step)

    return on_step
