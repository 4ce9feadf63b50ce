"""Redaction of records on the land path: denied fields and the rule table, a batch at a time.

One look over a batch says which records may hold something; the others are never touched. Of those, the usual record is
redacted in its strings, where they stand. What needs more (denied keys, lists of pieces, streaming copies, large
content by reference, findings in the envelope) is done with care, one record at a time.

Attributes of the envelope are ids: the rules for numbers of people do not look at them, because any id of digits may
look like such a number. Secrets and addresses in them are removed, and the gate then refuses what lost its identity.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from trajlake.transforms.decode.payloads import reference
from trajlake.transforms.records import Payload, Record, Redaction, Rejected
from trajlake.transforms.redact import deltas
from trajlake.transforms.redact.denylist import DenyList
from trajlake.transforms.redact.errors import RedactionError
from trajlake.transforms.redact.rawtext import paths_of
from trajlake.transforms.redact.redactor import Redactor
from trajlake.transforms.redact.standins import NOBODY
from trajlake.transforms.redact.unfinished import trim

_PARTIAL: Final = b'"partial"'
_NESTED: Final = re.compile(r"[.\[#]")
_BORDER: Final = re.compile(r"""\\*"\s*,\s*\\*\"""")
"""Between two strings of a list, at any depth of JSON in strings."""


class Swept(NamedTuple):
    """What a look over a batch found. `called`: places of records that may hold something; `done`: those of them that
    are redacted already, with their text and what was removed."""

    called: frozenset[int]
    done: dict[int, tuple[bytes, list[Redaction]]]


class RedactedPayload(NamedTuple):
    """Content that is stored by reference, and what was removed from it."""

    payload: Payload
    redactions: list[Redaction]


class RecordRedaction:
    """Deny list and redactor (None: switched off) together."""

    def __init__(self, deny: DenyList, redactor: Redactor | None) -> None:
        self._deny = deny
        self._redactor = redactor

    def sweep(self, records: Sequence[Record]) -> Swept:
        """Look over a batch and redact what can be redacted quickly."""
        values = [record.value or b"" for record in records]
        denied = self._deny.hits(values)
        redactor = self._redactor
        if redactor is None:
            return Swept(denied, {})
        done: dict[int, tuple[bytes, list[Redaction]]] = {}
        called = redactor.scan(values)
        for place in called:
            if place in denied:
                continue
            value = values[place]
            try:
                quick = redactor.redact_in_place(value, tenant_of(records[place].key))
            except RedactionError:
                continue  # the careful way meets it again, and says so
            if quick is not None and not any(_attribute(cut.path) for cut in quick[1]):
                done[place] = quick
        return Swept(denied.union(called), done)

    @staticmethod
    def may_be_partial(text: bytes) -> bool:
        """Whether an event may be a part or a copy of a message that still streams: the careful way withholds the one,
        and cuts the unfinished end of the other."""
        return _PARTIAL in text or deltas.may_hold(text)

    def apply(self, text: bytes, tenant: str) -> tuple[bytes, list[Redaction]]:
        """Redact one event. Returns the text as it was where there is nothing. Raises a RedactionError."""
        text, cuts = self._deny.apply(text)
        if self._redactor is None:
            return text, cuts
        # The decoder has refused what names a key twice.
        redacted, found = self._redactor.redact_json(text, tenant, unique=True)
        if any(_attribute(cut.path) for cut in found):
            redacted, found = self._spare_ids(text, redacted, found)
        cuts = [*cuts, *found]
        if self.may_be_partial(redacted):
            body = orjson.loads(redacted)
            streamed = deltas.withhold(body)
            data = body.get("data") if isinstance(body, dict) else None
            if isinstance(data, dict) and data.get("partial") is True:
                streamed += trim(body)
            if streamed:
                return orjson.dumps(body), [*cuts, *streamed]
        return redacted, cuts

    def apply_payload(self, payload: Payload) -> RedactedPayload:
        """Redact content that is stored by reference. Raises a RedactionError."""
        if self._redactor is None:
            return RedactedPayload(payload, [])
        redacted = self._redactor.redact(payload.content.decode(), payload.tenant_id or NOBODY)
        if not redacted.redactions:
            return RedactedPayload(payload, [])
        content = redacted.value.encode()
        clean = Payload(payload.tenant_id, hashlib.sha256(content).hexdigest(), content, payload.quarantined)
        return RedactedPayload(clean, redacted.redactions)

    def mask(self, value: bytes, *, doubled: bool) -> bytes | None:
        """A record that is no event, after what redaction its form allows; None where it may not be shown at all.

        `doubled`: a key stands twice in it, so that a parser would lose one of the values.
        """
        text = value.decode("utf-8", "surrogateescape")
        if not doubled:
            try:
                value = self._deny.apply(value)[0]
                return self._redactor.redact_json(value, NOBODY)[0] if self._redactor is not None else value
            except (ValueError, RecursionError):
                pass
            except RedactionError:
                return None
        text = self._deny.mask(text)
        try:
            if self._redactor is not None:
                text = self._redactor.redact_text(text, NOBODY)
                joined = _BORDER.sub("", text)
                clean = self._redactor.redact_text(joined, NOBODY)
                if clean != joined:
                    # Pieces of one secret stand side by side: what is no JSON has no lists to find them in.
                    text = clean
        except RedactionError:
            return None
        return text.encode("utf-8", "surrogateescape")

    def clean_names(self, rejected: Rejected) -> None:
        """Remove secrets from what a refusal says about its record: names and places come from outside too."""
        if self._redactor is None:
            return
        for name in ("tenant_id", "run_id", "event_id", "event_type", "field_path", "detail"):
            said = getattr(rejected, name)
            if said:
                try:
                    clean = self._redactor.redact_id(said)
                except RedactionError:
                    clean = "[redacted:unproved]"
                if clean != said:
                    setattr(rejected, name, clean)

    def _spare_ids(self, text: bytes, redacted: bytes, found: list[Redaction]) -> tuple[bytes, list[Redaction]]:
        """The redacted event with the attributes of its envelope redacted as ids are."""
        assert self._redactor is not None
        before, after = orjson.loads(text), orjson.loads(redacted)
        kept = []
        for cut in found:
            name = _attribute(cut.path)
            if name is not None and isinstance(before.get(name), str):
                after[name] = self._redactor.redact_id(before[name])
                if after[name] == before[name]:
                    continue
            kept.append(cut)
        return orjson.dumps(after), kept


def tenant_of(key: bytes | None) -> str:
    """The tenant that a Kafka key names; the gate checks that the event names the same."""
    return key.split(b"/", 1)[0].decode("utf-8", "replace") if key else NOBODY


def _attribute(path: str) -> str | None:
    """The attribute of the envelope that a path names; None for what stands in the data or deeper."""
    return path if path and path != "data" and _NESTED.search(path) is None else None


def refer_again(text: bytes, old: Sequence[Payload], new: Sequence[RedactedPayload]) -> tuple[bytes, list[Redaction]]:
    """An event's text that refers to new content where it referred to old, and what was removed from the content."""
    cuts: list[Redaction] = []
    for before, after in zip(old, new, strict=True):
        if after.redactions:
            was, now = (reference(payload.sha256, len(payload.content)) for payload in (before, after.payload))
            [place] = paths_of(orjson.loads(text), [was]) or ["data"]
            text = text.replace(was.encode(), now.encode())
            cuts += [cut._replace(path=place + cut.path) for cut in after.redactions]
    return text, cuts
