"""The published contract holds: what producers and readers rely on cannot change without a version that says so."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajlake.expectations import compatibility
from trajlake.expectations.compatibility import (
    Contract,
    Incompatible,
    check,
    compare,
    describe,
    main,
    publish,
    read_published,
)
from trajlake.expectations.jsonschema import CONTRACTS

TOKENS = "agent.model.responded.data.usage.input_tokens"
Mutation = Callable[[dict[str, Any]], None]


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_contract_is_what_was_published(name: str) -> None:
    published = read_published(name)
    assert published is not None, "run `python -m trajlake.expectations.compatibility publish`"
    check(published, describe(name))


def mutated(name: str, mutation: Mutation) -> tuple[Contract, Contract]:
    """The contract as published, and a copy to which something was done."""
    published = describe(name)
    current = copy.deepcopy(published)
    mutation(current["fields"])
    return published, current


def put(path: str, **facts: Any) -> Mutation:
    return lambda fields: fields[path].update(facts)


def remove(path: str) -> Mutation:
    return lambda fields: fields.pop(path)


def add(path: str, **facts: Any) -> Mutation:
    whole = {"type": "string", "required": False, "nullable": True, "meaning": "new", **facts}
    return lambda fields: fields.update({path: whole})


def drop_code(path: str, code: str) -> Mutation:
    return lambda fields: fields[path]["codes"].pop(code)


def add_code(path: str, code: str) -> Mutation:
    return lambda fields: fields[path]["codes"].update({code: "new"})


BREAKING: list[tuple[str, Mutation]] = [
    ("events", remove(TOKENS)),
    ("events", remove("agent.lever.applied")),
    ("events", put(TOKENS, type="string")),
    ("events", put(TOKENS, unit="words")),
    ("events", put(TOKENS, nullable=False)),
    ("events", put("agent.run.ended.data.success", required=True)),
    ("events", put(TOKENS, minimum=1)),
    ("events", put("agent.run.ended.data.stop_condition", maxLength=80)),
    ("events", put("agent.run.ended.data.output", codes={"yes": "", "no": ""})),
    ("events", put("agent.tool.returned.data.partial", default=True)),
    ("events", drop_code("agent.run.ended.data.end_state", "cancelled")),
    ("events", add("agent.run.ended.data.grade", required=True)),
    ("steps", remove("steps.message")),
    ("steps", put("steps.step_index", arrow_type="int64")),
    ("steps", put("steps.step_id", nullable=True)),
    ("steps", put("steps.message", nullable=False)),
    ("steps", add("steps.grade", nullable=False)),
    ("runs", put("runs.cost_usd", unit="EUR")),
    ("runs", put("runs.closed_at", arrow_type="timestamp[ns, tz=UTC]")),
    ("runs", drop_code("runs.outcome_class", "quota")),
    ("quarantine", drop_code("quarantine.reason_code", "duplicate")),
    ("outcomes", drop_code("outcome_class=quota", "billing")),
    ("outcomes", remove("outcome_class=timeout")),
]
REWORDED: list[tuple[str, Mutation]] = [
    ("events", put(TOKENS, meaning="Tokens read and written.")),
    ("steps", put("steps.cost_usd", meaning="price with tax")),
    ("quarantine", lambda fields: fields["quarantine.reason_code"]["codes"].update({"empty": "Anything small."})),
]
ALLOWED: list[tuple[str, Mutation]] = [
    ("events", add("agent.run.ended.data.grade")),
    ("events", add("agent.run.paused", type="object")),
    ("events", put("agent.tool.called.data.tool_call_id", required=False)),
    ("events", put("agent.run.ended.data.stop_condition", maxLength=4096)),
    ("events", add_code("agent.run.ended.data.end_state", "paused")),
    ("steps", add("steps.grade")),
    ("runs", add_code("runs.outcome_class", "weather")),
    ("outcomes", add_code("outcome_class=quota", "daily")),
    ("events", lambda fields: None),
]


@pytest.mark.parametrize(("name", "mutation"), BREAKING)
def test_a_breaking_change_is_found(name: str, mutation: Mutation) -> None:
    published, current = mutated(name, mutation)
    assert compare(published, current)[0].severity == "breaking"
    with pytest.raises(Incompatible, match="breaking"):
        check(published, current)


@pytest.mark.parametrize(("name", "mutation"), REWORDED)
def test_a_meaning_cannot_change_in_passing(name: str, mutation: Mutation) -> None:
    published, current = mutated(name, mutation)
    with pytest.raises(Incompatible, match="reworded"):
        check(published, current)


@pytest.mark.parametrize(("name", "mutation"), ALLOWED)
def test_what_only_adds_or_loosens_passes(name: str, mutation: Mutation) -> None:
    published, current = mutated(name, mutation)
    assert {change.severity for change in check(published, current)} <= {"added"}


def test_a_removed_part_is_told_once_and_not_again_for_all_that_it_held() -> None:
    def without(fields: dict[str, Any]) -> None:
        for path in [path for path in fields if path.startswith("agent.run.ended")]:
            del fields[path]

    assert [change.path for change in compare(*mutated("events", without))] == ["agent.run.ended"]


def test_a_version_that_was_raised_but_not_published_is_named() -> None:
    published, current = mutated("steps", lambda fields: None)
    current["version"] = "1.999"
    with pytest.raises(Incompatible, match="publish"):
        check(published, current)


@pytest.fixture
def versioned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, Mutation], list[Path]]:
    """Publish into a folder of the test, as if the steps table had changed and the version were another."""

    def publish_as(version: str, mutation: Mutation) -> list[Path]:
        def described(name: str) -> Contract:
            contract = copy.deepcopy(describe(name))
            contract["version"] = version
            if name == "steps":
                mutation(contract["fields"])
            return contract

        monkeypatch.setattr(compatibility, "describe", described)
        written: list[Path] = publish(tmp_path)
        return written

    return publish_as


Publish = Callable[[str, Mutation], list[Path]]


def unchanged(fields: dict[str, Any]) -> None:
    """No mutation."""


def test_publishing_writes_every_contract_once(versioned: Publish, tmp_path: Path) -> None:
    assert {path.stem for path in versioned("1.0", unchanged)} == set(CONTRACTS)
    assert versioned("1.0", unchanged) == []
    assert json.loads((tmp_path / "steps.json").read_text())["version"] == "1.0"


@pytest.mark.parametrize(
    ("mutation", "refused", "allowed"),
    [
        (put("steps.message", type="integer"), ["1.0", "1.1", "0.9"], "2.0"),
        (remove("steps.message"), ["1.0", "1.7"], "2.0"),
        (put("steps.message", meaning="something else"), ["1.0"], "1.1"),
        (add("steps.grade"), ["1.0"], "1.1"),
    ],
)
def test_publishing_is_refused_until_the_version_is_raised_enough(
    versioned: Publish, tmp_path: Path, mutation: Mutation, refused: list[str], allowed: str
) -> None:
    versioned("1.0", unchanged)
    before = (tmp_path / "steps.json").read_text()
    for version in refused:
        with pytest.raises(Incompatible, match="CONTRACT_VERSION"):
            versioned(version, mutation)
    assert (tmp_path / "steps.json").read_text() == before
    assert versioned(allowed, mutation)


def test_the_command_checks_and_explains(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([]) == 0
    assert main(["what"]) == 2
    broken = describe("steps")
    broken["fields"].pop("steps.message")
    monkeypatch.setattr(compatibility, "describe", lambda name: broken if name == "steps" else describe(name))
    assert main(["check"]) == 1
    assert "steps.message: was removed" in capsys.readouterr().err
