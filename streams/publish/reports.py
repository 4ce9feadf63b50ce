"""What a publisher says of itself: counts, and log lines that neither repeat without end nor hold a payload."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log = logging.getLogger("trajlake.recording.recorder")

_REPEAT_EVERY_S: Final = 60.0


@dataclass
class Counts:
    """What became of the events of one publisher, in events, except `errors`.

    accepted: taken by `put`. delivered: acknowledged by Kafka, leftovers of dead processes included. parked: refused
    by Kafka for good and kept in the spool's `parked` folder. dropped: lost, because neither disk nor Kafka had room.
    unspooled: sent without ever having been on disk. altered: had values that JSON or the contract could not hold.
    errors: internal ones.
    """

    accepted: int = 0
    delivered: int = 0
    parked: int = 0
    dropped: int = 0
    unspooled: int = 0
    altered: int = 0
    errors: int = 0


class Reports:
    """Counts and throttled log lines of one publisher. Safe for several threads."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._lock = threading.RLock()
        self._said: dict[str, tuple[float, int]] = {}
        self._altered: set[str] = set()

    def add(self, name: str, number: int = 1) -> None:
        """Add to one of the counts."""
        with self._lock:
            setattr(self.counts, name, getattr(self.counts, name) + number)

    def say(self, kind: str, text: str, level: int = logging.ERROR) -> None:
        """Log a kind of trouble at once, and again at most once a minute, with how often it happened meanwhile."""
        now = time.monotonic()
        with self._lock:
            last, count = self._said.get(kind, (-_REPEAT_EVERY_S, 0))
            due = now - last >= _REPEAT_EVERY_S
            self._said[kind] = (now, 0) if due else (last, count + 1)
        if due:
            log.log(level, "%s%s", text, f" ({count} more times since the last such line)" if count else "")

    def altered(self, kind: str, fields: list[str]) -> None:
        """Count an event whose values do not fit, and name each field once. Names are the contract's, never values."""
        self.add("altered")
        for field in fields:
            what = f"{kind}: {field}"
            if what not in self._altered:
                self._altered.add(what)
                log.warning("%s: %s does not fit the contract; it was converted or set apart", kind, field)

    def forget(self, kind: str) -> None:
        """Trouble of this kind is over: the next one is news again."""
        with self._lock:
            self._said = {known: said for known, said in self._said.items() if not known.startswith(kind)}

    def error(self, error: BaseException) -> None:
        """Count an internal error, and log its type and place. Its message may hold payload, so it is not logged."""
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place is not None else "?"
        self.add("errors")
        kind = f"{type(error).__name__} at {where}"
        self.say(kind, f"internal error, the agent goes on: {kind}")
