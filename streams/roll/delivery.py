"""Where Faust's own delivery would lose outcomes or changes without a word.

    flush     gives up where the client takes nothing for a tenth of a second; the offsets that are committed behind it
              run ahead of the changelog, and a worker that is killed then has lost what lies between
    fetch     goes on while partitions are paused and given their places: what it brings is dropped
    seek      leaves partitions alone that have no committed offset, so that what was dropped of them is never read
    ack       is given for messages too that a rebalance made the stream skip

Here a flush is whole, a partition is fetched from its place on only, fetches and seeks take turns, and no outcome is
applied before its predecessors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import faust
import structlog
from faust.transport.drivers.aiokafka import Consumer
from faust.transport.producer import ProducerBuffer
from faust.types import TP

from trajlake.streams.errors import StreamError

log = structlog.get_logger("trajlake.roll")

FETCH_S: Final = 0.2
"""A fetch without records ends after so long, and a seek has its turn."""
IDLE_S: Final = 0.1


class DeliveryError(StreamError):
    """Messages were left out: the worker must not go on from here."""


class WholeApp(faust.App):
    """An application that commits no offset before Kafka has all changes of its events, and leaves no message out."""

    def _new_producer(self) -> Any:
        producer = super()._new_producer()
        producer.buffer = _WholeBuffer(loop=producer.loop, beacon=producer.beacon)
        producer.buffer.app = self
        return producer

    def _new_consumer(self) -> Any:
        return WholeConsumer(
            self.transport,
            callback=self.topics.on_message,
            on_partitions_revoked=self._on_partitions_revoked,
            on_partitions_assigned=self._on_partitions_assigned,
            loop=self.transport.loop,
            beacon=self.beacon,
        )


class _WholeBuffer(ProducerBuffer):
    """Messages on their way to the client. A flush ends when the client has taken all, however long it takes."""

    _handing = False

    async def flush(self) -> None:
        if self.state != "running":
            await super().flush()
            return
        while self.size or self._handing:
            self.message_sent.clear()
            await self.message_sent.wait()

    async def _send_pending(self, fut: Any) -> None:
        self._handing = True
        await super()._send_pending(fut)
        self._handing = False


class WholeConsumer(Consumer):
    """A consumer that reads each partition of a stream from its place on, without a gap, and knows the next offset.

    `behind`: partition -> messages that were gone from Kafka before they were read.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.behind: dict[TP, int] = {}
        self._next: dict[TP, int] = {}
        """Partition of a stream -> offset that comes next; what is not in it has no place yet and is not fetched."""
        self._fetching = asyncio.Lock()
        """Held while records are on their way to the streams: a seek between would part them from their place."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self._next.clear()
        await super().on_partitions_revoked(revoked)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:
        """Fetch what there is of the partitions that are active, and deliver all of it or, in a rebalance, none."""
        if not self.flow_active:
            await self.wait(self.can_resume_flow)  # type: ignore[arg-type]
        if not self.app.rebalancing and not self.app.in_recovery and self._without_place():
            # The application gives a seek up after a while, and would wait for records from then on.
            await self.perform_seek()
        async with self._fetching:
            generation = self.app.consumer_generation_id
            active = {tp for tp in self._get_active_partitions() if tp in self._next or self._is_changelog_tp(tp)}
            # The driver takes an empty set for all partitions, and a set that changes while it waits as it is by then.
            records = await self._getmany(active, FETCH_S) if active else None
            for tp, record in self.scheduler.iterate(records or {}):
                if self.should_stop or not self.flow_active or self.app.consumer_generation_id != generation:
                    return
                self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
                yield tp, self._to_message(tp, record)
        if not active:
            await self.sleep(IDLE_S)

    def _without_place(self) -> set[TP]:
        return {tp for tp in self._get_active_partitions() if tp not in self._next and not self._is_changelog_tp(tp)}

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        async with self._fetching:
            await super().seek_wait(partitions)

    async def perform_seek(self) -> None:
        """Give each partition of a stream its place: the committed offset, or the first one where there is none."""
        async with self._fetching:
            await super().perform_seek()
            streams = [TP(*tp) for tp in self.assignment() if not self._is_changelog_tp(tp)]
            if not streams:
                return
            first = {TP(*tp): offset for tp, offset in (await self.earliest_offsets(*streams)).items()}
            places: dict[TP, int] = {}
            for tp in streams:
                committed = self._committed_offset[tp]
                places[tp] = max(committed or 0, first[tp])
                if committed and places[tp] > committed:
                    self.behind[tp] = places[tp] - committed
                    log.error(
                        "messages were gone before they were read", topic=tp.topic, partition=tp.partition,
                        count=self.behind[tp],
                    )  # fmt: skip
            await super().seek_wait(places)
            self._read_offset.update(places)
            self._next = places

    def ack(self, message: Any) -> bool:
        """Note that a message is done with. One of an earlier assignment comes again, and was perhaps skipped."""
        if message.generation_id != self.app.consumer_generation_id:
            message.acked = True
            return False
        return super().ack(message)

    def check_order(self, tp: TP, offset: int) -> None:
        """Let a message pass that is the next one of its partition, or comes again.

        Raises `DeliveryError` for one that comes before its predecessors.
        """
        expected = self._next.get(tp)
        if expected is None or offset > expected:
            raise DeliveryError(
                f"topic {tp.topic} partition {tp.partition}: offset {offset} came where {expected} is the next"
            )
        self._next[tp] = max(expected, offset + 1)
