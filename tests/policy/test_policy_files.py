"""Policy files: what they may hold, what is said of wrong ones, and what their revision depends on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from trajlake.expectations.policies import (
    CONTENT_FIELDS,
    Outcome,
    PolicyError,
    PolicyFile,
    default_policies,
    duration_us,
    policy_schema,
    policy_set,
    read_policies,
)
from trajlake.expectations.policy_text import TextProblem, read_text
from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.streams.policies import load_policies

GOOD = """\
version: 1
policies:
  - id: acme
    tenant: acme
    zone: eu
    isolation: dedicated
    retention: {events: 90d, quarantine: 2w}
    purposes:
      train: {allow: true, consent: if_subject, licences: [Apache-2.0], annotators: [{kind: code}]}
  - id: acme-refund
    tenant: acme
    skill: refund
    purposes:
      train: {fields: {steps.reasoning_content: drop}}
deny:
  - id: no-secret
    reason: Secret runs are never trained on.
    purposes: [train]
    when: {classifications: [secret]}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        policy_set([read_policies("p.yaml", text)])
    return [str(problem) for problem in caught.value.problems]


def test_a_file_is_read_whole() -> None:
    policies = policy_set([read_policies("p.yaml", GOOD)])
    assert [policy.id for policy in policies.policies] == ["acme", "acme-refund"]
    assert policies.places["no-secret"] == "p.yaml:16"


@pytest.mark.parametrize(
    ("change", "line", "field", "said"),
    [
        (("zone: eu", "zone: EU"), 5, "policies[0].zone", "is no zone"),
        (("zone: eu", "zoen: eu"), 5, "policies[0].zoen", "did you mean zone?"),
        (("events: 90d", "evnts: 90d"), 7, "policies[0].retention.evnts", "is no table"),
        (("90d", "90m"), 7, "policies[0].retention.events", "is no duration"),
        (("allow: true", "allow: 1"), 9, "policies[0].purposes.train.allow", "boolean"),
        (("train: {fields", "trian: {fields"), 14, "policies[1].purposes.trian", "'train'"),
        (("drop", "burn"), 14, "policies[1].purposes.train.fields.steps.reasoning_content", "'drop'"),
        (("steps.reasoning_content", "steps.thoughts"), 14, "steps.thoughts", "is no content field"),
        (("id: no-secret", "id: acme"), 16, "deny[0].id", "used twice"),
        (("    reason: Secret runs are never trained on.\n", ""), 16, "deny[0].reason", "is missing"),
        (("    skill: refund\n", ""), 10, "policies[1]", "same tenant and skill"),
        (("version: 1", "version: 2"), 1, "version", "1"),
        (("[{kind: code}]", "code"), 9, "policies[0].purposes.train.annotators", "neither a list nor `any`"),
        (("{kind: code}", "{}"), 9, "annotators[0]", "names no grader"),
    ],
)
def test_a_wrong_file_is_named_with_file_line_and_field(
    change: tuple[str, str], line: int, field: str, said: str
) -> None:
    (problem,) = problems(GOOD.replace(*change, 1))
    assert problem.startswith(f"p.yaml:{line}: ")
    assert field in problem
    assert said in problem


def test_all_problems_of_a_file_are_told_at_once() -> None:
    text = GOOD.replace("zone: eu", "zone: EU").replace("90d", "x").replace("drop", "burn")
    assert len(problems(text)) == 3


def test_the_value_of_a_wrong_field_is_never_repeated() -> None:
    said = problems(GOOD.replace("zone: eu", "zone: hunter2-Secret!"))
    assert "hunter2" not in "".join(said)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: &x 1\nb: 2", 1),
        ("a: 1\nb: *x", 2),
        ("a: 1\na: 2", 2),
        ("a: !!python/object:os.system {}", 1),
        ("a: {b: 1}\n<<: {c: 2}", 2),
        ("1: a", 1),
        ("a: [", 1),
        ("", 1),
        ("x: " + "[" * 40 + "]" * 40, 1),
        ("a: 1\n---\nb: 2", 2),
    ],
)
def test_yaml_that_is_more_than_plain_data_is_refused(text: str, line: int) -> None:
    with pytest.raises(TextProblem) as caught:
        read_text(text)
    assert caught.value.line == line


def test_plain_values_mean_what_json_has() -> None:
    value, lines = read_text("a: [1, 0x10, true, null, ~, 2026-01-01, yes, 1.5]\nb:\n  c: '1'")
    assert value == {"a": [1, 16, True, None, None, "2026-01-01", "yes", 1.5], "b": {"c": "1"}}
    assert lines["b", "c"] == 3


def test_the_revision_is_of_what_is_decided() -> None:
    def revision(text: str) -> str:
        return policy_set([read_policies("p.yaml", text)]).revision

    plain = revision(GOOD)
    assert revision(GOOD.replace("tenant: acme\n    zone", "tenant: acme  # ours\n    about: Us.\n    zone")) == plain
    assert revision(GOOD.replace("90d", "91d")) != plain
    assert revision(GOOD.replace("secret]", "top-secret]")) != plain
    assert default_policies().revision not in ("", plain)


def test_the_revision_does_not_depend_on_files_or_order() -> None:
    head, _, rest = GOOD.partition("  - id: acme-refund")
    refund, _, deny = rest.partition("deny:")
    first, second = f"{head}deny:{deny}", f"version: 1\npolicies:\n  - id: acme-refund{refund}"
    texts = [read_policies("a.yaml", first), read_policies("b.yaml", second)]
    whole = policy_set([read_policies("p.yaml", GOOD)]).revision
    assert policy_set(texts).revision == policy_set(reversed(texts)).revision == whole


def test_the_published_schema_agrees_with_the_reader() -> None:
    schema = policy_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(read_text(GOOD)[0], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(read_text(GOOD.replace("zone: eu", "zone: EU"))[0], schema)
    described = [name for name, field in schema["$defs"]["Policy"]["properties"].items() if field.get("description")]
    assert described == list(schema["$defs"]["Policy"]["properties"])
    assert json.dumps(schema)


def test_the_defaults_deny_training_and_name_every_setting() -> None:
    terms = default_policies().defaults.purposes
    assert terms["train"].allow is False
    for purpose in terms.values():
        given = purpose.model_dump(exclude={"fields"})
        assert None not in given.values(), given


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    head, _, rest = GOOD.partition("deny:")
    (tmp_path / "a.yaml").write_text(head)
    (tmp_path / "b.yml").write_text(f"version: 1\ndeny:{rest}")
    (tmp_path / ".hidden.yaml").write_text("{")
    (tmp_path / "notes.txt").write_text("{")
    assert load_policies(str(tmp_path)).revision == policy_set([read_policies("p", GOOD)]).revision


def test_a_place_without_policies_is_an_error_not_the_defaults(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent.yaml"):
        with pytest.raises(PolicyError):
            load_policies(str(place))
    (tmp_path / "bad.yaml").write_bytes(b"version: 1\nabout: \xff\n")
    with pytest.raises(PolicyError, match=r"bad\.yaml:2: file: is not UTF-8"):
        load_policies(str(tmp_path))
    assert load_policies("") is default_policies()


def test_problems_of_several_files_are_told_together(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("version: 7\n")
    with pytest.raises(PolicyError) as caught:
        load_policies(str(tmp_path))
    assert [Path(problem.file).name for problem in caught.value.problems] == ["a.yaml", "b.yaml"]


def test_durations() -> None:
    assert duration_us("1d") == 86_400_000_000
    assert duration_us("2w") == 14 * 86_400_000_000
    assert duration_us("3h") == 3 * 3_600_000_000
    assert duration_us("1y") == 365 * 86_400_000_000
    assert duration_us("forever") is None


def test_content_fields_are_columns() -> None:
    from trajlake.expectations.tables import TABLES

    for name in CONTENT_FIELDS:
        table, column = name.split(".")
        assert column in TABLES[table].names
    assert PolicyFile.model_validate({"version": 1}).policies == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policies: [{id: a, tenant: , purposes: {train: {allow: true}}}]", "policies[0].tenant: has no value"),
        ("policies: [{id: a, skill: ~}]", "policies[0].skill: has no value"),
        ("policies: [{id: a, purposes: {train: {consent: null}}}]", "policies[0].purposes.train.consent: has no value"),
        ("deny: [{id: d, reason: x, when: {tenants: }}]", "deny[0].when.tenants: has no value"),
        ("deny: [{id: d, reason: x, when: {tenants: []}}]", "deny[0].when.tenants: List should have at least 1"),
        ("deny: [{id: d, reason: x, when: {missing: []}}]", "deny[0].when.missing: List should have at least 1"),
        ("deny: [{id: d, reason: x, purposes: []}]", "deny[0].purposes: List should have at least 1"),
        (
            "deny: [{id: d, reason: x, when: {outcome_classes: [succes]}}]",
            "deny[0].when.outcome_classes[0]: Input should",
        ),
        ("policies: [{id: a, tenant: 'acme '}]", "policies[0].tenant: begins or ends with a space"),
        ("policies: [{id: a, tenant: |\n    acme\n}]", "p.yaml:"),
        ('policies: [{id: a, tenant: "ac\\u200bme"}]', "policies[0].tenant: holds a character that does not show"),
        ('policies: [{id: a, tenant: "ac\\0me"}]', "policies[0].tenant: holds a character that does not show"),
        (
            "policies: [{id: a, purposes: {train: {licences: [any]}}}]",
            "purposes.train.licences: `any` stands by itself",
        ),
        ("policies: [{id: a, retention: {events: 999999y}}]", "is longer than 1,000 years"),
    ],
)
def test_what_would_silently_be_about_everybody_or_nobody_is_refused(text: str, said: str) -> None:
    assert said in problems(f"version: 1\n{text}")[0]


def test_yes_and_no_are_no_booleans_whatever_a_directive_says() -> None:
    text = "version: 1\npolicies: [{id: a, seal_refused: yes}]"
    assert "valid boolean" in problems(text)[0]
    assert "write true or false" in problems(f"%YAML 1.1\n---\n{text}")[0]


def test_files_whose_ending_is_in_capitals_are_read_and_folders_in_the_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.YAML").write_text("version: 1\ndeny: [{id: d, reason: x}]\n")
    assert [rule.id for rule in load_policies(str(tmp_path)).deny] == ["d"]
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.yaml").write_text("nonsense")
    (tmp_path / "eu").mkdir()
    assert load_policies(str(tmp_path)).deny
    (tmp_path / "eu" / "b.yml").write_text(GOOD)
    with pytest.raises(PolicyError, match=r"eu:1: file: folders in a folder of policies are not read"):
        load_policies(str(tmp_path))


def test_outcomes_that_a_rule_may_name_are_those_that_runs_have() -> None:
    assert set(get_args(Outcome)) == {outcome.value for outcome in OutcomeClass}
