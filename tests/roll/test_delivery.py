"""Delivery as the rolling workers have it: flushes are whole, and nothing is applied before its predecessors."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from trajlake.streams.roll.delivery import DeliveryError, WholeApp, WholeConsumer
from trajlake.streams.roll.guard import GuardedTable
from trajlake.streams.roll.store import encode_value, is_older
from trajlake.transforms.rolling.bucket import Bucket

PLACE = TP("outcomes", 0)


class Slow:
    """A channel whose client takes a message only when `open` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.taken = 0

    async def publish_message(self, message: Any, wait: bool = False) -> None:
        await self.open.wait()
        self.taken += 1


def stored(table: Any) -> dict[bytes, bytes]:
    """What a table holds in memory."""
    return {key: value for key, value in table.data.data.items() if value is not None}


def consumer() -> WholeConsumer:
    made = WholeApp("test", broker="kafka://127.0.0.1:1", store="memory://").consumer
    assert isinstance(made, WholeConsumer)
    made._thread.thread_loop.close()  # of the thread that is never started here
    return made


def test_a_flush_ends_when_the_client_has_taken_all() -> None:
    async def flush() -> None:
        buffer = WholeApp("test", broker="kafka://127.0.0.1:1", store="memory://").producer.buffer
        await buffer.start()
        channel = Slow()
        for _ in range(3):
            buffer.put(cast(Any, SimpleNamespace(message=SimpleNamespace(channel=channel))))
        flushing = asyncio.create_task(buffer.flush())
        done, _ = await asyncio.wait([flushing], timeout=0.3)
        assert not done, "Faust's own gives up after a tenth of a second"
        channel.open.set()
        await asyncio.wait_for(flushing, 5)
        assert channel.taken == 3
        await buffer.stop()

    asyncio.run(flush())


def test_messages_pass_in_order_and_again_but_never_before_their_predecessors() -> None:
    async def check() -> None:
        reader = consumer()
        with pytest.raises(DeliveryError, match="partition 0: offset 4"):
            reader.check_order(PLACE, 4)
        reader._next = {PLACE: 4}
        for offset in (4, 5, 4, 5, 6):
            reader.check_order(PLACE, offset)
        with pytest.raises(DeliveryError, match="offset 8 came where 7 is the next"):
            reader.check_order(PLACE, 8)

    asyncio.run(check())


def test_what_a_former_assignment_brought_is_not_acknowledged() -> None:
    async def check() -> None:
        reader = consumer()
        reader.app.topics.acking_topics.add(PLACE.topic)
        reader.app.consumer_generation_id = 2
        old, new = (
            ConsumerMessage(*PLACE, 7, 0.0, 0, None, b"", b"", None, tp=PLACE, generation_id=generation)
            for generation in (1, 2)
        )
        assert not reader.ack(old)
        assert not reader._acked[PLACE]
        assert reader.ack(new)
        assert reader._acked[PLACE] == [7]

    asyncio.run(check())


def test_a_value_is_older_when_it_holds_less_of_one_partition_and_more_of_none() -> None:
    def value(**applied: int) -> bytes:
        return encode_value(Bucket(applied={int(name[1:]): offset for name, offset in applied.items()}))

    assert is_older(value(p0=4), value(p0=5))
    assert is_older(value(p0=5), value(p0=5, p1=0))
    assert not is_older(value(p0=5), value(p0=5))
    assert not is_older(value(p0=6), value(p0=5))
    assert not is_older(value(p0=4, p1=9), value(p0=5, p1=8))


def test_the_changelog_never_puts_a_value_back() -> None:
    table = WholeApp(
        "test",
        broker="kafka://127.0.0.1:1",
        store="memory://",
        key_serializer="raw",
        value_serializer="raw",
        Table=GuardedTable,
    ).Table("skills", key_type=bytes, value_type=bytes)
    assert isinstance(table, GuardedTable)
    table.is_older = is_older
    values = [encode_value(Bucket(applied={0: offset})) for offset in (3, 7, 5)]

    def batch(*contents: bytes | None) -> list[Any]:
        return [
            SimpleNamespace(
                key=b"k",
                value=content,
                message=SimpleNamespace(key=b"k", value=content, tp=PLACE, partition=0, offset=9),
            )
            for content in contents
        ]

    table.apply_changelog_batch(batch(*values))
    assert stored(table) == {b"k": values[1]}
    table.apply_changelog_batch(batch(values[0]))
    assert stored(table) == {b"k": values[1]}
    table.apply_changelog_batch(batch(None))
    assert not stored(table)
