"""Finds the rule that fits a piece of failure evidence: an index over the rule table, and views of evidence to ask it.

Every rule hangs under its most telling key (name, then status, finish reason, exit), so that a look-up tries a handful
of rules out of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from trajlake.expectations.failure_rules import TEXT_PREFIX, Default, Rule, normal_name, rule_table
from trajlake.transforms.classify.errortext import read_error
from trajlake.transforms.classify.view import View, failure_view, name_has

SAYING_CHARS: Final = 200
"""Longest text in which phrases are looked for anywhere (`says`): a longer one is about more than an error."""

NOTICE_CHARS: Final = 1000
"""Longest answer that can be a client's notice of an error, where nobody counted tokens."""

_LEAD_INS: Final = ("api error: ", "error: ", "exception: ")
_TEXT_ORDER: Final = 1_000
_WEAK_ORDER: Final = 2_000


class Match(NamedTuple):
    """A rule that fits. `rank` orders matches: strong before text before weak, then by the order of the table."""

    rule: Rule
    rank: int
    basis: str
    strength: str


class _Compiled(NamedTuple):
    rule: Rule
    rank: int
    names: frozenset[str]
    words: tuple[str, ...]
    statuses: frozenset[int]
    finish: frozenset[str]
    exits: frozenset[int | str]
    flags: tuple[tuple[str, bool], ...]
    message: tuple[str, ...]
    opening: tuple[str, ...]
    says: tuple[tuple[str, ...], ...]


_FLAGS: Final = ("refused", "denied", "is_error", "tool_known", "arguments_valid", "exit_nonzero")


class _Index(Struct):
    """Rules of one speaker and strength by their most telling key."""

    keyed: dict[int | str, tuple[_Compiled, ...]]
    flags: tuple[_Compiled, ...]
    phrases: tuple[_Compiled, ...]
    """Rules that hang on phrases of the message; never tried where there is none."""
    worded: tuple[_Compiled, ...]
    """Rules that hang on parts of names; never tried where there are none."""
    saying: tuple[_Compiled, ...]
    opened: tuple[_Compiled, ...]
    openings: tuple[str, ...]
    """Every phrase with which a text may begin; one comparison says that none fits."""


def judge(view: View) -> Match | None:
    """The first strong rule that fits a view's codes, statuses, exits and flags."""
    found = _first(_STRONG[view.by], view)
    return None if found is None else Match(found.rule, found.rank, found.rule.id, "strong")


def judge_text(view: View, message: str | None, content: str | None, *, strict: bool) -> Match | None:
    """The first weak finding: what the message or the content says as an error, then weak rules.

    `strict` asks of `content` a shape or notice that only clients print, because nobody counted tokens; messages stand
    where errors belong and are read freely. A long answer is an answer, however it begins.
    """
    if strict and content is not None and len(content) > NOTICE_CHARS:
        content = None
    for text, only_shaped in ((message, False), (content, strict)):
        if not text:
            continue
        told = read_error(text, strict=only_shaped)
        if told is not None:
            as_error = failure_view(view.by, (), told.status, text)
            as_error.names, as_error.written = tuple(map(normal_name, told.names)), told.names
            as_error.refused = told.status is None or told.status < 500
            found = _first(_STRONG[view.by], as_error)
            if found is not None:
                return Match(found.rule, _TEXT_ORDER + found.rank, TEXT_PREFIX + found.rule.id, "weak")
    found = _first_weak(_WEAK[view.by], view, message, content, strict=strict)
    return None if found is None else Match(found.rule, found.rank, found.rule.id, "weak")


def _first(index: _Index, view: View) -> _Compiled | None:
    best: _Compiled | None = None
    keyed = index.keyed
    for key in (*view.names, view.status, view.finish, *view.exits):
        if key is None:
            continue
        for rule in keyed.get(key, ()):
            if best is not None and rule.rank > best.rank:
                break
            if _fits(rule, view):
                best = rule
                break
    for rules, about in ((index.flags, True), (index.phrases, view.message), (index.worded, view.names)):
        if not about:
            continue
        for rule in rules:
            if best is not None and rule.rank > best.rank:
                break
            if _fits(rule, view):
                best = rule
                break
    return best


def _first_weak(
    index: _Index, view: View, message: str | None, content: str | None, *, strict: bool
) -> _Compiled | None:
    """Like `_first`, where rules with an opening phrase ask the beginnings of the message and the content."""
    best = _first(index, view)
    for text, only_notices in ((message, False), (content, strict)):
        if text and not only_notices and len(text) <= SAYING_CHARS:
            best = _saying(index, view, text.lower(), best)
        for begin in _beginnings(text) if text else ():
            if not begin.startswith(index.openings):
                continue
            for rule in index.opened:
                if best is not None and best.rank < rule.rank:
                    break
                if (rule.rule.when.notice or not only_notices) and begin.startswith(rule.opening) and _fits(rule, view):
                    best = rule
                    break
    return best


def _saying(index: _Index, view: View, text: str, best: _Compiled | None) -> _Compiled | None:
    for rule in index.saying:
        if best is not None and best.rank < rule.rank:
            break
        if any(_says(text, phrase) for phrase in rule.says) and _fits(rule, view):
            return rule
    return best


def _says(text: str, phrase: tuple[str, ...]) -> bool:
    """Whether the parts of a phrase stand in a text, in this order."""
    place = 0
    for part in phrase:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True


def _beginnings(text: str) -> tuple[str, ...]:
    head = text[:200].lstrip().lower()
    for lead_in in _LEAD_INS:
        if head.startswith(lead_in):
            return head, head[len(lead_in) :].lstrip()
    _, carried, last = head.partition("last error: ")
    return (head, last) if carried else (head,)


def _fits(rule: _Compiled, view: View) -> bool:
    """Whether every key of a rule holds. Opening phrases are the caller's to compare."""
    if rule.names and rule.names.isdisjoint(view.names):
        return False
    if rule.words and not name_has(view, rule.words):
        return False
    if rule.statuses and view.status not in rule.statuses:
        return False
    if rule.finish and view.finish not in rule.finish:
        return False
    if rule.exits and rule.exits.isdisjoint(view.exits):
        return False
    for name, wanted in rule.flags:
        if getattr(view, name) != wanted:
            return False
    if rule.message:
        message = view.message
        for phrase in rule.message:  # noqa: SIM110  a generator would cost more than the comparisons
            if phrase in message:
                return True
        return False
    return True


def _compile(rule: Rule, rank: int) -> _Compiled:
    when = rule.when
    statuses = set(when.statuses)
    if when.status_from is not None or when.status_to is not None:
        statuses |= set(range(when.status_from or 400, (when.status_to or 599) + 1))
    return _Compiled(
        rule,
        rank,
        frozenset(normal_name(name) for name in when.names),
        when.words,
        frozenset(statuses),
        frozenset(normal_name(name) for name in when.finish),
        frozenset((*when.exit_codes, *when.exit_signals)),
        tuple((name, wanted) for name in _FLAGS if (wanted := getattr(when, name)) is not None),
        when.message,
        when.opening,
        tuple(tuple(phrase.split(" … ")) for phrase in when.says),
    )


def _index(rules: Iterable[_Compiled]) -> _Index:
    keyed: dict[int | str, list[_Compiled]] = {}
    flags: list[_Compiled] = []
    phrases: list[_Compiled] = []
    worded: list[_Compiled] = []
    saying: list[_Compiled] = []
    opened: list[_Compiled] = []
    for rule in rules:
        keys: frozenset[int | str] = rule.names or rule.statuses or rule.finish or rule.exits
        if rule.opening:
            opened.append(rule)
        elif rule.says:
            saying.append(rule)
        elif rule.words:
            worded.append(rule)
        elif not keys:
            (phrases if rule.message else flags).append(rule)
        else:
            for key in keys:
                keyed.setdefault(key, []).append(rule)
    openings = tuple(phrase for rule in opened for phrase in rule.opening)
    by_key = {key: tuple(found) for key, found in keyed.items()}
    return _Index(by_key, tuple(flags), tuple(phrases), tuple(worded), tuple(saying), tuple(opened), openings)


def _by_speaker(strength: str, first_rank: int) -> dict[str, _Index]:
    compiled = [
        _compile(rule, first_rank + place) for place, rule in enumerate(rule_table().rule) if rule.strength == strength
    ]
    return {by: _index(rule for rule in compiled if by in rule.rule.when.by) for by in ("model", "tool", "run")}


BY_ID: Final[dict[str, Rule]] = {rule.id: rule for rule in rule_table().rule}
DEFAULTS: Final[dict[str, Default]] = {default.id: default for default in rule_table().default}
_STRONG: Final = _by_speaker("strong", 0)
_WEAK: Final = _by_speaker("weak", _WEAK_ORDER)
