"""The Faust application: outcomes in, state in a table with a changelog, statistics and decisions out.

    outcomes topic ─► agent count ─► table skills (changelog) ─► timer tell ─► statistics topic (key: tenant)
                                                                                     │
                     decisions topic ◄─ agent advise ◄─ timer ask ◄─ table board ◄─ agent note

All topics have the same number of partitions, so that Faust gives the worker of an outcome's partition the changelog's.
Every handler ends the process when it fails: Faust would acknowledge the event and go on.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import faust
import structlog

from trajlake.streams.roll.advisor import Advisor
from trajlake.streams.roll.book import Book, Skill
from trajlake.streams.roll.delivery import WholeApp, WholeConsumer
from trajlake.streams.roll.guard import GuardedTable, end_process, watch_recovery
from trajlake.streams.roll.lakefacts import LakeFacts
from trajlake.streams.roll.security import broker_credentials
from trajlake.streams.roll.store import check_value, is_older
from trajlake.streams.roll.topics import asked_topic
from trajlake.streams.settings import Settings
from trajlake.streams.tracing import Tracing
from trajlake.transforms.rolling.revision import ROLLING_REVISION
from trajlake.transforms.stats.assessment import ENGINE

log = structlog.get_logger("trajlake.roll")

TICK_S: Final = 0.2
"""How often the worker looks for statistics that are due."""
TELL_S: Final = 0.1
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
        self.faust = self._make()
        self.outcomes = self._topic(settings.outcomes_topic)
        self.stats = self._topic(settings.stats_topic)
        self.decisions = self._topic(settings.decisions_topic)
        self.asked = self._topic(asked_topic(settings))
        self.skills = self._table("skills", check_value, self._skills_recovered)
        self.skills.is_older = is_older
        self.board = self._table("board", self.advisor.check, self._board_recovered)
        self._wire()

    def _make(self) -> faust.App:
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
            stream_publish_on_commit=False,
            consumer_auto_offset_reset="earliest",
            consumer_max_fetch_size=8 << 20,
            producer_max_request_size=64 << 20,
            producer_acks=-1,
            producer_linger=0.005,
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

    def _guarded(self, handle: Callable[[Any], Awaitable[None]]) -> Callable[[Any], AsyncIterator[None]]:
        async def agent(stream: Any) -> AsyncIterator[None]:
            async for event in stream.events():
                self._check_pause()
                try:
                    await handle(event)
                except Exception as error:
                    log.exception("event not handled", topic=event.message.topic, offset=event.message.offset)
                    end_process(f"{event.message.topic} offset {event.message.offset}", error)
                self.turned_at = time.monotonic()
                yield

        return agent

    async def _count(self, event: Any) -> None:
        consumer = self.faust.consumer
        assert isinstance(consumer, WholeConsumer)
        consumer.check_order(event.message.tp, event.message.offset)
        for key, value in self.book.apply(event.message.partition, event.value or b""):
            _store(self.skills, key, value)

    async def _note(self, event: Any) -> None:
        change = self.advisor.note(event.message.partition, event.value or b"")
        if change is not None:
            _store(self.board, *change)

    async def _advise(self, event: Any) -> None:
        tenant_id = (event.key or b"").decode()
        with self.tracing.span("decide", trajlake__partition=event.message.partition):
            decided = self.advisor.decide(event.message.partition, tenant_id, time.time_ns() // 1000)
        for content in decided.messages:
            # Kafka has it before the board does: a crash in between tells it twice, and never not at all.
            await (await self.decisions.send(key=event.key, value=content))
        for key, value in decided.changes:
            _store(self.board, key, value)

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
        if not self.recovered:
            return
        began = time.monotonic()
        due = self.book.due(began, self.settings.stats_interval_ms / 1000)
        if due:
            with self.tracing.span("tell statistics", trajlake__skills=len(due)):
                await self._tell_of(due, began)

    async def _tell_of(self, due: list[Skill], began: float) -> None:
        for skill in due:
            if skill not in self.book.skills:
                self.book.dirty.pop(skill, None)
                continue
            stats = self.book.tell(skill, began)
            await self.stats.send(key=stats.tenant_id.encode(), value=self.advisor.encode(stats))
            if time.monotonic() - began > TELL_S:
                break
            await asyncio.sleep(0)

    async def _ask(self) -> None:
        if not self.recovered:
            return
        await self.facts.refresh(list(self.advisor.fleets))
        for tenant_id in self.advisor.to_ask():
            await self.asked.send(key=tenant_id.encode(), value=b"")

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


def _store(table: Any, key: bytes, value: bytes | None) -> None:
    if value is not None:
        table[key] = value
    elif key in table:
        del table[key]
