"""What a skill of the demo is: a task that is laid out in a folder, a policy that works on it, and a grader.

A policy stands for the model. It is a generator: it yields what the model says and which tools it asks for, is sent
what the tools gave, and returns the final answer. It knows the task's text and what tools told it, nothing else; a
`slip` is the mistake that this model makes, and the grader, which looks at the real result, does not know of it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar


class GaveUp(Exception):
    """The agent sees no way on and says so."""


@dataclass(frozen=True)
class Ask:
    """One tool call as the model emits it. `arguments` is JSON text, or what the model takes for it."""

    tool: str
    arguments: str


def ask(tool: str, **arguments: Any) -> Ask:
    """A call with well-formed arguments."""
    return Ask(tool, json.dumps(arguments))


@dataclass(frozen=True)
class Reply:
    """What the model says at one step. `thought` is its reasoning, where it shows any."""

    message: str
    asks: tuple[Ask, ...] = ()
    thought: str | None = None


def say(message: str, *asks: Ask, thought: str | None = None) -> Reply:
    """A reply with any number of calls."""
    return Reply(message, asks, thought)


@dataclass(frozen=True)
class Seen:
    """What came back of one call, in the order of the calls."""

    content: Any
    is_error: bool = False


Policy = Generator[Reply, list[Seen], str]


@dataclass
class Task:
    """A task in its folder. `key` is the grader's own, outside the folder; `close` lets go of what the world holds."""

    prompt: str
    folder: Path
    key: Path
    close: list[Callable[[], None]] = field(default_factory=list)

    def keep(self, **facts: Any) -> None:
        """Put what the grader needs where the agent does not look."""
        self.key.write_text(json.dumps(facts), encoding="utf-8")

    def facts(self) -> dict[str, Any]:
        """Read it again. Raises OSError when it is gone."""
        kept: dict[str, Any] = json.loads(self.key.read_text(encoding="utf-8"))
        return kept


@dataclass(frozen=True)
class Grade:
    """A grader's verdict with its reason."""

    passed: bool
    why: str


class Skill(ABC):
    """A skill: `slips` are the mistakes that its model makes now and then."""

    name: ClassVar[str]
    tools: ClassVar[tuple[str, ...]]
    slips: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        """Fill the folder, write the prompt, and keep the grader's facts."""

    @abstractmethod
    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        """The model at work. Raises GaveUp."""

    @abstractmethod
    def grade(self, task: Task, answer: str) -> Grade:
        """Look at what is there now. Raises what the grader dies of."""


def same(found: Any, wanted: Any, what: str) -> Grade:
    """Pass when two values are equal."""
    return Grade(found == wanted, f"{what} is right" if found == wanted else f"{what} is {found!r}, not {wanted!r}")
