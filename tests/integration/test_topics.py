"""Topics are made when absent, compared when present, and never changed."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from trajlake.streams.broker import free_port
from trajlake.streams.topics import TopicError, ensure_topics

pytestmark = pytest.mark.integration


def fresh() -> str:
    return f"topics-{uuid.uuid4().hex[:12]}"


def test_an_absent_topic_is_made_with_the_brokers_clock_and_room_for_large_events(broker: str) -> None:
    name = fresh()
    report = ensure_topics(broker, {name: 3})
    assert (report.created, report.present, report.warnings) == ([name], [], [])

    admin = AdminClient({"bootstrap.servers": broker})
    assert len(admin.list_topics(timeout=10).topics[name].partitions) == 3
    resource = ConfigResource(ResourceType.TOPIC, name)
    config = admin.describe_configs([resource])[resource].result()
    assert config["message.timestamp.type"].value == "LogAppendTime"
    assert config["max.message.bytes"].value == str(64 * 2**20)


def test_asking_again_changes_nothing_and_warns_of_nothing(broker: str) -> None:
    name = fresh()
    ensure_topics(broker, {name: 2})
    report = ensure_topics(broker, {name: 2})
    assert (report.created, report.present, report.warnings) == ([], [name], [])


def test_many_workers_may_ask_at_once(broker: str) -> None:
    name = fresh()
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: ensure_topics(broker, {name: 2}), range(4)))
    assert sum(report.created == [name] for report in reports) == 1
    assert not any(report.warnings for report in reports)


def test_a_present_topic_that_differs_is_left_alone_and_each_difference_is_named(broker: str) -> None:
    name = fresh()
    admin = AdminClient({"bootstrap.servers": broker})
    config = {"message.timestamp.type": "CreateTime", "max.message.bytes": "1000000", "cleanup.policy": "compact"}
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, config=config)])[name].result()

    warnings = ensure_topics(broker, {name: 4}).warnings
    assert [warning.code for warning in warnings] == ["partitions", "timestamp_type", "message_bytes", "compacted"]
    assert all(name in str(warning) for warning in warnings)
    assert len(admin.list_topics(timeout=10).topics[name].partitions) == 1


def test_a_silent_kafka_is_an_error_that_says_where_and_what_to_do() -> None:
    servers = f"127.0.0.1:{free_port()}"
    with pytest.raises(TopicError, match=rf"{servers} does not answer.*trajlake broker start"):
        ensure_topics(servers, {"any": 1}, timeout_s=1.0)


def test_a_name_that_kafka_refuses_is_an_error_with_the_name(broker: str) -> None:
    with pytest.raises(TopicError, match="a bad name"):
        ensure_topics(broker, {"a bad name": 1})
