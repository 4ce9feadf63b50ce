"""The redactor: a JSON value in, the same value without what the rules describe out, and what was done to it.

A value is laid out as texts, each text is searched, and only the spans found are replaced: everything else is the same
object, character for character. That is repeated until nothing more is found, so that redacting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from trajlake.transforms.records import Redaction
from trajlake.transforms.redact.actions import resolve_actions
from trajlake.transforms.redact.detector import AN_ID, Detector
from trajlake.transforms.redact.errors import RedactionError, RedactionFailed, SizeLimit
from trajlake.transforms.redact.gates import SPLIT, STREAMED
from trajlake.transforms.redact.jsontext import literal_of, names_twice
from trajlake.transforms.redact.leaves import KEY, STRING, Leaf, lay_out, pathname
from trajlake.transforms.redact.model import Action, Limits, Rule, Span, revision_of
from trajlake.transforms.redact.prefilter import Call
from trajlake.transforms.redact.pseudonyms import LEAST_KEY_BYTES, Pseudonyms
from trajlake.transforms.redact.rawtext import NeedsWalk, Place, paths_of, places_of
from trajlake.transforms.redact.rebuild import rebuild
from trajlake.transforms.redact.rules import DEFAULT_RULES
from trajlake.transforms.redact.search import Search
from trajlake.transforms.redact.standins import NOBODY, StandIns

ROUNDS: Final = 6
"""Replacing may bring to light what was hidden; after this many rounds the value is given up and quarantined."""

T = TypeVar("T")
Counts = dict[tuple[str, str], int]
"""Findings by path and rule id."""
_PATHS_KEPT: Final = 4096
_LARGE: Final = 256 << 10
"""Bytes of JSON above which strings are not changed where they stand."""


class Redacted(NamedTuple):
    """A redacted value, what was done to it, and the revision of the rules that did it."""

    value: Any
    redactions: list[Redaction]
    revision: str


class Redactor:
    """Redacts by a rule table. Make one per thread and keep it: compiling the table takes a second.

    `key`: a master key of at least 16 bytes, or a mapping from tenant to key; without it, what would become a pseudonym
    becomes a marker. `actions`: by rule id or by kind, what happens to findings, in place of the table's `action`.
    Raises InvalidRules for a table or actions that do not hold together, and MissingKey where pseudonyms are asked for
    without a key. Keys are never made up.
    """

    LEAST_KEY_BYTES: Final = LEAST_KEY_BYTES

    def __init__(
        self,
        rules: Sequence[Rule] = DEFAULT_RULES,
        *,
        key: bytes | Mapping[str, bytes] | None = None,
        limits: Limits = Limits(),
        actions: Mapping[str, Action] | None = None,
    ) -> None:
        rules = tuple(rules)
        pseudonyms = Pseudonyms(key) if key is not None else None
        chosen = resolve_actions(rules, actions or {}, keyed=key is not None)
        self._ids = [rule.id for rule in rules]
        self._clean_paths: set[str] = set()
        self._limits = limits
        self._detector = Detector(rules, chosen, limits)
        self._prefilter = self._detector.prefilter
        self._search = Search(rules, self._detector, limits)
        self._stand_ins = StandIns(rules, chosen, pseudonyms)
        # A key calls these because of its value; whatever else it calls may stand in itself.
        self._names = frozenset(i for i, rule in enumerate(rules) if rule.finder == "assigned")
        # What needs more than one string to be judged: lists of pieces, private keys, manifests and web keys.
        self._alone = frozenset(
            [
                self._prefilter.gate(SPLIT),
                self._prefilter.gate(STREAMED),
                *(
                    i
                    for i, rule in enumerate(rules)
                    if rule.finder in ("private_keys", "kubernetes_secrets") or rule.id == "json-web-key"
                ),
            ]
        )
        key_id = pseudonyms.id if pseudonyms is not None else None
        self.revision: Final = revision_of(rules, chosen, astuple(limits), key_id)

    def scan(self, texts: Sequence[bytes]) -> list[int]:
        """Places, ascending, of the JSON texts that may hold a finding; the others hold none. For `redact_json`."""
        return self._prefilter.scan(texts)

    def redact(self, value: Any, tenant: str | None = None) -> Redacted:
        """Redact a JSON value: dict, list, str, int, float, bool or None, nested. The argument is not changed.

        Raises a RedactionError where the value could not be proved clean; its text holds no part of the value.
        """
        return self._guarded(self._redact, value, tenant)

    def redact_text(self, text: str, tenant: str | None = None) -> str:
        """Redact one text."""
        return str(self.redact(text, tenant).value)

    def redact_id(self, text: str, tenant: str | None = NOBODY) -> str:
        """Redact a name or an id: secrets and addresses. An id of digits may look like any number, so no rule for
        numbers looks at it."""
        return self._guarded(self._redact_id, text, tenant)

    def redact_deltas(self, deltas: Sequence[str], tenant: str | None = None) -> Redacted:
        """Redact the pieces of one streamed text together: what runs over their borders is removed from each.

        Returns as many pieces; joined they are the redacted text.
        """
        return self._guarded(self._redact, list(deltas), tenant, streamed=True)

    def redact_in_place(self, raw: bytes, tenant: str | None = None) -> tuple[bytes, list[Redaction]] | None:
        """As `redact_json`, changed only inside strings; None where that is not enough. Much faster."""
        return self._guarded(self._redact_in_place, raw, tenant)

    def redact_json(
        self, raw: bytes, tenant: str | None = None, *, unique: bool = False
    ) -> tuple[bytes, list[Redaction]]:
        """Redact one JSON text. Returns it as it was where nothing was found; else the same text, either changed only
        inside its strings or written anew in compact form. `unique`: it is known that no object names a key twice.

        Raises RedactionFailed where `raw` is no JSON, and as `redact` does.
        """
        return self._guarded(self._redact_json, raw, tenant, unique)

    def _guarded(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        try:
            return function(*arguments, **options)
        except RedactionError:
            raise
        except Exception as error:
            # Any other exception may quote the payload: only its type gets out.
            raise RedactionFailed(type(error).__name__) from None

    def _begin(self, size: int) -> None:
        """Bound what follows by the size of the value, in characters or bytes."""
        if size > self._limits.max_chars:
            raise SizeLimit("max_chars", self._limits.max_chars)
        self._detector.allow(size)

    # Raw JSON

    def _redact_json(self, raw: bytes, tenant: str | None, unique: bool) -> tuple[bytes, list[Redaction]]:
        in_place = self._redact_in_place(raw, tenant)
        if in_place is not None:
            return in_place
        if not unique and names_twice(raw):
            return self._redact_doubled(raw.decode(), tenant)
        redacted = self._redact(msgspec.json.decode(raw), tenant)
        if not redacted.redactions:
            return raw, []
        return msgspec.json.encode(redacted.value), redacted.redactions

    def _redact_doubled(self, text: str, tenant: str | None) -> tuple[bytes, list[Redaction]]:
        """A JSON text in which an object names a key twice, so that no value holds all of it: changed as it stands."""
        self._begin(len(text))
        counts: Counts = {}
        for _ in range(ROUNDS):
            spans = self._search.in_json(text, 0)
            if not spans:
                done: Counts = {}
                _add(done, "", counts)
                return text.encode(), self._listed(done, tenant)
            for span in spans:
                self._count(counts, span)
            text = self._stand_ins.replace(text, spans, tenant)
        raise RedactionFailed("NoFixedPoint")

    def _redact_in_place(self, raw: bytes, tenant: str | None) -> tuple[bytes, list[Redaction]] | None:
        if len(raw) > _LARGE:
            # Encoded media call at every byte: each call is an object, and there would be millions.
            return None
        calls = self._prefilter.calls_at(raw)
        if not calls:
            return raw, []
        if not all(self._alone.isdisjoint(called) for _, called in calls):
            return None
        self._begin(len(raw))
        value = msgspec.json.decode(raw)
        try:
            return self._redact_strings(raw, value, calls, tenant)
        except NeedsWalk:
            return None

    def _redact_strings(
        self, raw: bytes, value: Any, calls: list[Call], tenant: str | None
    ) -> tuple[bytes, list[Redaction]]:
        """The strings of a JSON text changed where they stand. Raises NeedsWalk where that is not enough."""
        parts: list[bytes] = []
        texts: list[str] = []
        counts: list[Counts] = []
        last = 0
        for place in places_of(raw, calls, self._names):
            text = place.text(raw)
            settled = self._settle_string(raw, place, text, tenant)
            if settled is not None:
                parts += (raw[last : place.start], settled[0])
                last = place.end
                texts.append(text)
                counts.append(settled[1])
        if not texts:
            return raw, []
        paths = paths_of(value, texts)
        if paths is None:
            raise NeedsWalk
        changed = b"".join((*parts, raw[last:]))
        done: Counts = {}
        for where, found in zip(paths, counts, strict=True):
            _add(done, where, found)
        return changed, self._listed(done, tenant)

    def _settle_string(self, raw: bytes, place: Place, text: str, tenant: str | None) -> tuple[bytes, Counts] | None:
        """The raw content of one string with spans replaced until nothing more is found; None where nothing is."""
        find, in_json = self._detector.find, self._search.in_json
        spans = find(text, place.name, place.strength, 0, in_json, place.called)
        if not spans:
            return None
        counts: Counts = {}
        content = raw[place.start : place.end]
        if b"\\" not in content and all(span.quotes < 0 for span in spans):
            return self._settle_plain(text, place, spans, counts, tenant).encode(), counts
        return self._settle_escaped(content.decode(), text, place, spans, counts, tenant).encode(), counts

    def _settle_plain(self, text: str, place: Place, spans: list[Span], counts: Counts, tenant: str | None) -> str:
        """The content of a string that holds no escape: markers need none either."""
        for _ in range(ROUNDS):
            if self._search.holds_key(spans) or any(span.quotes >= 0 for span in spans):
                raise NeedsWalk
            for span in spans:
                self._count(counts, span)
            text = self._stand_ins.replace(text, spans, tenant)
            spans = self._detector.find(text, place.name, place.strength, 0, self._search.in_json)
            if not spans:
                return text
        raise RedactionFailed("NoFixedPoint")

    def _settle_escaped(
        self, content: str, text: str, place: Place, spans: list[Span], counts: Counts, tenant: str | None
    ) -> str:
        """The content of a string with escapes, changed where the spans of its text stand in it."""
        for _ in range(ROUNDS):
            if self._search.holds_key(spans):
                raise NeedsWalk
            literal = literal_of(content)
            outer = []
            for span in spans:
                self._count(counts, span)
                low, high = literal.outer(span.start, span.end)
                value = span.value or text[span.start : span.end]
                outer.append(span.deeper()._replace(start=low, end=high, value=value))
            content = self._stand_ins.replace(content, outer, tenant)
            text = self._stand_ins.replace(text, spans, tenant)
            spans = self._detector.find(text, place.name, place.strength, 0, self._search.in_json)
            if not spans:
                return content
        raise RedactionFailed("NoFixedPoint")

    # Values

    def _redact(self, value: Any, tenant: str | None, *, streamed: bool = False) -> Redacted:
        done: Counts = {}
        for _ in range(ROUNDS):
            layout = lay_out(value, self._limits.max_depth)
            if not done:
                self._begin(sum(len(leaf.text) for leaf in layout.leaves))
            edits = self._search.in_layout(layout, streamed=streamed)
            if not edits:
                break
            texts: dict[int, str] = {}
            for index, spans in edits.items():
                leaf = layout.leaves[index]
                texts[index], counts = self._settle_leaf(leaf, spans, tenant)
                # A key that is redacted does not name its own place.
                place = pathname(leaf.path[0] if leaf.kind == KEY else leaf.path)
                _add(done, place, counts)
            value = rebuild(value, layout.leaves, texts)
            if not layout.groups and not self._search.opens_key(edits):
                break
        else:
            raise RedactionFailed("NoFixedPoint")
        return Redacted(value, self._listed(done, tenant), self.revision)

    def _settle_leaf(self, leaf: Leaf, spans: list[Span], tenant: str | None) -> tuple[str, Counts]:
        """Replace spans in one text until nothing more is found in it; the text and what was done."""
        counts: Counts = {}
        text = leaf.text
        for _ in range(ROUNDS):
            for span in spans:
                self._count(counts, span)
            text = self._stand_ins.replace(text, spans, tenant)
            spans = self._search.in_leaf(leaf._replace(text=text, kind=STRING))
            if not spans:
                return text, counts
        raise RedactionFailed("NoFixedPoint")

    def _count(self, counts: Counts, span: Span) -> None:
        if not span.quiet:
            found = (span.path, self._ids[span.rule])
            counts[found] = counts.get(found, 0) + 1

    def _listed(self, done: Counts, tenant: str | None) -> list[Redaction]:
        """What was done, in order. Keys of the value stand in paths, so paths are looked at themselves."""
        safe: Counts = {}
        for (path, rule), count in done.items():
            if path not in self._clean_paths:
                path = self._clean_path(path, tenant)
            safe[path, rule] = safe.get((path, rule), 0) + count
        return [Redaction(path, rule, count) for (path, rule), count in sorted(safe.items())]

    def _redact_id(self, text: str, tenant: str | None) -> str:
        self._begin(len(text))
        for _ in range(ROUNDS):
            spans = self._detector.find(text, AN_ID)
            if not spans:
                return text
            text = self._stand_ins.replace(text, spans, tenant)
        raise RedactionFailed("NoFixedPoint")

    def _clean_path(self, path: str, tenant: str | None) -> str:
        for _ in range(ROUNDS):
            spans = self._detector.find(path)
            if not spans:
                if len(self._clean_paths) >= _PATHS_KEPT:
                    self._clean_paths.clear()
                self._clean_paths.add(path)
                return path
            path = self._stand_ins.replace(path, spans, tenant)
        raise RedactionFailed("NoFixedPoint")


def _add(done: Counts, place: str, counts: Counts) -> None:
    for (path, rule), count in counts.items():
        found = (place + path, rule)
        done[found] = done.get(found, 0) + count
