"""The public face of trajlake: publish events, read tables, run the `trajlake` command.

Stage: outermost. Reads: what its callers give it. Writes: nothing by itself.
May import: every other package. Imports nothing heavy until a name is used, so that an agent which only publishes
pays only for the publisher.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trajlake.reading.tables import open_lake as open_lake
    from trajlake.reading.training import training as training
    from trajlake.recording.recorder import Recorder as Recorder
    from trajlake.redacting import redact as redact

__version__ = "0.1.0"

# Public name -> module that defines it. Resolved at first use (PEP 562).
_HOMES: dict[str, str] = {
    "Recorder": "trajlake.recording.recorder",
    "open_lake": "trajlake.reading.tables",
    "training": "trajlake.reading.training",
    "redact": "trajlake.redacting",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trajlake' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
