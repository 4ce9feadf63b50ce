"""The lever table: what ships is sound, and what is wrong is named with its line."""

from __future__ import annotations

import pytest

from trajlake.expectations.decisions import decode_snapshot
from trajlake.expectations.levers import FACTS, Lever, LeverError, read_levers, shipped_levers
from trajlake.transforms.levers.effects import lever_of

ENTRY = "levers:\n  - {{lever: prompt, for: skill, title: t, chance: [1, 3], cost: {{hours: 1}}, {more}}}\n"
SPENT = "spent: {after_runs: 20, least_gain: 0.1, for_days: 30}"


def test_every_lever_is_declared_and_every_fact_is_used() -> None:
    table = shipped_levers()
    assert {each.lever for each in table.levers} == set(Lever) - {Lever.NONE}
    assert {condition.fact for each in table.levers for condition in each.when} == set(FACTS)


def test_the_revision_is_of_the_content_alone() -> None:
    text = ENTRY.format(more=SPENT)
    assert read_levers("a", text).revision == read_levers("b", "# a comment\n" + text).revision
    assert read_levers("a", text).revision != read_levers("a", text.replace("hours: 1", "hours: 2")).revision


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("levers: {", "f.yaml: line "),
        ("levers:\n  - {lever: magic}\n", "f.yaml: line 2: levers[0].lever: Invalid enum value 'magic'"),
        (ENTRY.format(more=SPENT + ", colour: red"), "unknown field `colour`"),
        (
            ENTRY.format(more=SPENT + ", when: [{fact: luck, is: true}]"),
            "there is no fact 'luck'; there are state",
        ),
        (
            ENTRY.format(more=SPENT + ", when: [{fact: state}]"),
            "state wants exactly one of is, one_of, at_least, holds, lacks",
        ),
        (ENTRY.format(more=SPENT).replace("[1, 3]", "[4, 3]"), "chance [4, 3] is not [worked, tried]"),
        (ENTRY.format(more=SPENT).replace("hours: 1", "hours: -1"), "a cost is not below zero"),
        (ENTRY.format(more=SPENT.replace("20", "0")), "spent wants after_runs and for_days of 1 or more"),
        (ENTRY.format(more=SPENT).replace("prompt", "none"), "takes no entry"),
        ("terms: {alpha: 2}\n" + ENTRY.format(more=SPENT), "line 1: terms: alpha 2 is not within 0 and 1"),
        ("terms: {tiers: [a, a]}\n" + ENTRY.format(more=SPENT), "a tier stands twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, told: str) -> None:
    with pytest.raises(LeverError) as caught:
        read_levers("f.yaml", text)
    assert told in str(caught.value)


def test_a_lever_twice_is_refused() -> None:
    twice = ENTRY.format(more=SPENT) + ENTRY.format(more=SPENT).partition("\n")[2]
    with pytest.raises(LeverError, match="line 3: lever prompt for skill stands twice"):
        read_levers("f.yaml", twice)


@pytest.mark.parametrize(
    ("name", "change", "lever"),
    [
        ("prompt", (None, None), Lever.PROMPT),
        ("Prompt", (None, None), Lever.PROMPT),
        ("tier", ("cheap", "upper"), Lever.MODEL_UP),
        ("model_tier", ("upper", "cheap"), Lever.MODEL_DOWN),
        ("model", ("upper", "unheard"), None),
        ("model_tier", (None, "upper"), Lever.MODEL_UP),
        ("tier", (None, "cheap"), Lever.MODEL_DOWN),
        ("tier", (None, None), None),
        ("model-up", (None, None), Lever.MODEL_UP),
        ("promote", (None, None), Lever.MODEL_UP),
        ("fine tune", (None, None), Lever.RETRAIN),
        ("weights", (None, None), Lever.RETRAIN),
        ("none", (None, None), None),
        ("coffee", (None, None), None),
    ],
)
def test_events_name_levers_in_many_ways(name: str, change: tuple[str | None, str | None], lever: Lever | None) -> None:
    assert lever_of(name, *change, ["cheap", "upper"]) is lever


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(ValueError, match="tenant_id"):
        decode_snapshot("{}")
