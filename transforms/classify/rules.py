"""Finds the rule that fits a piece of failure evidence: an index over the rule table, and views of evidence to ask it.

Every rule hangs under its most telling key (name, then status, finish reason, exit), so that a look-up tries a handful
of rules out of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from trajlake.expectations.failure_rules import TEXT_PREFIX, Default, Rule, normal_name, rule_table
from trajlake.transforms.classify.errortext import read_error

MESSAGE_CHARS: Final = 300
"""Characters of an error message in which phrases are looked for: what is behind may be the request, echoed."""

NOTICE_CHARS: Final = 1000
"""Longest answer that can be a client's notice of an error, where nobody counted tokens."""

_normal = lru_cache(maxsize=4096)(normal_name)

_SIGNALS: Final = {
    "1": "SIGHUP", "2": "SIGINT", "3": "SIGQUIT", "6": "SIGABRT", "7": "SIGBUS", "9": "SIGKILL", "11": "SIGSEGV",
    "15": "SIGTERM",
}  # fmt: skip
_LEAD_INS: Final = ("api error: ", "error: ", "exception: ")
_TEXT_ORDER: Final = 1_000
_WEAK_ORDER: Final = 2_000


class View(Struct, gc=False):
    """Evidence as rules compare it: normal names, lower-case message, flags that count only beside an error."""

    by: str
    names: tuple[str, ...]
    status: int | None
    message: str
    finish: str | None
    exits: tuple[int | str, ...]
    denied: bool
    is_error: bool
    tool_known: bool | None
    arguments_valid: bool | None
    exit_nonzero: bool
    refused: bool
    """The request was refused: HTTP 4xx, or no status but a name for the error."""
    failing: bool


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
    statuses: frozenset[int]
    finish: frozenset[str]
    exits: frozenset[int | str]
    flags: tuple[tuple[str, bool], ...]
    message: tuple[str, ...]
    opening: tuple[str, ...]


_FLAGS: Final = ("refused", "denied", "is_error", "tool_known", "arguments_valid", "exit_nonzero")


class _Index(Struct):
    """Rules of one speaker and strength by their most telling key."""

    keyed: dict[int | str, tuple[_Compiled, ...]]
    flags: tuple[_Compiled, ...]
    phrases: tuple[_Compiled, ...]
    """Rules that hang on phrases of the message; never tried where there is none."""
    opened: tuple[_Compiled, ...]
    openings: tuple[str, ...]
    """Every phrase with which a text may begin; one comparison says that none fits."""


def failure_view(
    by: str,
    names: Iterable[str | None],
    status: int | None,
    message: str | None,
    exit_code: int | None = None,
    exit_signal: str | None = None,
    finish: str | None = None,
    denied: bool = False,
    is_error: bool = False,
    tool_known: bool | None = None,
    arguments_valid: bool | None = None,
) -> View:
    """See evidence as rules compare it. A status below 400 and an exit code of 0 are no failure."""
    given = tuple(normal for name in names if name and (normal := _normal(name)))
    if status is not None and not 400 <= status <= 599:
        status = None
    exits: tuple[int | str, ...] = ()
    if exit_code:
        exits = (_signal(str(-exit_code)),) if exit_code < 0 else (exit_code,)
    if exit_signal:
        exits = (*exits, _signal(exit_signal))
    is_error = is_error or bool(given)
    error = is_error or status is not None
    finish_name = _normal(finish) if finish else None
    return View(
        by, given, status, message[:MESSAGE_CHARS].lower() if message else "", finish_name, exits, denied, is_error,
        tool_known if error else None,
        arguments_valid if error else None,
        bool(exits),
        bool(given) if status is None else status < 500,
        error or denied or bool(exits) or bool(message) or finish_name in FINISH_NAMES,
    )  # fmt: skip


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
            as_error.names = told.names
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
    for rules in (index.flags, index.phrases) if view.message else (index.flags,):
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


def _beginnings(text: str) -> tuple[str, ...]:
    head = text[:200].lstrip().lower()
    for lead_in in _LEAD_INS:
        if head.startswith(lead_in):
            return head, head[len(lead_in) :].lstrip()
    return (head,)


def _fits(rule: _Compiled, view: View) -> bool:
    """Whether every key of a rule holds. Opening phrases are the caller's to compare."""
    if rule.names and rule.names.isdisjoint(view.names):
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


def _signal(name: str) -> str:
    upper = name.strip().upper()
    return _SIGNALS.get(upper, upper if upper.startswith("SIG") else f"SIG{upper}")


def _compile(rule: Rule, rank: int) -> _Compiled:
    when = rule.when
    statuses = set(when.statuses)
    if when.status_from is not None or when.status_to is not None:
        statuses |= set(range(when.status_from or 400, (when.status_to or 599) + 1))
    return _Compiled(
        rule,
        rank,
        frozenset(normal_name(name) for name in when.names),
        frozenset(statuses),
        frozenset(normal_name(name) for name in when.finish),
        frozenset((*when.exit_codes, *when.exit_signals)),
        tuple((name, wanted) for name in _FLAGS if (wanted := getattr(when, name)) is not None),
        when.message,
        when.opening,
    )


def _index(rules: Iterable[_Compiled]) -> _Index:
    keyed: dict[int | str, list[_Compiled]] = {}
    flags: list[_Compiled] = []
    phrases: list[_Compiled] = []
    opened: list[_Compiled] = []
    for rule in rules:
        keys: frozenset[int | str] = rule.names or rule.statuses or rule.finish or rule.exits
        if rule.opening:
            opened.append(rule)
        elif not keys:
            (phrases if rule.message else flags).append(rule)
        else:
            for key in keys:
                keyed.setdefault(key, []).append(rule)
    openings = tuple(phrase for rule in opened for phrase in rule.opening)
    by_key = {key: tuple(found) for key, found in keyed.items()}
    return _Index(by_key, tuple(flags), tuple(phrases), tuple(opened), openings)


def _by_speaker(strength: str, first_rank: int) -> dict[str, _Index]:
    compiled = [
        _compile(rule, first_rank + place) for place, rule in enumerate(rule_table().rule) if rule.strength == strength
    ]
    return {by: _index(rule for rule in compiled if by in rule.rule.when.by) for by in ("model", "tool", "run")}


FINISH_NAMES: Final = frozenset(normal_name(name) for rule in rule_table().rule for name in rule.when.finish)
"""Finish reasons, in normal form, that are failure evidence."""
BY_ID: Final[dict[str, Rule]] = {rule.id: rule for rule in rule_table().rule}
DEFAULTS: Final[dict[str, Default]] = {default.id: default for default in rule_table().default}
_STRONG: Final = _by_speaker("strong", 0)
_WEAK: Final = _by_speaker("weak", _WEAK_ORDER)
