"""Other failure rules than those of this version, as an older or newer version has them: for the length of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import msgspec

from trajlake.expectations.failure_rules import RuleTable, normal_name, revision_of, rule_table
from trajlake.expectations.taxonomy import OutcomeClass

_STAMPED = (
    "transforms.classify.classifier", "transforms.landing.fingerprint", "transforms.landing.judge",
    "transforms.columns.rows", "streams.keeping.reclassify", "streams.keeping.asking",
)  # fmt: skip


def without_quota() -> RuleTable:
    """The rules before there were any for quotas: a refusal by quota is an error that nothing explains."""
    table = rule_table()
    return msgspec.structs.replace(
        table, rule=tuple(rule for rule in table.rule if rule.outcome_class is not OutcomeClass.QUOTA)
    )


@contextmanager
def classified_by(table: RuleTable) -> Iterator[str]:
    """This process classifies by a table, as a version that ships it would. Yields its revision."""
    rules: Any = import_module("trajlake.transforms.classify.rules")
    classifier: Any = import_module("trajlake.transforms.classify.classifier")
    kept: list[tuple[Any, str, Any]] = []

    def put(module: Any, name: str, value: Any) -> None:
        kept.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    revision = revision_of(table)
    own: Callable[[], RuleTable] = lambda: table  # noqa: E731
    put(rules, "rule_table", own)
    put(classifier, "rule_table", own)
    compiled = {
        "FINISH_NAMES": frozenset(normal_name(name) for rule in table.rule for name in rule.when.finish),
        "BY_ID": {rule.id: rule for rule in table.rule},
        "DEFAULTS": {default.id: default for default in table.default},
    }
    view = import_module("trajlake.transforms.classify.view")
    for module in (rules, classifier, view):
        for name in compiled.keys() & vars(module).keys():
            put(module, name, compiled[name])
    put(rules, "_STRONG", rules._by_speaker("strong", 0))
    put(rules, "_WEAK", rules._by_speaker("weak", rules._WEAK_ORDER))
    put(classifier, "_ROWS", classifier._compile_rows())
    for name in _STAMPED:
        put(import_module(f"trajlake.{name}"), "CLASSIFIER_REVISION", revision)
    classifier.is_failure_finish.cache_clear()
    try:
        yield revision
    finally:
        for module, name, value in reversed(kept):
            setattr(module, name, value)
        classifier.is_failure_finish.cache_clear()
