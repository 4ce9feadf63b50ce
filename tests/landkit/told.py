"""Progress as a test sees it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Stage:
    """One stage as it was told. `names`: what it was called on its way."""

    text: str
    total: int | None
    unit: str
    done: int = 0
    names: list[str] = field(default_factory=list)


class Told:
    """A `Progress` that keeps what it is told."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def __getitem__(self, text: str) -> Stage:
        """The last stage whose text begins so."""
        return next(stage for stage in reversed(self.stages) if stage.text.startswith(text))

    def stage(self, text: str, total: int | None = None, unit: str = "") -> None:
        self.stages.append(Stage(text, total, unit))

    def name(self, text: str) -> None:
        self.stages[-1].names.append(text)

    def advance(self, count: int = 1) -> None:
        self.stages[-1].done += count

    def reach(self, done: int, total: int | None = None) -> None:
        self.stages[-1].done = done
        self.stages[-1].total = self.stages[-1].total if total is None else total
