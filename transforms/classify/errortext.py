"""Reads text that is itself an error in a known shape: `Error code: 429 - {…}`, `litellm.RateLimitError: …`, JSON.

Only the beginning of a text counts, and what is learnt from it is weak evidence: text about an error is not an error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

HEAD_CHARS = 600
"""Characters of a text that are looked at."""

MAX_NAMES = 8


class Told(NamedTuple):
    """What a text says: HTTP status (400–599) or None, and the error's names as they stand there."""

    status: int | None
    names: tuple[str, ...]


_SHAPED = re.compile(
    r"(?:api error|error code)\s*[:(]\s*([45]\d\d)\b"
    r"|\[?([45]\d\d)[\]:,]?\s+(?:[a-z_]{4,40}[.:]?\s+)?(?=[{\[])",
    re.IGNORECASE,
)
_LOOSE_STATUS = re.compile(
    r"(?:error|http(?:/[\d.]+)?(?: status)?(?: error)?|(?:got |unexpected )?status(?: code)?"
    r"|request failed with status code)"
    r"\s*[:=]?\s*\(?([45]\d\d)\b"
    r"|\[?([45]\d\d)(?:\]|\s+(?=too many requests|internal server|bad gateway|service (?:temporarily )?unavailable"
    r"|gateway time|unauthorized|forbidden|not found|bad request|payment required|request timeout))"
    r"|([45]\d\d)(?=$|\s*[:\-]\s)",
    re.IGNORECASE,
)
_INSIDE = re.compile(
    r"(?:client|server) error '([45]\d\d)\b|\b([45]\d\d) (?:client|server) error\b|\[([45]\d\d) [a-z][a-z ]{2,40}\]"
    r"|\bstatus[ _]?code[=: ]+\(?([45]\d\d)\b|\berror code: ([45]\d\d)\b",
    re.IGNORECASE,
)
"""Statuses as HTTP clients word them, wherever they stand."""
_EXCEPTION = re.compile(
    r"((?:\w+\.)*)(\w+(?:Error|Exception|Timeout|Exceeded)|(?<=\.)Timeout)\b\s*(?:[:(\[]|- |$)[\s\"'<]*"
)
_AWS = re.compile(r"An error occurred \((\w{1,64})\)")
_GRPC = re.compile(r"StatusCode\.([A-Z_]{2,40})")
_WITHIN = re.compile(
    r"(?:\braised |[Cc]aused by |\n)(?:\w+\.)*(\w+(?:Error|Exception|Timeout|Exceeded))\b"
    r"|\b(E(?:CONN|TIMED|NOT|AI_|PIPE|HOST|NET)[A-Z]+)\b"
)
"""Exceptions that others carry, and errors of the operating system as Node names them."""
_BODY = re.compile(r"[\[{][^:]{0,40}[\"'](?:error|type|object)[\"']\s*:\s*(?:[{\[]|[\"']error)")
_OBJECT = re.compile(r"\{(?=\s*[\"']).{0,300}?[\"'](?:message|detail|msg)[\"']\s*:", re.DOTALL)
_MEMBER = re.compile(
    r"[\"'](?:__type|type|code|status|reason|error|error_?code|status_?code)[\"']\s*:\s*[\"']?([A-Za-z0-9_.\-]{2,64})",
    re.IGNORECASE,
)
_NAME_ALONE = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.\-][A-Za-z0-9]+)+")
_SAY_NOTHING = frozenset({"error", "null", "none", "true", "false"})


def read_error(text: str, *, strict: bool) -> Told | None:
    """What an error text says, or None where the text is no error.

    `strict` asks for a shape that only clients print (a status before a JSON body, an error body, a dotted exception
    name); otherwise `HTTP 500 …`, `ValueError: …` and the like are read too.
    """
    head = text[:HEAD_CHARS].lstrip()
    names, said = _exceptions(head, dotted=strict)
    if not strict:
        names += _first_groups(_WITHIN.search(head))
    status = _status(said, strict=strict and not names)
    if status is None and not names and not strict and _NAME_ALONE.fullmatch(head.rstrip()):
        return Told(None, (head.rstrip(),))
    if status is None and not names and not (_AWS.match(head) or _BODY.match(head)):
        names = _GRPC.findall(head)[:1]
        if not names and (strict or not _OBJECT.match(head)):
            return None
    names += _AWS.findall(head)[:1]
    for member in _MEMBER.findall(head)[:MAX_NAMES]:
        if member.isdigit():
            if status is None and len(member) == 3 and member[0] in "45":
                status = int(member)
        elif member.lower() not in _SAY_NOTHING:
            names.append(member)
    if status is None and not names:
        return None
    return Told(status, tuple(dict.fromkeys(names)))


def _exceptions(head: str, *, dotted: bool) -> tuple[list[str], str]:
    """Names of the exceptions with which a text begins, outermost first, and what they say; the first must be dotted
    where `dotted`."""
    names: list[str] = []
    place = 0
    while len(names) < MAX_NAMES and (found := _EXCEPTION.match(head, place)) is not None:
        if not found[1] and not names and dotted:
            break
        names.append(found[2])
        place = found.end()
    return names, head[place:]


def _status(said: str, *, strict: bool) -> int | None:
    """The HTTP status with which a text begins, or with which an exception's message names it."""
    found = _SHAPED.match(said) or (None if strict else _LOOSE_STATUS.match(said) or _INSIDE.search(said))
    return next((int(group) for group in _first_groups(found)), None)


def _first_groups(found: re.Match[str] | None) -> list[str]:
    return [] if found is None else [group for group in found.groups() if group]
