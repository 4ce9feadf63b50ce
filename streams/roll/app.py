"""The Faust application: outcomes in, state in a table with a changelog, statistics and decisions out.

    outcomes topic ─► agent count ─► table skills (changelog) ─► timer tell ─► statistics topic (key: tenant)
                                                                                     │
                     decisions topic ◄─ agent advise ◄─ timer ask ◄─ table board ◄─ agent note

Changes of tables are saved before each commit of offsets, each value once; what was not saved comes again.
All topics have the same number of partitions, so that Faust gives the worker of an outcome's partition the changelog's.
Every handler ends the process when it fails: Faust would acknowledge the event and go on.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import structlog
from faust.types import TP

from trajlake.streams.roll.advisor import Advisor
from trajlake.streams.roll.book import Book, Skill
from trajlake.streams.roll.delivery import Record, WholeApp, WholeConsumer, unbundle
from trajlake.streams.roll.guard import GuardedTable, end_process, watch_recovery
from trajlake.streams.roll.lakefacts import LakeFacts
from trajlake.streams.roll.security import broker_credentials
from trajlake.streams.roll.store import Change, check_value, is_older
from trajlake.streams.roll.topics import asked_topic
from trajlake.streams.roll.writer import WriteError, Writer
from trajlake.streams.settings import Settings
from trajlake.streams.tracing import Tracing
from trajlake.transforms.rolling.revision import ROLLING_REVISION
from trajlake.transforms.stats.assessment import ENGINE

log = structlog.get_logger("trajlake.roll")

TICK_S: Final = 0.1
"""How often the worker looks for statistics that are due."""
TELL_S: Final = 0.05
"""Time that one look may take before outcomes get their turn again."""
ASK_S: Final = 1.0
SESSION_S: Final = 8.0
"""A worker that was killed is given up after so long, and its partitions go to others or to its successor."""
HEARTBEAT_S: Final = 2.0
COMMIT_S: Final = 1.0
STUCK_S: Final = 20.0
"""A loop that has not turned for so long is not ready."""


class RollApp:
    """One worker's application with its book and its advisor. `web_port`: where its views answer. `restarts`: how often
    its supervisor had to start it again."""

    def __init__(self, settings: Settings, web_port: int, restarts: int = 0) -> None:
        self.settings = settings
        self.web_port = web_port
        self.restarts = restarts
        self.tracing = Tracing.of(settings, "roll")
        self.lake = settings.lake()
        keep_s = settings.stats_rows_interval_ms / 1000
        self.book = Book(settings.events_topic, f"{ROLLING_REVISION}/{ENGINE}", keep_s)
        self.facts = LakeFacts(self.lake, settings)
        self.advisor = Advisor(self.facts)
        self.turned_at = time.monotonic()
        """When the loop last turned; the watchdog's measure."""
        self.recovered = False
        self._beat: float | None = None
        watch_recovery()
        self.writer = Writer(settings)
        self.faust = self._make()
        self.faust.save = self._save
        self.outcomes = self._topic(settings.outcomes_topic)
        self.stats = self._topic(settings.stats_topic)
        self.asked = self._topic(asked_topic(settings))
        self.skills = self._table("skills", check_value, self._skills_recovered)
        self.skills.is_older = is_older
        self.board = self._table("board", self.advisor.check, self._board_recovered)
        self._wire()

    def _make(self) -> WholeApp:
        settings = self.settings
        servers = ";".join(f"kafka://{server.strip()}" for server in settings.bootstrap_servers.split(","))
        return WholeApp(
            settings.roll_id,
            broker=servers,
            broker_credentials=broker_credentials(settings.kafka_options),
            store="memory://",
            datadir=str(Path(gettempdir()) / f"trajlake-roll-{self.web_port}"),
            key_serializer="raw",
            value_serializer="raw",
            topic_partitions=settings.outcomes_partitions,
            topic_allow_declare=True,
            topic_disable_leader=True,
            table_standby_replicas=0,
            stream_recovery_delay=0.0,
            stream_wait_empty=False,
            consumer_auto_offset_reset="earliest",
            consumer_max_fetch_size=8 << 20,
            broker_session_timeout=SESSION_S,
            broker_heartbeat_interval=HEARTBEAT_S,
            broker_rebalance_timeout=10.0,
            broker_request_timeout=30.0,
            broker_commit_interval=COMMIT_S,
            broker_max_poll_interval=300.0,
            web_bind=settings.roll_host,
            web_host=_announced(settings.roll_host),
            web_port=self.web_port,
            web_in_thread=False,
            autodiscover=False,
            reply_create_topic=False,
            Table=GuardedTable,
        )

    def _topic(self, name: str) -> Any:
        return self.faust.topic(
            name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw",
            partitions=self.settings.outcomes_partitions,
        )  # fmt: skip

    def _table(
        self, name: str, check: Callable[[bytes, bytes | None], None], recovered: Callable[[set[int]], None]
    ) -> GuardedTable:
        table = self.faust.Table(name, key_type=bytes, value_type=bytes, partitions=self.settings.outcomes_partitions)
        assert isinstance(table, GuardedTable)
        table.check, table.recovered = check, recovered
        return table

    def _wire(self) -> None:
        self.faust.agent(self.outcomes, name="count", concurrency=1)(self._guarded(self._count))
        self.faust.agent(self.stats, name="note", concurrency=1)(self._guarded(self._note))
        self.faust.agent(self.asked, name="advise", concurrency=1)(self._guarded(self._advise))
        self.faust.timer(TICK_S, name="tell")(self._tell)
        self.faust.timer(ASK_S, name="ask")(self._ask)

        async def revoked(*_: Any, **__: Any) -> None:
            # What is told from here on might be another worker's already.
            self.recovered = False
            self.book.dirty.clear()
            self.advisor.pending.clear()

        self.faust.on_partitions_revoked.connect(revoked)

    # Events

    def _guarded(self, handle: Callable[[int, list[Record]], Awaitable[None]]) -> Callable[[Any], AsyncIterator[None]]:
        async def agent(stream: Any) -> AsyncIterator[None]:
            async for event in stream.events():
                self._check_pause()
                try:
                    await handle(event.message.partition, unbundle(event.value))
                except Exception as error:
                    log.exception("event not handled", topic=event.message.topic, offset=event.message.offset)
                    end_process(f"{event.message.topic} offset {event.message.offset}", error)
                self.turned_at = time.monotonic()
                yield

        return agent

    async def _count(self, partition: int, records: list[Record]) -> None:
        consumer = self.faust.consumer
        assert isinstance(consumer, WholeConsumer)
        place = TP(self.settings.outcomes_topic, partition)
        for record in records:
            consumer.check_order(place, record.offset)
            self.book.apply(partition, record.value or b"")

    async def _note(self, partition: int, records: list[Record]) -> None:
        for record in records:
            self.advisor.note(partition, record.value or b"")

    async def _advise(self, partition: int, records: list[Record]) -> None:
        # Who was asked for twice is looked at once.
        for key in dict.fromkeys(record.key or b"" for record in records):
            with self.tracing.span("decide", trajlake__partition=partition):
                decided = self.advisor.decide(partition, key.decode(), time.time_ns() // 1000)
            for content in decided.messages:
                self._send(self.settings.decisions_topic, key, content)
            if decided.messages:
                # Kafka has it before the board does: a crash in between tells it twice, and never not at all.
                await self.writer.flush()
            self.advisor.unsaved.update((name, (partition, value)) for name, value in decided.changes.items())

    def _send(self, topic: str, key: bytes, value: bytes) -> None:
        try:
            self.writer.send(topic, key, value)
        except WriteError as error:
            end_process(f"topic {topic}", error)

    async def _save(self) -> None:
        """Write all changes to the changelogs, and wait until Kafka has them."""
        try:
            saved = [(table, self._write(table, changes)) for table, changes in self._changes()]
            await self.writer.flush()
            for table, changes in saved:
                for change in changes:
                    table.hold(change.key, change.value)
        except Exception as error:
            end_process("the changelog", error)

    def _changes(self) -> Iterator[tuple[GuardedTable, list[Change]]]:
        yield self.skills, self.book.changes()
        yield self.board, self.advisor.changes()

    def _write(self, table: GuardedTable, changes: list[Change]) -> list[Change]:
        topic = table.changelog_topic_name
        for change in changes:
            self.writer.send(topic, change.key, change.value, change.partition)
        return changes

    # Timers

    def _check_pause(self) -> None:
        """End a process that stood still for longer than its session: its partitions may be another's by now."""
        now = time.monotonic()
        if self._beat is not None and now - self._beat > SESSION_S:
            end_process("the process", f"stood still for {now - self._beat:.1f} s")
        self._beat = now

    async def _tell(self) -> None:
        self._check_pause()
        self.turned_at = time.monotonic()
        if not self.recovered or self.writer.crowded:
            return
        began = time.monotonic()
        due = self.book.due(began, self.settings.stats_interval_ms / 1000)
        if due:
            with self.tracing.span("tell statistics", trajlake__skills=len(due)):
                self._tell_of(due, began)

    def _tell_of(self, due: list[Skill], began: float) -> None:
        """Tell in one go, for `TELL_S` at most: with a turn of the loop between two, a backlog of outcomes would leave
        no time for the second."""
        for skill in due:
            if skill not in self.book.skills:
                self.book.dirty.pop(skill, None)
                continue
            stats = self.book.tell(skill, began)
            self._send(self.settings.stats_topic, stats.tenant_id.encode(), self.advisor.encode(stats))
            if time.monotonic() - began > TELL_S:
                break

    async def _ask(self) -> None:
        if not self.recovered:
            return
        await self.facts.refresh(list(self.advisor.fleets))
        for tenant_id in self.advisor.to_ask():
            self._send(asked_topic(self.settings), tenant_id.encode(), b"")

    def problems(self) -> list[str]:
        """Why the worker is not ready; empty when all is well."""
        found = []
        still = time.monotonic() - self.turned_at
        if still > STUCK_S:
            found.append(f"the loop has not turned for {still:.0f} s")
        if not self.recovered:
            found.append("state is being recovered")
        return found

    # Recovery

    def _skills_recovered(self, partitions: set[int]) -> None:
        own = _own(self.skills, partitions)
        self.book.recover(own, partitions)
        self.recovered = True
        log.info("recovered", skills=len(self.book.skills), values=len(own), partitions=sorted(partitions))

    def _board_recovered(self, partitions: set[int]) -> None:
        self.advisor.recover(_own(self.board, partitions), partitions)


def _announced(host: str) -> str:
    """Address under which the other workers reach one that listens at `host`."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host
    if not everywhere:
        return host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _own(table: Any, partitions: set[int]) -> list[tuple[bytes, bytes]]:
    """Values of the worker's own partitions; what others own by now is dropped from memory."""
    data = table.data.data
    for key in [key for key in data if int(key.split(b"\x1f", 1)[0]) not in partitions]:
        del data[key]
    return [(key, value) for key, value in data.items() if value is not None]
