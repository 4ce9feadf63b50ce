"""What can go wrong while writing to a lake.

SinkError
├── SinkUnavailable   transient: the store or disk does not answer; the same call may succeed later
│   └── FileGone      a data file went while it was to be read: compacted or erased meanwhile; read the table anew
├── StaleWriter       terminal for the batch: somebody else has landed part of it; forget it and resume from the tables
│   └── Fenced        the same, because an erasure came in between: what resumes obeys it
└── TableMismatch     terminal: the table is not what the contract says, or needs a newer version of this program
"""

from __future__ import annotations

from trajlake.expectations.errors import TrajlakeError


def reason(error: Exception) -> str:
    """One line of an error of the store; its text names paths and codes, no content."""
    text = str(error).split("Debug source:")[0]
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"


class SinkError(TrajlakeError):
    """Base of all write errors. `table` names the table, where one is concerned."""

    def __init__(self, message: str, table: str | None = None) -> None:
        super().__init__(message if table is None else f"table {table}: {message}")
        self.table = table


class SinkUnavailable(SinkError):
    """The store did not take the write: not reachable, not permitted, or full. Nothing was committed."""


class FileGone(SinkUnavailable):
    """A data file that a version names is not there any more: compacted or erased since. A newer version holds what is
    left of it."""


class StaleWriter(SinkError):
    """Another writer owns the partition by now. `app` is the transaction id, `found` the offset that it has landed."""

    told = "expected {app} at offset {expected}, found {found}: another worker landed it"

    def __init__(self, table: str, app: str, expected: int, found: int) -> None:
        super().__init__(self.told.format(app=app, expected=expected, found=found), table)
        self.app = app
        self.expected = expected
        self.found = found


class Fenced(StaleWriter):
    """An erasure that the batch knows nothing of has put its fence into the table. `expected`, `found`: numbers of
    erasures."""

    told = "erasure {found} came in between, and the batch obeys no later one than {expected}"


class TableMismatch(SinkError):
    """The stored table cannot be written under this contract."""
