"""The types of redaction: rules as data, spans as findings, results without values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

ENGINE: Final = 4
"""Part of every revision; raised when detection changes without a change of the table."""


class Action(StrEnum):
    """What happens to a finding."""

    MARKER = "marker"
    """Replaced by `[redacted:<rule id>]`."""
    PSEUDONYM = "pseudonym"
    """Replaced by `[<rule id>:<16 letters>]`, the same for the same value and tenant."""
    KEEP = "keep"
    """The rule is off."""


class Severity(StrEnum):
    """How bad a leak would be. Where findings overlap, the worse one names the marker."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Kind(StrEnum):
    """Families of rules; a policy may set the mode of a whole family."""

    CLOUD = "cloud"
    CODE = "code"
    CHAT = "chat"
    PAYMENT = "payment"
    MODEL = "model"
    SERVICE = "service"
    CREDENTIAL = "credential"
    PEOPLE = "people"
    NATIONAL = "national"


class Need(StrEnum):
    """What a form needs besides its pattern and its checks."""

    NOTHING = "nothing"
    WHOLE = "whole"
    """The number is the whole string, or a context word is near."""
    CONTEXT = "context"
    """A context word stands near, or in the name of the field."""


@dataclass(frozen=True, slots=True)
class Form:
    """One written form of what a rule finds.

    `pattern` is a regular expression without unbounded repetition of overlapping parts (time must stay linear); `group`
    is the part that is replaced. `checks` name functions of `checks.py`, with an argument after a colon. `triggers` are
    Hyperscan expressions over raw JSON bytes, at least one of which matches wherever the form can; None derives them
    from the pattern.
    """

    pattern: str
    checks: tuple[str, ...] = ()
    need: Need = Need.NOTHING
    group: int = 0
    triggers: tuple[str, ...] | None = None
    nocase: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the rule table.

    `finder` names a function of `finders` where a pattern is not enough (assignments, PEM blocks, Git history).
    `examples` must be found, `counterexamples` must not; both are tested. `context` are lower-case words that stand
    near the finding or in its field's name; `never` are words that speak against it.
    """

    id: str
    finds: str
    kind: Kind
    severity: Severity
    forms: tuple[Form, ...] = ()
    finder: str | None = None
    triggers: tuple[str, ...] = ()
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]
    context: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    action: Action = Action.MARKER


class Span(NamedTuple):
    """A finding: characters `start` to `end` of a text, by the rule at index `rule` of the table.

    `value` is what was found as a reader would see it, the basis of a pseudonym; it never leaves the redactor. `path`
    leads into JSON inside the text. `quiet` marks the later pieces of a finding that runs over several texts: removed,
    no marker. `quotes`: it is a number of JSON, whose stand-in needs quotes, in so many strings of JSON inside the
    text; -1 for all others.
    """

    start: int
    end: int
    rule: int
    value: str = ""
    path: str = ""
    quiet: bool = False
    quotes: int = -1

    def deeper(self) -> Span:
        """The same, seen from a text that holds this one as a string of JSON."""
        return self if self.quotes < 0 else self._replace(quotes=self.quotes + 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one redaction; meeting one raises, because an unproved payload must not pass.

    `max_chars` counts the characters of all strings of a value. `max_depth` bounds JSON nesting. `max_decode` bounds
    how many layers of JSON-in-string, base64, hex, percent or escapes are opened. `max_work` bounds the time: how many
    characters are searched, views and rounds included, for each character of the value. `max_numbers` does the same for
    tables of numbers, each of which is dear to judge: how many are looked at, rounds included. No clock: the same
    value meets the same bounds whenever it is redacted again.
    """

    max_chars: int = 64 * 1024 * 1024
    max_depth: int = 400
    max_decode: int = 8
    max_work: int = 100
    max_numbers: int = 300_000


def revision_of(rules: Iterable[Rule], *extra: Any) -> str:
    """Content hash of a rule table (SHA-256, 16 hex): the same table, the same revision, on every machine."""
    body = json.dumps([ENGINE, [asdict(rule) for rule in rules], extra], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(body.encode()).hexdigest()[:16]
