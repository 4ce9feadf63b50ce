"""The rule table: every row finds what it says and leaves what it says, and its content names its revision."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.redact.planted import redactor, rules_of
from trajlake.transforms.redact.errors import InvalidRules
from trajlake.transforms.redact.model import Action, Kind, Limits, Rule, Severity, revision_of
from trajlake.transforms.redact.redactor import Redactor
from trajlake.transforms.redact.rules import DEFAULT_RULES

EXAMPLES = [(rule.id, text) for rule in DEFAULT_RULES for text in rule.examples]
COUNTEREXAMPLES = [(rule.id, text) for rule in DEFAULT_RULES for text in rule.counterexamples]


def few(*ids: str) -> list[Rule]:
    """A small table: fast to compile."""
    return [rule for rule in DEFAULT_RULES if rule.id in ids]


@pytest.mark.parametrize(("rule", "text"), EXAMPLES, ids=[f"{rule}-{n}" for n, (rule, _) in enumerate(EXAMPLES)])
def test_a_rule_finds_its_example(rule: str, text: str) -> None:
    assert rule in rules_of(text)


@pytest.mark.parametrize(
    ("rule", "text"), COUNTEREXAMPLES, ids=[f"{rule}-{n}" for n, (rule, _) in enumerate(COUNTEREXAMPLES)]
)
def test_a_rule_leaves_its_counterexample(rule: str, text: str) -> None:
    assert rule not in rules_of(text)


def test_an_example_is_still_found_inside_a_sentence() -> None:
    lost = [
        (rule, text)
        for rule, text in EXAMPLES
        if redactor().redact(text).value == text or redactor().redact(f"seen:\n{text}\n").value == f"seen:\n{text}\n"
    ]
    # A number that is only believed when it stands alone has no such sentence.
    assert {rule for rule, _ in lost} <= {rule.id for rule in DEFAULT_RULES if rule.kind is Kind.NATIONAL}


def test_ids_are_used_once() -> None:
    assert [rule for rule, count in Counter(rule.id for rule in DEFAULT_RULES).items() if count > 1] == []


def test_every_row_is_whole() -> None:
    for rule in DEFAULT_RULES:
        assert all((rule.finds, rule.examples, rule.counterexamples)), rule.id
        assert rule.forms or rule.finder, rule.id


def test_every_family_that_was_asked_for_has_rows() -> None:
    assert {rule.kind for rule in DEFAULT_RULES} == set(Kind)
    korean = {rule.id for rule in DEFAULT_RULES if rule.id.startswith("kr-")}
    assert {"kr-rrn", "kr-frn", "kr-brn", "kr-phone", "kr-driver-licence", "kr-passport"} <= korean


def test_people_become_pseudonyms_and_secrets_markers() -> None:
    actions = {rule.id: rule.action for rule in DEFAULT_RULES}
    assert actions["email"] is actions["person"] is actions["home"] is actions["kr-phone"] is Action.PSEUDONYM
    assert actions["github-token"] is actions["kr-rrn"] is actions["card"] is Action.MARKER


def test_the_revision_is_the_content_of_the_table() -> None:
    same = revision_of(DEFAULT_RULES)
    assert same == revision_of(list(DEFAULT_RULES))
    first, *rest = DEFAULT_RULES
    assert revision_of([replace(first, finds=first.finds + "."), *rest]) != same
    assert revision_of([replace(first, severity=Severity.LOW), *rest]) != same


def test_actions_are_part_of_the_revision() -> None:
    table = few("github-token", "aws-access-key-id")
    marked = Redactor(table)
    assert marked.revision == Redactor(table).revision
    assert marked.revision != Redactor(table, actions={table[0].id: Action.KEEP}).revision


def test_limits_and_which_key_are_part_of_the_revision() -> None:
    table = few("github-token")
    assert Redactor(table).revision != Redactor(table, limits=Limits(max_depth=7)).revision
    keys = [bytes([number]) * 16 for number in (1, 1, 2)]
    one, same, other = (Redactor(table, key=key).revision for key in keys)
    assert one == same != other


@pytest.mark.parametrize("name", ["no-such-rule", "person "])
def test_an_action_for_a_rule_that_does_not_exist_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidRules, match=name):
        Redactor(few("github-token"), actions={name: Action.KEEP})


def test_an_id_that_is_used_twice_is_refused() -> None:
    with pytest.raises(InvalidRules, match="github-token"):
        Redactor(few("github-token") * 2)


@pytest.mark.parametrize(
    "change", [{"pattern": "("}, {"checks": ("no-such-check",)}, {"pattern": "x", "triggers": ("(",)}]
)
def test_a_row_that_does_not_hold_together_is_refused_when_the_redactor_is_made(change: dict[str, object]) -> None:
    rule = few("aws-access-key-id")[0]
    broken = replace(rule, forms=(replace(rule.forms[0], **change),))  # type: ignore[arg-type]
    with pytest.raises(InvalidRules):
        Redactor([broken])


def test_a_rule_that_is_off_finds_nothing_and_a_kind_can_be_set_as_a_whole() -> None:
    table = few("github-token", "email")
    off = Redactor(table, actions={"code": Action.KEEP, "people": Action.MARKER})
    text = f"{table[0].examples[0]} jane@example.org"
    assert off.redact(text).value == f"{table[0].examples[0]} [redacted:email]"


def test_an_own_rule_works_like_a_built_in_one() -> None:
    own = replace(
        few("npm-token")[0], id="staff-number", examples=("ACME-001",), counterexamples=("ACME",), kind=Kind.SERVICE
    )
    own = replace(own, forms=(replace(own.forms[0], pattern=r"\bACME-\d{3}\b", checks=()),))
    ours = Redactor([own])
    event = b'{"data":{"note":"by ACME-042, see ACME"}}'
    assert ours.scan([event, b'{"data":{"note":"see ACME"}}']) == [0]
    assert ours.redact_json(event)[0] == b'{"data":{"note":"by [redacted:staff-number], see ACME"}}'
