"""Errors as clients, SDKs and gateways reword them: other names, statuses in words, bodies as text, chains."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.expectations.failure_rules import name_ends
from trajlake.transforms.classify.classifier import RunEvidence, StepEvidence, classify_run, classify_step

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("worded_errors.jsonl").read_text(encoding="utf-8").splitlines()
]
LABEL = ("class", "kind")
OF_RUNS = ("error_type", "error_message", "http_status", "provider_code", "exit_code")
NOTICES = [
    "Error: 429 Too Many Requests",
    "HTTP 429: rate limited",
    "got status: 429 Too Many Requests. {...}",
    "[429] quota",
    "Error 429, Message: Resource exhausted",
    "APIError: 429",
    "rate_limit_exceeded",
    "You have exhausted your weekly quota",
    "Weekly quota exceeded. Resets Monday 09:00",
    "Your weekly quota is used up",
    "quota exceeded",
    "Opus weekly limit reached ∙ resets Oct 9, 10am",
]


def test_reworded_errors_mean_in_a_step_what_their_originals_mean() -> None:
    missed = []
    for case in CASES:
        found = classify_step([StepEvidence(**{name: case[name] for name in case if name not in LABEL})])
        if found.outcome_class != case["class"] or found.failure_kind != case.get("kind", found.failure_kind):
            missed.append((found.outcome_class, found.failure_kind, found.basis, case))
    assert len(CASES) >= 180
    assert len(missed) <= 0.02 * len(CASES), missed


def test_reworded_errors_mean_the_same_when_a_run_ends_with_them() -> None:
    missed = []
    for case in CASES:
        evidence = {name: case[name] for name in OF_RUNS if name in case}
        if evidence:
            found = classify_run(RunEvidence(end_state="failed", **evidence))
            if found.outcome_class != case["class"]:
                missed.append((found.outcome_class, found.basis, case))
    assert len(missed) <= 0.02 * len(CASES), missed


@pytest.mark.parametrize("text", NOTICES)
def test_a_notice_in_place_of_an_answer_is_quota_whatever_the_status_says(text: str) -> None:
    run = classify_run(RunEvidence(end_state="completed", success=True, output_tokens=0, output=text))
    assert (run.outcome_class, run.strength) == ("quota", "weak")
    step = classify_step([StepEvidence(output_tokens=0, content=text)])
    assert (step.outcome_class, step.strength) == ("quota", "weak")


@pytest.mark.parametrize("text", [*NOTICES, "429", "How to live with a quota that is exceeded"])
def test_what_a_model_wrote_about_errors_is_an_answer(text: str) -> None:
    assert classify_run(RunEvidence(end_state="completed", output_tokens=9, output=text)).outcome_class == "success"
    run = RunEvidence(end_state="completed", success=False, output_tokens=9, output=text)
    assert classify_run(run).outcome_class == "quality_failure"
    assert classify_step([StepEvidence(output_tokens=9, content=text)]).outcome_class == "success"


def test_a_long_text_that_mentions_a_quota_is_no_notice() -> None:
    text = "The report explains at length how the team plans its week. " * 5 + "Its weekly quota is not spent."
    run = RunEvidence(end_state="completed", success=True, output_tokens=0, output=text)
    assert classify_run(run).outcome_class == "success"


@pytest.mark.parametrize(
    ("wanted", "evidence"),
    [
        ("quota", {"error_type": "SecondaryRateLimitExceededError"}),
        ("quota", {"error_type": "HTTP_429"}),
        ("tool_fault", {"error_type": "http_503"}),
        ("tool_fault", {"error_type": "mcp.ToolCallTimedOut"}),
        ("tool_fault", {"error_type": "McpConnectionClosed"}),
        ("agent_action", {"error_type": "ToolInvalidArgumentsException"}),
        ("tool_fault", {"error_type": "PermissionError"}),
        ("unknown", {"exit_code": 1}),
    ],
)
def test_reworded_errors_of_tools(wanted: str, evidence: dict[str, Any]) -> None:
    found = classify_step([StepEvidence(is_tool=True, is_error=True, **evidence)])
    assert found.outcome_class == wanted, found


@pytest.mark.parametrize("end_state", ["failed", "truncated", "completed"])
@pytest.mark.parametrize("text", [text for text in NOTICES if text != "APIError: 429"])
def test_S5_the_same_exit_code_with_the_notice_of_a_spent_quota_is_no_failure_of_the_skill(
    end_state: str, text: str
) -> None:
    found = classify_run(RunEvidence(end_state=end_state, success=False, exit_code=1, error_message=text))
    assert (found.outcome_class, found.strength) == ("quota", "weak")


def test_S5_a_step_that_tells_of_a_spent_quota_is_what_the_run_died_of() -> None:
    step = classify_step([StepEvidence(error_message="HTTP 429: weekly quota exhausted")])
    found = classify_run(
        RunEvidence(end_state="failed", success=False, exit_code=1, last_failure=step, last_failure_step_id="s1")
    )
    assert (found.outcome_class, found.attributed_step_id) == ("quota", "s1")


@pytest.mark.parametrize("text", ["the answer is wrong", "the answer about the usage limit is wrong", "3 of 429 tests"])
def test_S2_an_error_that_only_mentions_such_words_stays_the_failure_it_is(text: str) -> None:
    found = classify_run(RunEvidence(end_state="failed", success=False, output_tokens=30, error_message=text))
    assert found.outcome_class == "quality_failure"


OUTSIDE = re.compile(r"Connection|Pipe|Timeout|gaierror|herror|URLError|Disconnected")
"""Python's own exceptions whose name says that something outside the tool went wrong."""


def test_an_exception_of_python_is_taken_for_trouble_outside_only_where_its_name_says_so() -> None:
    """Parts of names count where words begin: `FileNotFoundError` has no `UND_ERR` in it."""
    modules = (
        "builtins",
        "http.client",
        "urllib.error",
        "socket",
        "subprocess",
        "sqlite3",
        "json",
        "zipfile",
        "shutil",
    )
    names = {
        name
        for module in map(importlib.import_module, modules)
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, Exception) and not OUTSIDE.search(name)
    }
    names |= {"ObserverError", "RecordNotFoundError", "GenerateLimitError", "BackgroundError", "CarboneConnexionError"}
    assert len(names) > 60
    bases = {}
    for name in sorted(names):
        found = classify_step([StepEvidence(is_tool=True, is_error=True, error_type=name)])
        if found.basis.endswith("_words"):
            bases[name] = found.basis
    assert bases == {}


@given(st.text("aAbB1_. é#", max_size=12), st.lists(st.text("ab1é", min_size=1, max_size=3), max_size=3).map(tuple))
def test_words_stand_where_ends_of_the_name_begin_with_them(name: str, words: tuple[str, ...]) -> None:
    whole, places = name_ends(name)
    ends = [whole[place:] for place in (range(len(whole)) if places is None else places)]
    assert name_ends(name).has(words) is any(end.startswith(words) for end in ends)


@pytest.mark.parametrize("name", ["x" * 1_000, "Ab" * 500, "a1" * 500, "é" * 1_000])
def test_what_is_kept_of_a_long_name_is_about_as_long(name: str) -> None:
    whole, places = name_ends(name)
    assert (len(whole), len(places or ())) in ((1_000, 0), (1_000, 500), (1_000, 1_000))
    assert all(type(part) is int for part in places or ())


@pytest.mark.parametrize("name", ["UND_ERR_SOCKET", "UndErrSocket", "econnreset", "NodeECONNRESETError"])
def test_a_word_counts_in_any_spelling_of_a_name(name: str) -> None:
    found = classify_step([StepEvidence(is_tool=True, is_error=True, error_type=name)])
    assert (found.outcome_class, found.failure_kind) == ("tool_fault", "network"), found
