"""Where imported events come from, and the writer that gives them identity, order and a checked form.

Event ids come from what the source itself says (uuids, message ids, trial numbers, digests of content), never from a
path or a position in the file, so that a file that moved, was formatted anew or grew yields the same ids.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
import orjson
from msgspec import Struct

from trajlake.expectations.events import (
    SPEC_VERSION,
    ContextCompacted,
    ContextCompactedEvent,
    Envelope,
    Event,
    ModelResponded,
    ModelRespondedEvent,
    RewardAssigned,
    RewardAssignedEvent,
    RunEnded,
    RunEndedEvent,
    RunStarted,
    RunStartedEvent,
    ToolReturned,
    ToolReturnedEvent,
)

SOURCE_PREFIX: Final = "trajlake/import/"
"""CloudEvents `source` of every imported event starts so; the format's name follows."""

ID_MAX: Final = 512
"""Longest event id and run id, as the envelope declares them, in characters."""

END_OF_FILE: Final = "end_of_file"
"""`stop_condition` of a run that ends because its file does; the file said nothing of an end."""

_DIGEST_CHARS = 16
_ENVELOPES: Final[dict[type[Struct], type[Envelope]]] = {
    RunStarted: RunStartedEvent,
    ModelResponded: ModelRespondedEvent,
    ToolReturned: ToolReturnedEvent,
    ContextCompacted: ContextCompactedEvent,
    RewardAssigned: RewardAssignedEvent,
    RunEnded: RunEndedEvent,
}
_ENCODER = msgspec.json.Encoder()
_CHECK = msgspec.json.Decoder(Event).decode


class ImportProblem(NamedTuple):
    """Something in a file that is not as its format says.

    `place`: line, or JSON path. `reason`: what is wrong, never the value. `kept`: the record was imported all the same,
    without what was wrong; otherwise it was left out.
    """

    file: str
    place: str
    reason: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class ImportedEvent:
    """One event to publish. `event.sequence` is its position in the run as the file has it; `plan` gives the final one.

    `size`: bytes of its JSON, about. `additions` are fields of `data` that the contract does not know; the ledger
    keeps them.
    """

    event: Envelope
    place: str
    size: int
    additions: dict[str, Any] | None = None


Imported = ImportedEvent | ImportProblem


@dataclass(frozen=True, slots=True)
class Origin:
    """What the caller says about a file.

    `file`: its name as shown in reports; `skill`: overrides the format's default.
    """

    format: str
    file: str
    tenant: str
    skill: str | None = None

    @property
    def label(self) -> str:
        """`runs.origin` of the file's runs: format and file name, never a path."""
        return f"{self.format}:{self.file.rsplit('/', 1)[-1]}"[:1024]


class Scribe:
    """Writes the events of one run in order: gives each its id and position, and checks it against the contract."""

    def __init__(self, origin: Origin, run_id: str, parent_run_id: str | None = None) -> None:
        self.run_id = bounded(run_id)
        self.written = 0
        self._origin = origin
        self._parent_run_id = bounded(parent_run_id) if parent_run_id else None

    def write(
        self,
        key: str,
        data: Struct,
        *,
        place: str,
        time: datetime | None = None,
        additions: dict[str, Any] | None = None,
    ) -> Imported:
        """The event of `data`.

        `key` names it within the run. A problem when it breaks the contract; it then has no position.
        """
        envelope = _ENVELOPES[type(data)]
        event = envelope(  # type: ignore[call-arg]
            specversion=SPEC_VERSION,
            id=bounded(f"{self.run_id}:{key}"),
            source=SOURCE_PREFIX + self._origin.format,
            tenantid=self._origin.tenant,
            runid=self.run_id,
            sequence=self.written + 1,
            time=time,
            parentrunid=self._parent_run_id,
            data=data,
        )
        try:
            text = _ENCODER.encode(event)
            _CHECK(text)
        except (msgspec.MsgspecError, UnicodeError, OverflowError) as error:
            return ImportProblem(self._origin.file, place, f"{envelope.__struct_config__.tag}: {error}")
        self.written += 1
        return ImportedEvent(event, place, len(text), additions)


def encode_event(imported: ImportedEvent) -> bytes:
    """The event as compact JSON, such that `orjson.dumps(orjson.loads(x)) == x`. Unset attributes are left out."""
    body = orjson.loads(_ENCODER.encode(imported.event))
    for name in [name for name, value in body.items() if value is None]:
        del body[name]
    if imported.additions:
        body["data"].update(imported.additions)
    return orjson.dumps(body)


def digest(value: object) -> str:
    """16 hex digits that stand for a JSON value whatever its layout: SHA-256 of its compact form with sorted keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_DIGEST_CHARS]


def bounded(identifier: str) -> str:
    """An id that fits its field: a longer one is cut, and a digest of the whole keeps it unique."""
    if len(identifier) <= ID_MAX:
        return identifier
    tail = hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{identifier[: ID_MAX - _DIGEST_CHARS - 1]}~{tail}"
