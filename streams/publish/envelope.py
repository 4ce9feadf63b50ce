"""Envelopes: an event of the agent's own values to the bytes of a CloudEvent, whatever those values are.

The bytes are canonical compact JSON, equal to their own re-encoding, which landing takes by its fast path. orjson
makes them so by construction (it refuses what JSON cannot hold; msgspec writes some numbers in another form).

Nothing here raises because of a value. What JSON cannot hold becomes text of bounded size; what the contract's types
cannot hold is moved to `recorder_unfit`, so that the rest of the event still lands.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final

import msgspec
import orjson

from trajlake.expectations.events import EVENT_TYPES, SPEC_VERSION

MAX_TEXT_CHARS: Final = 4096
"""Longest text that stands for a value which JSON cannot hold."""
MAX_DEPTH: Final = 100
"""Deeper nesting becomes text; landing refuses it from 200 on."""
MAX_NODES: Final = 100_000
"""Values that are walked in Python when the fast encoder refuses an event; the rest becomes text."""
UNFIT: Final = "recorder_unfit"
"""Field of `data` that holds what does not fit the contract's types: field -> value as it was given."""

_CUT = "…"
_NOTHING: list[str] = []
_NAME_CHARS = 1024
_DATA_TYPES: dict[str, type[msgspec.Struct]] = {
    kind: next(field.type for field in msgspec.structs.fields(event) if field.name == "data")
    for kind, event in EVENT_TYPES.items()
}
_DECODE = {kind: msgspec.json.Decoder(data).decode for kind, data in _DATA_TYPES.items()}


class Stamp:
    """The constant attributes of a run's envelopes, encoded once.

    Strings are CloudEvents attributes; `nonce`, made of ASCII letters, digits and `-`, makes the event ids of this run
    object unique, and with the sequence stable.
    """

    __slots__ = ("_attributes", "nonce")

    def __init__(
        self,
        *,
        source: str,
        tenant_id: str,
        run_id: str | None,
        nonce: str,
        parent_run_id: str | None = None,
        traceparent: str | None = None,
        subject: str | None = None,
    ) -> None:
        attributes = {
            "source": source,
            "tenantid": tenant_id,
            "runid": run_id,
            "parentrunid": parent_run_id,
            "traceparent": traceparent,
            "subject": subject,
        }
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nonce = nonce
        self._attributes = to_json(given)[0][1:-1]

    def seal(self, kind: str, event_id: str, sequence: int | None, moment: bytes, data: bytes) -> bytes:
        """The bytes of an event. `moment`: RFC 3339 in UTC with `Z`; `data`: the JSON of its payload."""
        return b'%b%b,%b%b,"time":"%b","data":%b}' % (
            _HEADS.get(kind) or _head_of(kind),
            to_json(event_id)[0],
            self._attributes,
            b"" if sequence is None else b',"sequence":%d' % sequence,
            moment,
            data,
        )


Draft = tuple[Stamp, str, int | None, str | None, int | bytes]
"""An event without its data: stamp, type, sequence, id (None: nonce and sequence), time (ns since 1970, or RFC 3339).

The agent's thread makes a draft and encodes the data; the publisher's thread does the rest with `finish`.
"""


def finish(draft: Draft, data: bytes) -> tuple[bytes, list[str]]:
    """The bytes of a drafted event, and the fields that had to be changed or set apart to fit the contract."""
    stamp, kind, sequence, event_id, moment = draft
    try:
        fitted, notes = fit_data(kind, data)
    except Exception as error:
        # What cannot be fitted goes as it is: landing will say what is wrong with it.
        fitted, notes = data, [type(error).__name__]
    time_text = moment if isinstance(moment, bytes) else format_ns(moment)
    return stamp.seal(kind, event_id or f"{stamp.nonce}:{sequence}", sequence, time_text, fitted), notes


def _head_of(kind: str) -> bytes:
    return b'{"type":%b,"specversion":"%b","id":' % (to_json(kind)[0], SPEC_VERSION.encode())


_second: tuple[int, bytes] = (-1, b"")


def format_ns(time_ns: int) -> bytes:
    """Nanoseconds since 1970 as RFC 3339 in UTC with microseconds and `Z`."""
    global _second
    second, micro = divmod(time_ns // 1000, 1_000_000)
    known = _second
    if known[0] != second:
        known = _second = (second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode())
    return b"%b.%06dZ" % (known[1], micro)


def format_time(moment: datetime) -> bytes:
    """A time as RFC 3339 in UTC with microseconds and `Z`; one without a zone is taken as UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0").encode()


def new_id() -> str:
    """A UUIDv7 (RFC 9562) as 36 characters: unique, and sorted by the millisecond of its making."""
    value = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF000 << 64) | 0x7000 << 64
    value = value & ~(0xC000 << 48) | 0x8000 << 48
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def fit_data(kind: str, encoded: bytes) -> tuple[bytes, list[str]]:
    """JSON of a payload that its type accepts, and the names of fields that had to be changed for that."""
    decode = _DECODE.get(kind)
    if decode is None:
        return encoded, _NOTHING
    try:
        decode(encoded)
    except msgspec.ValidationError:
        fitted, touched = _fit(orjson.loads(encoded), _DATA_TYPES[kind])
        return orjson.dumps(fitted), touched
    except (msgspec.DecodeError, RecursionError):
        # Nested deeper than the decoder goes.
        return fit_data(kind, orjson.dumps(_plain(orjson.loads(encoded), _Budget())))
    return encoded, _NOTHING


def to_json(value: Any) -> tuple[bytes, bool]:
    """Canonical JSON of any value, and whether JSON could hold it as it is."""
    try:
        return orjson.dumps(value, default=_substitute), True
    except Exception:
        # Keys that are no strings, integers beyond 64 bits, lone surrogates, cycles, depth, objects that raise.
        return orjson.dumps(_plain(value, _Budget())), False


def _substitute(value: Any) -> Any:
    """What stands for an object that is no JSON value. The encoder calls it for the object, then for the result."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of_bytes(bytes(value))
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr) if len(value) <= MAX_NODES else _text(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath | Decimal):
        return str(value)
    if isinstance(value, BaseException):
        return _cut(f"{type(value).__name__}: {value}")
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return dump(value, mode="json")
    if type(value).__module__.partition(".")[0] == "numpy" and getattr(value, "size", 0) <= MAX_NODES:
        return value.tolist()
    return _text(value)


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _cut(f"<{len(value)} bytes> {value[:MAX_TEXT_CHARS].hex()}")


def _text(value: Any) -> str:
    """`repr` of an object at bounded length, or the name of its type where even that raises."""
    try:
        return _valid(_cut(repr(value)))
    except Exception:
        return f"<{type(value).__name__}>"


def _cut(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT


def _valid(text: str) -> str:
    # A lone surrogate is no character; its escaped form can be read and landed.
    return text.encode(errors="backslashreplace").decode()


class _Budget:
    """How much more of a value may be walked, and what is being walked now (to see cycles)."""

    def __init__(self) -> None:
        self.nodes = MAX_NODES
        self.path: set[int] = set()


def _plain(value: Any, budget: _Budget, depth: int = 0) -> Any:
    """A copy of any value made of JSON types only. Never raises an Exception."""
    budget.nodes -= 1
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _valid(str.__str__(value))
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else _text(int(value))
    if isinstance(value, float):
        return float(value)
    if budget.nodes <= 0 or depth >= MAX_DEPTH or id(value) in budget.path:
        return f"<{type(value).__name__} not followed>"
    budget.path.add(id(value))
    try:
        return _plain_container(value, budget, depth + 1)
    except Exception:
        return _text(value)
    finally:
        budget.path.discard(id(value))


def _plain_container(value: Any, budget: _Budget, depth: int) -> Any:
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in list(value.items()):
            name = _valid(key) if isinstance(key, str) else _text(key)
            # 1 and "1" are two keys in Python and one in JSON: both values stay.
            while name in plain:
                name += "'"
            plain[name] = _plain(item, budget, depth)
        return plain
    if isinstance(value, list | tuple):
        return [_plain(item, budget, depth) for item in list(value)]
    try:
        # Dates, UUIDs, enums, dataclasses: what the encoder knows.
        return orjson.loads(orjson.dumps(value, default=_substitute))
    except Exception:
        substitute = _substitute(value)
    return _plain(substitute, budget, depth)


def _fit(data: Any, struct: type[msgspec.Struct]) -> tuple[Any, list[str]]:
    """Make parsed `data` acceptable to `struct`: repair what only has the wrong JSON type, set the rest apart."""
    if not isinstance(data, dict):
        return {UNFIT: {"data": data}}, ["data"]
    unfit: dict[str, Any] = {}
    touched = []
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        if name not in data:
            continue
        value = data[name]
        for candidate, is_whole in _candidates(value):
            try:
                msgspec.json.decode(orjson.dumps(candidate), type=field.type)
            except (msgspec.DecodeError, TypeError):
                continue
            if candidate is not value:
                touched.append(name)
                data[name] = candidate
            if not is_whole:
                unfit[name] = value
            break
        else:
            touched.append(name)
            unfit[name] = data.pop(name)
    if unfit:
        data[UNFIT] = unfit
    return data, touched


def _candidates(value: Any) -> Iterator[tuple[Any, bool]]:
    """A value, then what it may have been meant to be, and whether nothing of the value is missing from that."""
    yield value, True
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            pass
        else:
            yield int(value) if value.strip().lstrip("+-").isdecimal() else number, math.isfinite(number)
        yield {"name": value}, True
        yield [value], True
        yield _cut(value, _NAME_CHARS), False
    elif isinstance(value, bool):
        yield str(value).lower(), True
    elif isinstance(value, int | float):
        if isinstance(value, float) and value.is_integer():
            yield int(value), True
        yield str(value), True
    elif value is not None:
        yield _cut(orjson.dumps(value).decode(), _NAME_CHARS), False


_HEADS: Final = {kind: _head_of(kind) for kind in EVENT_TYPES}
