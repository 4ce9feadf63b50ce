"""Events are CloudEvents: what we write, the CNCF package reads, and the other way round, in both content modes."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.kafka import (
    KafkaMessage,
    from_binary_event,
    from_kafka_event,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent

from trajlake.expectations import events
from trajlake.expectations.examples import EVENT_EXAMPLES
from trajlake.transforms.decode.binary_mode import is_binary_mode, structured_from_binary

DECODER = msgspec.json.Decoder(events.Event)
ENCODER = msgspec.json.Encoder()


def ours(kind: str) -> Any:
    return DECODER.decode(json.dumps(EVENT_EXAMPLES[kind]).encode())


def theirs(kind: str) -> CloudEvent:
    attributes = copy.deepcopy(EVENT_EXAMPLES[kind])
    data = attributes.pop("data")
    attributes["time"] = datetime.fromisoformat(attributes["time"])
    return CloudEvent(attributes, data)


def header_list(message: KafkaMessage) -> list[tuple[str, bytes | None]]:
    return list(message.headers.items())


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
def test_what_we_write_is_read_by_the_cloudevents_package_in_structured_mode(kind: str) -> None:
    written = ENCODER.encode(ours(kind))
    message = KafkaMessage({"content-type": events.CONTENT_TYPE.encode()}, None, written)
    read = from_structured_event(message)
    example = EVENT_EXAMPLES[kind]
    assert (read.get_id(), read.get_source(), read.get_type()) == (example["id"], example["source"], kind)
    assert read.get_specversion() == events.SPEC_VERSION
    assert read.get_time() == datetime.fromisoformat(example["time"])
    assert read.get_extension("tenantid") == example["tenantid"]
    assert read.get_extension("sequence") == example.get("sequence")
    assert read.get_data() == msgspec.to_builtins(ours(kind).data)


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
def test_what_the_cloudevents_package_writes_in_structured_mode_we_read(kind: str) -> None:
    message = to_structured_event(theirs(kind))
    assert message.headers["content-type"].decode() == events.CONTENT_TYPE
    assert not is_binary_mode(header_list(message))
    assert DECODER.decode(message.value) == ours(kind)


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
@pytest.mark.parametrize("content_type", [None, "application/json", "application/json; charset=utf-8"])
def test_what_the_cloudevents_package_writes_in_binary_mode_we_read(kind: str, content_type: str | None) -> None:
    event = theirs(kind)
    if content_type is not None:
        event.get_attributes()["datacontenttype"] = content_type
    message = to_binary_event(event)
    assert is_binary_mode(header_list(message))
    assert DECODER.decode(structured_from_binary(header_list(message), message.value)) == ours(kind)


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
def test_our_structured_form_of_a_binary_event_is_one_to_the_cloudevents_package_too(kind: str) -> None:
    binary = to_binary_event(theirs(kind))
    structured = structured_from_binary(header_list(binary), binary.value)
    read = from_kafka_event(KafkaMessage({"content-type": events.CONTENT_TYPE.encode()}, None, structured))
    direct = from_binary_event(binary)
    assert read.get_data() == direct.get_data()
    assert read.get_time() == direct.get_time()
    assert {name: str(value) for name, value in read.get_attributes().items()} == {
        name: str(value) for name, value in direct.get_attributes().items()
    }


def test_data_that_is_not_json_becomes_data_base64_as_the_package_reads_it() -> None:
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"s"),
        ("ce_type", b"t"),
        ("content-type", b"image/png"),
    ]
    structured = structured_from_binary(headers, b"\x89PNG\x00\xff")
    read = from_structured_event(KafkaMessage({}, None, structured))
    assert read.get_data() == b"\x89PNG\x00\xff"
    assert read.get_datacontenttype() == "image/png"


def test_extension_names_keep_to_the_cloudevents_rules() -> None:
    for cls in events.EVENT_TYPES.values():
        for field in msgspec.structs.fields(cls):
            assert field.encode_name.isalnum(), field.encode_name
            assert field.encode_name.islower(), field.encode_name
            assert len(field.encode_name) <= 20, field.encode_name
