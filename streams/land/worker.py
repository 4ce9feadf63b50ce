"""One land worker: a consumer of the events topic that commits micro-batches to the lake.

The loop consumes, folds, and commits when a batch has enough rows or bytes, or its oldest record is old enough. The
tables' offsets say where to resume; the consumer group only divides the partitions.

The state of what has landed since the last snapshot is rebuilt from the ledger, a piece each turn of the loop, so that
the group never waits for it.

While the store refuses, nothing is read: the loop goes on turning, so that the group does not count this worker as
dead, and tries the same batch again.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Event
from typing import Any

import psutil
import structlog
from confluent_kafka import KafkaError, KafkaException

from trajlake.expectations.metrics import LAND_COMMIT_FAILURES
from trajlake.sinks.errors import SinkUnavailable, StaleWriter
from trajlake.sinks.ledger import Ledger
from trajlake.sinks.snapshots import remove_snapshot, write_snapshot
from trajlake.streams.errors import LogTooShort, NotAuthorized
from trajlake.streams.keeping.seals import sealer_for
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.streams.land.chaining import seal
from trajlake.streams.land.figures import count_commit
from trajlake.streams.land.identity import check_identity, topic_id
from trajlake.streams.land.membership import Membership
from trajlake.streams.land.outcomes import OutcomeSender
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.land.rules import land_rules
from trajlake.streams.land.status import Problems, WorkerStatus, partition_status
from trajlake.streams.land.ticks import TickWriter, Timeouts
from trajlake.streams.land.tracing import BatchTrace
from trajlake.streams.settings import Settings
from trajlake.streams.tracing import OFF, Tracing
from trajlake.transforms.assemble.state import encode_state
from trajlake.transforms.records import Record

log = structlog.get_logger("trajlake.land")

CONSUME_ROWS = 10_000
LEAST_RECORD_BYTES = 64
RETRY_S = 1.0
GC_EVERY_S = 60.0
SHORT_LOG_S = 10.0
"""A broker that has just become leader may not know the log's end yet: so long a log may seem too short."""
IDLE_WORKER_S = 10.0
"""A worker that drains and that the group gave nothing for so long has nothing to do. Handing over takes some
heartbeats."""
_NOT_AUTHORIZED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)


class LandWorker:
    """Lands the partitions that its consumer group gives it.

    `until_end`: stop when everything that the log held at the start of each partition has landed. `on_step`: observer
    of the commit order. `report`: called about once a second with the worker's status. `tracing`: where its spans go.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        until_end: bool = False,
        on_step: Callable[[str], None] | None = None,
        report: Callable[[WorkerStatus], None] | None = None,
        tracing: Tracing = OFF,
    ) -> None:
        self.settings = settings
        self.lake = settings.lake()
        self.rules = land_rules(settings)
        self.status = WorkerStatus()
        self._tracing = tracing
        self._trace = BatchTrace(tracing, settings.events_topic)
        self._on_step = self._trace.observe(on_step or (lambda step: None))
        self.ledger = Ledger(self.lake, settings.app_id, self._on_step)
        self._report = report or (lambda status: None)
        self._until_end = until_end
        self._sealer = sealer_for(settings, self.rules.governance.policies)
        self._stop = Event()
        self._problems = Problems(self.status)
        self._outcomes = OutcomeSender(settings, self.lake, partial(self.note, "outcomes"))
        self._owned: dict[int, AssignedPartition] = {}
        self._rebuilding: dict[int, tuple[AssignedPartition, Iterator[int]]] = {}
        self._stale: set[int] = set()
        self._too_short_since: dict[int, float] = {}
        self._batch_rows = 0
        self._batch_since = 0.0
        self._record_bytes = LEAST_RECORD_BYTES
        self._refused: SinkUnavailable | None = None
        self._retry_at = 0.0
        self._idle_since = 0.0
        self._next_tick = 0.0
        self._next_report = 0.0
        self._next_gc = 0.0
        self._topic_id: str | None = None
        self._process = psutil.Process()
        self._group: Membership
        self._ticks: TickWriter

    def stop(self) -> None:
        """Ask the loop to flush, snapshot and return. Safe from signal handlers and other threads."""
        self._stop.set()

    def run(self) -> None:
        """Land until stopped (or, with `until_end`, until all is landed).

        Raises `OffsetBelowRetention`, `LogTooShort`, `NotAuthorized` or `TableMismatch` when only a person can help,
        `KafkaException` when the client is beyond repair and a new worker may do, and `SinkUnavailable` when it was
        stopped while the store refused: the rows are read again at the next start.
        """
        # The fold makes no reference cycles; automatic collection would walk all open runs again and again.
        collecting = gc.isenabled()
        gc.disable()
        try:
            if self._open_tables():
                # What is loaded stays: no later collection needs to look at it.
                gc.freeze()
                self._next_gc = time.monotonic() + GC_EVERY_S
                self._run()
        finally:
            self.ledger.close()
            gc.unfreeze()
            if collecting:
                gc.enable()

    def _run(self) -> None:
        self._ticks = TickWriter(self.settings, Timeouts(self.settings.run_timeout_s, self.settings.reorder_timeout_s))
        self._group = Membership(self.settings, self._leave, self._forget)
        self._problems.note("start", f"starting: waits for its partitions from group {self.settings.group_id}")
        try:
            while not self._stop.is_set():
                self._turn()
            self._finish()
        finally:
            self._outcomes.close()
            self._group.close()
            self._ticks.close()

    def _finish(self) -> None:
        """Land what waits, snapshot, and hold nothing any more when the group is left."""
        self._flush()
        if self._refused is None:
            if not self._group.answers():
                self._problems.note("broker", "broker: no answer")
            else:
                self._outcomes.flush()
            for owned in self._owned.values():
                if owned.awaits_snapshot(math.inf):
                    self._snapshot(owned)
                else:
                    self._mark(owned)
        self._publish_status()
        self._forget(list(self._owned))
        if self._refused is not None:
            raise self._refused

    # The loop

    def _turn(self) -> None:
        asked_ns = time.time_ns()
        messages = self._group.consume(self._appetite())
        now = time.monotonic()
        if messages:
            with self._trace.taking(asked_ns, len(messages)):
                self._take(messages, now)
        if (error := self._group.broker_error) is not None:
            self._group.broker_error = None
            self._consumer_error(error, -1)
        if self._stale:
            self._restart(self._stale)
        if self._batch_is_due(now):
            self._flush()
        if self._refused is None:
            self._outcomes.turn(now)
            self._snapshot_next(now)
            self._take_up(now)
        if now >= self._next_tick:
            self._next_tick = now + self.settings.tick_interval_s
            self._ticks.write_due(self._owned.values(), time.time_ns() // 1000)
        if now >= self._next_report:
            self._next_report = now + 1.0
            self._publish_status()
        if now >= self._next_gc and not self._batch_rows:
            self._next_gc = now + GC_EVERY_S
            gc.collect()
        if self._until_end and self._all_seen(now):
            self._stop.set()

    def _appetite(self) -> int:
        """Records to ask for, so that a batch of large ones does not grow far over its limit."""
        room = self.settings.batch_max_bytes - sum(owned.pending_bytes for owned in self._owned.values())
        rows = self.settings.batch_max_rows - self._batch_rows
        return max(1, min(CONSUME_ROWS, rows, room // self._record_bytes))

    def _take(self, messages: list[Any], now: float) -> None:
        # Any: the client's types allow None for what every record and every end of a partition has.
        by_partition: dict[int, list[Record]] = {}
        ends: dict[int, int] = {}
        failed: dict[int, KafkaError] = {}
        size = 0
        for message in messages:
            error = message.error()
            partition = message.partition()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ends[partition] = message.offset()
                else:
                    failed[partition] = error
                continue
            value = message.value()
            size += len(value or b"")
            record = Record(message.offset(), message.timestamp()[1] * 1000, message.key(), value, message.headers())
            if partition in by_partition:
                by_partition[partition].append(record)
            else:
                by_partition[partition] = [record]
        if size:
            self._record_bytes = max(LEAST_RECORD_BYTES, size // len(messages))
            self._problems.clear("broker")
        for partition in by_partition.keys() | ends.keys():
            self._fold(partition, by_partition.get(partition, []), ends.get(partition, 0), now)
        for partition, error in failed.items():
            self._consumer_error(error, partition)

    def _fold(self, partition: int, records: list[Record], end: int, now: float) -> None:
        # None where it is gone to another worker, or waits to be read from another place.
        while (owned := self._owned.get(partition)) is not None:
            taken = owned.take(records, end - 1 if end else None)
            if taken and not self._batch_rows:
                self._batch_since = now
            self._batch_rows += taken
            if not owned.is_held_up:
                return
            self._flush()
            if self._refused is not None:
                # What is left over is read again once the store takes writes.
                return

    def _batch_is_due(self, now: float) -> bool:
        if self._refused is not None:
            return now >= self._retry_at
        if not self._batch_rows:
            return False
        settings = self.settings
        return (
            self._batch_rows >= settings.batch_max_rows
            or (now - self._batch_since) * 1000 >= settings.batch_max_age_ms
            or sum(owned.pending_bytes for owned in self._owned.values()) >= settings.batch_max_bytes
        )

    # Commit

    def _flush(self) -> None:
        """Commit what waits. Where the store refuses, stop reading until the same batch has gone through."""
        try:
            self._commit()
        except StaleWriter as stale:
            log.warning("batch was landed by another worker; resuming from the tables", reason=str(stale))
            self._accepted()
            self._restart(self._owned)
        except SinkUnavailable as unavailable:
            self._hold(unavailable)
        else:
            if self._accepted():
                for partition, owned in self._owned.items():
                    self._group.read(partition, owned.next_offset)

    def _commit(self) -> None:
        """One attempt to land all that waits. Raises `StaleWriter` or `SinkUnavailable`."""
        with self._trace.part("columns"):
            stretches = [stretch for owned in self._owned.values() if (stretch := owned.stretch()) is not None]
        if stretches:
            began = time.monotonic()
            with self._trace.committing(stretches):
                landed = self.ledger.commit(stretches)
            if not landed:
                log.info("batch had landed already", partitions=[stretch.partition for stretch in stretches])
            self.status.rows += self._batch_rows
            self.status.commits += 1
            batch_bytes = sum(owned.pending_bytes for owned in self._owned.values())
            count_commit(self.status.tally, stretches, batch_bytes, time.monotonic() - began, time.time())
            self._outcomes.committed(stretches)
        self._batch_rows = 0
        for owned in self._owned.values():
            owned.committed()

    def _hold(self, unavailable: SinkUnavailable) -> None:
        self._problems.note("sink", f"cannot write: {unavailable}")
        self.status.tally.add(LAND_COMMIT_FAILURES)
        log.error("cannot write; offsets stay, trying again", reason=str(unavailable), retry_s=RETRY_S)
        if self._refused is None:
            self._group.unread(self._owned)
        self._refused = unavailable
        self._retry_at = time.monotonic() + RETRY_S

    def _accepted(self) -> bool:
        """The store answered. Returns whether it had refused before, so that nothing is being read."""
        if self._refused is None:
            return False
        log.info("the store takes writes again")
        self._refused = None
        self._problems.clear("sink")
        return True

    # Ownership

    def _take_up(self, now: float) -> None:
        """Begin with partitions that the group gave, and go on rebuilding the state of those that need it."""
        for partition in self._group.due(now):
            if partition not in self._rebuilding and not self._stop.is_set():
                self._attempt(partition, now, self._begin)
        for partition in list(self._rebuilding):
            self._attempt(partition, now, self._rebuild)
        if self._group.joined:
            self._problems.clear("start")

    def _attempt(self, partition: int, now: float, action: Callable[[int], None]) -> None:
        """Do something to take up a partition; try again later where the store or the broker does not answer."""
        try:
            action(partition)
            self._too_short_since.pop(partition, None)
            if partition in self._rebuilding:
                landed = self._rebuilding[partition][0].landed
                self._problems.note(
                    f"partition {partition}", f"partition {partition}: reads the ledger up to offset {landed} again"
                )
            else:
                self._problems.clear(f"partition {partition}")
            return
        except LogTooShort as short:
            if now - self._too_short_since.setdefault(partition, now) > SHORT_LOG_S:
                raise
            reason = str(short)
        except SinkUnavailable as unavailable:
            reason = str(unavailable)
        except KafkaException as error:
            self._check_terminal(error.args[0])
            reason = str(error.args[0])
        log.warning("partition not taken up yet, trying again", partition=partition, reason=reason, retry_s=RETRY_S)
        self._forget([partition])
        self._problems.note(f"partition {partition}", f"partition {partition} not taken up: {reason}")
        self._group.again([partition], now + RETRY_S)

    def _begin(self, partition: int) -> None:
        topic = self.settings.events_topic
        owned = AssignedPartition.resume(self.lake, self.ledger, topic, partition, self.rules)
        owned.sealer = self._sealer
        if self._topic_id is None:
            self._topic_id = topic_id(self.settings) or ""
        if self._topic_id:
            check_identity(self.lake, topic, self._topic_id, owned.landed)
        log_start, log_end = self._group.bounds(partition)
        owned.check_log_end(log_end)
        owned.end_offset = owned.progress.high_watermark = log_end
        if owned.is_behind:
            log.info(
                "state is rebuilt from the ledger", partition=partition, first=owned.next_offset, last=owned.landed
            )
        if owned.awaits_rebuild:
            self._rebuilding[partition] = owned, owned.rebuild(self.lake)
        else:
            self._read(owned, log_start)

    def _rebuild(self, partition: int) -> None:
        """One piece of a rebuild; after the last one the partition is read from where the tables end."""
        owned, pieces = self._rebuilding[partition]
        if next(pieces, None) is None:
            del self._rebuilding[partition]
            self._read(owned, self._group.bounds(partition)[0])

    def _read(self, owned: AssignedPartition, log_start: int) -> None:
        owned.meet_log_start(log_start, declare=self.settings.offset_reset_policy == "declare")
        self._outcomes.begin(owned.partition, owned.landed)
        self._owned[owned.partition] = owned
        self._problems.clear("topic")
        self._group.read(owned.partition, owned.next_offset)
        log.info(
            "partition taken up",
            partition=owned.partition,
            landed=owned.landed,
            resume_at=owned.next_offset,
            end=owned.end_offset,
        )
        # A declared gap lands even where no record follows.
        self._fold(owned.partition, [], 0, time.monotonic())

    def _restart(self, partitions: Iterable[int]) -> None:
        """Forget partitions and take them up again from their tables."""
        partitions = list(partitions)
        self._forget(partitions)
        self._group.again(partitions, 0.0)

    def _leave(self, partitions: list[int]) -> None:
        """Land what waits before partitions go, so that the next owner starts behind it. One attempt only."""
        try:
            self._commit()
            for partition in partitions:
                owned = self._owned.get(partition)
                if owned is not None and owned.awaits_snapshot(math.inf):
                    self._snapshot(owned)
        except StaleWriter as stale:
            # Only the loop may read others from another place: in here the client waits for an answer about these.
            log.warning("batch was landed by another worker; resuming from the tables", reason=str(stale))
            others = self._owned.keys() - set(partitions)
            self._forget(list(self._owned))
            self._stale |= others
        except Exception as error:
            # Whatever it is, it must not keep the group waiting; the loop meets it again if it stays.
            log.warning("rows in memory are left to the next owner", reason=str(error))
        self._forget(partitions)

    def _forget(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._owned.pop(partition, None)
            self._rebuilding.pop(partition, None)
            self._outcomes.forget([partition])
            self._stale.discard(partition)
            self._problems.clear(f"partition {partition}")
        self._batch_rows = sum(
            owned.pending.last - owned.pending.first + 1 for owned in self._owned.values() if owned.pending is not None
        )

    def _consumer_error(self, error: KafkaError, partition: int) -> None:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            # The log's start moved above our position while we were reading.
            self._flush()
            if partition in self._owned:
                self._restart([partition])
            return
        self._check_terminal(error)
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._problems.note("topic", f"topic {self.settings.events_topic} does not exist")
        else:
            self._problems.note("broker", f"broker: {error.str()}")
            log.warning("broker", reason=error.str(), partition=partition)

    def _check_terminal(self, error: object) -> None:
        """Stop at a Kafka error that trying again does not solve."""
        if not isinstance(error, KafkaError):
            return
        if error.code() in _NOT_AUTHORIZED:
            raise NotAuthorized(self.settings.events_topic, self.settings.group_id, error.str()) from None
        if error.fatal():
            raise KafkaException(error)

    def _all_seen(self, now: float) -> bool:
        if self._group.waiting or self._refused is not None or not self._group.joined:
            self._idle_since = now
            return False
        if not self._owned:
            return self._outcomes.idle and now - self._idle_since > IDLE_WORKER_S
        self._idle_since = now
        for owned in self._owned.values():
            if owned.end_offset is None or owned.next_offset < owned.end_offset:
                return False
        if self._batch_rows:
            # Here and not at the stop, whose patience for announcements is short.
            self._flush()
            return False
        return self._outcomes.idle

    # Around the loop

    def _open_tables(self) -> bool:
        """Open the tables, trying again while the store does not answer. Returns False when stopped meanwhile."""
        self._problems.note("start", "starting: opens the tables")
        while not self._stop.is_set():
            try:
                self.ledger.open()
                self._problems.clear("sink")
                return True
            except SinkUnavailable as unavailable:
                self._problems.note("sink", f"cannot open tables: {unavailable}")
                log.error("cannot open tables, trying again", reason=str(unavailable), retry_s=RETRY_S)
                self._report(self.status)
                self._stop.wait(RETRY_S)
        return False

    def _snapshot_next(self, now: float) -> None:
        """Snapshot the partition that has waited longest for it: one a turn, so that no turn takes long."""
        due = [owned for owned in self._owned.values() if owned.awaits_snapshot(now)]
        if due:
            self._snapshot(min(due, key=lambda owned: owned.snapshot_due))

    def _snapshot(self, owned: AssignedPartition) -> None:
        """Snapshot a partition at its committed offset, and tell the group how far it is."""
        self._on_step("5 snapshot")
        owned.snapshot_due = time.monotonic() + self.settings.snapshot_interval_s
        try:
            with self._tracing.span("snapshot", trajlake__partition=owned.partition):
                content = encode_state(owned.fold.snapshot())
                write_snapshot(self.lake, owned.topic, owned.partition, owned.landed, content)
            owned.snapshot_offset = owned.landed
            self._outcomes.mark(owned.partition)
            if read_suppression(self.lake).epoch > owned.fold.watch.suppression.epoch:
                # An erasure may have gone through the snapshots before this one was there.
                remove_snapshot(self.lake, owned.topic, owned.partition, owned.landed)
                self._stale |= self._owned.keys()
        except SinkUnavailable as unavailable:
            log.warning("snapshot skipped; a restart will fold more of the ledger", reason=str(unavailable))
        self._seal(owned)
        self._on_step("6 group offsets")
        if "broker" not in self._problems:
            # One that waits for its answer would keep the client from closing until the session is over.
            self._group.note_offset(owned.partition, owned.landed + 1)

    def _mark(self, owned: AssignedPartition) -> None:
        """Note how far outcomes were acknowledged since the last snapshot."""
        try:
            self._outcomes.mark(owned.partition)
        except SinkUnavailable as unavailable:
            log.warning("mark skipped; a restart will announce more again", reason=str(unavailable))

    def note(self, concern: str, problem: str | None) -> None:
        """Something beside the loop is wrong, or well again (None): it shows in the status."""
        if problem is None:
            self._problems.clear(concern)
        else:
            self._problems.note(concern, problem)

    def _seal(self, owned: AssignedPartition) -> None:
        """Keep the chain of a partition beside its commits. A failure costs a restart some reading, nothing else."""
        try:
            if not seal(self.lake, self.ledger, self.settings, owned.chain, owned.blocks):
                log.warning(
                    "a head file knows a later offset than the tables: were they rolled back? `trajlake verify "
                    "--integrity` tells",
                    partition=owned.partition,
                    landed=owned.landed,
                )
            owned.blocks = []
        except (SinkUnavailable, StaleWriter) as error:
            log.warning("integrity chain not sealed; the next snapshot tries again", reason=str(error))

    def _publish_status(self) -> None:
        if "broker" in self._problems and self._group.answers():
            self._problems.clear("broker")
        now = time.time()
        for partition, owned in self._owned.items():
            owned.progress.high_watermark = max(owned.progress.high_watermark, self._group.seen_end(partition))
        self.status.partitions = {
            p: {**partition_status(owned, now), "outcomes_lag_records": self._outcomes.lag(p)}
            for p, owned in self._owned.items()
        }
        self.status.memory_bytes = self._process.memory_info().rss
        self._report(self.status)
