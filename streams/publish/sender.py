"""The sender: hands events to librdkafka in order, and sorts out what becomes of each.

    delivered            Kafka acknowledged it (acks=all, idempotent): done
    parked               the event itself is at fault (too large, invalid): set aside with the reason, the others go on
    returned             anything else (topic missing, no permission, fatal client error): it is to be sent again

librdkafka keeps trying for as long as the broker is away (`message.timeout.ms=0`), in order and without doubles, so an
outage is no error here. After a failure nothing more is sent until every event in flight is accounted for; then those
that were not delivered are returned in their old order. An event that was in fact delivered may so be sent twice:
under the same id.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Not on first use: a fork in the middle of that import, in the background, would leave the child with half a module.
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from trajlake.expectations.events import CONTENT_TYPE
from trajlake.streams.publish.spool import Position, SpoolLog
from trajlake.streams.topics import MAX_MESSAGE_BYTES

MAX_EVENT_BYTES: Final = MAX_MESSAGE_BYTES
WINDOW_EVENTS: Final = 20_000
WINDOW_BYTES: Final = 16 * 2**20
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
_PURGE_EVERY_S: Final = 0.5
_HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("content-type", CONTENT_TYPE.encode())]


@dataclass(frozen=True)
class Target:
    """Where events go. `options` are further librdkafka properties; they may hold secrets and are not shown."""

    bootstrap_servers: str
    topic: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def scrub(self, text: str) -> str:
        """`text` without the values of the options: messages of clients may quote them."""
        for value in sorted((str(value) for value in self.options.values()), key=len, reverse=True):
            if len(value) > 3:
                text = text.replace(value, "***")
        return text

    def make_producer(self, on_error: Callable[[KafkaError], None] | None = None) -> Producer:
        """A producer with what order and durability need. Raises ValueError on properties that librdkafka refuses."""
        properties = {
            "client.id": "trajlake-recorder",
            "linger.ms": 5,
            "compression.type": "lz4",
            # The partitioner of Kafka's own Java client: all publishers of a run agree on its partition.
            "partitioner": "murmur2_random",
            "message.max.bytes": MAX_EVENT_BYTES + 2**16,
            "queue.buffering.max.kbytes": 2**20,
            "reconnect.backoff.max.ms": 1000,
            **self.options,
            "bootstrap.servers": self.bootstrap_servers,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": 0,
            # A lost connection is the publisher's to report, once; librdkafka would repeat it every second.
            "log_level": 0,
            "logger": _QUIET,
        }
        if on_error is not None:
            properties["error_cb"] = on_error
        try:
            return Producer(properties)
        except (KafkaException, TypeError, ValueError) as error:
            text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise ValueError(f"Kafka's client refuses its options: {self.scrub(text)}") from None


_QUIET = logging.getLogger("trajlake.recording.recorder.client")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class Parcel:
    """One event on its way. Called by librdkafka with its delivery report."""

    __slots__ = ("_sender", "alone", "delivered", "end", "error", "key", "log", "value")

    def __init__(self, key: bytes, value: bytes, log: SpoolLog | None = None, end: Position | None = None) -> None:
        self.key = key
        self.value = value
        self.log = log
        self.end = end
        self.delivered = False
        self.error: KafkaError | None = None
        self.alone = False
        self._sender: Sender | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered = True
        else:
            self.error = error
            if self._sender is not None:
                self._sender.failed = True

    def dispatch(self, sender: Sender, producer: Producer, topic: str) -> None:
        """Hand the event to librdkafka. Raises BufferError when its queue is full, KafkaException otherwise."""
        self._sender, self.error = sender, None
        producer.produce(topic, self.value, self.key, on_delivery=self, headers=_HEADERS)


@dataclass(slots=True)
class Outcome:
    """What `settle` found. `finished`: delivered or parked, in order. `returned`: to be sent again, before others."""

    finished: list[Parcel]
    parked: list[Parcel]
    returned: list[Parcel]


class Sender:
    """A window of events in flight over one producer. Used by the publisher's own thread only."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.producer: Producer | None = None
        self._window: deque[Parcel] = deque()
        self._window_bytes = 0
        self.failed = False
        self._purged_at = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._resume_at = 0.0
        self._fatal = False
        self.trouble: str | None = None
        """Name of the last error that events were returned for; None after the next delivery."""

    @property
    def in_flight(self) -> int:
        return len(self._window)

    @property
    def is_paused(self) -> bool:
        """Whether nothing may be sent now, because a failure is being sorted out or waited for."""
        return self.failed or time.monotonic() < self._resume_at

    def takes(self, parcel: Parcel) -> bool:
        """Whether there is room for this event now."""
        if not self._window:
            return True
        if parcel.alone or self._window[-1].alone:
            return False
        return len(self._window) < WINDOW_EVENTS and self._window_bytes + len(parcel.value) <= WINDOW_BYTES

    def send(self, parcel: Parcel) -> bool:
        """Send one event; False when librdkafka has no room for it now. Raises ValueError on refused options."""
        if self.producer is None:
            self.producer = self._target.make_producer(self._heard)
        try:
            parcel.dispatch(self, self.producer, self._target.topic)
        except BufferError:
            return False
        except KafkaException as error:
            # Refused on the spot: too large for this client, or the client is broken. Sorted out like a late report.
            parcel.error = error.args[0]
            parcel.alone = True
            self.failed = True
        self._window.append(parcel)
        self._window_bytes += len(parcel.value)
        return True

    def poll(self, timeout_s: float) -> None:
        """Serve delivery reports; returns at the first ones, or after `timeout_s`."""
        if self.producer is not None:
            self.producer.poll(timeout_s)

    def settle(self) -> Outcome:
        """Take finished events from the front of the window; after a failure, sort out all of it."""
        outcome = Outcome([], [], [])
        if self.failed:
            self._sort_out(outcome)
            return outcome
        window = self._window
        while window and window[0].delivered:
            parcel = window.popleft()
            self._window_bytes -= len(parcel.value)
            outcome.finished.append(parcel)
        if outcome.finished:
            self._pause_s, self.trouble = FIRST_PAUSE_S, None
        return outcome

    def pause(self) -> None:
        """Send nothing for a while, twice as long after each failure in a row."""
        self._resume_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def abandon(self) -> list[Parcel]:
        """Stop for good: drop the producer, and give back what was not acknowledged, in order."""
        if self.producer is not None:
            self.producer.purge(in_queue=True, in_flight=True, blocking=False)
            self.producer.poll(0)
            self.producer = None
        left = [parcel for parcel in self._window if not parcel.delivered]
        self._window.clear()
        self._window_bytes = 0
        return left

    def _heard(self, error: KafkaError) -> None:
        self._name_trouble(error)
        if error.fatal():
            self._fatal = self.failed = True

    def _sort_out(self, outcome: Outcome) -> None:
        pending = any(not parcel.delivered and parcel.error is None for parcel in self._window)
        if pending:
            # What waits in the queue is called back; what is at the broker is waited for, so that order holds.
            now = time.monotonic()
            if self.producer is not None and now - self._purged_at >= _PURGE_EVERY_S:
                self._purged_at = now
                self.producer.purge(in_queue=True, in_flight=self._fatal, blocking=False)
            return
        pause = False
        for parcel in self._window:
            if parcel.delivered:
                outcome.finished.append(parcel)
            elif parcel.error is not None and self._is_its_own_fault(parcel):
                outcome.finished.append(parcel)
                outcome.parked.append(parcel)
            else:
                pause |= self._blames_the_broker(parcel)
                outcome.returned.append(parcel)
        self._window.clear()
        self._window_bytes = 0
        self.failed = False
        if self._fatal:
            # A producer that failed for good refuses everything: a new one starts with a new identity.
            self.producer, self._fatal = None, False
        if pause:
            self.pause()

    def _is_its_own_fault(self, parcel: Parcel) -> bool:
        """Whether the event can never be taken. A batch that is too large is tried again one by one first."""
        assert parcel.error is not None
        code = parcel.error.code()
        if code in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD):
            if parcel.alone:
                return True
            parcel.alone = True
        return False

    def _blames_the_broker(self, parcel: Parcel) -> bool:
        error = parcel.error
        if error is None or error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            return False
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD):
            return False
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._fatal = True
        self._name_trouble(error)
        return True

    def _name_trouble(self, error: KafkaError) -> None:
        # librdkafka first passes on the broker's answer and later gives its own, which means the same.
        self.trouble = "UNKNOWN_TOPIC_OR_PART" if error.name() == "_UNKNOWN_TOPIC" else error.name()
