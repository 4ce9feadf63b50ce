"""Decoding: a Kafka record's bytes to a typed event, or to a rejection that says what is wrong and where.

The usual record takes the fast path: it is compact JSON (equal to its own re-encoding, which also proves that no key
stands twice and that it is UTF-8), of a known type, with fields of the declared types and a UTC time. Everything else
takes the careful path, which repairs what may be repaired (times, binary mode, numbers in strings for `sequence`),
stores large strings by reference, and names what may not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC
from typing import Any, Final

import msgspec
import orjson

from trajlake.expectations.errors import BinaryModeError
from trajlake.expectations.events import EVENT_TYPES, PAYLOAD_MARKER, Event
from trajlake.expectations.reasons import Reason, Stage
from trajlake.transforms.decode.binary_mode import is_binary_mode, structured_from_binary
from trajlake.transforms.decode.payloads import holds_reference, store_large_strings
from trajlake.transforms.decode.timestamps import BadTime, normalise_time, to_utc
from trajlake.transforms.records import AnyEvent, Decoded, Payload, Record, Rejected, UnknownEvent

MAX_DEPTH: Final = 254
"""Nesting of JSON values, as deep as the encoder goes; real events stay below 20."""

decode_typed = msgspec.json.Decoder(Event).decode
_loads = orjson.loads
_dumps = orjson.dumps
_convert: Callable[[Any, Any], Any] = msgspec.convert
_TENANT_KEYS: Final = frozenset(
    name
    for word in ("tenant", "Tenant", "TENANT")
    for end in ("", "id", "Id", "ID", "_id", "_Id", "_ID", "-id", "-Id", "-ID", ".id")
    for name in (word + end, f"x-{word}{end}", f"X-{word}{end}")
)
"""Keys of an event's data that say whose it is. Tenants are told by the envelope; here they may only be repeated."""
_NO_DATA: Final[dict[str, Any]] = {}
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"missing required field `([a-z_]+)`")
_MARKER = PAYLOAD_MARKER.encode()


def decode_fast(value: bytes) -> Event | None:
    """The typed event of a canonical record, or None when the careful path has to look.

    It shares its strings with the parsed text, and is what `decode_typed` would make of it.
    """
    try:
        body = _loads(value)
        if _dumps(body) != value:
            return None
        event: Event = _convert(body, EVENT_TYPES[body["type"]])
    except (ValueError, TypeError, KeyError, RecursionError):
        # What orjson and msgspec raise are ValueErrors and TypeErrors.
        return None
    time = event.time
    if time is not None and time.tzinfo is not UTC:
        return None
    data = body.get("data", _NO_DATA)
    if not _TENANT_KEYS.isdisjoint(data) and _other_tenant(body) is not None:
        return None
    return event


def redecode(text: bytes) -> AnyEvent:
    """The event of a ledger text. Total on what `decode` let in."""
    event = decode_fast(text)
    if event is not None:
        return event
    decoded = decode_value(text, inline_max_bytes=len(text), event_inline_max_bytes=len(text) + 1, from_ledger=True)
    if isinstance(decoded, Rejected):
        raise ValueError(f"ledger text does not decode: {decoded.reason}: {decoded.detail}")
    return decoded.event


def decode(record: Record, *, inline_max_bytes: int, event_inline_max_bytes: int) -> Decoded | Rejected:
    """Decode one record, in structured or binary CloudEvents mode.

    `inline_max_bytes`: longer strings are stored by reference. `event_inline_max_bytes`: what is then still larger is
    rejected.
    """
    value = record.value
    if record.headers and is_binary_mode(record.headers):
        try:
            value = structured_from_binary(record.headers, value)
        except BinaryModeError as error:
            return _reject(error.reason, error.problem, error.field)
    if not value:
        return _reject(Reason.EMPTY, "record has no value")
    return decode_value(value, inline_max_bytes=inline_max_bytes, event_inline_max_bytes=event_inline_max_bytes)


def decode_value(
    value: bytes, *, inline_max_bytes: int, event_inline_max_bytes: int, from_ledger: bool = False
) -> Decoded | Rejected:
    """Decode one JSON text in structured mode. See `decode`. References to stored content are only legal
    `from_ledger`."""
    if len(value) <= inline_max_bytes and _MARKER not in value:
        event = decode_fast(value)
        if event is not None:
            return Decoded(event, value)
    parsed = _parse(value)
    if isinstance(parsed, Rejected):
        return parsed
    body, changed = parsed
    if not from_ledger and holds_reference(body):
        detail = "a producer may not refer to stored content"
        return _with_identity(_reject(Reason.FORGED_REFERENCE, detail, stage=Stage.GATE), body)
    payloads: list[Payload] = []
    if len(value) > inline_max_bytes:
        tenant = body.get("tenantid")
        payloads = store_large_strings(body, tenant if isinstance(tenant, str) else "", inline_max_bytes)
        changed |= bool(payloads)
    # Before times are normalised: what had to be assumed is assumed again whenever the ledger's text is decoded.
    text = _dumps(body) if changed else value
    gaps: list[tuple[str, str | None]] = []
    problem = _normalise(body, gaps)
    if problem is not None:
        return _with_identity(problem, body)
    if not from_ledger and (place := _other_tenant(body)) is not None:
        detail = "the payload names another tenant than the envelope"
        return _with_identity(_reject(Reason.TENANT_MISMATCH, detail, place, Stage.GATE), body)
    normal = _dumps(body)
    if len(text) > event_inline_max_bytes:
        detail = f"event is larger than {event_inline_max_bytes} bytes after large strings were stored by reference"
        return _with_identity(_reject(Reason.OVERSIZED, detail, stage=Stage.GATE), body)
    try:
        typed = _typed(body, normal)
    except msgspec.ValidationError as error:
        return _with_identity(_from_validation(error), body)
    return Decoded(typed, text, None, payloads or None, gaps or None)


def _parse(value: bytes) -> tuple[dict[str, Any], bool] | Rejected:
    """One JSON object without duplicate keys, NaN, excess depth or invalid UTF-8. The flag says: re-encode it."""
    try:
        body = _loads(value)
    except orjson.JSONDecodeError as error:
        return _why_malformed(value, error)
    if _depth(body) > MAX_DEPTH:
        return _reject(Reason.TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels")
    duplicate = _duplicate_key(value)
    if duplicate is not None:
        return _reject(Reason.DUPLICATE_KEY, "an object names a key twice", duplicate or None)
    if not isinstance(body, dict):
        return _reject(Reason.NOT_AN_EVENT, f"a JSON {type(body).__name__}, not an object")
    return body, False


def _why_malformed(value: bytes, error: orjson.JSONDecodeError) -> Rejected:
    place = f"line {error.lineno}, column {error.colno}"
    if "depth" in error.msg:
        return _reject(Reason.TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels")
    try:
        text = value.decode()
    except UnicodeDecodeError as bad:
        return _reject(Reason.NOT_UTF8, f"invalid UTF-8 at byte {bad.start}")
    if "infinity" in error.msg:
        return _reject(Reason.BAD_NUMBER, f"number too large for a double at {place}")
    if re.search(r"[:\[,]\s*-?(NaN|Infinity)\b", text):
        return _reject(Reason.BAD_NUMBER, f"NaN or Infinity is not JSON; near {place}")
    return _reject(Reason.MALFORMED_JSON, f"not JSON at {place}")


def _depth(body: Any) -> int:
    """Nesting depth of a parsed JSON value, without recursion."""
    deepest = 0
    level = [body]
    while level:
        deepest += 1
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    return deepest


class _Duplicate(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return keys


# Numbers are not looked at; the default would refuse long ones.
_DUPLICATES = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_int=len)
_CONTRACT_FIELDS = frozenset(
    field
    for event in EVENT_TYPES.values()
    for struct in (event, next((f.type for f in msgspec.structs.fields(event) if f.name == "data"), event))
    for field in getattr(struct, "__struct_fields__", ())
) | {"type"}


def _duplicate_key(value: bytes) -> str | None:
    """A key that stands twice in one object: its name where the contract knows it, "" where not, None where none
    does."""
    try:
        _DUPLICATES.decode(value.decode())
    except _Duplicate as found:
        return found.key if found.key in _CONTRACT_FIELDS else ""
    return None


def _normalise(body: dict[str, Any], gaps: list[tuple[str, str | None]]) -> Rejected | None:
    """Bring an envelope's attributes to their declared types in place, or say why that cannot be."""
    if body.get("specversion") != "1.0":
        return _reject(Reason.NOT_AN_EVENT, "specversion is not 1.0", "specversion")
    if not isinstance(body.get("type"), str) or not body["type"]:
        return _reject(Reason.NOT_AN_EVENT, "type is missing or no text", "type")
    tenant = body.get("tenantid")
    if body["type"] != "trajlake.tick" and (not isinstance(tenant, str) or not tenant.strip()):
        return _reject(Reason.TENANT_MISSING, "tenantid is missing, empty or no text", "tenantid", Stage.GATE)
    sequence = body.get("sequence")
    if isinstance(sequence, str):
        if not sequence.isascii() or not sequence.isdigit() or len(sequence) > 18:
            return _reject(Reason.WRONG_TYPE, "sequence is no whole number", "sequence")
        body["sequence"] = int(sequence)
    time = body.get("time")
    if time is not None:
        try:
            moment, gap = normalise_time(time)
        except BadTime as error:
            return _reject(Reason.BAD_TIME, str(error), "time")
        body["time"] = moment
        if gap is not None:
            gaps.append((gap, None))
    return None


def _other_tenant(body: dict[str, Any]) -> str | None:
    """Place at which an event's own data name a tenant that is not the envelope's. What lies deeper is content."""
    data = body.get("data")
    if not isinstance(data, dict):
        return None
    for key, value in data.items():
        if key in _TENANT_KEYS:
            if isinstance(value, dict):
                value = value.get("id")
            if value != body.get("tenantid"):
                return f"data.{key}"
    return None


def _typed(body: dict[str, Any], normal: bytes) -> AnyEvent:
    kind = body["type"]
    if kind in EVENT_TYPES:
        return _utc(decode_typed(normal))
    envelope = {name: body[name] for name in UnknownEvent.__struct_fields__ if name in body and name != "kind"}
    envelope["time"] = body.get("time")
    return msgspec.convert({**envelope, "kind": kind, "type": "*"}, UnknownEvent)


def _utc(event: Event) -> Event:
    if event.time is not None and event.time.tzinfo is not UTC:
        event.time = to_utc(event.time)[0]
    return event


def _from_validation(error: msgspec.ValidationError) -> Rejected:
    """A rejection from a type error. The messages name types and limits, never values."""
    text = str(error)
    place = _PLACE.search(text)
    path = place.group(1) if place else None
    detail = text[: place.start()] if place else text
    missing = _MISSING.search(detail)
    if missing is not None:
        return _reject(Reason.MISSING_FIELD, detail, f"{path}.{missing[1]}" if path else missing[1])
    if "RFC3339" in detail or "imestamp" in detail or "datetime" in detail:
        return _reject(Reason.BAD_TIME, "not an RFC 3339 time", path)
    if "out of range" in detail:
        return _reject(Reason.BAD_NUMBER, detail, path)
    if detail.startswith("Invalid enum value") or detail.startswith("Invalid value"):
        return _reject(Reason.OUT_OF_RANGE, "value is not one of the contract's codes", path)
    if detail.startswith("Expected") and ("length" in detail or ">=" in detail or "<=" in detail):
        return _reject(Reason.OUT_OF_RANGE, detail, path)
    return _reject(Reason.WRONG_TYPE, detail, path)


def _reject(reason: Reason, detail: str, path: str | None = None, stage: Stage = Stage.DECODE) -> Rejected:
    return Rejected(reason, stage, detail, path)


def _with_identity(rejected: Rejected, body: dict[str, Any]) -> Rejected:
    """Add what could be read of the envelope, so that the record can be found again."""
    rejected.tenant_id = _short(body.get("tenantid"))
    rejected.run_id = _short(body.get("runid"))
    rejected.event_id = _short(body.get("id"))
    rejected.event_type = _short(body.get("type"))
    sequence = body.get("sequence")
    if isinstance(sequence, int) and not isinstance(sequence, bool) and 0 < sequence < 2**53:
        rejected.sequence = sequence
    return rejected


def _short(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 1024 else None
