"""A figure as benchmarks print it."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured figure. `floor`: what it should at least be (`at_most`: should at most be); None where none is
    set."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    at_most: float | None = None
    detail: dict[str, Any] | None = None

    @property
    def met(self) -> bool | None:
        if self.floor is not None:
            return self.value >= self.floor
        return None if self.at_most is None else self.value <= self.at_most


def show(figure: Figure) -> None:
    """Print one JSON line."""
    line = {key: value for key, value in asdict(figure).items() if value is not None}
    if figure.met is not None:
        line["met"] = figure.met
    print(json.dumps({**line, "cores": os.cpu_count(), "python": platform.python_version()}), flush=True)
