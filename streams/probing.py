"""Asks a health endpoint of a worker or of the dashboard."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import NamedTuple


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
        return Answer(False, True, _read(error) or f"HTTP {error.code}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Answer(False, False, f"does not answer ({getattr(error, 'reason', error)})")


def _read(error: urllib.error.HTTPError) -> str:
    try:
        return _summary(error.read())
    except (OSError, http.client.HTTPException):
        return ""


def _summary(content: bytes) -> str:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return content.decode(errors="replace").strip()[:200]
    if not isinstance(body, dict):
        return ""
    if body.get("problems"):
        return "; ".join(map(str, body["problems"]))
    if "lag_records" in body:
        return f"{body['lag_records']:,} records behind"
    return f"{body['skills']:,} skills" if "skills" in body else ""
