"""Runs that concern a person, as an agent publishes them."""

from __future__ import annotations

from typing import Any

import orjson

from tests.landkit.events import Sent, run_events


def run_of(
    subject: str | None, run: str, *, tenant: str = "acme", start: dict[str, Any] | None = None, **options: Any
) -> list[Sent]:
    """All events of a run whose start names its subject. `start`: more of the start's envelope and data."""
    sent = run_events(run, **options)
    first = orjson.loads(sent[0].value or b"")
    given = dict(start or {})
    first["data"].update(given.pop("data", {}))
    first.update(given)
    if subject is not None:
        first["data"]["subject_id"] = subject
    return [Sent(sent[0].key, orjson.dumps(first)), *sent[1:]]


def of_tenant(sent: Sent, tenant: str) -> Sent:
    """The same event of another tenant."""
    body = orjson.loads(sent.value or b"")
    body["tenantid"] = tenant
    return Sent(f"{tenant}/{body['runid']}".encode(), orjson.dumps(body))
