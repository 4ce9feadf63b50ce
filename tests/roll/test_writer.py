"""The writer of the rolling workers on a real Kafka."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.conftest import MakeTopic
from tests.landkit.kafka import log_of
from trajlake.streams.roll.writer import WriteError, Writer
from trajlake.streams.settings import load_settings

pytestmark = pytest.mark.integration


def test_a_flush_returns_when_kafka_has_all_in_order(broker: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    writer = Writer(load_settings(bootstrap_servers=broker))
    values = [f"{number}".encode() for number in range(5_000)]

    async def write() -> None:
        for value in values:
            writer.send(topic, b"k", value, 0)
        writer.send(topic, b"gone", None, 0)
        await writer.flush()

    asyncio.run(write())
    records, _, _ = log_of(broker, topic)
    assert list(records.values()) == [*values, None]
    assert not writer.crowded


def test_a_flush_does_not_wait_for_what_comes_after_it(broker: str, make_topic: MakeTopic) -> None:
    topic, absent = make_topic(), f"absent-{uuid.uuid4().hex}"
    writer = Writer(load_settings(bootstrap_servers=broker))

    async def write() -> None:
        writer.send(topic, b"k", b"before", 0)
        flushing = asyncio.ensure_future(writer.flush())
        await asyncio.sleep(0)
        # The client looks for a topic that is not there for many seconds.
        writer.send(absent, b"k", b"after", 0)
        await asyncio.wait_for(flushing, 20)

    asyncio.run(write())
    assert list(log_of(broker, topic)[0].values()) == [b"before"]


def test_a_refused_message_is_told_at_the_flush_and_at_every_later_message(broker: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    writer = Writer(load_settings(bootstrap_servers=broker))
    writer.send(topic, b"k", b"x", 7)
    with pytest.raises(WriteError, match=f"{topic} partition 7"):
        asyncio.run(writer.flush())
    with pytest.raises(WriteError, match=topic):
        writer.send(topic, b"k", b"x", 0)


def test_what_is_not_taken_in_time_is_told() -> None:
    writer = Writer(load_settings(bootstrap_servers="127.0.0.1:1"))
    writer.send("nowhere", b"k", b"x", 0)
    with pytest.raises(WriteError, match=r"1 messages were not taken within 0\.2 s"):
        writer.flush_within(0.2)
