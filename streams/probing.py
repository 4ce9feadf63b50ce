"""Asks a health endpoint of a worker or of the dashboard."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """ready: all is well. answered: something listens there. says: what it said in a few words, or why nothing did."""

    ready: bool
    answered: bool
    says: str


def ask_ready(url: str, timeout_s: float) -> Answer:
    """Ask `/ready` of a process."""
    try:
        # No proxy: health is asked on this machine, or in the same network.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=timeout_s) as answer:
            return Answer(True, True, _summary(answer.read()))
    except urllib.error.HTTPError as error:
        return Answer(False, True, _summary(error.read()) or f"HTTP {error.code}")
    except (OSError, ValueError) as error:
        return Answer(False, False, f"does not answer ({getattr(error, 'reason', error)})")


def _summary(content: bytes) -> str:
    try:
        body: dict[str, Any] = json.loads(content)
    except ValueError:
        return content.decode(errors="replace").strip()[:200]
    if body.get("problems"):
        return "; ".join(map(str, body["problems"]))
    if "lag_records" in body:
        return f"{body['lag_records']:,} records behind"
    return f"{body['skills']:,} skills" if "skills" in body else ""
