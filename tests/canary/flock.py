"""The canaries: events of every type whose every text holds something that must not survive.

The events are made from the contract itself, so a field that it gains gets its canary too. Each canary is made when the
test runs, is used once, and has a core: a stretch that no output may hold.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import inspect

from tests.redact.planted import Planted, card, drawn, pem, pem_body, rrn, tokens
from trajlake.expectations.events import EVENT_TYPES

TENANT: Final = "canary"
RUNS: Final = ("r1", "r2", "r3")
_KEPT: Final = {
    # What the flow pairs, orders and judges by: names of things, made by programs.
    "specversion", "type", "tenantid", "runid", "sequence", "tool_call_id", "annotator_kind", "end_state", "verdict",
    "state",
}  # fmt: skip
_FREE: Final = {"input", "message", "reasoning_content", "content", "arguments", "output", "summary", "comment",
                "explanation", "reason", "error_message"}  # fmt: skip
_ORDER: Final = (
    "agent.run.started", "agent.model.responded", "agent.tool.called", "agent.tool.returned", "agent.policy.decided",
    "agent.context.compacted", "agent.feedback.given", "agent.reward.assigned", "agent.consent.changed",
    "agent.lever.applied", "agent.run.ended",
)  # fmt: skip


@dataclass
class Canary:
    """One thing that must not survive. `place`: where it was put. `cores`: stretches of it that no output may hold."""

    place: str
    kind: str
    cores: tuple[str, ...]


@dataclass
class Flock:
    """All canaries that were let out."""

    canaries: list[Canary] = field(default_factory=list)
    _next: int = 0

    def secret(self, place: str) -> str:
        """A token that nothing else holds."""
        issuers = tokens(10_000 + 20 * self._next)
        one: Planted = issuers[self._next % len(issuers)]
        self._next += 1
        self.canaries.append(Canary(place, one.kind, (one.text[12:28],)))
        return one.text

    def person(self, place: str, *, digits: bool) -> str:
        """A mail address, or, where text is free, a card or national number too."""
        self._next += 1
        kind = self._next % 3 if digits else 0
        if kind == 1:
            number = card(self._next)
            text, core = f"card number {number}", number
        elif kind == 2:
            number = rrn(self._next)
            text, core = f"주민등록번호 {number}", number
        else:
            name = "roe." + drawn(self._next, 14, "abcdefghijkmnpqrstuvwxyz23456789")
            text, core = f"{name}@" + "example.org", name
        self.canaries.append(Canary(place, "person", (core,)))
        return text

    def key(self, place: str) -> str:
        """A private key."""
        self._next += 1
        self.canaries.append(Canary(place, "private key", tuple(pem_body(self._next))))
        return pem(self._next)

    def free_text(self, place: str) -> Any:
        """A nested value with canaries in text, keys, JSON in strings, encodings and lists of pieces."""
        token = self.secret(f"{place} base64")
        pieces = self.secret(f"{place} pieces")
        return {
            "text": f"use {self.secret(place)} or ask {self.person(place, digits=True)}",
            self.secret(f"{place} key"): "the key itself",
            "body": json.dumps({"deep": json.dumps({"client_secret": self.secret(f"{place} JSON in JSON")})}),
            "encoded": base64.b64encode(f"login={token}".encode()).decode(),
            "parts": [pieces[:9], pieces[9:]],
            "file": f"/home/{self.person(f'{place} path', digits=False).split('@')[0]}/notes.txt",
            "key": self.key(f"{place} PEM"),
            "password": self.secret(f"{place} password"),
        }


def events(flock: Flock, run: str) -> Iterator[dict[str, Any]]:
    """One event of each type, in the order of a run, with canaries in every text that the contract knows."""
    for sequence, kind in enumerate(_ORDER, start=1):
        whole = _filled(flock, inspect.type_info(EVENT_TYPES[kind]), kind)
        data = whole.pop("data")
        assert isinstance(data, dict)
        data["unknown"] = flock.free_text(f"{kind} data.unknown")
        yield {
            **whole,
            "specversion": "1.0",
            "type": kind,
            "id": f"{run}-{sequence}",
            "source": f"urn:agent:{flock.secret(f'{kind} source')}",
            "tenantid": TENANT,
            "runid": run,
            "sequence": sequence,
            "time": "2026-03-01T10:00:00Z",
            "extension": f"by {flock.secret(f'{kind} extension')}",
            "data": data,
        }


def _filled(flock: Flock, kind: inspect.Type, place: str) -> Any:
    """A value of a type of the contract, its texts filled with canaries."""
    if isinstance(kind, inspect.Metadata):
        return _filled(flock, kind.type, place)
    if isinstance(kind, inspect.UnionType):
        some = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return _filled(flock, some[0], place)
    if isinstance(kind, inspect.StructType):
        return {
            one.encode_name: _fixed(one)
            if one.encode_name in _KEPT
            else _filled(flock, one.type, f"{place} {one.encode_name}")
            for one in kind.fields
        }
    if isinstance(kind, (inspect.ListType, inspect.CollectionType)):
        return [_filled(flock, kind.item_type, f"{place}[]")]
    if isinstance(kind, inspect.AnyType):
        return flock.free_text(place)
    if isinstance(kind, inspect.StrType):
        free = place.rpartition(" ")[2] in _FREE
        if kind.max_length is not None and kind.max_length < 200:
            return flock.person(place, digits=False)
        return f"{flock.secret(place)} {flock.person(place, digits=free)}"
    return _plain(kind)


def _fixed(one: inspect.Field) -> Any:
    names = {"tool_call_id": "call-1", "annotator_kind": "human", "end_state": "failed", "verdict": "deny"}
    return names.get(one.encode_name, "granted" if one.encode_name == "state" else None)


def _plain(kind: inspect.Type) -> Any:
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, inspect.BoolType):
        return False
    if isinstance(kind, inspect.IntType):
        return max(1, kind.ge or 0) if kind.ge != 100 else 500
    if isinstance(kind, inspect.FloatType):
        return 0.5
    if isinstance(kind, inspect.DateTimeType):
        return "2026-03-01T10:00:00Z"
    raise AssertionError(f"no value for {msgspec.json.encode(str(kind)).decode()}")
