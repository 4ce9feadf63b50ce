"""Levers as data: what can be done, when it makes sense, what it costs, and when it counts as tried in vain.

The shipped table is `levers.yaml`; an operator may give another. `transforms.levers` applies it. A decision stores
the whole table that it was made under, so that it can be made again when the table has long changed.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from trajlake.expectations.errors import TrajlakeError
from trajlake.expectations.policy_text import Lines, TextProblem, line_of, read_text
from trajlake.expectations.taxonomy import FailureKind


class Lever(StrEnum):
    """Everything that can be advised."""

    WAIT = "wait"
    CAPACITY = "capacity"
    PLATFORM = "platform"
    TOOL = "tool"
    PROMPT = "prompt"
    SKILL = "skill"
    MEMORY = "memory"
    MODEL_UP = "model_up"
    MODEL_DOWN = "model_down"
    RETRAIN = "retrain"
    NONE = "none"
    """Nothing is advised: nothing is wrong, or no lever is left."""


FACTS: Final[dict[str, str]] = {
    "state": "standing of the skill: degraded, watch, not_enough_data or ok",
    "pinned": "somebody decided the tier by hand",
    "tier_above": "there is a tier above the skill's",
    "tier_below": "there is a tier below the skill's",
    "above_no_better": "the skill's runs on a tier above are proven, or after enough runs seen, to be no better",
    "below_as_good": "the skill's runs on the tier below are proven to be as good",
    "share_agent_action": "share of malformed acts among the skill's failures",
    "memory_in_play": "failures by a full context, or a memory that changed before the drop",
    "trajectories": "published trajectories of the skill",
    "spent": "levers that are spent",
    "open": "levers that fit and are not spent, save those that ask for this fact themselves",
    "cause_class": "outcome class of a common cause",
    "cause_kind": "failure kind of a common cause",
    "cause_dimension": "what a common cause is named by: tool, provider, error_type or class",
}
"""Facts that a condition may ask for. They are worked out in `transforms.levers.facts`."""

_OPERATORS: Final = ("equals", "one_of", "at_least", "holds", "lacks")


class LeverError(TrajlakeError, ValueError):
    """A lever table cannot be used; the message names file, line and entry."""


class Condition(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One fact and what it must be; exactly one operator."""

    fact: str
    equals: bool | str | None = field(default=None, name="is")
    one_of: tuple[str, ...] | None = None
    at_least: float | None = None
    holds: tuple[str, ...] | None = None
    lacks: tuple[str, ...] | None = None


class Cost(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What pulling a lever costs, once."""

    hours: float = 0.0
    usd: float = 0.0


class Spent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a lever that was pulled counts as tried in vain."""

    after_runs: int
    """Scorable runs since, after which the absence of a proven effect is held against it."""
    least_gain: float
    """Points of success rate below which an unproven gain is none."""
    for_days: int
    """After so long it may be tried again."""


class LeverEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of the table."""

    lever: Lever
    title: str
    subject: Literal["skill", "cause"] = field(name="for")
    when: tuple[Condition, ...] = ()
    fits: tuple[FailureKind, ...] = ()
    revises: Literal["prompt", "skill", "memory", "tool", "model"] | None = None
    chance: tuple[float, float]
    cost: Cost
    spent: Spent


class LeverTerms(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Values that hold for all levers; meanings stand in `levers.yaml`."""

    alpha: float = 0.05
    target_rate: float = 0.5
    least_runs: int = 20
    margin: float = 0.05
    expires_days: float = 7
    cause_expires_days: float = 1
    runs_ahead: int = 500
    usd_per_hour: float = 100
    tiers: tuple[str, ...] = ()


class LeverTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    terms: LeverTerms = LeverTerms()
    levers: tuple[LeverEntry, ...]

    @property
    def revision(self) -> str:
        """First 16 hex digits of the SHA-256 over the table's content; comments and layout do not count."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


@cache
def shipped_levers() -> LeverTable:
    """The table that comes with trajlake."""
    return read_levers("levers.yaml", resources.files(__package__).joinpath("levers.yaml").read_text(encoding="utf-8"))


def read_levers(name: str, text: str) -> LeverTable:
    """Read a lever table from YAML text and check it. Raises `LeverError` naming the file, line and entry."""
    try:
        value, lines = read_text(text)
    except TextProblem as error:
        raise LeverError(f"{name}: {error}") from None
    try:
        table = msgspec.convert(value, LeverTable, strict=True)
    except msgspec.ValidationError as error:
        raise LeverError(_located(name, lines, value, str(error))) from None
    for index, entry in enumerate(table.levers):
        problem = _problem(entry)
        if problem:
            line = line_of(lines, ("levers", index))
            raise LeverError(f"{name}: line {line}: lever {entry.lever} for {entry.subject}: {problem}")
    seen = [(entry.lever, entry.subject) for entry in table.levers]
    for index, key in enumerate(seen):
        if key in seen[:index]:
            line = line_of(lines, ("levers", index))
            raise LeverError(f"{name}: line {line}: lever {key[0]} for {key[1]} stands twice")
    problem = _terms_problem(table.terms)
    if problem:
        raise LeverError(f"{name}: line {line_of(lines, ('terms',))}: terms: {problem}")
    return table


def _problem(entry: LeverEntry) -> str | None:
    if entry.lever is Lever.NONE:
        return "`none` is what is left when no lever is, and takes no entry"
    worked, tried = entry.chance
    if not 0 < worked <= tried:
        return f"chance [{worked:g}, {tried:g}] is not [worked, tried] with 0 < worked <= tried"
    if entry.cost.hours < 0 or entry.cost.usd < 0:
        return "a cost is not below zero"
    if entry.spent.after_runs < 1 or entry.spent.for_days < 1:
        return "spent wants after_runs and for_days of 1 or more"
    for condition in entry.when:
        if condition.fact not in FACTS:
            return f"there is no fact {condition.fact!r}; there are {', '.join(FACTS)}"
        given = [name for name in _OPERATORS if getattr(condition, name) is not None]
        if len(given) != 1:
            return f"fact {condition.fact} wants exactly one of is, one_of, at_least, holds, lacks"
    return None


def _terms_problem(terms: LeverTerms) -> str | None:
    if not 0 < terms.alpha < 1:
        return f"alpha {terms.alpha:g} is not within 0 and 1"
    if not 0 < terms.target_rate < 1:
        return f"target_rate {terms.target_rate:g} is not within 0 and 1"
    if not 0 <= terms.margin < 1:
        return f"margin {terms.margin:g} is not within 0 and 1"
    if min(terms.expires_days, terms.cause_expires_days) <= 0:
        return "advice wants some time before it expires"
    if len(set(terms.tiers)) < len(terms.tiers):
        return "a tier stands twice"
    return None


def _located(name: str, lines: Lines, value: Any, message: str) -> str:
    """msgspec's message, which ends in the place (`$.levers[3].cost`), with the line of that place."""
    what, _, path = message.partition(" - at `")
    place: list[str | int] = []
    for part in path.rstrip("`").removeprefix("$").replace("[", ".[").split("."):
        if part.startswith("[") and part[1:-1].isdecimal():
            place.append(int(part[1:-1]))
        elif part:
            place.append(part)
    shown = path.rstrip("`").removeprefix("$.")
    return f"{name}: line {line_of(lines, tuple(place))}: {f'{shown}: ' if shown else ''}{what}"
