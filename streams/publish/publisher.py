"""The publisher: takes encoded events from any thread at once, and gets them to Kafka in the background, in order.

What happens to an event, and what the death of the process loses at that point:

    1. `put` appends it to a queue in memory.              kill -9 loses it: about the last 10 ms of events
    2. The thread appends it to the spool on disk.         nothing is lost from here on: the next process that starts
                                                           with this spool folder sends it
    3. It goes to librdkafka, from memory or, after an outage, from the disk.
    4. Kafka acknowledges; the spool's cursor moves on.    a death between the two sends it twice, under the same id
    5. Segments behind the cursor are deleted.

Order: one queue, one spool, one sender, so events reach Kafka in the order of `put`; what a dead process left goes
first.

Memory is bounded: the queue (`queue_bytes`), what is ready to be sent and what is in flight (16 MiB each, and
librdkafka's copy of the latter), and one event above each bound. An agent that records faster than the disk takes it
(over 50,000 events/s) fills the queue, and `put` then waits for the thread to make room.

**The only loss**: the disk is full or broken, or the spool has reached its limit, *and* Kafka takes nothing or too
little, until the queue is full. Then `put` drops events, without waiting, until there is room; they are counted and
the log says so. A disk that hangs counts as broken after 2 s.

After a fork the child starts empty: the parent sends what the parent captured. At exit, a bounded time is spent waiting
for Kafka, and the rest stays in the spool.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Final

from trajlake.streams.publish import lifetimes
from trajlake.streams.publish.envelope import Draft, finish
from trajlake.streams.publish.frames import MAX_KEY_BYTES
from trajlake.streams.publish.outbox import Event, Outbox
from trajlake.streams.publish.reports import Counts, Reports
from trajlake.streams.publish.sender import Target
from trajlake.streams.publish.spool import DEFAULT_LIMIT_BYTES

QUEUE_BYTES: Final = 32 * 2**20
EXIT_TIMEOUT_S: Final = 5.0
TICK_S: Final = 0.005
_TURN_BYTES: Final = 8 * 2**20
_TURN_EVENTS: Final = 2_000
_HANGS_AFTER_S: Final = 2.0


class Publisher:
    """Sends events to one topic. Safe for any number of threads; no method raises because of Kafka or the disk.

    spool: folder for events that Kafka does not have yet; None keeps them in memory. queue_bytes, spool_limit_bytes:
    most bytes of events in the queue and on disk. exit_timeout_s: longest wait for Kafka when the process ends.
    """

    def __init__(
        self,
        target: Target,
        spool: Path | None,
        *,
        queue_bytes: int = QUEUE_BYTES,
        spool_limit_bytes: int = DEFAULT_LIMIT_BYTES,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
    ) -> None:
        self._target = target
        self._spool = spool
        self._queue_limit = queue_bytes
        self._spool_limit_bytes = spool_limit_bytes
        self._exit_timeout_s = exit_timeout_s
        self._begin()
        lifetimes.register(self)

    def _begin(self) -> None:
        """The state of a publisher that has done nothing yet; in a forked child, the state to go on from."""
        self.reports = Reports()
        self._outbox = Outbox(self._target, self._spool, self._spool_limit_bytes, self.reports)
        self.lock = threading.RLock()
        """Held for an instant by whoever records. Made anew in a forked child, so that no dead thread holds it."""
        self._queue: deque[tuple[bytes, bytes, Draft | None]] = deque()
        self._queue_bytes = 0
        self._accepted = self._accepted_before = 0
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._room = threading.Event()
        self._opened = threading.Event()
        self._settled = threading.Condition()
        self._is_idle = self._is_stopping = self._is_retired = self._is_hanging = self._is_blocked = False

    # -- the agent's side ----------------------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes, draft: Draft | None = None) -> bool:
        """Take one event: `value` is the whole of it, or its encoded data where `draft` holds the rest.

        Returns whether it was taken; see the module for the one case in which it is not.
        """
        if self._queue_bytes >= self._queue_limit and not self._await_room():
            self.reports.add("dropped")
            self.reports.say("dropped", "events are LOST: neither the spool's disk nor Kafka takes them")
            return False
        if len(key) > MAX_KEY_BYTES:
            key = key[:MAX_KEY_BYTES]
        with self.lock:
            self._queue.append((key, value, draft))
            self._queue_bytes += len(value)
            self._accepted += 1
            if self._thread is None:
                self._start()
        if self._is_idle:
            self._is_idle = False
            self._wake.set()
        return True

    @property
    def counts(self) -> Counts:
        """What became of the events so far: a snapshot."""
        return replace(self.reports.counts, accepted=self._accepted)

    @property
    def left(self) -> int:
        """Events that Kafka has not acknowledged yet, in memory and in the spool."""
        with self.lock:
            return self._accepted - self._accepted_before - self._outbox.finished + self._outbox.orphans_left

    def flush(self, timeout_s: float) -> int:
        """Wait until Kafka has what was put before and what dead processes left. Returns how much is missing."""
        return self._wait(time.monotonic() + timeout_s, is_patient=True)

    def close(self, timeout_s: float) -> int:
        """`flush`, then stop the thread; what is left stays in the spool. A later `put` starts again."""
        return self._close(timeout_s, is_patient=True)

    def retire(self) -> None:
        """Stop without waiting, as soon as Kafka has everything or refuses connections."""
        self._is_retired = True
        self._wake.set()

    def close_at_exit(self) -> None:
        """`close`, without waiting long for a Kafka that refuses connections."""
        self._close(self._exit_timeout_s, is_patient=False)

    def go_on_in_child(self) -> None:
        """Forget, in a forked child, what the parent has in hand."""
        self._outbox.forget()
        self._begin()

    def _await_room(self) -> bool:
        """Wait while the thread empties the full queue. False when it cannot: the event has no place to go."""
        deadline = time.monotonic() + _HANGS_AFTER_S
        while self._queue_bytes >= self._queue_limit:
            if self._is_blocked or self._is_hanging or self._thread is None:
                return False
            if time.monotonic() > deadline:
                self._is_hanging = True
                return False
            self._room.clear()
            self._wake.set()
            if self._queue_bytes >= self._queue_limit:
                self._room.wait(2 * TICK_S)
        return True

    def _wait(self, deadline: float, is_patient: bool) -> int:
        with self.lock:
            if self._thread is None:
                self._start()
            # Other threads may go on recording: their events are not waited for.
            outbox, goal = self._outbox, self._accepted - self._accepted_before
        self._wake.set()
        while outbox.finished < goal or outbox.orphans_left or not self._opened.is_set():
            thread = self._thread
            if time.monotonic() >= deadline or thread is None or not thread.is_alive():
                break
            if outbox is not self._outbox or (outbox.is_refused and not is_patient):
                break
            with self._settled:
                self._settled.wait(4 * TICK_S)
        return max(0, goal - outbox.finished) + outbox.orphans_left

    def _close(self, timeout_s: float, is_patient: bool) -> int:
        if self._thread is None and not self._queue:
            return 0
        left = self._wait(time.monotonic() + timeout_s, is_patient)
        self._is_stopping = True
        self._wake.set()
        if (thread := self._thread) is not None and thread is not threading.current_thread():
            thread.join(timeout=max(1.0, timeout_s))
        elif self._queue:
            # The interpreter ends and starts no threads any more: this one does the work.
            self._is_stopping = False
            self._work(until=time.monotonic() + timeout_s)
        return left

    def _start(self) -> None:
        self._is_stopping = self._is_idle = False
        thread = threading.Thread(target=self._work, name="trajlake-publisher", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # No thread can start while the interpreter ends: `close` does its work then.
            self.reports.error(error)
            return
        self._thread = thread
        lifetimes.close_in_multiprocessing()

    # -- the publisher's thread ----------------------------------------------------------------------------------

    def _work(self, until: float = math.inf) -> None:
        outbox = self._outbox
        outbox.open()
        self._opened.set()
        while not self._is_stopping and time.monotonic() < until:
            try:
                self._write()
                while self._queue_bytes > self._queue_limit // 2 and not self._is_blocked:
                    self._write()
                if outbox.turn():
                    with self._settled:
                        self._settled.notify_all()
                self._rest()
            except Exception as error:
                self.reports.error(error)
                self._wake.wait(20 * TICK_S)
            if (self._is_retired or until < math.inf) and (self.left == 0 or outbox.is_refused):
                break
        self._shut()

    def _write(self) -> None:
        """Move events from the queue to the outbox, and put back those that it has no room for."""
        batch = self._take()
        if not batch:
            self._is_blocked = False
            return
        used = 0
        try:
            used = self._outbox.accept(batch)
        finally:
            self._is_blocked = used == 0
            if used < len(batch):
                with self.lock:
                    self._queue.extendleft((key, value, None) for key, value in reversed(batch[used:]))
                    self._queue_bytes += sum(len(value) for _, value in batch[used:])
        if self._queue_bytes < self._queue_limit:
            self._is_hanging = False
            self._room.set()

    def _take(self) -> list[Event]:
        batch, size = self._take_from(self._queue)
        if size:
            with self.lock:
                self._queue_bytes -= size
        return batch

    def _take_from(self, queue: deque[tuple[bytes, bytes, Draft | None]]) -> tuple[list[Event], int]:
        """Events from the front of a queue, finished, about so many that writing them is one small step; their size."""
        size = 0
        batch: list[Event] = []
        while queue and size < _TURN_BYTES and len(batch) < _TURN_EVENTS:
            key, value, draft = queue.popleft()
            size += len(value)
            try:
                batch.append((key, value if draft is None else self._finish(draft, value)))
            except Exception as error:
                # One event that cannot be finished must not take those around it along.
                self.reports.error(error)
                self.reports.add("dropped")
                with self.lock:
                    self._accepted_before += 1
        return batch, size

    def _finish(self, draft: Draft, data: bytes) -> bytes:
        value, notes = finish(draft, data)
        if notes:
            self.reports.altered(draft[1], notes)
        return value

    def _rest(self) -> None:
        """Wait for something to do: briefly while events move, until woken while there are none."""
        if self._queue and not self._is_blocked:
            return
        if self._outbox.is_moving:
            self._outbox.poll(TICK_S)
            return
        self._wake.clear()
        if self._is_stopping:
            return
        if self._outbox.is_waiting or self._is_blocked:
            self._wake.wait(4 * TICK_S)
            return
        self._is_idle = True
        if not self._queue:
            self._wake.wait(1.0)
        self._is_idle = False

    def _shut(self) -> None:
        """The thread's last act: everything that is only in memory goes to the disk."""
        self._outbox.stop()
        with self.lock:
            # From here on `put` starts a new thread with an outbox of its own.
            outbox, self._outbox = self._outbox, self._outbox.successor()
            queue, self._queue = self._queue, deque()
            self._queue_bytes, self._accepted_before, self._thread = 0, self._accepted, None
            self._opened.clear()
        try:
            while queue:
                outbox.rescue(self._take_from(queue)[0])
        except Exception as error:
            self.reports.error(error)
        finally:
            outbox.close()
