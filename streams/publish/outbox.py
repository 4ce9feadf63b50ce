"""The outbox: events between the publisher's queue and Kafka's acknowledgement, in the spool, in memory and in flight.

Everything in it goes to the spool first, and to Kafka after that: from memory as long as the sender keeps up, from the
disk once it does not. Where the disk takes nothing, events go from memory straight to Kafka as long as there is room.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections import deque
from pathlib import Path
from typing import Final

from trajlake.streams.publish.envelope import format_ns
from trajlake.streams.publish.frames import frame
from trajlake.streams.publish.lifetimes import leak
from trajlake.streams.publish.parked import ParkedEvent, park
from trajlake.streams.publish.reports import Reports, log
from trajlake.streams.publish.sender import Parcel, Sender, Target
from trajlake.streams.publish.spool import Position, SpoolLog
from trajlake.streams.publish.spoolfolder import SpoolFolder

READY_BYTES: Final = 16 * 2**20
AWAY_AFTER_S: Final = 2.0
_SENT_A_TURN: Final = 2_000
_REOPEN_EVERY_S: Final = 5.0
_NO_ANSWER: Final = (None, "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT")

Event = tuple[bytes, bytes]
"""Key and value of a Kafka record."""


class Outbox:
    """Used by the publisher's thread only, except its public attributes, which any thread may read."""

    def __init__(self, target: Target, spool: Path | None, spool_limit_bytes: int, reports: Reports) -> None:
        self._target = target
        self._spool = spool
        self._spool_limit_bytes = spool_limit_bytes
        self._reports = reports
        self._sender = Sender(target)
        self._folder: SpoolFolder | None = None
        self._own: SpoolLog | None = None
        self._orphans: list[SpoolLog] = []
        self._ready: deque[Parcel] = deque()
        self._ready_bytes = 0
        self._own_left = 0
        self.finished = 0
        """Accepted events that need nothing more: delivered, parked or lost."""
        self.orphans_left = 0
        """Events of dead processes that are not finished."""
        self._reopen_at = self._sync_at = self._progress_at = 0.0
        self._was_waiting = False
        self.is_away = False
        """Whether Kafka takes nothing although events wait for it."""
        self.is_refused = False
        """Whether it has been so for some time and the client says that connections fail: waiting has little sense."""

    @property
    def is_waiting(self) -> bool:
        """Whether events wait for Kafka."""
        return bool(self._sender.in_flight or self._ready or not self._is_caught_up())

    @property
    def is_moving(self) -> bool:
        """Whether events wait for Kafka and it is about to take them."""
        return self.is_waiting and time.monotonic() - self._progress_at < 0.5 and not self._sender.is_paused

    def open(self) -> None:
        """Open the spool, and adopt what dead processes left in it. Where that fails events wait in memory."""
        if self._spool is None:
            return
        self._folder = SpoolFolder(
            self._spool,
            self._target.topic,
            self._target.bootstrap_servers,
            limit_bytes=self._spool_limit_bytes,
            on_damage=self._damaged,
        )
        try:
            self._own, orphans = self._folder.open()
        except OSError as error:
            self._reopen_at = time.monotonic() + _REOPEN_EVERY_S
            self._reports.say("spool", f"no spool at {self._spool} ({_reason(error)}): events wait in memory only")
            return
        left = sum(orphan.count_unread() for orphan in orphans)
        self._orphans += orphans
        self.orphans_left += left
        if left:
            log.info("%d events that an earlier process left in %s are sent now", left, self._folder.folder)
        for stranger in self._folder.strangers():
            log.warning("%s holds events for other bootstrap servers, which nobody sends", stranger)

    def accept(self, batch: list[Event]) -> int:
        """Take events, in order, from the front of `batch`. Returns how many; fewer only while the disk takes none."""
        caught_up = self._is_caught_up()
        ends = self._append(batch)
        used = self._make_ready(batch, ends) if caught_up else 0
        accepted = len(batch) if ends else used
        self._own_left += accepted
        return accepted

    def turn(self) -> bool:
        """Send what can be sent and settle what Kafka answered. Returns whether events were finished."""
        self._dispatch()
        self._sender.poll(0)
        finished = self._settle()
        self._watch()
        return finished

    def poll(self, timeout_s: float) -> None:
        """Wait for Kafka's answers, at most so long."""
        self._sender.poll(timeout_s)

    def stop(self) -> None:
        """Send nothing more; what is only in memory goes to the disk."""
        try:
            self._sender.poll(0)
            self._settle()
            unsent = [*self._sender.abandon(), *self._ready]
            self._ready.clear()
            self._ready_bytes = 0
            self.rescue([(parcel.key, parcel.value) for parcel in unsent if parcel.log is None])
        except Exception as error:
            self._reports.error(error)

    def rescue(self, batch: list[Event]) -> None:
        """Put events on the disk at the end of the process; what it does not take is lost, and counted."""
        if batch and self._append(batch) is None:
            self._reports.add("dropped", len(batch))
            self._reports.say("dropped", f"{len(batch)} events are LOST: the process ends and the disk takes none")

    def close(self) -> None:
        """Let go of the spool."""
        for source in self._sources():
            source.close()

    def forget(self) -> None:
        """In a forked child: let go of the parent's files and client without touching either."""
        if self._sender.producer is not None:
            leak(self._sender.producer)
        for source in self._sources():
            source.forget()

    def successor(self) -> Outbox:
        """An outbox that has done nothing yet."""
        return Outbox(self._target, self._spool, self._spool_limit_bytes, self._reports)

    # -- into the spool ------------------------------------------------------------------------------------------

    def _append(self, batch: list[Event]) -> list[Position] | None:
        """Positions of the batch in the spool, or None when the disk does not take it."""
        if self._own is None:
            if time.monotonic() >= self._reopen_at:
                self.open()
            if self._own is None:
                return None
        try:
            return self._own.append([frame(key, value) for key, value in batch])
        except OSError as error:
            self._reports.say("spool", f"the spool {self._own.folder} takes no events ({_reason(error)})")
            if error.errno == errno.ENOENT:
                # Somebody removed the folder: a new one is made at the next turn.
                self._own.forget()
                self._own = None
            return None

    def _make_ready(self, batch: list[Event], ends: list[Position] | None) -> int:
        """Put as many events as there is room for behind what is ready. Returns how many."""
        used = 0
        for place, (key, value) in enumerate(batch):
            if self._ready_bytes >= READY_BYTES:
                break
            self._ready.append(Parcel(key, value, self._own, ends[place]) if ends else Parcel(key, value))
            self._ready_bytes += len(value)
            used += 1
        if ends and used and self._own is not None:
            self._own.skip_to(ends[used - 1])
        if not ends:
            self._reports.add("unspooled", used)
        return used

    def _is_caught_up(self) -> bool:
        """Whether nothing waits on the disk only."""
        return all(source.is_read for source in self._sources())

    def _sources(self) -> list[SpoolLog]:
        return [*self._orphans, self._own] if self._own is not None else self._orphans

    # -- out to Kafka --------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        sender, ready = self._sender, self._ready
        for _ in range(_SENT_A_TURN):
            if sender.is_paused or not (ready or self._refill()):
                return
            try:
                if not sender.takes(ready[0]) or not sender.send(ready[0]):
                    return
            except ValueError as error:
                sender.pause()
                self._reports.say("client", str(error))
                return
            self._ready_bytes -= len(ready.popleft().value)

    def _refill(self) -> bool:
        """Read events back from the disk: those of dead processes first."""
        for source in self._sources():
            entries = source.read()
            if entries:
                self._ready.extend(Parcel(entry.key, entry.value, source, entry.end) for entry in entries)
                self._ready_bytes += sum(len(entry.value) for entry in entries)
                return True
        return False

    def _settle(self) -> bool:
        outcome = self._sender.settle()
        for parcel in outcome.parked:
            self._park(parcel)
        if outcome.returned:
            self._ready.extendleft(reversed(outcome.returned))
            self._ready_bytes += sum(len(parcel.value) for parcel in outcome.returned)
        if not outcome.finished:
            return False
        self._progress_at = time.monotonic()
        reached: dict[int, Parcel] = {id(parcel.log): parcel for parcel in outcome.finished}
        for parcel in reached.values():
            if parcel.log is not None and parcel.end is not None:
                parcel.log.acknowledge(parcel.end)
        theirs = sum(parcel.log in self._orphans for parcel in outcome.finished)
        self.orphans_left -= theirs
        self._finish(len(outcome.finished) - theirs)
        self._reports.add("delivered", len(outcome.finished) - len(outcome.parked))
        for orphan in [orphan for orphan in self._orphans if orphan.is_done]:
            self._orphans.remove(orphan)
            orphan.close()
        return True

    def _park(self, parcel: Parcel) -> None:
        reason = parcel.error.name() if parcel.error is not None else "?"
        where = self._folder.parked_folder / f"{self._own.folder.name}.jsonl" if self._folder and self._own else None
        try:
            if where is None:
                raise FileNotFoundError("there is no spool")
            park(where, ParkedEvent(reason, format_ns(time.time_ns()).decode(), parcel.key, parcel.value))
        except OSError as error:
            self._reports.add("dropped")
            self._reports.say("unparked", f"an event that Kafka refuses ({reason}) is LOST: {_reason(error)}")
            return
        self._reports.add("parked")
        self._reports.say(f"parked {reason}", f"Kafka refuses an event ({reason}); it is kept in {where}")

    # -- watching ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Notice that Kafka does not answer, and that it does again; meanwhile, force what waits to the disk."""
        now = time.monotonic()
        waiting = self.is_waiting
        if not waiting or not self._was_waiting:
            self._progress_at = now
        self._was_waiting = waiting
        silent_s = now - self._progress_at
        trouble = self._sender.trouble
        if silent_s > (0.5 if trouble else AWAY_AFTER_S):
            self.is_away = True
            self.is_refused = trouble is not None and silent_s > AWAY_AFTER_S
            why = "no answer" if trouble in _NO_ANSWER else trouble
            target = self._target
            wait = f"they wait in {self._own.folder if self._own else 'memory'}"
            text = f"Kafka at {target.bootstrap_servers} takes no events for {target.topic} ({why}); {wait}"
            self._reports.say(f"away {why}", text, logging.WARNING)
        elif self.is_away and silent_s < 0.5:
            self.is_away = self.is_refused = False
            self._reports.forget("away")
            log.info("Kafka at %s takes events again", self._target.bootstrap_servers)
        if silent_s > 1.0 and self._own is not None and now >= self._sync_at:
            self._sync_at = now + 1.0
            self._own.sync()
        if not waiting:
            self._account_for_missing()

    def _account_for_missing(self) -> None:
        """Events that are neither waiting nor finished were in a segment that somebody removed, cut or damaged."""
        missing = self._own_left
        self._finish(missing)
        self.orphans_left = 0
        if missing:
            self._reports.add("dropped", missing)
            self._reports.say("dropped", f"{missing} events are LOST: their part of the spool is gone or damaged")

    def _finish(self, number: int) -> None:
        self._own_left -= number
        self.finished += number

    def _damaged(self, path: Path, size: int) -> None:
        self._reports.say("damaged", f"{size} bytes of the spool are damaged and not sent; they are kept in {path}")


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
