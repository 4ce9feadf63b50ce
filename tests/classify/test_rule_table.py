"""The rule table: every rule does what its own examples say, and a table that contradicts itself is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trajlake.expectations.failure_rules import (
    Rule,
    RuleError,
    RunRule,
    classifier_revision,
    normal_name,
    read_rules,
    revision_of,
    rule_table,
)
from trajlake.expectations.taxonomy import FailureKind, OutcomeClass
from trajlake.transforms.classify.classifier import (
    CLASSIFIER_REVISION,
    Finding,
    RunEvidence,
    RunFinding,
    StepEvidence,
    classify_run,
    classify_step,
    deciding_rule,
)

RULES = {rule.id: rule for rule in rule_table().rule}
# How a run ends is judged by run rules too, so that only examples of steps give a rule's own class.
STEP_RULES = {name: rule for name, rule in RULES.items() if rule.match.get("by") != "run"}
RUN_RULES = {rule.id: rule for rule in rule_table().run_rule}


def basis_of(example: dict[str, Any]) -> str:
    """Basis of one example of evidence: a step's, or with `by = run` the error of a run that failed."""
    fields = dict(example)
    if fields.pop("by", None) == "run":
        end: RunFinding = classify_run(RunEvidence(end_state="failed", **fields))
        return str(end.basis)
    step: Finding = classify_step([StepEvidence(**fields)])
    return str(step.basis)


def run_of(example: dict[str, Any]) -> RunEvidence:
    fields = dict(example)
    if "last_failure" in fields:
        rule = RULES[fields["last_failure"]]
        fields["last_failure"] = Finding(rule.outcome_class, rule.kind, rule.id, rule.strength)
        fields["last_failure_step_id"] = "s9"
    return RunEvidence(**fields)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_rule_fires_on_its_match_and_only_there(rule: Rule) -> None:
    assert basis_of(rule.match) == rule.id
    assert basis_of(rule.no_match) != rule.id


@pytest.mark.parametrize("rule", STEP_RULES.values(), ids=STEP_RULES.keys())
def test_a_rule_gives_its_class_kind_and_strength(rule: Rule) -> None:
    found = classify_step([StepEvidence(**rule.match)])
    assert (found.outcome_class, found.failure_kind, found.strength) == (rule.outcome_class, rule.kind, rule.strength)


@pytest.mark.parametrize("rule", RUN_RULES.values(), ids=RUN_RULES.keys())
def test_a_run_rule_decides_its_match_and_only_there(rule: RunRule) -> None:
    assert deciding_rule(run_of(rule.match)) == rule.id
    assert deciding_rule(run_of(rule.no_match)) != rule.id


def test_every_class_and_kind_can_be_reached() -> None:
    reached_classes = {rule.outcome_class for rule in RULES.values()} | {r.outcome_class for r in RUN_RULES.values()}
    reached_kinds = {rule.kind for rule in RULES.values()} | {rule.kind for rule in RUN_RULES.values()}
    assert reached_classes - {None} == set(OutcomeClass)
    assert reached_kinds - {None} == set(FailureKind)


def test_every_kind_belongs_to_a_class() -> None:
    entries = rule_table().classes.values()
    assert {kind for entry in entries for kind in entry.kinds} == set(FailureKind)


def test_the_revision_follows_decisions_and_not_prose() -> None:
    table = rule_table()
    first, *rest = table.rule

    def with_first(**changes: Any) -> str:
        changed = msgspec.structs.replace(table, rule=(msgspec.structs.replace(first, **changes), *rest))
        return str(revision_of(changed))

    assert classifier_revision() == CLASSIFIER_REVISION == revision_of(table)
    assert with_first(source="elsewhere", note="reworded", match={}, no_match={}) == CLASSIFIER_REVISION
    assert with_first(kind=FailureKind.CONTENT_FILTER) != CLASSIFIER_REVISION
    assert revision_of(msgspec.structs.replace(table, rule=(*rest, first))) != CLASSIFIER_REVISION


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("litellm.RateLimitError", "ratelimiterror"),
        ("rate_limit_error", "ratelimiterror"),
        ("com.amazon.coral.service#ThrottlingException", "throttlingexception"),
        ("https://errors.example/problems/out-of-credit", "outofcredit"),
        ("-32602", "32602"),
        ("...", ""),
    ],
)
def test_names_are_compared_without_case_punctuation_or_path(name: str, normal: str) -> None:
    assert normal_name(name) == normal


GOOD_RULE = """
[[rule]]
id = "x.one"
class = "quota"
kind = "rate_limit"
strength = "strong"
when = { statuses = [429] }
source = "RFC 6585"
match = { http_status = 429 }
no_match = { http_status = 400 }
"""


def _table(rules: str) -> str:
    head = "".join(f'{name.value} = {{ meaning = "m", kinds = ["rate_limit"] }}\n' for name in OutcomeClass)
    kinds = "".join(f'{kind.value} = "m"\n' for kind in FailureKind)
    row = """
[[run_rule]]
id = "run.any"
class = "unknown"
when = { end = ["failed"] }
why = "w"
match = {}
no_match = {}
[[default]]
id = "step.none"
class = "success"
why = "w"
"""
    return f"[classes]\n{head}\n[kinds]\n{kinds}\n{rules}\n{row}"


def test_a_sound_table_is_read() -> None:
    assert read_rules(_table(GOOD_RULE)).rule[0].id == "x.one"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("", ""), "used twice"),
        (('kind = "rate_limit"', 'kind = "billing"'), "does not belong to class"),
        (("statuses = [429]", ""), "would fit everything"),
        (("statuses = [429]", 'message = ["too many"]'), "text alone is weak"),
        (("statuses = [429]", 'statuses = [429], message = ["Too Many"]'), "lower case"),
        (("statuses = [429]", 'by = ["tool"], statuses = [429]'), "begins with `tool.`"),
        (("statuses = [429]", "stati = [429]"), "unknown field"),
        (('"quota"', '"quotas"'), "quotas"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(change: tuple[str, str], complaint: str) -> None:
    rules = GOOD_RULE * 2 if change == ("", "") else GOOD_RULE.replace(*change)
    with pytest.raises(RuleError, match=complaint):
        read_rules(_table(rules))


def test_a_table_that_forgets_a_class_is_refused() -> None:
    without = "\n".join(line for line in _table(GOOD_RULE).splitlines() if not line.startswith("timeout ="))
    with pytest.raises(RuleError, match="says nothing of timeout"):
        read_rules(without)
