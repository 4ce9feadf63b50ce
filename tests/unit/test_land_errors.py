"""Which errors of Kafka stop a land worker for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from trajlake.streams.errors import NotAuthorized, StreamError
from trajlake.streams.land.worker import LandWorker
from trajlake.streams.settings import load_settings

DENIED = [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED]


@pytest.fixture
def worker(tmp_path: Path) -> LandWorker:
    return LandWorker(load_settings(root=str(tmp_path), events_topic="audit", group_id="landing"))


@pytest.mark.parametrize("code", DENIED)
def test_a_worker_that_kafka_does_not_authorize_stops_and_says_what_to_grant(worker: LandWorker, code: int) -> None:
    with pytest.raises(NotAuthorized, match=r"READ and DESCRIBE on topic audit and READ on group landing") as stopped:
        worker._consumer_error(KafkaError(code), 0)
    assert isinstance(stopped.value, StreamError)
    assert "\n" not in str(stopped.value)


@pytest.mark.parametrize("code", DENIED)
def test_a_partition_that_kafka_does_not_authorize_stops_the_worker_too(worker: LandWorker, code: int) -> None:
    def refuse(_partition: int) -> None:
        raise KafkaException(KafkaError(code))

    with pytest.raises(NotAuthorized):
        worker._attempt(0, 0.0, refuse)


def test_a_broker_that_is_away_is_noted_and_not_raised(worker: LandWorker) -> None:
    worker._consumer_error(KafkaError(KafkaError._ALL_BROKERS_DOWN), -1)
    assert "broker" in worker._problems
