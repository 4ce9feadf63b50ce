"""Which log a lake was landed from: Kafka's own id of the topic, kept beside the tables.

Offsets mean nothing without it. A topic of the same name on another Kafka, or made anew, holds other records under
the same offsets; landing on from there would skip them without a trace.
"""

from __future__ import annotations

import obstore
import structlog
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from obstore.exceptions import AlreadyExistsError, BaseError

from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake
from trajlake.streams.errors import LogReplaced
from trajlake.streams.settings import Settings

log = structlog.get_logger("trajlake.land")

ASK_S = 10.0


def topic_id(settings: Settings) -> str | None:
    """Kafka's id of the events topic; None where the broker gives none. Raises `KafkaException` when it does not
    answer."""
    admin = AdminClient(settings.kafka(log_level=0))
    described = admin.describe_topics(TopicCollection([settings.events_topic]), request_timeout=ASK_S)
    try:
        found = str(described[settings.events_topic].result(ASK_S).topic_id)
    except (KafkaException, TimeoutError) as error:
        log.warning(
            "Kafka does not tell the topic's id; whether the log is the one that landed is not checked",
            reason=str(error),
        )
        return None
    return found if found.strip("A=") else None


def check_identity(lake: Lake, topic: str, seen: str, landed: int) -> None:
    """Hold the topic's id against the one that the lake was landed from, and note it where none is noted.

    Raises `LogReplaced` when it is another and something has landed; `SinkUnavailable` when the store does not answer.
    """
    path = lake.topic_identity_path(topic)
    try:
        obstore.put(lake.store, path, seen.encode(), mode="create")
        return
    except AlreadyExistsError:
        pass
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"identity of topic {topic}: {reason(error)}") from error
    try:
        known = bytes(obstore.get(lake.store, path).bytes()).decode()
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"identity of topic {topic}: {reason(error)}") from error
    if known != seen and landed >= 0:
        raise LogReplaced(topic, lake.uri)
