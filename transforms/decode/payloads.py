"""Large content by reference: strings over the inline limit leave the event and are named by their SHA-256.

The event keeps `payload:sha256:<hex>:<bytes>` in their place. The content is stored per tenant, so that a forged
reference cannot reach another tenant's content.
"""

from __future__ import annotations

import hashlib
from typing import Any

from trajlake.expectations.events import PAYLOAD_MARKER
from trajlake.transforms.records import Payload
from trajlake.transforms.text import REFERENCE


def reference(sha256: str, size: int) -> str:
    """The string that stands for stored content. `size` in bytes."""
    return f"{PAYLOAD_MARKER}{sha256}:{size}"


def store_large_strings(body: dict[str, Any], tenant_id: str, inline_max_bytes: int) -> list[Payload]:
    """Replace every string of `body` longer than the limit, in place. Returns what has to be stored.

    Keys and the envelope's own attributes stay; only `data` is walked.
    """
    payloads: list[Payload] = []

    def shorten(text: str) -> str:
        content = text.encode()
        if len(content) <= inline_max_bytes:
            return text
        digest = hashlib.sha256(content).hexdigest()
        payloads.append(Payload(tenant_id, digest, content))
        return reference(digest, len(content))

    todo: list[Any] = [body.get("data")]
    if isinstance(todo[0], str):
        body["data"] = shorten(todo[0])
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, str):
                    node[key] = shorten(value)
                else:
                    todo.append(value)
        elif isinstance(node, list):
            for place, value in enumerate(node):
                if isinstance(value, str):
                    node[place] = shorten(value)
                else:
                    todo.append(value)
    return payloads


def holds_reference(body: Any) -> bool:
    """Whether any string of a JSON value is exactly a reference to stored content."""
    todo = [body]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, str) and REFERENCE.match(node):
            return True
    return False
