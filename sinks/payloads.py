"""Content-addressed store for payloads that are too large for a row: written once, before any row refers to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake


class Content(Protocol):
    """What the store needs of a payload. `sha256`: hex digest of `content`."""

    tenant_id: str
    sha256: str
    content: bytes
    quarantined: bool


def write_payloads(lake: Lake, payloads: Iterable[Content]) -> int:
    """Store payloads; those that are there already are left alone. Returns how many were new.

    Raises `SinkUnavailable` when the store does not take one.
    """
    new = 0
    for payload in payloads:
        path = lake.payload_path(payload.tenant_id, payload.sha256, quarantined=payload.quarantined)
        try:
            obstore.put(lake.store, path, payload.content, mode="create")
            new += 1
        except AlreadyExistsError:
            continue
        except (BaseError, OSError) as error:
            raise SinkUnavailable(f"payload store: {reason(error)}") from error
    return new


def read_payload(lake: Lake, tenant_id: str, sha256: str, *, quarantined: bool = False) -> bytes:
    """Content of a reference, checked against its digest.

    Raises `FileNotFoundError` when the tenant has no such content, `ValueError` when it does not match its digest.
    """
    path = lake.payload_path(tenant_id, sha256, quarantined=quarantined)
    try:
        content = bytes(obstore.get(lake.store, path).bytes())
    except (FileNotFoundError, NotFoundError):
        raise FileNotFoundError(f"tenant has no payload sha256:{sha256}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"payload sha256:{sha256} does not match its digest")
    return content
