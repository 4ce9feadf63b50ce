"""Announces closed runs on the outcomes topic, after their rows have been committed.

    live      a commit's rows of `runs` become messages at once
    behind    after a restart, a refusal by Kafka, or a revision whose predecessor is in the table: the rows of `runs`
              behind what was sent are read back, and become the same messages

A partition is live only while everything before has been handed to Kafka in order, so that no closing offset is ever
overtaken by a later one. A mark beside the tables says how far Kafka has acknowledged; a restart goes on behind it, and
consumers skip what they have applied by its closing offset.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from trajlake.expectations.outcomes import OutcomeBatch, outcome_key
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Stretch
from trajlake.sinks.outcomemarks import read_mark, write_mark
from trajlake.streams.land.membership import KAFKA_LOG
from trajlake.streams.land.recovery import LedgerTable
from trajlake.streams.settings import Settings
from trajlake.streams.topics import TopicError, ensure_topics
from trajlake.transforms.outcomes.batches import (
    COLUMNS,
    LEVER_COLUMNS,
    LEVER_TYPE,
    RUNS_PER_MESSAGE,
    Closed,
    Earlier,
    Pulled,
    closed_runs,
    needed_earlier,
    outcome_batches,
    pulled_levers,
)

log = structlog.get_logger("trajlake.land")

FLUSH_S: Final = 2.0
RETRY_S: Final = 1.0
ASK_S: Final = 3.0
WINDOW_RUNS: Final = 5_000
"""Closed runs that are read back at a time, about."""
FIRST_WINDOW: Final = 65_536
"""Offsets that the first piece looks at; the next ones shrink and grow with the number of runs found."""
RUN_BYTES: Final = 4_096
"""Space of a closed run in a message, with what it replaces; most take a fifth."""
_ENCODER: Final = msgspec.json.Encoder()


@dataclass
class _Sent:
    """Messages up to a closing offset that Kafka has not acknowledged all."""

    last: int
    open: int = 0


@dataclass
class _Progress:
    """One partition. `landed`: the tables' offset; `handed`: given to the client; `acked`: Kafka has it.

    `marked`: what the note beside the tables says.
    """

    landed: int
    handed: int
    acked: int
    marked: int
    on_the_way: deque[_Sent] = field(default_factory=deque)
    window: int = FIRST_WINDOW
    table: tuple[LedgerTable, int] | None = None
    """The table as it is read back from, and the offset that it holds."""


class OutcomeSender:
    """The outcomes of the partitions that a land worker owns. Used by the worker's loop alone.

    `note(problem)`: told what is wrong, None when all is well again.
    """

    def __init__(self, settings: Settings, lake: Lake, note: Callable[[str | None], None]) -> None:
        self.settings = settings
        self.lake = lake
        self.sent = 0
        """Messages handed to the client."""
        self._note = note
        self._owned: dict[int, _Progress] = {}
        self._producer: Producer | None = None
        self._life = 0
        self._retry_at = 0.0
        self._failed: str | None = None

    # The worker's side

    def begin(self, partition: int, landed: int) -> None:
        """A partition was taken up whose tables hold all up to `landed`. Raises `SinkUnavailable`."""
        settings = self.settings
        mark = read_mark(self.lake, settings.app_id, settings.events_topic, partition, settings.outcomes_topic)
        mark = min(mark, landed)
        self._owned[partition] = _Progress(landed, mark, mark, mark)

    def forget(self, partitions: Iterable[int]) -> None:
        """Partitions are another worker's from now on."""
        for partition in partitions:
            self._owned.pop(partition, None)

    def committed(self, stretches: Iterable[Stretch]) -> None:
        """Rows have landed: announce their runs, unless the partition is behind anyway."""
        for stretch in stretches:
            progress = self._owned.get(stretch.partition)
            if progress is None:
                continue
            live = progress.handed == progress.landed and progress.landed == stretch.first - 1
            progress.landed = stretch.last
            rows = stretch.batches.get("runs")
            closed = [] if rows is None else closed_runs(rows)
            if live and not needed_earlier(closed):
                pulls = _levers(stretch.batches.get("events"))
                self._hand_over(stretch.partition, progress, closed, {}, pulls, stretch.last)

    def turn(self, now: float) -> None:
        """Serve acknowledgements, and read back one piece of what is behind. `now`: monotonic."""
        self._serve(0.0)
        if self._failed is not None and now >= self._retry_at:
            self._start_again()
        if self._failed is None:
            for partition, progress in self._owned.items():
                if progress.handed < progress.landed:
                    self._read_back(partition, progress)
                    return

    @property
    def idle(self) -> bool:
        """Whether all that has landed is acknowledged by Kafka."""
        return all(progress.acked >= progress.landed for progress in self._owned.values())

    def lag(self, partition: int) -> int:
        """Landed records whose closed runs Kafka has not acknowledged yet; 0 where the partition is not ours."""
        progress = self._owned.get(partition)
        return 0 if progress is None else max(0, progress.landed - progress.acked)

    def flush(self) -> None:
        """Wait a moment for acknowledgements."""
        if not self.idle:
            self._serve(FLUSH_S)

    def mark(self, partition: int) -> None:
        """Note beside the tables how far a partition has been announced. Raises `SinkUnavailable`."""
        progress = self._owned.get(partition)
        if progress is None or progress.acked <= progress.marked:
            return
        settings = self.settings
        write_mark(
            self.lake, settings.app_id, settings.events_topic, partition, settings.outcomes_topic, progress.acked
        )
        progress.marked = progress.acked

    def close(self) -> None:
        """Send what is on its way. What is not acknowledged is announced by the next owner."""
        self._serve(FLUSH_S)
        self._producer = None

    # Sending

    def _serve(self, wait_s: float) -> None:
        """Let acknowledgements in; with `wait_s`, until all are there or so many seconds are over."""
        if self._producer is None or self._failed is not None:
            return
        try:
            if wait_s:
                self._producer.flush(wait_s)
            else:
                self._producer.poll(0)
        except KafkaException as error:
            self._fail(f"outcomes were refused: {error.args[0].str()}")

    def _hand_over(
        self,
        partition: int,
        progress: _Progress,
        closed: list[Closed],
        earlier: Earlier,
        pulls: list[Pulled],
        last: int,
    ) -> None:
        """Give messages to the client; `handed` moves only when all of them were taken."""
        topic = self.settings.events_topic
        most = max(1, min(RUNS_PER_MESSAGE, self.settings.event_max_bytes // RUN_BYTES))
        batches = list(outcome_batches(topic, partition, closed, earlier, time.time_ns() // 1000, pulls, most))
        if batches:
            producer = self._open()
            if producer is None:
                return
            sent = _Sent(last)
            progress.on_the_way.append(sent)
            try:
                for batch in batches:
                    self._produce(producer, batch, progress, sent)
            except (BufferError, KafkaException) as error:
                self._fail(f"outcomes are not taken: {error}")
                return
        elif progress.on_the_way:
            progress.on_the_way.append(_Sent(last))
        else:
            progress.acked = last
        progress.handed = last

    def _produce(self, producer: Producer, batch: OutcomeBatch, progress: _Progress, sent: _Sent) -> None:
        producer.produce(
            self.settings.outcomes_topic,
            _ENCODER.encode(batch),
            outcome_key(batch.tenant_id, batch.skill_name),
            on_delivery=partial(self._delivered, self._life, progress, sent),
        )
        sent.open += 1
        self.sent += 1

    def _delivered(
        self, life: int, progress: _Progress, sent: _Sent, error: KafkaError | None, message: Message
    ) -> None:
        if life != self._life:
            return
        if error is not None:
            self._fail(f"outcomes were refused: {error.str()}")
            return
        sent.open -= 1
        waiting = progress.on_the_way
        while waiting and not waiting[0].open and waiting[0].last <= progress.handed:
            progress.acked = waiting.popleft().last

    def _open(self) -> Producer | None:
        """The client, made when the first run closes. None while it cannot be."""
        if self._producer is None and self._failed is None:
            settings = self.settings
            try:
                ensure_topics(
                    settings.bootstrap_servers,
                    {settings.outcomes_topic: settings.outcomes_partitions},
                    options=settings.kafka_options,
                    timeout_s=ASK_S,
                )
            except TopicError as error:
                self._fail(str(error))
                return None
            try:
                self._producer = self._connect()
            except KafkaException as error:
                self._fail(f"no client for outcomes: {error}")
        return self._producer

    def _connect(self) -> Producer:
        settings = self.settings
        properties = {
            # Order is what skipping by offset stands on: nothing may pass a message that failed.
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
            "message.max.bytes": settings.event_max_bytes,
            "compression.type": "lz4",
            # As other Kafka clients place keys, so that a view finds the worker of a skill.
            "partitioner": "murmur2_random",
            "linger.ms": 5,
        }
        return Producer(settings.kafka(**properties), logger=KAFKA_LOG)

    def _fail(self, reason: str) -> None:
        """Give the client up; what it did not deliver is read back from the tables when there is a new one."""
        if self._failed is None:
            log.warning("outcomes wait in the table; trying again", reason=reason, retry_s=RETRY_S)
        self._failed = reason
        self._retry_at = time.monotonic() + RETRY_S
        self._note(reason)

    def _start_again(self) -> None:
        if self._producer is not None:
            # Messages in its queue would come behind those of the new client, out of order.
            self._producer.purge(blocking=False)
        self._producer = None
        self._failed = None
        self._life += 1
        for progress in self._owned.values():
            progress.handed = progress.acked
            progress.on_the_way.clear()
        self._note(None)

    # Reading back

    def _read_back(self, partition: int, progress: _Progress) -> None:
        """Announce a piece of what landed behind `handed`, from the table `runs`."""
        first = progress.handed + 1
        last = min(progress.landed, first + progress.window - 1)
        try:
            if progress.table is None or progress.table[1] < last:
                table = LedgerTable(self.lake, "runs", self.settings.events_topic, partition)
                progress.table = table, progress.landed
            table = progress.table[0]
            closed = [row for batch in table.window([*COLUMNS], first, last) for row in closed_runs(batch)]
            earlier = self._earlier(table, closed)
            pulls = self._pulls(partition, first, last)
        except SinkUnavailable as unavailable:
            self._fail(f"closed runs cannot be read back: {unavailable}")
            return
        if len(closed) > 2 * WINDOW_RUNS:
            progress.window = max(1, progress.window // 4)
        elif len(closed) < WINDOW_RUNS // 4:
            progress.window *= 2
        self._hand_over(partition, progress, closed, earlier, pulls, last)
        if progress.handed == progress.landed:
            progress.table = None

    def _pulls(self, partition: int, first: int, last: int) -> list[Pulled]:
        """Levers pulled at offsets `first..last`, from the ledger."""
        table = LedgerTable(self.lake, "events", self.settings.events_topic, partition)
        offset = pc.field("offset")
        where = (pc.field("type") == LEVER_TYPE) & (offset >= first) & (offset <= last)
        found = [
            pulled for batch in table.scan([*LEVER_COLUMNS], where, first, last) for pulled in pulled_levers(batch)
        ]
        return sorted(found, key=lambda pulled: pulled.pull.offset)

    def _earlier(self, table: LedgerTable, closed: list[Closed]) -> dict[tuple[int, int], Closed]:
        """Rows that revisions replace, from the table."""
        found: dict[tuple[int, int], Closed] = {}
        for find in (_at_closes, _anywhere):
            missing = needed_earlier(closed) - found.keys()
            place = find([row for row in closed if (row.first_offset, row.outcome.revision - 1) in missing])
            if place is None:
                continue
            where, first, last = place
            for batch in table.window([*COLUMNS], first, last, where):
                for row in closed_runs(batch):
                    if (key := (row.first_offset, row.outcome.revision)) in missing:
                        found[key] = row
        return found


_Place = tuple[pc.Expression, int, int]


def _at_closes(later: list[Closed]) -> _Place | None:
    """Where rows stand that others replace which classify the run again: nearly always where it was closed, be that
    long ago."""
    closes = {row.close_offset for row in later if row.close_offset is not None}
    if not closes:
        return None
    return pc.field("offset").isin(pa.array(sorted(closes), pa.int64())), min(closes), max(closes)


def _anywhere(later: list[Closed]) -> _Place | None:
    """Where any row stands that others replace: in the lives of their runs."""
    if not later:
        return None
    begins = sorted({row.first_offset for row in later})
    of_runs = pc.field("first_offset").isin(pa.array(begins, pa.int64()))
    return of_runs, begins[0], max(row.outcome.offset for row in later)


def _levers(events: pa.RecordBatch | None) -> list[Pulled]:
    """Levers pulled among the rows of a commit; nearly always none."""
    if events is None:
        return []
    of_levers = pc.equal(events.column("type"), LEVER_TYPE)
    if not pc.any(of_levers).as_py():
        return []
    return pulled_levers(events.filter(of_levers))
