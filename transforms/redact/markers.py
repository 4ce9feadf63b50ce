"""Markers: what stands where something was, and how our own are told from forged ones.

A marker shields nothing: only the exact text `[redacted:<id of a rule in the table>]` counts as ours, so a value
wrapped in something that looks like a marker is still searched. A few markers of other tools are left as they are
because they hold no information either.
"""

from __future__ import annotations

import re
from typing import Final

MARKER: Final = "[redacted:%s]"

_OURS: Final = re.compile(r"\[redacted:([a-z0-9][a-z0-9-]{1,40})\](?:#\d{1,4})?")
_PSEUDONYM: Final = re.compile(r"\[([a-z0-9][a-z0-9-]{1,40}):[a-p]{16}\]")
_EITHER: Final = re.compile(r"\[(?:redacted:([a-z0-9][a-z0-9-]{1,40})|([a-z0-9][a-z0-9-]{1,40}):[a-p]{16})\]")
_NEUTRAL_WORDS: Final = (
    "secret|password|passwd|pwd|pass|token|key|api[_-]?key|db|email|phone|name|person|pii|ip|card|id|value"
    "|data|content|user"
    "|credential|credentials|private|auth|url|ssn|address"
)
_FOREIGN: Final = re.compile(
    rf"[\[<({{*]{{1,3}}\s?(?:redacted|removed|hidden|masked|filtered|scrubbed"
    rf"|omitted)(?:[:_ -](?:{_NEUTRAL_WORDS}))?\s?[\]>)}}*]{{1,3}}"
    r"|\[removed:[a-z_.-]{1,80}\]|REDACTED|\*{3,}|<[a-z_ -]{1,20}>",
    re.IGNORECASE,
)


def marker(rule_id: str) -> str:
    """The marker of a rule."""
    return MARKER % rule_id


def is_marker(text: str, rule_ids: frozenset[str]) -> bool:
    """Whether a text is nothing but one marker that can hold no secret."""
    ours = _OURS.fullmatch(text)
    if ours:
        return ours.group(1) in rule_ids
    return _FOREIGN.fullmatch(text) is not None


def is_pseudonym(text: str, rule_ids: frozenset[str]) -> bool:
    """Whether a text has the form of one of our pseudonyms."""
    found = _PSEUDONYM.fullmatch(text)
    return found is not None and found.group(1) in rule_ids


def masked(text: str, rule_ids: frozenset[str]) -> str:
    """The text, as long as before, without the words in our own markers and pseudonyms: they must not lead to
    findings."""
    if "[" not in text:
        return text
    return _EITHER.sub(lambda found: _stars(found) if (found[1] or found[2]) in rule_ids else found.group(), text)


def _stars(found: re.Match[str]) -> str:
    return f"[{'*' * (len(found.group()) - 2)}]"
