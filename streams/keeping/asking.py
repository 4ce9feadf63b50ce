"""Requests to classify runs again: writing them into the log, and waiting until land has met them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajlake.expectations.events import RECLASSIFY_SOURCE, ReclassifyEvent, kafka_key
from trajlake.expectations.reasons import Reason
from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.streams.errors import BrokerUnavailable, LogTooShort, StreamError
from trajlake.streams.keeping.rejudging import Judged
from trajlake.streams.land.membership import KAFKA_LOG
from trajlake.streams.land.recovery import LedgerTable
from trajlake.streams.settings import Settings
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION

ASK_S: Final = 10.0
FLUSH_S: Final = 60.0
LOOK_S: Final = 0.1
SLOWEST_LOOK_S: Final = 1.0
_TYPE: Final = str(ReclassifyEvent.__struct_config__.tag)


class NothingLands(StreamError):
    """What is in the log does not land: no worker runs, or it is stuck."""


class OtherRules(StreamError):
    """The land workers classify by other rules than this program."""


@dataclass(frozen=True)
class Asked:
    """Requests in the log. `offsets`: theirs."""

    partition: int
    offsets: list[int]


class Requests:
    """The log and the tables behind it, as one who asks sees them. `patience_s`: how long nothing may land. `by`: who
    asks."""

    def __init__(self, lake: Lake, settings: Settings, patience_s: float, by: str | None) -> None:
        self._lake = lake
        self._settings = settings
        self._patience_s = patience_s
        self._by = by
        self._producer: Producer | None = None

    def catch_up(self, partition: int) -> None:
        """Wait until all has landed that the log holds now."""
        settings = self._settings
        consumer = Consumer(settings.kafka(**{"group.id": settings.group_id}), logger=KAFKA_LOG)
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(settings.events_topic, partition), ASK_S)
        except KafkaException as error:
            raise BrokerUnavailable(f"{settings.bootstrap_servers} does not answer: {error.args[0].str()}") from error
        finally:
            consumer.close()
        landed = self.landed(partition)
        if landed >= end:
            raise LogTooShort(settings.events_topic, partition, landed, end)
        self._await(partition, end - 1)

    def write(self, partition: int, changed: Sequence[Judged], seen: int) -> Asked:
        """Write a request for each run. `seen`: offset up to which the tables were read. Raises `BrokerUnavailable`."""
        if self._producer is None:
            properties = {"enable.idempotence": True, "message.max.bytes": self._settings.event_max_bytes}
            self._producer = Producer(self._settings.kafka(**properties), logger=KAFKA_LOG)
        offsets: list[int] = []
        failed: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error.str())
            else:
                offsets.append(message.offset() or 0)

        for one in changed:
            row = one.candidate.row
            try:
                self._producer.produce(
                    self._settings.events_topic, request_of(one, seen, self._by), kafka_key(row.tenant_id, row.run_id),
                    partition=partition, on_delivery=delivered,
                )  # fmt: skip
            except (KafkaException, BufferError) as error:
                failed.append(str(error))
            self._producer.poll(0)
        if self._producer.flush(FLUSH_S) or failed:
            raise BrokerUnavailable(
                f"{self._settings.bootstrap_servers} did not take all requests ({(failed or ['no answer'])[0]}); "
                "run this again: what it took is not asked for twice"
            )
        return Asked(partition, offsets)

    def met(self, asked: Asked) -> int:
        """Wait until requests have landed. Returns how many runs got a further row.

        Raises `NothingLands`, `OtherRules` or `SinkUnavailable`.
        """
        self._await(asked.partition, max(asked.offsets))
        refused = self._rows_at("quarantine", asked, pc.field("reason_code") == Reason.OTHER_RULES.value)
        if refused:
            raise OtherRules(
                f"{refused:,} requests were refused: land workers classify by other rules than {CLASSIFIER_REVISION}, "
                "those of this program. Bring all to one version, then run this again"
            )
        return self._rows_at("runs", asked, pc.field("close_offset").is_valid())

    def _rows_at(self, name: str, asked: Asked, where: pc.Expression) -> int:
        table = LedgerTable(self._lake, name, self._settings.events_topic, asked.partition)
        own = pc.field("offset").isin(pa.array(sorted(asked.offsets), pa.int64()))
        found = table.window(["offset"], min(asked.offsets), max(asked.offsets), own & where)
        return sum(batch.num_rows for batch in found)

    def landed(self, partition: int) -> int:
        """Last offset that every table holds; -1 where nothing landed."""
        settings = self._settings
        version = opened(self._lake, "events").transaction_version(
            transaction_app(settings.app_id, settings.events_topic, partition)
        )
        return -1 if version is None else version

    def _await(self, partition: int, offset: int) -> None:
        """Wait until an offset has landed. Raises `NothingLands`."""
        last, since, pause = -1, time.monotonic(), LOOK_S
        while (landed := self.landed(partition)) < offset:
            if landed > last:
                last, since = landed, time.monotonic()
            elif time.monotonic() - since > self._patience_s:
                raise NothingLands(
                    f"{self._settings.events_topic}/{partition} has landed up to offset {landed} of {offset}, and "
                    f"nothing more for {self._patience_s:g} s. Is `trajlake land` running? Once it does, run this again"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, SLOWEST_LOOK_S)


def request_of(one: Judged, seen: int, by: str | None) -> bytes:
    """The request to write a run anew, as compact JSON. `seen`: offset up to which the tables were read."""
    row = one.candidate.row
    data = {
        "classifier_revision": CLASSIFIER_REVISION,
        "first_offset": row.first_offset,
        "offset": row.offset,
        "revision": row.revision,
        "steps": [step._asdict() for step in one.steps],
        "seen": seen,
        **({"requested_by": by} if by else {}),
    }
    event = {
        "specversion": "1.0",
        "id": f"reclassify-{uuid.uuid4().hex}",
        "source": RECLASSIFY_SOURCE,
        "type": _TYPE,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "tenantid": row.tenant_id,
        "runid": row.run_id,
        "data": data,
    }
    return orjson.dumps(event)


def opened(lake: Lake, name: str) -> DeltaTable:
    """A table at its newest version. Raises `SinkUnavailable`."""
    try:
        return lake.open(name)
    except (DeltaError, OSError) as error:
        raise SinkUnavailable(reason(error), name) from error
