"""What a format is: rows made from runs, or from groups of runs, and a count of what has no row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from trajlake.expectations.taxonomy import NO_ANSWER

Run: TypeAlias = Mapping[str, Any]
"""A row of `trajectories` as Python values."""


class LeftOut(StrEnum):
    """Why a run, a step or a group has no row in an export."""

    NO_DECISION = "no_decision"
    """No step that the agent decided in this run: nothing to learn from."""
    NOTHING_SAID = "nothing_said"
    """The model's call failed, or gave nothing: what stands there is not the model's."""
    PROMPT_MISSING = "prompt_missing"
    """Nothing is known of what the agent was asked, and the format needs a prompt."""
    CONTEXT_COMPACTED = "context_compacted"
    """A summary took the place of earlier turns, so the attempt is not one conversation."""
    COPIED_CONTEXT = "copied_context"
    """It repeats another session's steps, and the format cannot say which of them not to train on."""
    REWARD_MISSING = "reward_missing"
    """The format needs a number, and a missing reward is not 0."""
    TOKENS_MISSING = "tokens_missing"
    """No token ids as sampled; they are never made up."""
    TOKENS_UNUSABLE = "tokens_unusable"
    """Token ids, log-probabilities or loss mask do not fit one another."""
    LOGPROBS_MISSING = "logprobs_missing"
    NO_GROUP = "no_group"
    """The run belongs to no group and no task."""
    SINGLE_ATTEMPT = "single_attempt"
    """A group of one attempt has no better and worse."""
    NO_SPREAD = "no_spread"
    """All rewards of the group are equal."""
    PROMPTS_DIFFER = "prompts_differ"
    """The attempts do not begin alike, so they cannot be compared under one prompt."""
    SUB_AGENT = "sub_agent"
    """A run that another run spawned is no attempt at the group's task."""
    CONTENT_STORED_ELSEWHERE = "content_stored_elsewhere"
    """A text is a reference to content that lies in the restricted zone."""


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that has no row, and why. `count`: how many runs, steps or groups it stands for."""

    reason: LeftOut
    count: int = 1


Made: TypeAlias = "dict[str, Any] | Omission"


@dataclass(frozen=True)
class ExportFormat:
    """A format of training sets.

    `unit`: what `rows` is given: one run, or all attempts of a group. `schema`: of Parquet formats; None for JSON
    lines.
    """

    name: str
    title: str
    consumer: str
    unit: Literal["run", "group"]
    rows: Callable[[Sequence[Run]], Iterator[Made]]
    schema: pa.Schema | None = None

    @property
    def suffix(self) -> str:
        return "jsonl" if self.schema is None else "parquet"


def answered(step: Mapping[str, Any]) -> bool:
    """Whether the model gave something at a step (as `trains` has it): calls, or words, reasoning or tokens."""
    gave = step["message"] or step["reasoning_content"] or step["completion_token_ids"]
    return bool(step["tool_calls"] or (gave and step["outcome_class"] not in NO_ANSWER))


def run_key(run: Run) -> dict[str, Any]:
    """What names the published state of a run; every row carries it, so that a withdrawal finds its rows."""
    return {"tenant_id": run["tenant_id"], "run_id": run["run_id"], "publication": run["publication"]}


def spread(rewards: Sequence[float | None]) -> bool:
    """Whether a group's rewards differ: without a spread, an advantage relative to the group is 0 for all."""
    return len({reward for reward in rewards if reward is not None}) > 1
