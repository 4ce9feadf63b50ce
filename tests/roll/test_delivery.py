"""Delivery as the rolling workers have it: no offset ahead of what is saved, no message ahead of its predecessors."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.structs import ConsumerRecord
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.streams.roll.delivery import (
    BUNDLE_BYTES,
    BUNDLE_RECORDS,
    DeliveryError,
    Record,
    WholeApp,
    WholeConsumer,
    bundles,
    unbundle,
)
from trajlake.streams.roll.guard import GuardedTable
from trajlake.streams.roll.store import encode_value, is_older
from trajlake.transforms.rolling.bucket import Bucket

PLACE = TP("outcomes", 0)


def stored(table: Any) -> dict[bytes, bytes]:
    """What a table holds in memory."""
    return {key: value for key, value in table.data.data.items() if value is not None}


def consumer() -> WholeConsumer:
    made = WholeApp("test", broker="kafka://127.0.0.1:1", store="memory://").consumer
    assert isinstance(made, WholeConsumer)
    made._thread.thread_loop.close()  # of the thread that is never started here
    return made


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


def consumed(offset: int, value: bytes | None, key: bytes | None = b"k") -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(*PLACE, offset, 5, 0, key, value, None, 1, len(value or b""), ())


@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=400_000)), max_size=250))
@settings(max_examples=25, deadline=None)
def test_bundles_hold_every_message_once_and_in_order_and_are_short(
    messages: list[tuple[bytes | None, bytes | None]],
) -> None:
    records = [consumed(7 + 2 * place, value, key) for place, (key, value) in enumerate(messages)]
    made = list(bundles(records))
    parts = [unbundle(each.value) for each in made]
    held = [Record(each.offset, each.key, each.value) for each in records]
    assert [record for part in parts for record in part] == held
    assert [each.offset for each in made] == [part[-1].offset for part in parts]
    for part in parts:
        assert 1 <= len(part) <= BUNDLE_RECORDS
        assert sum(len(record.value or b"") for record in part[:-1]) < BUNDLE_BYTES


class Committing:
    """A consumer whose application saves when it is let, and which notes what it gave Kafka."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reader = consumer()
        self.said: list[str] = []
        self.let = asyncio.Event()
        cast(WholeApp, self.reader.app).save = self._save

        async def commit(offsets: dict[TP, int]) -> bool:
            self.said.append(f"committed {offsets[PLACE]}")
            return True

        monkeypatch.setattr(self.reader, "_commit", commit)
        monkeypatch.setattr(self.reader, "assignment", lambda: {PLACE})
        monkeypatch.setattr(self.reader.app.producer, "flush", self._nothing)
        self.reader.app.topics.acking_topics.add(PLACE.topic)

    async def _save(self) -> None:
        self.said.append("saving")
        await self.let.wait()
        self.said.append("saved")

    async def _nothing(self) -> None:
        pass

    def handle(self, *offsets: int) -> None:
        for offset in offsets:
            made = ConsumerMessage(*PLACE, offset, 0.0, 0, None, b"", b"", None, tp=PLACE)
            made.generation_id = self.reader.app.consumer_generation_id
            assert self.reader.ack(made)


async def _turns(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_offsets_are_committed_when_their_changes_are_saved_and_those_handled_meanwhile_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        one = Committing(monkeypatch)
        one.handle(0, 1)
        committing = asyncio.ensure_future(one.reader.commit({PLACE}))
        await _turns()
        assert one.said == ["saving"]
        one.handle(2)
        one.let.set()
        assert await committing
        assert one.said == ["saving", "saved", "committed 2"]

    asyncio.run(check())


def test_offsets_of_an_assignment_that_ended_while_changes_were_saved_are_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        one = Committing(monkeypatch)
        one.handle(0, 1)
        committing = asyncio.ensure_future(one.reader.commit({PLACE}))
        await _turns()
        one.reader.app.consumer_generation_id += 1
        one.let.set()
        assert not await committing
        assert one.said == ["saving", "saved"]

    asyncio.run(check())


def test_what_was_handled_before_an_assignment_is_not_committed_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its changes are gone with the state that was dropped, and it is read again."""

    async def check() -> None:
        one = Committing(monkeypatch)

        async def assigned(partitions: set[TP], generation_id: int) -> None:
            pass

        monkeypatch.setattr(one.reader, "_on_partitions_assigned", assigned)
        monkeypatch.setattr(one.reader.app, "on_rebalance_return", lambda: None)
        one.handle(0, 1)
        await one.reader.on_partitions_assigned({PLACE}, 2)
        one.let.set()
        assert not await one.reader.commit({PLACE})
        assert one.said == []

    asyncio.run(check())
