"""Searches a value that is laid out as texts: each text, texts that belong together, and JSON inside texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from trajlake.transforms.redact import jsontext, pem
from trajlake.transforms.redact.detector import Detector
from trajlake.transforms.redact.errors import DepthLimit
from trajlake.transforms.redact.leaves import KEY, NUMBER, STRING, Layout, Leaf, lay_out, pathname
from trajlake.transforms.redact.model import Kind, Limits, Rule, Span
from trajlake.transforms.redact.names import Strength
from trajlake.transforms.redact.rebuild import literals_in

_QUIET: Final = 4096
_SHORT: Final = 48

Edits = dict[int, list[Span]]
"""Spans to replace, by the place of their leaf in the layout."""


class Search:
    """Finds what has to be replaced in the leaves of a layout."""

    def __init__(self, rules: Sequence[Rule], detector: Detector, limits: Limits) -> None:
        self._detector = detector
        self._limits = limits
        self._key_rule = next((i for i, rule in enumerate(rules) if rule.finder == "private_keys"), None)
        # A number cut into pieces is not believed: rows of numbers in a list look like that.
        self._not_in_pieces = frozenset(
            i
            for i, rule in enumerate(rules)
            if rule.kind in (Kind.NATIONAL, Kind.PEOPLE) and rule.id not in ("email", "kr-rrn")
        )
        self._clean: set[str] = set()

    def in_layout(self, layout: Layout, *, streamed: bool = False, depth: int = 0) -> Edits:
        """Findings by leaf. `streamed`: the lists of the value are known to be pieces of one text."""
        edits: Edits = {}
        leaves = layout.leaves
        for index in range(len(leaves)):
            if spans := self.in_leaf(leaves[index], depth):
                edits[index] = spans
        self._in_groups(layout, edits, streamed=streamed)
        if self.opens_key(edits):
            self._between(leaves, edits)
        return edits

    def in_leaf(self, leaf: Leaf, depth: int = 0) -> list[Span]:
        """Findings in one text."""
        text = leaf.text
        if not text or (not leaf.strength and text in self._clean):
            return []
        if leaf.kind == NUMBER:
            # As the fast pass calls numbers: what is redacted must not depend on what else is in the event.
            named = "" if isinstance(leaf.path and leaf.path[1], int) else leaf.name
            called = self._detector.prefilter.rules_in(f"{{{json.dumps(named)}:{text}}}".encode())
            spans = self._detector.find(text, leaf.name, leaf.strength, called=called)
            whole = bool(spans) and spans[0].end - spans[0].start >= len(text.lstrip("-"))
            return [Span(0, len(text), spans[0].rule, text)] if whole else []
        spans = self._detector.find(text, leaf.name, leaf.strength, depth, self.in_json)
        if not spans and len(text) <= _SHORT and not leaf.strength and not any(char.isdigit() for char in text):
            if len(self._clean) >= _QUIET:
                self._clean.clear()
            self._clean.add(text)
        return spans

    def opens_key(self, edits: Edits) -> bool:
        """Whether a private key was found, so that texts further on may hold the rest of it."""
        return any(map(self.holds_key, edits.values()))

    def holds_key(self, spans: list[Span]) -> bool:
        """Whether one of these is a private key."""
        return any(span.rule == self._key_rule for span in spans)

    def in_json(self, text: str, depth: int) -> list[Span] | None:
        """Findings in a text that is JSON, as spans of that text; None where it is none."""
        if not jsontext.is_json(text, self._limits.max_depth):
            return None
        if depth > self._limits.max_decode:
            raise DepthLimit("max_decode", self._limits.max_decode)
        value = jsontext.build(text, self._limits.max_depth)
        if value is None:
            # A key stands twice: searched as plain text, and its structure left alone.
            found = self._detector.find(text, "", Strength.NONE, depth)
            return [part for span in found for part in _in_literals(text, span)]
        layout = lay_out(value, self._limits.max_depth)
        literals = list(literals_in(value))
        spans: list[Span] = []
        for index, found in self.in_layout(layout, depth=depth).items():
            literal = literals[index]
            path = "#" + pathname(layout.leaves[index].path) if layout.leaves[index].kind != KEY else "#"
            for span in found:
                if isinstance(literal, jsontext.Literal):
                    low, high = literal.outer(span.start, span.end)
                    spans.append(span.deeper()._replace(start=low, end=high, path=path + span.path))
                elif isinstance(literal, jsontext.Number):
                    spans.append(span._replace(start=literal.start, end=literal.end, path=path, quotes=0))
        return spans

    # Texts that belong together

    def _in_groups(self, layout: Layout, edits: Edits, *, streamed: bool) -> None:
        """Search the elements of lists joined, and bring what is found back to each element."""
        for group in layout.groups:
            texts = [layout.leaves[index].text for index in group]
            for span in self._detector.find("".join(texts), "", Strength.NONE):
                if streamed or span.rule not in self._not_in_pieces:
                    self._bring_back(span, group, texts, layout, edits)

    def _bring_back(self, span: Span, group: list[int], texts: list[str], layout: Layout, edits: Edits) -> None:
        start = 0
        first = True
        for index, text in zip(group, texts, strict=True):
            low, high = max(span.start - start, 0), min(span.end - start, len(text))
            start += len(text)
            if low >= high:
                continue
            spans = edits.setdefault(index, [])
            known = any(own.start <= low and high <= own.end for own in spans)
            if not known and jsontext.is_json(text, self._limits.max_depth):
                if high - low == span.end - span.start:
                    # Its own JSON was judged literal by literal; joined, it was read as plain text.
                    known = True
                else:
                    low, high = 0, len(text)
            if not known:
                spans.append(Span(low, high, span.rule, span.value, quiet=not first))
            first = False
            edits[index] = self._detector.settle(layout.leaves[index].text, spans)
            if not edits[index]:
                del edits[index]

    def _between(self, leaves: list[Leaf], edits: Edits) -> None:
        """Key material in texts between a BEGIN that is not closed and the END in a later text."""
        assert self._key_rule is not None
        opened: list[int] | None = None
        contiguous = True
        for index, leaf in enumerate(leaves):
            if leaf.kind != STRING:
                continue
            if pem.opens_key(leaf.text):
                opened, contiguous = [], True
            elif opened is None:
                continue
            elif pem.closes_key(leaf.text):
                for inner in opened:
                    edits[inner] = [Span(0, len(leaves[inner].text), self._key_rule)]
                opened = None
            elif pem.is_pure_material(leaf.text):
                if contiguous:
                    edits[index] = [Span(0, len(leaf.text), self._key_rule)]
                else:
                    opened.append(index)
            else:
                contiguous = False


def _in_literals(text: str, span: Span) -> list[Span]:
    """A finding in JSON text that was searched as plain text, in the literals that hold it."""
    parts = list(jsontext.within_literals(text, span.start, span.end))
    quotes = {True: 0, False: -1}
    return [
        span._replace(start=low, end=high, quotes=quotes[number], quiet=(span.quiet or place > 0) and not number)
        for place, (low, high, number) in enumerate(parts)
    ]
