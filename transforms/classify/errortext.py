"""Reads text that is itself an error in a known shape: `Error code: 429 - {…}`, `litellm.RateLimitError: …`, JSON.

Only the beginning of a text counts, and what is learnt from it is weak evidence: text about an error is not an error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trajlake.expectations.failure_rules import normal_name

HEAD_CHARS = 600
"""Characters of a text that are looked at."""

MAX_NAMES = 8


class Told(NamedTuple):
    """What a text says: HTTP status (400–599) or None, and the error's names in normal form."""

    status: int | None
    names: tuple[str, ...]


_SHAPED = re.compile(r"(?:api error|error code)\s*[:(]\s*([45]\d\d)\b|([45]\d\d)\s+(?=[{\[])", re.IGNORECASE)
_LOOSE_STATUS = re.compile(
    r"(?:error|http(?:/[\d.]+)?(?: status)?(?: error)?|(?:got |unexpected )?status(?: code)?"
    r"|request failed with status code)"
    r"\s*[:=]?\s*\(?([45]\d\d)\b"
    r"|([45]\d\d)\s+(?=too many requests|internal server|bad gateway|service (?:temporarily )?unavailable"
    r"|gateway time|unauthorized|forbidden|not found|bad request|payment required|request timeout)",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(r"((?:\w+\.)*)(\w+(?:Error|Exception|Timeout|Exceeded))\b\s*(?:[:(\[]|$)")
_AWS = re.compile(r"An error occurred \((\w{1,64})\)")
_BODY = re.compile(r"[\[{][^:]{0,40}[\"'](?:error|type)[\"']\s*:\s*(?:[{\[]|[\"']error)")
_MEMBER = re.compile(r"[\"'](?:type|code|status|reason|error_code)[\"']\s*:\s*[\"']?([A-Za-z0-9_.\-]{2,64})")
_SAY_NOTHING = frozenset({"error", "null", "none", "true", "false"})


def read_error(text: str, *, strict: bool) -> Told | None:
    """What an error text says, or None where the text is no error.

    `strict` asks for a shape that only clients print (a status before a JSON body, an error body, a dotted exception
    name); otherwise `HTTP 500 …`, `ValueError: …` and the like are read too.
    """
    head = text[:HEAD_CHARS].lstrip()
    status: int | None = None
    names: list[str] = []
    shaped = _SHAPED.match(head) or (None if strict else _LOOSE_STATUS.match(head))
    if shaped is not None:
        status = int(shaped[1] or shaped[2])
    else:
        exception = _EXCEPTION.match(head)
        if exception is not None and (exception[1] or not strict):
            names.append(normal_name(exception[2]))
        elif not _AWS.match(head) and not _BODY.match(head):
            return None
    names += [normal_name(name) for name in _AWS.findall(head)[:1]]
    for member in _MEMBER.findall(head)[:MAX_NAMES]:
        if member.isdigit():
            if status is None and len(member) == 3 and member[0] in "45":
                status = int(member)
        elif member.lower() not in _SAY_NOTHING:
            names.append(normal_name(member))
    if status is None and not names:
        return None
    return Told(status, tuple(dict.fromkeys(names)))
