"""Ends the process where going on would be wrong: a state that is not whole must never be served or built upon.

Faust swallows errors of recovery with a warning and goes on with what it has, and acknowledges an event whose handler
raised. Both would lose outcomes without a trace. A process that ends is started again and recovers by its changelog.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import faust
import structlog

log = structlog.get_logger("trajlake.roll")

EXIT_STATE: Final = 4
"""Exit code of a worker whose state could not be recovered or kept."""


def end_process(what: str, error: BaseException | str) -> None:
    """Say why and end at once, without the clean-up that would commit offsets."""
    log.error("the worker ends: its state is not safe", what=what, reason=f"{type(error).__name__}: {error}"[:500])
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(EXIT_STATE)


class GuardedTable(faust.Table[bytes, bytes]):
    """A table whose recovery ends the process at the first value that it cannot read. Its changes are written by the
    caller, many at a time.

    `check(key, value)`: raises for what cannot be read; called for every value of the changelog. `on_recovered`: called
    with the active partitions when the table is whole, before any event is processed. `is_older(value, held)`: tells a
    value of the changelog that must not take the place of the one before it.
    """

    check: Callable[[bytes, bytes | None], None] | None = None
    recovered: Callable[[set[int]], None] | None = None
    is_older: Callable[[bytes, bytes], bool] | None = None

    def apply_changelog_batch(self, batch: Any) -> None:
        try:
            if self.check is not None:
                for event in batch:
                    self.check(event.key, event.message.value)
            super().apply_changelog_batch(batch if self.is_older is None else self._newest(batch, self.is_older))
        except Exception as error:
            end_process(f"recovery of table {self.name}", error)

    def _newest(self, batch: Any, is_older: Callable[[bytes, bytes], bool]) -> list[Any]:
        """Events of a batch but for those that would put an older value back."""
        kept: list[Any] = []
        held: dict[bytes, bytes | None] = {}
        known: Any = self.data
        for event in batch:
            key, value = event.key, event.message.value
            before = held[key] if key in held else known.get(key)
            if value is None or before is None or not is_older(value, before):
                held[key] = value
                kept.append(event)
        return kept

    async def on_recovery_completed(self, active_tps: Any, standby_tps: Any) -> None:
        try:
            await super().on_recovery_completed(active_tps, standby_tps)
            if self.recovered is not None:
                self.recovered({tp.partition for tp in active_tps})
        except Exception as error:
            end_process(f"recovery of table {self.name}", error)

    def hold(self, key: bytes, value: bytes | None) -> None:
        """Note what the changelog has by now; the caller wrote it."""
        if value is None:
            self.data.data.pop(key, None)
        else:
            self.data.data[key] = value


class _RecoveryErrors(logging.Handler):
    """Ends the process at Faust's own warning of a recovery error, whatever it came from."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Error in recovery"):
            end_process("recovery", record.getMessage())


def watch_recovery() -> None:
    """Install the watch over Faust's recovery log."""
    recovery = logging.getLogger("faust.tables.recovery")
    if not any(isinstance(handler, _RecoveryErrors) for handler in recovery.handlers):
        recovery.addHandler(_RecoveryErrors())
        recovery.setLevel(min(recovery.level or logging.WARNING, logging.WARNING))
