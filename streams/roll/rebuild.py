"""Rebuilds the rolling state from the table `runs`, for a changelog that is lost or was counted by other rules.

    1  no worker may run        else two would write one changelog
    2  state from the tables    closed runs and pulled levers, as messages, applied in memory
    3  the changelog is made anew and filled
    4  the group's offsets go   the outcomes that Kafka still holds are read again; what is known is skipped

Killed at any point it can be run again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pyarrow.compute as pc
import structlog
from aiokafka.partitioner import murmur2
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from trajlake.expectations.outcomes import OutcomeBatch, outcome_key
from trajlake.expectations.progress import SILENT, Progress
from trajlake.streams.errors import StreamError
from trajlake.streams.land.recovery import LedgerTable
from trajlake.streams.roll.store import encode_value, value_key
from trajlake.streams.roll.topics import changelog_topics, ensure_roll_topics
from trajlake.streams.roll.writer import WriteError, Writer
from trajlake.streams.settings import Settings
from trajlake.transforms.outcomes.batches import (
    COLUMNS,
    LEVER_COLUMNS,
    LEVER_TYPE,
    Closed,
    closed_runs,
    outcome_batches,
    pulled_levers,
)
from trajlake.transforms.rolling.state import SkillState

log = structlog.get_logger("trajlake.roll")

WINDOW: Final = 200_000
"""Offsets that are read at a time."""
ASK_S: Final = 15.0
WRITE_S: Final = 60.0
_PASSING: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What a Kafka says that has never had a group, or has just started."""


class RollError(StreamError):
    """The rolling state cannot be rebuilt now; the message says what to do."""


def rebuild(settings: Settings, progress: Progress = SILENT) -> dict[tuple[str, str], SkillState]:
    """Rebuild the state in Kafka from the lake. Returns the skills' states. `progress` counts runs, then skills.

    Raises `RollError` while workers run, `SinkUnavailable` where the tables cannot be read, `TopicError` where Kafka
    refuses.
    """
    admin = AdminClient(settings.kafka(log_level=0))
    _check_nobody_works(admin, settings.roll_id)
    skills: dict[tuple[str, str], SkillState] = {}
    for batch in outcomes_of_lake(settings, progress):
        skill = (batch.tenant_id, batch.skill_name)
        skills.setdefault(skill, SkillState(*skill)).apply(batch)
    for state in skills.values():
        # Nothing was told from these numbers before, so nothing was restated.
        state.head.restated = 0
        for _, value in state.values():
            if value is not state.head:
                value.restated = 0
    topic = changelog_topics(settings)[0]
    progress.stage("making the changelog anew")
    _make_anew(admin, settings, topic)
    _write(settings, topic, skills, progress)
    _forget_group(admin, settings.roll_id)
    log.info("rebuilt", skills=len(skills), runs=sum(state.head.runs for state in skills.values()))
    return skills


def outcomes_of_lake(settings: Settings, progress: Progress = SILENT) -> Iterator[OutcomeBatch]:
    """All outcomes that the tables hold, as the messages that announced them, partition by partition."""
    progress.stage("looking how many runs there are")
    lake, topic = settings.lake(), settings.events_topic
    if not lake.exists("runs"):
        return
    stored = lake.open("runs").to_pyarrow_dataset()
    rows = stored.to_table(columns=["partition", "offset"], filter=pc.field("topic") == topic)
    progress.stage("counting the runs of the lake", rows.num_rows, "runs")
    ends = rows.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    for found in sorted(ends, key=lambda each: int(each["partition"])):
        partition, end = found["partition"], found["offset_max"]
        runs = LedgerTable(lake, "runs", topic, partition)
        events = LedgerTable(lake, "events", topic, partition)
        earlier: dict[tuple[int, int], Closed] = {}
        for first in range(0, end + 1, WINDOW):
            last = first + WINDOW - 1
            closed = [row for batch in runs.window([*COLUMNS], first, last) for row in closed_runs(batch)]
            where = (pc.field("type") == LEVER_TYPE) & (pc.field("offset") >= first) & (pc.field("offset") <= last)
            pulls = [
                pulled for batch in events.scan([*LEVER_COLUMNS], where, first, last) for pulled in pulled_levers(batch)
            ]
            pulls.sort(key=lambda pulled: pulled.pull.offset)
            yield from outcome_batches(topic, partition, closed, earlier, 0, pulls)
            progress.advance(len(closed))
            earlier.update({(row.first_offset, row.outcome.revision): row for row in closed})


def _check_nobody_works(admin: AdminClient, group: str) -> None:
    deadline = time.monotonic() + ASK_S
    while True:
        try:
            described = admin.describe_consumer_groups([group])[group].result(timeout=ASK_S)
            break
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return
            if code not in _PASSING or time.monotonic() > deadline:
                said = error.args[0].str().rstrip(": ") or error.args[0].name()
                raise RollError(f"Kafka does not tell who works in group {group}: {said}") from error
        time.sleep(0.2)
    if described.members:
        raise RollError(
            f"{len(described.members)} workers of group {group} run; stop them first. One that was killed counts for "
            "some seconds yet"
        )


def _make_anew(admin: AdminClient, settings: Settings, topic: str) -> None:
    for future in admin.delete_topics([topic], operation_timeout=ASK_S).values():
        try:
            future.result(timeout=ASK_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise RollError(f"changelog {topic} cannot be deleted: {error.args[0].str()}") from error
    deadline = time.monotonic() + ASK_S
    while topic in admin.list_topics(timeout=ASK_S).topics:
        if time.monotonic() > deadline:
            raise RollError(f"changelog {topic} is not gone {ASK_S:.0f} s after it was deleted; run this again")
        time.sleep(0.1)
    ensure_roll_topics(settings)


def _write(settings: Settings, topic: str, skills: dict[tuple[str, str], SkillState], progress: Progress) -> None:
    progress.stage("writing the changelog", len(skills), "skills")
    writer = Writer(settings)
    try:
        for (tenant_id, skill_name), state in skills.items():
            key = outcome_key(tenant_id, skill_name)
            partition = (murmur2(key) & 0x7FFFFFFF) % settings.outcomes_partitions
            for name, value in state.values():
                writer.send(topic, value_key(partition, tenant_id, skill_name, name), encode_value(value), partition)
            progress.advance()
        writer.flush_within(WRITE_S)
    except WriteError as error:
        raise RollError(f"changelog {topic} was not written whole ({error}); run this again") from error


def _forget_group(admin: AdminClient, group: str) -> None:
    try:
        admin.delete_consumer_groups([group], request_timeout=ASK_S)[group].result(timeout=ASK_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise RollError(f"offsets of group {group} cannot be deleted: {error.args[0].str()}") from error
