"""Policies: the data that says what may be kept, where, for whom, for what and for how long.

A file holds `policies` (the terms of a scope) and `deny` rules (what no policy can allow). `transforms.policy` applies
them; this module only says what a file may hold, and gives a set of files its revision.

**Which policy counts.** A scope is a tenant and a skill, either of them open. Each single setting is taken from the
most specific policy that gives it: tenant and skill, then tenant, then skill, then neither, then the defaults that
come with trajlake (`default_policy.yaml`). Two policies of one scope are an error, so the order of files and entries
means nothing. Deny rules stand beside all that: one that matches denies, whatever the policies allow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from trajlake.expectations.errors import TrajlakeError
from trajlake.expectations.names import unseen_in
from trajlake.expectations.policy_text import Lines, Place, TextProblem, line_of, read_text
from trajlake.expectations.tables import TABLES

ENGINE: Final = 2
"""Raised when `transforms.policy` applies the same files in another way; part of the revision."""

Purpose = Literal["train", "evaluate", "statistics", "audit"]
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)
Consent = Literal["required", "if_subject", "not_needed"]
ConsentTime = Literal["before_run", "any_time"]
Declaration = Literal["required", "respected", "ignored"]
RefusedRewards = Literal["deny_run", "leave_out"]
FieldAction = Literal["keep", "mask", "drop"]
DeepScan = Literal["skip", "hold", "refuse"]
Isolation = Literal["shared", "dedicated"]
Stated = Literal["skill", "model", "classification", "licence", "residency", "subject", "purpose"]
Outcome = Literal[
    "success", "quality_failure", "agent_action", "tool_fault", "infra_fault", "quota", "config", "policy_denied",
    "verifier_fault", "cancelled", "abandoned", "timeout", "unknown",
]  # fmt: skip
"""Values of `OutcomeClass`."""

ANYWHERE: Final = "any"
FOREVER: Final = "forever"
_DAY_US: Final = 86_400_000_000
_UNITS_US: Final = {"h": _DAY_US // 24, "d": _DAY_US, "w": 7 * _DAY_US, "y": 365 * _DAY_US}
_LONGEST_US: Final = 1000 * 365 * _DAY_US

_ID: Final = r"^[a-z0-9][a-z0-9._-]{0,63}$"
_ZONE: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
_DURATION: Final = r"^([1-9][0-9]{0,5}[hdwy]|forever)$"
_SHAPES: Final = {
    _ID: "is no id: small letters, digits, '.', '_' and '-', at most 64",
    _ZONE: "is no zone: small letters, digits and '-', at most 63",
    _DURATION: "is no duration: a number and h, d, w or y, or `forever`",
}


def _plain_name(name: str) -> str:
    """A name that looks like another one would silently be about nobody."""
    if (problem := unseen_in(name)) is not None:
        raise ValueError(problem)
    return name


def _sane_duration(text: str) -> str:
    if text != FOREVER and int(text[:-1]) * _UNITS_US[text[-1]] > _LONGEST_US:
        raise ValueError("is longer than 1,000 years; write `forever`")
    return text


def _not_any(names: list[str] | str | None) -> list[str] | str | None:
    if isinstance(names, list) and ANYWHERE in names:
        raise ValueError("`any` stands by itself, not in a list")
    return names


Id = Annotated[str, Field(pattern=_ID)]
Name = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_plain_name)]
Names = Annotated[list[Name], Field(min_length=1)]
"""Any one of some names. None at all would match nothing."""
Zone = Annotated[str, Field(pattern=_ZONE)]
Duration = Annotated[str, Field(pattern=_DURATION), AfterValidator(_sane_duration)]

_CONTENT: Final = {
    "runs": ("input", "output", "final_messages", "compactions"),
    "steps": ("input_messages", "message", "reasoning_content", "tool_calls", "observations"),
    "rewards": ("explanation", "label"),
}
CONTENT_FIELDS: Final = tuple(f"{table}.{column}" for table, columns in _CONTENT.items() for column in columns)
"""What a field action may name: the columns that hold what people, models and tools wrote."""


def _content_field(path: str) -> str:
    if path not in CONTENT_FIELDS:
        raise ValueError(f"is no content field; there are {', '.join(CONTENT_FIELDS)}")
    return path


def _kept_table(name: str) -> str:
    if name not in TABLES:
        raise ValueError(f"is no table; there are {', '.join(TABLES)}")
    return name


ContentField = Annotated[str, AfterValidator(_content_field)]
KeptTable = Annotated[str, AfterValidator(_kept_table)]


class _Part(BaseModel):
    """What all parts of a file share: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Annotator(_Part):
    """Graders by kind, id or version; what is not given may be anything."""

    kind: Literal["code", "model", "human", "self"] | None = None
    """What kind of grader."""
    id: Name | None = None
    """Which grader."""
    version: Name | None = None
    """Version of the grader."""

    @model_validator(mode="after")
    def _says_something(self) -> Annotator:
        if self.kind is None and self.id is None and self.version is None:
            raise ValueError("names no grader; write `annotators: any` to allow all")
        return self


class Terms(_Part):
    """Terms under which runs may serve one purpose. What is not given comes from the next less specific policy."""

    allow: bool | None = None
    """Whether runs may serve the purpose at all."""
    declared: Declaration | None = None
    """The purposes that the run's producer declared: must name this one; must if there are any; do not matter."""
    consent: Consent | None = None
    """Consent of the run's subject to this purpose: required; required where the run names a subject; not needed."""
    consent_given: ConsentTime | None = None
    """Whether consent has to hold from the run's start to its end as well, or only when it is judged."""
    licences: Annotated[list[Name] | Literal["any"] | None, AfterValidator(_not_any)] = None
    """Licences that the run's material may have; one without a licence has none of these."""
    annotators: list[Annotator] | Literal["any"] | None = None
    """Graders whose rewards may be used."""
    refused_rewards: RefusedRewards | None = None
    """What a reward of another grader does: deny the run, or be left out of it."""
    deep_scan: DeepScan | None = None
    """What Presidio's recognizers, asked before publication, do with a run in which they find something: are not asked;
    hold it for an operator; refuse it. Only training is published, so it means nothing for the other purposes."""
    fields: dict[ContentField, FieldAction] = Field(default_factory=dict)
    """Content field -> keep; mask (a marker in its place); drop (null). Given field by field."""


class _Named(_Part):
    """What policies and deny rules share."""

    id: Id
    """Name by which decisions refer to it; used once in a set."""
    about: str | None = None
    """What it is for, in words; no part of the revision."""


class Policy(_Named):
    """Terms of one scope. Neither tenant nor skill: all runs."""

    tenant: Name | None = None
    """Tenant that it is about; all where absent."""
    skill: Name | None = None
    """Skill that it is about; all where absent."""
    purposes: dict[Purpose, Terms] = Field(default_factory=dict)
    """Terms by purpose."""
    zone: Zone | None = None
    """Zone that the data has to stay in; `any` where it may be anywhere."""
    isolation: Isolation | None = None
    """`dedicated`: lands only where a worker is bound to the tenant. `shared`: may lie beside other tenants'."""
    retention: dict[KeptTable, Duration] = Field(default_factory=dict)
    """Table -> how long its rows are kept: a number and h, d, w or y (365 d), or `forever`. Given table by table."""
    seal_refused: bool | None = None
    """Whether records that are refused keep a sealed original beside the redacted one. Where a policy says true, `land`
    does not start without setting `seal_public_key`; false keeps none even with a key."""


class When(_Part):
    """Condition of a deny rule: every key that is given must hold, by any one of its values. None given: all runs."""

    tenants: Names | None = None
    """Tenant of the run."""
    skills: Names | None = None
    """Skill of the run."""
    skill_versions: Names | None = None
    """Version of the skill."""
    agents: Names | None = None
    """Agent of the run."""
    models: Names | None = None
    """Model of the run."""
    providers: Names | None = None
    """Who served the model."""
    classifications: Names | None = None
    """Sensitivity as the producer declared it."""
    licences: Names | None = None
    """Licence of the material."""
    residencies: Names | None = None
    """Zone as the producer declared it."""
    subjects: Names | None = None
    """Person whose data the run holds."""
    outcome_classes: Annotated[list[Outcome], Field(min_length=1)] | None = None
    """What came of the run."""
    annotators: Annotated[list[Annotator], Field(min_length=1)] | None = None
    """A grader that gave the run a reward."""
    missing: Annotated[list[Stated], Field(min_length=1)] | None = None
    """Facts that the run does not state; every one of them is missing."""


class Deny(_Named):
    """What no policy can allow."""

    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """Why, in words that may be shown to anybody."""
    purposes: Annotated[list[Purpose], Field(min_length=1)] | None = None
    """Purposes that are denied; all where absent."""
    when: When = Field(default_factory=When)
    """Runs that it is about."""


class PolicyFile(_Part):
    """One file of policies."""

    version: Literal[1]
    """Version of this format."""
    policies: list[Policy] = Field(default_factory=list)
    """Terms, each of one scope."""
    deny: list[Deny] = Field(default_factory=list)
    """Rules that deny whatever the policies allow."""


class Problem(NamedTuple):
    """One thing that is wrong: in which file, on which line (1-based), which field, what."""

    file: str
    line: int
    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field}: {self.what}"


class PolicyError(TrajlakeError, ValueError):
    """Policy files cannot be used; `problems` lists why, in the order of files and lines."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        more = len(problems) - 1
        rest = f" (and {more} more; `trajlake policy check` lists all)" if more else ""
        super().__init__(f"{self.problems[0]}{rest}")


@dataclass(frozen=True)
class PolicyText:
    """One file that was read: its name, what it holds, and the lines of what it holds."""

    name: str
    content: PolicyFile
    lines: Lines = field(repr=False)


@dataclass(frozen=True, eq=False)
class PolicySet:
    """All policies and deny rules that hold together. Made by `policy_set`; compared by `revision`."""

    policies: tuple[Policy, ...]
    deny: tuple[Deny, ...]
    defaults: Policy
    places: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Rule id -> `file:line` where it stands."""

    @cached_property
    def revision(self) -> str:
        """First 16 hex digits of the SHA-256 over what the set decides; prose, order and comments play no part."""
        parts: list[Policy | Deny] = [*self.policies, *self.deny, self.defaults]
        decisive = [
            [type(part).__name__, part.model_dump(mode="json", exclude={"about"}, exclude_defaults=True)]
            for part in sorted(parts, key=lambda part: part.id)
        ]
        text = orjson.dumps([ENGINE, decisive], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()[:16]

    @cached_property
    def deep_scans(self) -> tuple[str, ...]:
        """Ids of the policies that ask for a deep scan before publication."""
        asked = ((policy.id, policy.purposes.get("train")) for policy in (*self.policies, self.defaults))
        return tuple(id for id, terms in asked if terms is not None and terms.deep_scan not in (None, "skip"))


def read_policies(name: str, text: str) -> PolicyText:
    """Read one file of policies from its text. `name` is how errors call it. Raises `PolicyError`."""
    try:
        value, lines = read_text(text)
    except TextProblem as problem:
        raise PolicyError([Problem(name, problem.line, "text", problem.what)]) from None
    if unsaid := [Problem(name, line_of(lines, place), dotted(place), _UNSAID) for place in _nulls(value)]:
        raise PolicyError(unsaid)
    try:
        return PolicyText(name, PolicyFile.model_validate(value), lines)
    except ValidationError as error:
        raise PolicyError(_problems(name, lines, error)) from None


_UNSAID: Final = "has no value; leave the key out, or give it one"
"""A key without a value may be a template's gap: `tenant:` would make one tenant's policy everybody's."""


def _nulls(value: Any, place: Place = ()) -> Iterator[Place]:
    """Places of nulls below the whole."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if part is None:
            yield (*place, key)
        yield from _nulls(part, (*place, key))


def policy_set(texts: Iterable[PolicyText] = ()) -> PolicySet:
    """The set that some files make together, on top of the defaults. Raises `PolicyError` where they contradict."""
    texts = list(texts)
    shipped = _shipped()
    problems: list[Problem] = []
    places: dict[str, str] = {}
    scopes: dict[tuple[str | None, str | None], str] = {}
    for text in [shipped, *texts]:
        kinds: tuple[tuple[str, Sequence[_Named]], ...]
        kinds = (("policies", text.content.policies), ("deny", text.content.deny))
        for kind, parts in kinds:
            for index, part in enumerate(parts):
                line = line_of(text.lines, (kind, index, "id"))
                if part.id in places:
                    what = f"id {part.id} is used twice: {places[part.id]} has it too"
                    problems.append(Problem(text.name, line, f"{kind}[{index}].id", what))
                    continue
                places[part.id] = f"{text.name}:{line}"
                if text is shipped or not isinstance(part, Policy):
                    continue
                other = scopes.setdefault((part.tenant, part.skill), part.id)
                if other != part.id:
                    what = f"policy {other} has the same tenant and skill ({places[other]}); make them one"
                    problems.append(Problem(text.name, line, f"{kind}[{index}]", what))
    if problems:
        raise PolicyError(problems)
    policies = tuple(policy for text in texts for policy in text.content.policies)
    deny = tuple(rule for text in texts for rule in text.content.deny)
    return PolicySet(policies, deny, shipped.content.policies[0], places)


@cache
def default_policies() -> PolicySet:
    """The set that holds where no files are given: training is denied."""
    return policy_set()


@cache
def _shipped() -> PolicyText:
    text = resources.files(__package__).joinpath("default_policy.yaml").read_text(encoding="utf-8")
    return read_policies("default_policy.yaml", text)


def policy_schema() -> dict[str, Any]:
    """JSON Schema of a policy file, for editors and checks elsewhere."""
    schema = PolicyFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:trajlake:policies:1", **schema}


def duration_us(text: str) -> int | None:
    """A `retention` in microseconds; None for `forever`."""
    return None if text == FOREVER else int(text[:-1]) * _UNITS_US[text[-1]]


def _problems(name: str, lines: Lines, error: ValidationError) -> list[Problem]:
    """The validator's findings, one for each place: of a union's branches, the one that got furthest."""
    found: dict[Place, Problem] = {}
    for entry in error.errors(include_url=False, include_input=False):
        place = tuple(part for part in entry["loc"] if not _is_branch(part))
        if entry["type"] == "literal_error" and str(entry["loc"][-1]).startswith("literal["):
            entry = {**entry, "type": "union", "msg": "is neither a list nor `any`"}
        found[place] = _problem(name, lines, place, entry)
    return [
        problem
        for place, problem in found.items()
        if not any(len(other) > len(place) and other[: len(place)] == place for other in found)
    ]


def _problem(name: str, lines: Lines, place: Place, entry: Any) -> Problem:
    """One finding in our words. Values are never quoted: a file may hold a secret by mistake."""
    if entry["type"] == "extra_forbidden":
        known = _known_fields(place[:-1])
        near = get_close_matches(str(place[-1]), known, n=1, cutoff=0.6)
        what = f"there is no such field; did you mean {near[0]}?" if near else "there is no such field"
    elif entry["type"] == "missing":
        what = "is missing"
    elif entry["type"] == "string_pattern_mismatch":
        what = _SHAPES[entry["ctx"]["pattern"]]
    else:
        what = str(entry.get("ctx", {}).get("error") or entry["msg"])
    return Problem(name, line_of(lines, place), dotted(place), what)


_BRANCHES: Final = ("list[", "literal[", "constrained-", "function-")


def _is_branch(part: object) -> bool:
    """Whether a part of a place names a branch of a union, not a key of the file."""
    return isinstance(part, str) and (part.startswith(_BRANCHES) or part == "[key]")


def _known_fields(place: Place) -> list[str]:
    """Fields that may stand at a place of a file."""
    if not place:
        return list(PolicyFile.model_fields)
    for part, model in (("annotators", Annotator), ("when", When), ("purposes", Terms)):
        if part in place:
            return list(model.model_fields)
    return list((Policy if place[0] == "policies" else Deny).model_fields)


def dotted(place: Place) -> str:
    """A place in a file as people write it: `policies[0].purposes.train.allow`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.lstrip(".") or "file"
