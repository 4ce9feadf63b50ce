"""Puts stand-ins into a text: a marker or a pseudonym for each span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trajlake.transforms.redact.markers import marker
from trajlake.transforms.redact.model import Action, Rule, Span
from trajlake.transforms.redact.pseudonyms import Pseudonyms

NOBODY: Final = ""
"""The tenant of what belongs to none: it gets markers, because pseudonyms are made with a tenant's key."""


class StandIns:
    """What stands for a finding of each rule. `pseudonyms` may be None only where no action asks for one."""

    def __init__(self, rules: Sequence[Rule], actions: Sequence[Action], pseudonyms: Pseudonyms | None) -> None:
        self._ids = [rule.id for rule in rules]
        self._markers = [marker(rule_id) for rule_id in self._ids]
        self._pseudonyms = {i: pseudonyms for i, action in enumerate(actions) if action is Action.PSEUDONYM}

    def replace(self, text: str, spans: Sequence[Span], tenant: str | None) -> str:
        """The text with its spans replaced. Raises MissingKey where a pseudonym needs a key that the tenant lacks."""
        parts: list[str] = []
        last = 0
        for span in spans:
            parts.append(text[last : span.start])
            if not span.quiet:
                parts.append(self._stand_in(span, text, tenant))
            last = span.end
        parts.append(text[last:])
        return "".join(parts)

    def _stand_in(self, span: Span, text: str, tenant: str | None) -> str:
        shown = self._markers[span.rule]
        if span.rule in self._pseudonyms and tenant != NOBODY:
            pseudonyms = self._pseudonyms[span.rule]
            assert pseudonyms is not None
            shown = pseudonyms.of(self._ids[span.rule], span.value or text[span.start : span.end], tenant)
        if span.quotes < 0:
            return shown
        # A number of JSON becomes a string: its quotes are escaped once for each string around it.
        quote = "\\" * (2**span.quotes - 1) + '"'
        return f"{quote}{shown}{quote}"
