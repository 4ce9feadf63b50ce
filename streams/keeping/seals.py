"""Sealed originals of quarantined records: made between the fold and the commit, opened for operators."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, NamedTuple

import orjson

from trajlake.expectations.policies import PolicySet
from trajlake.sinks.sealing import Opener, Sealer, SealError, read_key
from trajlake.streams.settings import SettingError, Settings
from trajlake.transforms.decode.payloads import reference
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.policy.terms import terms_for
from trajlake.transforms.records import Headers, Payload


class Original(NamedTuple):
    """A record as it was received."""

    key: bytes | None
    value: bytes
    headers: Headers


def sealer_for(settings: Settings, policies: PolicySet) -> Sealer | None:
    """The sealer that the settings ask for; None where originals are not kept.

    Raises `SettingError` when the key is none, and when a policy wants originals kept and there is no key.
    """
    if not settings.seal_public_key:
        if wanting := next((policy.id for policy in policies.policies if policy.seal_refused), None):
            raise SettingError("seal_public_key", f"policy {wanting} says seal_refused: true, and there is no key")
        return None
    try:
        return Sealer(read_key(settings.seal_public_key))
    except SealError as error:
        raise SettingError("seal_public_key", str(error)) from None


def seal_refused(landing: Landing, sealer: Sealer, policies: PolicySet, inline_max_bytes: int) -> None:
    """Seal the originals of a landing's refused records, but those of tenants whose policy wants none kept; a record
    that names no tenant falls under the policies of all. One that is sealed stays as it is."""
    for row in landing.quarantine:
        original = row.original
        if original is None or original.value is None or row.sealed is not None or row.sealed_ref is not None:
            continue
        if not terms_for(policies, row.rejected.tenant_id or "", None).seal_refused.value:
            continue
        content = _packed(Original(original.key, original.value, original.headers or []))
        sealed = sealer.seal(content, f"{landing.topic}/{landing.partition}/{row.offset}")
        if len(sealed) <= inline_max_bytes:
            row.sealed = sealed
        else:
            stored = sealed.encode()
            digest = hashlib.sha256(stored).hexdigest()
            row.sealed_ref = reference(digest, len(stored))
            landing.payloads.append(Payload(row.rejected.tenant_id or "", digest, stored, quarantined=True))


def unseal(opener: Opener, sealed: str, place: str) -> Original:
    """The original of a row. Raises `SealError`."""
    body = orjson.loads(opener.open(sealed, place))
    headers = [(name, None if value is None else base64.b64decode(value)) for name, value in body["headers"]]
    key = body["key"]
    return Original(None if key is None else base64.b64decode(key), base64.b64decode(body["value"]), headers)


def _packed(original: Original) -> bytes:
    def text(part: bytes | None) -> Any:
        return None if part is None else base64.b64encode(part).decode()

    headers = [[name, text(value)] for name, value in original.headers]
    return orjson.dumps({"key": text(original.key), "value": text(original.value), "headers": headers})
