"""The topics that the flow needs: made when absent, checked when present, never changed behind the owner's back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

MAX_MESSAGE_BYTES = 64 * 2**20
LEAST_RETENTION_MS = 24 * 3_600_000
"""Workers may be away for a night."""

TOPIC_CONFIG: dict[str, str] = {
    # Log time must never run backwards within a partition by an agent's wrong clock: the broker stamps.
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}


class TopicError(RuntimeError):
    """A topic cannot be made or looked at; the message names it, the servers, and what to do."""


@dataclass(frozen=True)
class TopicWarning:
    """Something about a present topic that the flow can live with, but its owner should know.

    code: `partitions`, `timestamp_type`, `message_bytes`, `compacted`, `retention`.
    """

    topic: str
    code: str
    detail: str

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.detail} [{self.code}]"


@dataclass
class TopicsReport:
    """What `ensure_topics` did and saw."""

    created: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    warnings: list[TopicWarning] = field(default_factory=list)


def ensure_topics(
    bootstrap_servers: str,
    partitions: Mapping[str, int],
    *,
    options: Mapping[str, Any] | None = None,
    config: Mapping[str, str] | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    timeout_s: float = 15.0,
) -> TopicsReport:
    """Make each topic that is absent with so many partitions, and compare each present one with what the flow needs.

    partitions: topic -> partition count. options: further client properties. config: topic properties for new topics,
    over the defaults of this module. Safe to call by many workers at once, and again.
    Raises TopicError when Kafka does not answer within `timeout_s` or refuses.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0, **(options or {})})
    wanted = {**TOPIC_CONFIG, "max.message.bytes": str(max_message_bytes), **(config or {})}
    report = TopicsReport()
    try:
        known = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise TopicError(
            f"Kafka at {bootstrap_servers} does not answer ({error.args[0].str()}); "
            "is it running? `trajlake broker start` starts one on this machine"
        ) from error
    absent = {name: count for name, count in partitions.items() if name not in known}
    report.created = _create(admin, absent, wanted, timeout_s)
    report.present = [name for name in partitions if name not in report.created]
    for name in report.present:
        count = len(known[name].partitions) if name in known else partitions[name]
        report.warnings += _compare(name, count, partitions[name], wanted, _read_config(admin, name, timeout_s))
    return report


def look_at_topics(
    kafka: Mapping[str, Any], partitions: Mapping[str, int], max_message_bytes: int, timeout_s: float
) -> TopicsReport:
    """Compare topics with what the flow needs, as `ensure_topics` does, and make none. `retention` is looked at too.

    kafka: client properties. Raises TopicError when Kafka does not answer within `timeout_s`.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({**kafka, "log_level": 0})
    try:
        known = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise TopicError(f"Kafka does not answer ({error.args[0].str()})") from error
    wanted = {**TOPIC_CONFIG, "max.message.bytes": str(max_message_bytes)}
    report = TopicsReport(present=[name for name in partitions if name in known])
    for name in report.present:
        found = _read_config(admin, name, timeout_s)
        report.warnings += _compare(name, len(known[name].partitions), partitions[name], wanted, found)
        report.warnings += _short_retention(name, found)
    return report


def cleanup_policy(kafka: Mapping[str, Any], topic: str, timeout_s: float) -> str | None:
    """What becomes of a topic's old records; None where that may not be read."""
    from confluent_kafka.admin import AdminClient

    found = _read_config(AdminClient({**kafka, "log_level": 0}), topic, timeout_s)
    return None if found is None else found.get("cleanup.policy")


def _short_retention(name: str, config: Mapping[str, str] | None) -> list[TopicWarning]:
    kept_ms = int((config or {}).get("retention.ms", "-1"))
    if 0 <= kept_ms < LEAST_RETENTION_MS:
        hours = kept_ms / 3_600_000
        detail = f"retention.ms keeps records for {hours:,.1f} h: what has not landed by then is lost"
        return [TopicWarning(name, "retention", detail)]
    return []


def _create(admin: AdminClient, absent: Mapping[str, int], config: Mapping[str, str], timeout_s: float) -> list[str]:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    if not absent:
        return []
    created = []
    topics = [
        NewTopic(name, num_partitions=count, replication_factor=-1, config=dict(config))
        for name, count in absent.items()
    ]
    for name, future in admin.create_topics(topics, operation_timeout=timeout_s, request_timeout=timeout_s).items():
        try:
            future.result()
            created.append(name)
        except KafkaException as error:
            # Another worker was faster: the topic is there, which is all that was asked for.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicError(
                    f"cannot make topic {name}: {error.args[0].str()}; make it by hand, or grant it"
                ) from error
    return created


def _read_config(admin: AdminClient, name: str, timeout_s: float) -> dict[str, str] | None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, name)
    try:
        entries = admin.describe_configs([resource], request_timeout=timeout_s)[resource].result()
    except KafkaException:
        # Reading a topic's properties takes a right of its own; without it there is nothing to compare.
        return None
    return {key: str(entry.value) for key, entry in entries.items()}


def _compare(
    name: str, count: int, wanted_count: int, wanted: Mapping[str, str], config: Mapping[str, str] | None
) -> list[TopicWarning]:
    warnings = []
    if count != wanted_count:
        warnings.append(
            TopicWarning(
                name, "partitions", f"has {count} partitions, not {wanted_count}; so many workers can share it"
            )
        )
    if config is None:
        return warnings
    if config.get("message.timestamp.type") != wanted["message.timestamp.type"]:
        warnings.append(
            TopicWarning(
                name,
                "timestamp_type",
                f"message.timestamp.type is {config.get('message.timestamp.type')}: times come from agents' clocks and "
                f"timeouts follow them; {wanted['message.timestamp.type']} is safer",
            )
        )
    largest = int(config.get("max.message.bytes", "0"))
    if largest < int(wanted["max.message.bytes"]):
        warnings.append(
            TopicWarning(
                name, "message_bytes", f"max.message.bytes is {largest}: larger events are refused at the agent's side"
            )
        )
    if "compact" in config.get("cleanup.policy", ""):
        warnings.append(
            TopicWarning(
                name, "compacted", "cleanup.policy compacts: events with one key replace each other and are lost"
            )
        )
    return warnings
