"""What happens to findings: the table's own actions, and what somebody asks for instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trajlake.transforms.redact.errors import InvalidRules, MissingKey
from trajlake.transforms.redact.model import Action, Rule


def resolve_actions(rules: Sequence[Rule], asked: Mapping[str, Action], *, keyed: bool) -> list[Action]:
    """The action of each rule: that asked for its id, else for its kind, else its own.

    Without a key a rule that would make pseudonyms by itself makes markers; asked for by name, pseudonyms without a key
    are an error, because keys are never made up. Raises InvalidRules for unknown names and for ids that are used twice,
    MissingKey for pseudonyms that were asked for without a key.
    """
    ids = Counter(rule.id for rule in rules)
    if twice := [rule_id for rule_id, count in ids.items() if count > 1]:
        raise InvalidRules(f"the rule table has more than one row with the id {twice[0]!r}")
    kinds = {str(rule.kind) for rule in rules}
    if unknown := sorted(set(asked) - set(ids) - kinds):
        raise InvalidRules(f"no rule or kind of rules is called {unknown[0]!r}; `trajlake redact --rules` lists them")
    if not keyed and Action.PSEUDONYM in asked.values():
        raise MissingKey(None)
    own = {Action.PSEUDONYM: Action.MARKER} if not keyed else {}
    return [asked.get(rule.id, asked.get(str(rule.kind), own.get(rule.action, rule.action))) for rule in rules]


def read_actions(values: Any) -> dict[str, Action]:
    """Actions as a file or a setting gives them: a mapping from rule id or kind to `marker`, `pseudonym` or `keep`.

    Raises InvalidRules naming the entry.
    """
    if not isinstance(values, Mapping):
        raise InvalidRules("actions are a mapping from a rule's id or kind to marker, pseudonym or keep")
    actions = {}
    for name, value in values.items():
        try:
            actions[str(name)] = Action(value)
        except ValueError:
            raise InvalidRules(f"the action of {name!r} is one of {', '.join(Action)}") from None
    return actions
