"""The topics around the rolling workers: all with as many partitions as the outcomes topic has.

The changelogs are made here and not by Faust, which would begin before the broker tells of them.
"""

from __future__ import annotations

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from trajlake.streams.settings import Settings
from trajlake.streams.topics import TopicError, TopicsReport, TopicWarning, ensure_topics

ASK_S = 10.0
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.2",
    "segment.ms": "3600000",
    # What recovery reads is little, and what a paused worker writes late still finds the newer value beside it.
    "segment.bytes": str(64 << 20),
    "min.compaction.lag.ms": "60000",
}


def changelog_topics(settings: Settings) -> tuple[str, str]:
    """Names of the changelogs of the tables `skills` and `board`, as Faust gives them."""
    return f"{settings.roll_id}-skills-changelog", f"{settings.roll_id}-board-changelog"


def asked_topic(settings: Settings) -> str:
    """Name of the topic by which a worker asks for a look at a tenant."""
    return f"{settings.roll_id}-asked"


def ensure_roll_topics(settings: Settings) -> tuple[Settings, list[TopicWarning]]:
    """Make what is absent. Returns the settings with the number of partitions that there really is, and warnings.

    Raises `TopicError` when Kafka does not answer or refuses, or when topics differ in their number of partitions.
    """

    def ensure(names: tuple[str, ...], partitions: int, config: dict[str, str] | None = None) -> TopicsReport:
        return ensure_topics(
            settings.bootstrap_servers,
            dict.fromkeys(names, partitions),
            config=config,
            max_message_bytes=settings.event_max_bytes,
            options=settings.kafka_options,
        )

    wanted = settings.outcomes_partitions
    outcomes = ensure((settings.outcomes_topic,), wanted)
    count = wanted if outcomes.created else _partitions(settings, settings.outcomes_topic)
    others = ensure((settings.stats_topic, settings.decisions_topic, asked_topic(settings)), count)
    changelogs = ensure(changelog_topics(settings), count, _COMPACTED)
    for name in (*others.present, *changelogs.present):
        found = _partitions(settings, name)
        if found != count:
            raise TopicError(
                f"topic {name} has {found} partitions, {settings.outcomes_topic} has {count}: they must be the same; "
                "give the one that is wrong another name in the settings, or make it anew"
            )
    told = [each for each in (*outcomes.warnings, *others.warnings) if each.code != "partitions"]
    return settings.model_copy(update={"outcomes_partitions": count}), told


def _partitions(settings: Settings, topic: str) -> int:
    """Number of partitions of a topic that is there; a broker knows of a new one a moment later."""
    admin = AdminClient(settings.kafka(log_level=0))
    deadline = time.monotonic() + ASK_S
    while True:
        try:
            count = len(admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions)
        except KafkaException as error:
            raise TopicError(f"topic {topic} cannot be looked at: {error.args[0].str()}") from error
        if count or time.monotonic() > deadline:
            return count
        time.sleep(0.05)
