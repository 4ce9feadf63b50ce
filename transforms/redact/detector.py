"""Finds what the rules describe in one text: plain, disguised, escaped, encoded, and in JSON inside the text.

The detector knows nothing of values around the text but the name of its field. It returns spans of the text as it
stands; replacing them is the redactor's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import ahocorasick

from trajlake.transforms.redact import assignments, credentials, pem, people
from trajlake.transforms.redact.assigned_values import credentials_in
from trajlake.transforms.redact.checks import check_named
from trajlake.transforms.redact.digits import NumberForms, Window, windows_of
from trajlake.transforms.redact.errors import DepthLimit, InvalidRules, WorkLimit
from trajlake.transforms.redact.gates import DISGUISED, ENCODED
from trajlake.transforms.redact.markers import is_marker, is_pseudonym, masked
from trajlake.transforms.redact.media import blank_media
from trajlake.transforms.redact.model import Action, Form, Kind, Limits, Need, Rule, Severity, Span
from trajlake.transforms.redact.names import Strength, words_of
from trajlake.transforms.redact.prefilter import Prefilter
from trajlake.transforms.redact.rules.shapes import NUMBER, TOKEN_LEFT
from trajlake.transforms.redact.values import is_secret
from trajlake.transforms.redact.views import decode_once, encoded_runs, fold

Ranges = Iterator[tuple[int, int]]

FINDERS: Final[Mapping[str, Callable[[str], Ranges]]] = {
    "private_keys": pem.find_private_keys,
    "url_passwords": credentials.find_url_passwords,
    "command_passwords": credentials.find_command_passwords,
    "bearers": assignments.find_bearers,
    "cookies": credentials.find_cookies,
    "kubernetes_secrets": credentials.find_kubernetes_secrets,
    "echoed": credentials.find_echoed,
    "assigned": assignments.find_assigned,
    "emails": people.find_emails,
    "phones": people.find_phones,
    "ibans": people.find_ibans,
    "git_names": people.find_git_names,
    "home_names": people.find_home_names,
}
"""Functions that rules name as `finder`; each yields the ranges of a text that it finds."""

_RANK: Final = {Severity.CRITICAL: 0, Severity.HIGH: 1, Severity.MEDIUM: 2, Severity.LOW: 3}
_SMALL: Final = 4096
"""Characters that even the smallest value may take for one."""
_LONG: Final = 512
"""Characters of a text that is too long to be one number: in it, words are looked for before numbers are."""
_NO_ROWS: Final[frozenset[int]] = frozenset()
_BEFORE: Final = 48
_AFTER: Final = 36
_NEVER_WITHIN: Final = 24
_BESIDE: Final = re.compile(r"\d\w{0,3}[ ]\Z")
_AFTERWARDS: Final = re.compile(r"[ ]\d")
_PLAIN_NAMES: Final = frozenset(
    """text content message msg value input output query q body args arguments result data answer prompt response note
    notes comment description detail details line row cell item entry raw string str s v t payload error reason log
    stdout stderr observation thought reasoning reasoning_content summary title subject utterance transcript caption
    label 0""".split()
)
"""Field names that say nothing about a number in them, so that a number alone may be looked at for itself."""


AN_ID: Final = "runid"
IDS: Final = frozenset(
    """runid tenantid parentrunid traceparent tracestate tool_call_id source_call_id step_id message_id session_id
    task_id group_id attempt_id subject_id annotator_id policy_id rule_id trajectory_id""".split()
)
"""Fields whose value joins rows, so that two of them must not become one marker. An id of digits may look like any
number of a person, so the rules for numbers do not look at them."""


class _Form:
    """A form, ready to run."""

    __slots__ = ("checks", "edge", "group", "need", "number", "pattern")

    def __init__(self, form: Form) -> None:
        self.number = -1
        # `re` jumps from literal to literal only where a pattern begins with one, so the edge is looked at afterwards.
        self.edge = form.pattern.startswith(TOKEN_LEFT)
        self.pattern = re.compile(form.pattern.removeprefix(TOKEN_LEFT), re.IGNORECASE if form.nocase else 0)
        self.checks = tuple(check_named(name) for name in form.checks)
        self.group = form.group
        self.need = form.need


class _Row:
    """A rule, ready to run."""

    __slots__ = ("context", "finder", "forms", "id", "never", "order", "phone", "rank")

    def __init__(self, rule: Rule, index: int) -> None:
        self.id = rule.id
        self.forms = tuple(_Form(form) for form in rule.forms)
        self.finder = FINDERS[rule.finder] if rule.finder else None
        self.phone = rule.finder == "phones"
        self.context = words_pattern(rule.context)
        self.never = words_pattern(rule.never)
        self.rank = _RANK[rule.severity]
        # Where findings overlap: the worse one, then the one that knows its issuer, then any other secret, then people.
        self.order = (
            self.rank,
            2 if rule.kind in (Kind.PEOPLE, Kind.NATIONAL) else int(rule.finder == "assigned"),
            index,
        )


def _is_alnum(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _quoted(text: str) -> bytes:
    """A text as the prefilter sees it in an event."""
    return b'"' + text.encode("utf-8", "surrogatepass") + b'"'


@lru_cache(maxsize=512)
def words_pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern for any of these words in lower-case text; ASCII words stand alone, others may be part of a word."""
    if not words:
        return None
    parts = [rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])" if word.isascii() else re.escape(word) for word in words]
    return re.compile("|".join(parts))


def _context_words(rules: Sequence[Rule]) -> tuple[ahocorasick.Automaton, frozenset[int]]:
    """All context words at once, each with the rows it speaks for; and those rows."""
    rows: dict[str, set[int]] = {}
    for index, rule in enumerate(rules):
        for word in rule.context:
            rows.setdefault(word, set()).add(index)
    words = ahocorasick.Automaton()
    for word, speaks_for in rows.items():
        words.add_word(word, speaks_for)
    if rows:
        words.make_automaton()
    return words, frozenset().union(*rows.values())


class Detector:
    """Searches texts with a rule table. Not for use by two threads at once (see `Prefilter`)."""

    def __init__(self, rules: Sequence[Rule], actions: Sequence[Action], limits: Limits) -> None:
        try:
            self._rows = [_Row(rule, index) for index, rule in enumerate(rules)]
        except (KeyError, re.error) as error:
            raise InvalidRules(f"the rule table names no known check or finder, or a broken pattern: {error}") from None
        self._ids = frozenset(rule.id for rule in rules)
        self._off = frozenset(i for i, action in enumerate(actions) if action is Action.KEEP)
        self._limits = limits
        self._left = 0
        self._numbers_left = 0
        self.prefilter = Prefilter(rules, actions)
        self._encoded = self.prefilter.gate(ENCODED)
        self._disguised = self.prefilter.gate(DISGUISED)
        self._number = self.prefilter.gate("#number")
        self._numbers = self._number_forms(rules)
        self._for_numbers = frozenset(
            i for i, rule in enumerate(rules) if rule.kind in (Kind.NATIONAL, Kind.PEOPLE) and rule.id != "email"
        )
        self._row_of_form = [index for index, row in enumerate(self._rows) for form in row.forms if form.number >= 0]
        self._numbers_only = frozenset(
            i for i, row in enumerate(self._rows) if row.finder is None and all(f.number >= 0 for f in row.forms)
        )
        self._context_words, self._with_context = _context_words(rules)
        self._assigned = next(
            (i for i, rule in enumerate(rules) if rule.finder == "assigned" and i not in self._off), None
        )

    def _number_forms(self, rules: Sequence[Rule]) -> NumberForms:
        """Number the forms of numbers, and compile them to be asked for at once."""
        forms: list[tuple[str, bool]] = []
        for row, rule in zip(self._rows, rules, strict=True):
            for ready, form in zip(row.forms, rule.forms, strict=True):
                if form.triggers == NUMBER:
                    ready.number = len(forms)
                    forms.append((form.pattern, form.nocase))
        return NumberForms(forms)

    def allow(self, size: int) -> None:
        """Bound the search of the value that comes next, which has so many characters: `Limits.max_work` for each."""
        self._left = (size + _SMALL) * self._limits.max_work
        self._numbers_left = self._limits.max_numbers

    def find(
        self,
        text: str,
        name: str = "",
        strength: Strength = Strength.NONE,
        depth: int = 0,
        open_json: Callable[[str, int], list[Span] | None] | None = None,
        called: frozenset[int] | None = None,
    ) -> list[Span]:
        """Spans to redact in a text, in order and apart from each other.

        `name` is the field's name and `strength` what it says (`names.strength_of`). `open_json` looks for findings in
        a text that is JSON and returns None where it is none. `called` are the rules to run, where the caller knows
        them. Raises DepthLimit where encodings nest too deep.
        """
        self._left -= len(text)
        if self._left < 0:
            raise WorkLimit("max_work", self._limits.max_work)
        spans: list[Span] = []
        plain = masked(blank_media(text), self._ids)
        if strength and self._assigned is not None and is_secret(plain, strength, quoted=True):
            spans.extend(self._whole(plain))
        if called is None or self._encoded in called:
            # Behind encodings more may show than what called.
            called = (called or frozenset()) | self.prefilter.rules_in(_quoted(plain))
        if called:
            inside = open_json(text, depth + 1) if open_json is not None else None
            spans.extend(self._find_called(plain, called, name, depth, open_json) if inside is None else inside)
            if name in IDS:
                spans = [span for span in spans if span.rule not in self._for_numbers]
        return self.settle(text, spans) if spans else spans

    def _whole(self, text: str) -> list[Span]:
        stripped = text.strip()
        low = text.index(stripped)
        assert self._assigned is not None
        if found := credentials_in(stripped):
            return [Span(low + found[0], low + found[1], self._assigned, stripped[found[0] :])]
        return [Span(low, low + len(stripped), self._assigned, stripped)]

    def _find_called(
        self,
        text: str,
        called: frozenset[int],
        name: str,
        depth: int,
        open_json: Callable[[str, int], list[Span] | None] | None,
    ) -> list[Span]:
        spans: list[Span] = []
        folded = fold(text) if self._disguised in called else None
        plain = folded.text if folded else text
        if folded:
            called = called | self.prefilter.rules_in(_quoted(plain))
        windows = list(windows_of(plain)) if self._number in called else []
        self._numbers_left -= len(windows)
        if self._numbers_left < 0:
            raise WorkLimit("max_numbers", self._limits.max_numbers)
        seen = self._numbers.seen(plain, windows)
        silent = self._silent(plain, name) if windows else _NO_ROWS
        shown = {self._row_of_form[number] for number in seen}
        for index in sorted(called):
            if index >= 0 and (index in shown or index not in self._numbers_only):
                told = index not in silent
                for low, high in self._run(self._rows[index], plain, name, windows, seen, told=told):
                    if high > low:
                        spans.append(
                            Span(*(folded.outer(low, high) if folded else (low, high)), index, plain[low:high])
                        )
        decoded = decode_once(plain)
        if decoded:
            if depth >= self._limits.max_decode:
                raise DepthLimit("max_decode", self._limits.max_decode)
            # Behind escapes nothing shows that did not show through them, unless it is encoded otherwise.
            known = called if self._encoded not in called and not folded else None
            for span in self.find(decoded.text, name, Strength.NONE, depth + 1, open_json, known):
                low, high = decoded.outer(span.start, span.end)
                low, high = folded.outer(low, high) if folded else (low, high)
                spans.append(Span(low, high, span.rule, span.value, quotes=span.deeper().quotes))
        if self._encoded in called:
            for run in encoded_runs(plain):
                if depth >= self._limits.max_decode:
                    raise DepthLimit("max_decode", self._limits.max_decode)
                inside = self.find(run.text, "", Strength.NONE, depth + 1, open_json)
                if inside:
                    worst = min(inside, key=lambda span: self._rows[span.rule].order)
                    place = folded.outer(run.start, run.end) if folded else (run.start, run.end)
                    spans.append(Span(*place, worst.rule, worst.value))
        return spans

    def _silent(self, text: str, name: str) -> frozenset[int]:
        """The rows none of whose context words stands anywhere in a text, or in the name of its field."""
        told: set[int] = set()
        if not self._with_context:
            return _NO_ROWS
        for _, rows in self._context_words.iter(f"{name} {' '.join(words_of(name))} {text}".lower()):
            told |= rows
        return self._with_context - told

    def _run(
        self, row: _Row, text: str, name: str, windows: list[Window], seen: dict[int, list[Window]], *, told: bool
    ) -> Ranges:
        """Findings of a row. `told`: one of its context words may stand near; else forms that need one are left out,
        and so are numbers that must be the whole text, where the text is long."""
        needless = (Need.CONTEXT,) if len(text) <= _LONG else (Need.CONTEXT, Need.WHOLE)
        if row.finder is not None:
            if row.phone:
                yield from people.find_phones(text, name, windows)
            else:
                yield from row.finder(text)
        for form in row.forms:
            if not told and form.need in needless:
                continue
            if form.number < 0:
                yield from self._matches(row, form, text, name, 0, len(text))
            else:
                for window in seen.get(form.number, ()):
                    yield from self._matches(row, form, text, name, window.start, window.end)

    def _matches(self, row: _Row, form: _Form, text: str, name: str, start: int, end: int) -> Ranges:
        for found in form.pattern.finditer(text, start, end):
            low, high = found.span(form.group)
            if form.edge and found.start() and _is_alnum(text[found.start() - 1]):
                continue
            value = text[low:high]
            if all(check(value) for check in form.checks) and self._fits(row, form, text, low, high, name):
                yield low, high

    def _fits(self, row: _Row, form: _Form, text: str, low: int, high: int, name: str) -> bool:
        """Whether words around a match, or the name of the field, let it stand."""
        if (
            row.never is not None
            and " " in text[low:high]
            and (_BESIDE.search(text[max(0, low - 6) : low]) or _AFTERWARDS.match(text, high))
        ):
            return False  # a part of a longer number in groups
        if form.need is Need.NOTHING and row.never is None:
            return True
        before = text[max(0, low - _BEFORE) : low].lower()
        field = " ".join(words_of(name)) + " " + name.lower() if name else ""
        if row.context is not None and (
            row.context.search(before)
            or row.context.search(text[high : high + _AFTER].lower())
            or (field and row.context.search(field))
        ):
            return True
        if form.need is Need.CONTEXT:
            return False
        if (
            row.never is not None
            and row.rank > 0
            and (row.never.search(before[-_NEVER_WITHIN:]) or (field and row.never.search(field)))
        ):
            return False
        if form.need is Need.NOTHING:
            return True
        if field and row.never is not None and row.never.search(field):
            return False
        return text.strip() == text[low:high] and (not name or name.lower() in _PLAIN_NAMES)

    def settle(self, text: str, spans: list[Span]) -> list[Span]:
        """Order the spans, unite those that overlap under the worst rule, and leave markers alone."""
        spans.sort(key=lambda span: (span.start, -span.end))
        united: list[Span] = []
        for span in spans:
            if united and span.start < united[-1].end:
                last = united[-1]
                worse = last if self._rows[last.rule].order <= self._rows[span.rule].order else span
                if span.end > last.end or worse is not last:
                    end = max(last.end, span.end)
                    whole = (worse.start, worse.end) == (last.start, end)
                    value, quotes = (worse.value, worse.quotes) if whole else ("", -1)
                    quiet = last.quiet and span.quiet
                    united[-1] = Span(last.start, end, worse.rule, value, worse.path, quiet, quotes)
            else:
                united.append(span)
        return [span for span in united if not self._is_ours(text[span.start : span.end])]

    def _is_ours(self, part: str) -> bool:
        return part[:1] in "[*<({Rr" and (is_marker(part, self._ids) or is_pseudonym(part, self._ids))
