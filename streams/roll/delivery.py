"""Where Faust's own delivery would lose outcomes or changes without a word.

    commit    does not wait for changes that are written by another client than its own
    fetch     goes on while partitions are paused and given their places: what it brings is dropped
    seek      leaves partitions alone that have no committed offset, so that what was dropped of them is never read
    ack       is given for messages too that a rebalance made the stream skip

Here changes are saved before the offsets behind them are committed, a partition is fetched from its place on only,
fetches and seeks take turns, and no outcome is applied before its predecessors.

Faust's way from a fetch to a handler costs more than most outcomes, so it carries them in bundles.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import faust
import msgspec
import structlog
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.types import TP

from trajlake.streams.errors import StreamError

log = structlog.get_logger("trajlake.roll")

FETCH_S: Final = 0.2
"""A fetch without records ends after so long, and a seek has its turn."""
IDLE_S: Final = 0.1
LONGEST_WAIT_MS: Final = 100
"""A request for records comes back after so long at most. It leaves out partitions whose records have not been taken
yet, and the next one goes out when it is back: with Faust's 1.5 s a partition could wait for so long."""
BUNDLE_RECORDS: Final = 100
BUNDLE_BYTES: Final = 1 << 20
"""A bundle is handled in one turn of the loop, and so is kept short."""


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message of a bundle."""

    offset: int
    key: bytes | None
    value: bytes | None


_BUNDLE: Final = msgspec.msgpack.Decoder(list[Record])


def unbundle(content: bytes) -> list[Record]:
    """The messages of a bundle, in order of offset."""
    return _BUNDLE.decode(content)


def bundles(records: Sequence[Any]) -> Iterator[Any]:
    """Consumer records of one partition in bundles: records with the offset of their last one, and all as value."""
    part: list[Record] = []
    size = 0
    for place, record in enumerate(records):
        part.append(Record(record.offset, record.key, record.value))
        size += len(record.value or b"")
        if len(part) == BUNDLE_RECORDS or size >= BUNDLE_BYTES or place + 1 == len(records):
            yield replace(record, key=None, value=msgspec.msgpack.encode(part))
            part, size = [], 0


class DeliveryError(StreamError):
    """Messages were left out: the worker must not go on from here."""


class WholeApp(faust.App):
    """An application that leaves no message out. `save`: called before offsets are committed, returns when Kafka has
    all changes that messages before them made."""

    save: Callable[[], Awaitable[None]] | None = None

    def _new_consumer(self) -> Any:
        return WholeConsumer(
            self.transport,
            callback=self.topics.on_message,
            on_partitions_revoked=self._on_partitions_revoked,
            on_partitions_assigned=self._on_partitions_assigned,
            loop=self.transport.loop,
            beacon=self.beacon,
        )


class _ConsumerThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        made = super()._create_worker_consumer(transport)
        made._fetch_max_wait_ms = LONGEST_WAIT_MS
        return made


class WholeConsumer(Consumer):
    """A consumer that reads each partition of a stream from its place on, without a gap, and knows the next offset.

    Streams get bundles (`unbundle`), changelogs their records.

    `behind`: partition -> messages that were gone from Kafka before they were read.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.behind: dict[TP, int] = {}
        self._next: dict[TP, int] = {}
        """Partition of a stream -> offset that comes next; what is not in it has no place yet and is not fetched."""
        self._fetching = asyncio.Lock()
        """Held while records are on their way to the streams: a seek between would part them from their place."""

    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self._next.clear()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        # What was handled since the last commit is read again, and must not be committed before.
        self._acked.clear()
        self._acked_index.clear()
        self._gap.clear()
        await super().on_partitions_assigned(assigned, generation_id)

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        """Commit what was handled, once Kafka has what it changed."""
        generation = self.app.consumer_generation_id
        app = cast(WholeApp, self.app)
        if app.save is not None:
            await app.save()
        if self.app.rebalancing or self.app.consumer_generation_id != generation:
            return False
        return bool(await super()._commit_offsets(offsets, start_new_transaction))

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
            found = {
                tp: several if self._is_changelog_tp(tp) else [*bundles(several)]
                for tp, several in (records or {}).items()
            }
            for tp, record in self.scheduler.iterate(found):
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
