"""What can stop or delay a stream worker.

StreamError
├── BrokerUnavailable       transient: no broker answers
├── DeliveryFailed          events that an import published were refused (importing/delivery.py)
├── LogReplaced             terminal: the topic is not the one that the lake was landed from
├── LogTooShort             terminal: the tables know offsets that the log never reached
├── NothingLands            transient: what is in the log does not land (keeping/asking.py)
├── NotAuthorized           terminal until granted: Kafka refuses the topic or the group to this worker
├── OffsetBelowRetention    terminal until decided: the log no longer holds the next offset
├── OtherRules              terminal until upgraded: workers classify by other rules (keeping/asking.py)
└── WorkerFailed            one of these, or a table that does not fit, stopped a land worker (land/supervisor.py)
"""

from __future__ import annotations

from trajlake.expectations.errors import TrajlakeError


class StreamError(TrajlakeError):
    """Base of all errors of stream workers."""


class BrokerUnavailable(StreamError):
    """No broker answered in time."""


class LogReplaced(StreamError):
    """The topic was made anew, or belongs to another Kafka: its offsets are not those of the tables."""

    def __init__(self, topic: str, root: str) -> None:
        super().__init__(
            f"the lake at {root} was landed from another topic {topic} (another Kafka, or the topic was made anew). "
            "Nothing was landed. Use another --root, or another topic name, for this log"
        )
        self.topic = topic


class LogTooShort(StreamError):
    """The log ends below what has landed: another topic by the same name, or a broker that lost records."""

    def __init__(self, topic: str, partition: int, landed: int, log_end: int) -> None:
        super().__init__(
            f"{topic}/{partition}: offset {landed} has landed, but the log ends at {log_end}. "
            "Was the topic made anew? Land a new topic under another name or app_id; "
            "if the broker lost records, what it lost is in the tables."
        )
        self.topic = topic
        self.partition = partition
        self.landed = landed
        self.log_end = log_end


class NotAuthorized(StreamError):
    """Kafka does not let this worker read the topic or join the group."""

    def __init__(self, topic: str, group_id: str, reason: str) -> None:
        super().__init__(
            f"{reason}: grant READ and DESCRIBE on topic {topic} and READ on group {group_id} to the user in "
            "kafka_options, then start again"
        )
        self.topic = topic
        self.group_id = group_id


class OffsetBelowRetention(StreamError):
    """Records between the last landed offset and the start of the log are gone."""

    def __init__(self, topic: str, partition: int, next_offset: int, log_start: int) -> None:
        super().__init__(
            f"{topic}/{partition}: offsets {next_offset}..{log_start - 1} were deleted before they could land. "
            "To go on, declare the loss: offset_reset_policy=declare writes it to the gaps table."
        )
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        self.log_start = log_start
