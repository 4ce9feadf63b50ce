"""The fields that editors offer are those of the event contract."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec
import pytest

from trajlake.expectations import events
from trajlake.recording import fields
from trajlake.recording.recorder import Call, Run, Step
from trajlake.recording.shapes import gather

VERSIONS = {"agent_version", "skill_version", "prompt_version", "memory_version", "framework_version"}
MODEL_PARTS = {"model_tier", "model_provider"}


@pytest.mark.parametrize(
    ("typed", "struct", "short_forms", "parameters"),
    [
        (fields.RunFields, events.RunStarted, VERSIONS | MODEL_PARTS | {"environment_version"}, set()),
        (fields.ResponseFields, events.ModelResponded, MODEL_PARTS, {"step_id"}),
        (fields.CallFields, events.ToolCalled, {"tool_version"}, {"tool_call_id", "function_name", "arguments"}),
        (fields.ResultFields, events.ToolReturned, set(), {"tool_call_id", "function_name", "content"}),
        (fields.PolicyFields, events.PolicyDecided, set(), {"policy_id", "verdict"}),
        (fields.CompactionFields, events.ContextCompacted, set(), {"summary"}),
        (fields.FeedbackFields, events.FeedbackGiven, set(), {"score"}),
        (fields.RewardFields, events.RewardAssigned, set(), {"name", "score", "annotator_kind"}),
        (fields.EndFields, events.RunEnded, set(), {"end_state"}),
    ],
)
def test_typed_fields_agree_with_the_contract(
    typed: Any, struct: type[msgspec.Struct], short_forms: set[str], parameters: set[str]
) -> None:
    hints = typing.get_type_hints(typed)
    assert set(hints) == (set(struct.__struct_fields__) - parameters) | short_forms
    for field in msgspec.structs.fields(struct):
        if field.name in hints:
            assert _scalars(field.type) & {str, int, float, bool} <= _scalars(hints[field.name]) | {float}


@pytest.mark.parametrize(
    "method", [Run.reward, Step.reward, Run.end, Run.feedback, Run.policy, Run.compacted, Step.respond]
)
def test_recording_methods_are_typed_by_these_fields(method: Any) -> None:
    kinds = {parameter.kind: parameter for parameter in inspect.signature(method).parameters.values()}
    assert "Unpack[" in str(kinds[inspect.Parameter.VAR_KEYWORD].annotation)


def test_context_managers_document_themselves() -> None:
    for public in (Run, Step, Call):
        for name, member in vars(public).items():
            if not name.startswith("_") and callable(member):
                assert inspect.getdoc(member), f"{public.__name__}.{name}"


def test_short_forms_become_names_and_versions() -> None:
    given = {
        "skill": "refund",
        "skill_version": 3,
        "model": "large",
        "model_tier": "upper",
        "agent": None,
        "task_id": "t",
    }
    assert gather(given) == {
        "skill": {"name": "refund", "version": "3"},
        "model": {"name": "large", "tier": "upper"},
        "task_id": "t",
    }


def test_a_version_alone_keeps_its_place() -> None:
    assert gather({"prompt_version": "7", "tools": ["search", {"name": "shell", "version": "2"}]}) == {
        "prompt": {"version": "7"},
        "tools": [{"name": "search"}, {"name": "shell", "version": "2"}],
    }


def test_a_struct_with_a_version_beside_it_keeps_both() -> None:
    assert gather({"skill": events.Named(name="refund"), "skill_version": "3"}) == {
        "skill": {"name": "refund", "version": "3"}
    }


def _scalars(hint: Any) -> set[Any]:
    """The plain types somewhere in an annotation."""
    arguments = typing.get_args(hint)
    found = {hint} if isinstance(hint, type) and hint in (str, int, float, bool) else set()
    if typing.get_origin(hint) is typing.Literal:
        return {type(argument) for argument in arguments}
    for argument in arguments:
        found |= _scalars(argument)
    return found
