"""Failure rules: the data by which steps and runs are classified, read once from `failure_rules.toml`.

The file says which evidence means which outcome; `transforms.classify` applies it; `docs/failures.md` is printed from
it. `classifier_revision()` is the hash of what can change a classification (examples and prose left out), so that a
stored row names the table that judged it.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from trajlake.expectations.taxonomy import FailureKind, OutcomeClass

ENGINE: Final = 2
"""Raised when `transforms.classify` applies the same table in another way; part of the revision."""

Strength = Literal["strong", "weak"]
Speaker = Literal["model", "tool", "run"]
Take = Literal["rule", "step", "error"]

TEXT_PREFIX: Final = "text:"
"""Begins a basis that was read from text by the rule named after it; such a finding is weak."""


class RuleError(ValueError):
    """The rule table contradicts itself or the taxonomy; the message names the rule."""


class When(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Condition of a `Rule`: every key that is given must hold, by any one of its values."""

    by: tuple[Speaker, ...] = ("model", "run")
    """Who failed: a model call, a tool call, or the run as its end event tells."""
    names: tuple[str, ...] = ()
    """Error types, provider codes or stop conditions; compared by `normal_name`."""
    words: tuple[str, ...] = ()
    """What such names have from the beginning of a word on, in normal form: `ratelimit` fits `RateLimitExceededError`
    and `user_rate_limit`, and not `MigrateLimitError`."""
    statuses: tuple[int, ...] = ()
    status_from: int | None = None
    status_to: int | None = None
    message: tuple[str, ...] = ()
    """Lower-case phrases, looked for in the error message."""
    opening: tuple[str, ...] = ()
    """Lower-case phrases with which the error message or the text begins."""
    says: tuple[str, ...] = ()
    """Lower-case phrases, looked for in a short error message, or in a short text that the model did not write.
    ` … ` stands for anything between two parts."""
    notice: bool | None = None
    """The opening is a client's own notice: in an answer it counts even where nobody counted the tokens."""
    finish: tuple[str, ...] = ()
    """Finish reasons; compared by `normal_name`."""
    exit_codes: tuple[int, ...] = ()
    exit_signals: tuple[str, ...] = ()
    refused: bool | None = None
    """The request was refused: HTTP 4xx, or no status but an error type or code."""
    denied: bool | None = None
    tool_known: bool | None = None
    arguments_valid: bool | None = None
    is_error: bool | None = None
    exit_nonzero: bool | None = None


class Rule(Struct, frozen=True, forbid_unknown_fields=True, rename={"outcome_class": "class"}, kw_only=True):
    """One piece of failure evidence and what it means. `match` and `no_match` are fields of a `StepEvidence`."""

    id: str
    outcome_class: OutcomeClass
    kind: FailureKind
    strength: Strength
    when: When
    source: str
    note: str | None = None
    match: dict[str, Any]
    no_match: dict[str, Any]


class RunWhen(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Condition of a `RunRule` over the facts of a run; see the head of that part of the file."""

    end: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    step_classes: tuple[str, ...] = ()
    step_kinds: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    error_classes: tuple[str, ...] = ()
    error_kinds: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    grader_error: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


class RunRule(Struct, frozen=True, forbid_unknown_fields=True, rename={"outcome_class": "class"}, kw_only=True):
    """One row of the decision table of runs. `take` says whose class counts: the row's, the step's or the error's."""

    id: str
    outcome_class: OutcomeClass | None = None
    kind: FailureKind | None = None
    take: Take = "rule"
    attribute: bool = False
    """Lay the outcome to the last failed step."""
    when: RunWhen
    why: str
    match: dict[str, Any]
    no_match: dict[str, Any]


class Default(Struct, frozen=True, forbid_unknown_fields=True, rename={"outcome_class": "class"}, kw_only=True):
    """What holds when no rule fits."""

    id: str
    outcome_class: OutcomeClass
    kind: FailureKind | None = None
    why: str


class ClassEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Meaning of an outcome class and the kinds within it."""

    meaning: str
    kinds: tuple[FailureKind, ...]


class RuleTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file. Order is meaning: earlier rules win among rules of one strength."""

    classes: dict[OutcomeClass, ClassEntry]
    kinds: dict[FailureKind, str]
    rule: tuple[Rule, ...]
    run_rule: tuple[RunRule, ...]
    default: tuple[Default, ...]


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|[0-9]+")
_KEEP: Final = str.maketrans("", "", "".join(chr(c) for c in range(128) if not chr(c).isalnum()))


def normal_name(name: str) -> str:
    """A name as rules compare it: its last dotted part, lower case, ASCII letters and digits only.

    `litellm.RateLimitError`, `rate_limit_error` and `com.example#RateLimitError` all give `ratelimiterror`; so does
    `RateLimitError: wait a minute`.
    """
    return _own(name).translate(_KEEP).lower()


class NameEnds(NamedTuple):
    """A normal name, and the places in it where words begin; None where they cannot be told."""

    whole: str
    places: tuple[int, ...] | None

    def has(self, words: tuple[str, ...]) -> bool:
        """Whether one of the words stands at such a place."""
        whole, places = self
        if places is None:
            return any(word in whole for word in words)
        return any(whole.startswith(words, place) for place in places)


def name_ends(name: str) -> NameEnds:
    """What words of a rule are compared with: the normal name from each beginning of a word in it on.

    `FileNotFoundError` has four, so `underr` is no part of it. In a name that is one word they may stand anywhere.
    """
    words = _WORD.findall(_own(name))
    whole = normal_name(name)
    if len(words) < 2 or "".join(words).lower() != whole:
        return NameEnds(whole, None)
    return NameEnds(whole, (0, *accumulate(map(len, words[:-1]))))


def _own(name: str) -> str:
    name = name.partition(": ")[0] or name
    for separator in (".", "#", ":", "/"):
        name = name.rpartition(separator)[2] or name
    return name


@cache
def rule_table() -> RuleTable:
    """The rules of this version. Raises `RuleError` when the file contradicts itself."""
    text = resources.files(__package__).joinpath("failure_rules.toml").read_text(encoding="utf-8")
    return read_rules(text)


def read_rules(text: str) -> RuleTable:
    """Read a rule table from TOML text and check it. Raises `RuleError` naming the rule that is wrong."""
    try:
        table = msgspec.convert(tomllib.loads(text), RuleTable, strict=True)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise RuleError(f"failure rules: {error}") from error
    _check(table)
    return table


def _check(table: RuleTable) -> None:
    seen: set[str] = set()
    entries: list[Rule | RunRule | Default] = [*table.rule, *table.run_rule, *table.default]
    for entry in entries:
        if entry.id in seen:
            raise RuleError(f"rule {entry.id}: this id is used twice")
        seen.add(entry.id)
        kinds = () if entry.outcome_class is None else table.classes[entry.outcome_class].kinds
        if entry.kind is not None and entry.kind not in kinds:
            raise RuleError(f"rule {entry.id}: kind {entry.kind} does not belong to class {entry.outcome_class}")
    for rule in table.rule:
        _check_rule(rule)
    for row in table.run_rule:
        if (row.outcome_class is None) != (row.take != "rule"):
            raise RuleError(f"rule {row.id}: give either a class or take = step | error")
    for name, wanted in (("classes", OutcomeClass), ("kinds", FailureKind)):
        missing = [code for code in wanted if code not in getattr(table, name)]
        if missing:
            raise RuleError(f"failure rules: [{name}] says nothing of {', '.join(missing)}")


def _check_rule(rule: Rule) -> None:
    when = rule.when
    if rule.id.startswith("tool.") != (when.by == ("tool",)):
        raise RuleError(f"rule {rule.id}: an id begins with `tool.` exactly when the rule is by tools alone")
    given = set(msgspec.structs.asdict(when)) - {"by"}
    set_keys = {key for key in given - {"notice"} if getattr(when, key) not in ((), None)}
    if not set_keys:
        raise RuleError(f"rule {rule.id}: `when` is empty, it would fit everything")
    if rule.strength == "strong" and set_keys <= {"message", "opening", "says"}:
        raise RuleError(f"rule {rule.id}: text alone is weak evidence")
    for phrase in (*when.message, *when.opening, *when.says):
        if phrase != phrase.lower():
            raise RuleError(f"rule {rule.id}: phrase {phrase!r} must be lower case")
    for word in when.words:
        if word != normal_name(word):
            raise RuleError(f"rule {rule.id}: word {word!r} is not in normal form ({normal_name(word)!r})")


def revision_of(table: RuleTable) -> str:
    """First 16 hex digits of the SHA-256 over the decisions of a table and the engine that applies them."""
    decisive = [
        ENGINE,
        [[r.id, r.outcome_class, r.kind, r.strength, r.when] for r in table.rule],
        [[r.id, r.outcome_class, r.kind, r.take, r.attribute, r.when] for r in table.run_rule],
        [[r.id, r.outcome_class, r.kind] for r in table.default],
    ]
    return hashlib.sha256(msgspec.json.encode(decisive, order="sorted")).hexdigest()[:16]


@cache
def classifier_revision() -> str:
    """Revision of this version's rules, as it stands in `classifier_revision` of steps and runs."""
    return revision_of(rule_table())
