"""Release: a quarantined record is published again, and land judges it under the rules of today.

    1  intent     an act `releasing` for each record
    2  publish    with a header that names where it was quarantined; land notes that place if it refuses it again
    3  outcome    an act `released` with the offset at which it stands now

Killed between 2 and 3, the next release finds the record where it landed; one that has not landed yet is published
again, and the fold sets the second copy aside as a duplicate. No row is changed: both verdicts stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from trajlake.expectations.events import RELEASED_HEADER, kafka_key
from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.lake import Lake
from trajlake.sinks.sealing import Opener
from trajlake.streams.errors import BrokerUnavailable
from trajlake.streams.keeping.forget import table_rows
from trajlake.streams.keeping.quarantine import (
    Place,
    Wanted,
    act_on,
    content_of,
    listed,
    note_acts,
    places_of,
    referred,
    seal_of,
    whole_rows,
)
from trajlake.streams.keeping.seals import Original, unseal
from trajlake.streams.land.membership import KAFKA_LOG
from trajlake.streams.settings import Settings
from trajlake.transforms.text import REFERENCE

FLUSH_S: Final = 60.0


@dataclass
class Released:
    """What a release did. `released`: place in quarantine -> (partition, offset) now; `kept`: place -> why not."""

    released: dict[Place, tuple[int, int]] = field(default_factory=dict)
    kept: dict[Place, str] = field(default_factory=dict)


def release(
    lake: Lake,
    settings: Settings,
    wanted: Wanted,
    *,
    opener: Opener | None = None,
    by: str | None = None,
    note: str | None = None,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Released:
    """Publish wanted records that are held (or whose release was interrupted). `opener`: take the sealed originals.
    `progress` counts records, and files while these are looked for.

    Raises `BrokerUnavailable` when Kafka does not take them, `SinkUnavailable`.
    """
    done = Released()
    held = {
        Place(row["topic"], row["partition"], row["offset"]): row
        for row in listed(lake, wanted, progress=progress)
        if row["state"] in ("held", "releasing")
    }
    rows = whole_rows(lake, held, progress)
    originals: dict[Place, Original] = {}
    progress.stage("opening the records", len(rows), "records")
    for place in sorted(rows):
        progress.advance()
        try:
            original = _original(lake, rows[place], place, opener)
        except (ValueError, FileNotFoundError) as error:
            done.kept[place] = str(error)
            continue
        if original is None:
            done.kept[place] = f"nothing of it is kept ({rows[place]['reason_code']})"
        else:
            originals[place] = original
    known = _landed(lake, [rows[place] for place in originals if held[place]["state"] == "releasing"])
    on_step("1 intent")
    note_acts(
        lake, [act_on(rows[place], "releasing", by, note) for place in originals if held[place]["state"] == "held"]
    )
    on_step("2 publish")
    todo = {place: original for place, original in originals.items() if place not in known}
    progress.stage("publishing", len(todo), "records")
    done.released = {**known, **_publish(settings, todo, progress)}
    on_step("3 outcome")
    acts = [
        act_on(rows[place], "released", by, note, released_partition=partition, released_offset=offset)
        for place, (partition, offset) in sorted(done.released.items())
    ]
    note_acts(lake, acts)
    return done


def _original(lake: Lake, row: dict[str, Any], place: Place, opener: Opener | None) -> Original | None:
    """What is published: the sealed original, or the record after redaction under the key that its text asks for."""
    if opener is not None:
        sealed = seal_of(lake, row)
        if sealed is None:
            raise ValueError("no sealed original is kept of it")
        found = unseal(opener, sealed, str(place))
        return Original(found.key or _key_of(found.value), found.value, found.headers)
    content = content_of(lake, row)
    if content is None:
        return None
    content = _inflated(lake, row["tenant_id"], content)
    return Original(_key_of(content), content, [])


def _key_of(value: bytes) -> bytes | None:
    try:
        body = orjson.loads(value)
    except ValueError:
        return None
    if not isinstance(body, dict) or not isinstance(tenant := body.get("tenantid"), str):
        return None
    run = body.get("runid")
    return kafka_key(tenant, run) if isinstance(run, str) else tenant.encode()


def _inflated(lake: Lake, tenant: str | None, content: bytes) -> bytes:
    """A record with the content that it refers to in its place again: producers may not write references."""
    if b"payload:sha256:" not in content:
        return content
    try:
        body = orjson.loads(content)
    except ValueError:
        return content

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: whole(part) for key, part in value.items()}
        if isinstance(value, list):
            return [whole(part) for part in value]
        if isinstance(value, str) and REFERENCE.match(value):
            return referred(lake, tenant, value).decode()
        return value

    return orjson.dumps(whole(body))


def _landed(lake: Lake, rows: Sequence[dict[str, Any]]) -> dict[Place, tuple[int, int]]:
    """Where records of an interrupted release have landed, as far as they have."""
    places = {str(place): place for place in (Place(r["topic"], r["partition"], r["offset"]) for r in rows)}
    found: dict[Place, tuple[int, int]] = {}
    if not places:
        return found
    for part in table_rows(lake, "quarantine", ("topic", "partition", "offset", "released_from")):
        hits = part.filter(pc.is_valid(part.column("released_from")))
        for at, origin in zip(places_of(hits), hits.column("released_from").to_pylist(), strict=True):
            if origin in places:
                found[places[origin]] = (at.partition, at.offset)
    events = {
        (r["tenant_id"], r["run_id"], r["event_id"]): Place(r["topic"], r["partition"], r["offset"]) for r in rows
    }
    for part in table_rows(lake, "events", ("topic", "partition", "offset", "tenant_id", "run_id", "id")):
        for row in part.to_pylist() if part.num_rows else ():
            place = events.get((row["tenant_id"], row["run_id"], row["id"]))
            if place is not None and (row["partition"], row["offset"]) > (place.partition, place.offset):
                found[place] = (row["partition"], row["offset"])
    return found


def _publish(settings: Settings, todo: dict[Place, Original], progress: Progress) -> dict[Place, tuple[int, int]]:
    if not todo:
        return {}
    sent: dict[Place, tuple[int, int]] = {}
    failed: list[str] = []
    producer = Producer(
        settings.kafka(
            **{
                "enable.idempotence": True,
                "message.max.bytes": settings.event_max_bytes,
                # The partitioner of Kafka's own Java client: all publishers of a run agree on its partition.
                "partitioner": "murmur2_random",
            }
        ),
        logger=KAFKA_LOG,
    )

    def report(place: Place) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error.str())
            else:
                sent[place] = (message.partition() or 0, message.offset() or 0)
                progress.advance()

        return delivered

    for place, original in sorted(todo.items()):
        headers: list[tuple[str, str | bytes | None]] = [*original.headers, (RELEASED_HEADER, str(place).encode())]
        try:
            producer.produce(place.topic, original.value, original.key, headers=headers, on_delivery=report(place))
        except (KafkaException, BufferError) as error:
            failed.append(str(error))
        producer.poll(0)
    if producer.flush(FLUSH_S) or (failed and not sent):
        raise BrokerUnavailable(
            f"{settings.bootstrap_servers} did not take the records ({failed[0] if failed else 'no answer'}); "
            "they are still held"
        )
    return sent
