"""Agreement with error shapes that providers document: whole, and as they arrive when a harness drops parts of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajlake.expectations.failure_rules import rule_table
from trajlake.transforms.classify.classifier import RunEvidence, StepEvidence, classify_run, classify_step

Fact = dict[str, Any]
FACTS: list[Fact] = [
    json.loads(line)
    for line in Path(__file__).with_name("provider_errors.jsonl").read_text(encoding="utf-8").splitlines()
]
LABEL = ("provider", "class", "kind", "source")
ENOUGH = 0.95


def evidence_of(fact: Fact) -> Fact:
    return {name: value for name, value in fact.items() if name not in LABEL}


def as_text_of_the_client(fact: Fact) -> Fact | None:
    """All that is left is `str(error)` of an OpenAI-like client."""
    if fact.get("http_status", 0) < 400 or fact.get("is_tool"):
        return None
    body = {"message": fact.get("error_message", ""), "type": fact.get("error_type"), "code": fact.get("provider_code")}
    return {"error_message": f"Error code: {fact['http_status']} - { ({'error': body}) }"}


def as_answer_without_tokens(fact: Fact) -> Fact | None:
    """All that is left is the client's notice, published as the model's answer."""
    if fact.get("http_status", 0) < 400 or fact.get("is_tool"):
        return None
    kind = fact.get("error_type") or fact.get("provider_code") or "error"
    body = json.dumps({"type": "error", "error": {"type": kind, "message": fact.get("error_message", "")}})
    return {"content": f"API Error: {fact['http_status']} {body}", "output_tokens": 0}


def without_status(fact: Fact) -> Fact | None:
    """The exception's name and message reached us, its status did not."""
    if not fact.get("error_type") and not fact.get("provider_code"):
        return None
    return {name: value for name, value in evidence_of(fact).items() if name != "http_status"}


def agreement(reduce: Callable[[Fact], Fact | None]) -> tuple[float, int, list[str]]:
    """Share of facts whose class is found, number of facts tried, and those that were missed."""
    missed, tried = [], 0
    for fact in FACTS:
        evidence = reduce(fact)
        if evidence is None:
            continue
        tried += 1
        found = classify_step([StepEvidence(**evidence)])
        if found.outcome_class != fact["class"]:
            missed.append(
                f"{fact['provider']} {fact['class']} read as {found.outcome_class} by {found.basis}: {evidence}"
            )
    return 1 - len(missed) / tried, tried, missed


def test_the_facts_are_many_and_of_every_provider() -> None:
    providers = {fact["provider"] for fact in FACTS}
    assert len(FACTS) >= 200
    assert {"openai", "anthropic", "google", "azure", "bedrock", "vllm", "litellm"} <= providers
    assert len({json.dumps(evidence_of(fact), sort_keys=True) for fact in FACTS}) >= 0.97 * len(FACTS)


def test_labels_are_of_the_closed_sets() -> None:
    classes = rule_table().classes
    for fact in FACTS:
        entry = classes[fact["class"]]
        assert fact["kind"] in entry.kinds, fact
        assert fact["source"], fact


@pytest.mark.parametrize("reduce", [evidence_of, as_text_of_the_client, as_answer_without_tokens, without_status])
def test_classes_agree_with_the_documented_shapes(reduce: Callable[[Fact], Fact | None]) -> None:
    share, tried, missed = agreement(reduce)
    assert tried >= 100
    assert share >= ENOUGH, "\n".join(missed)


def test_kinds_agree_with_the_documented_shapes() -> None:
    missed = [fact for fact in FACTS if classify_step([StepEvidence(**evidence_of(fact))]).failure_kind != fact["kind"]]
    assert 1 - len(missed) / len(FACTS) >= ENOUGH, missed


def test_an_error_that_ends_a_run_means_what_it_means_in_a_step() -> None:
    fields = ("error_type", "error_message", "http_status", "provider_code")
    for fact in FACTS:
        evidence = {name: fact[name] for name in fields if name in fact}
        if fact.get("is_tool") or fact["kind"] == "network" or not evidence.get("http_status", 0) >= 400:
            continue
        run = classify_run(RunEvidence(end_state="failed", **evidence))
        assert run.outcome_class == fact["class"], fact
