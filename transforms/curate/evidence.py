"""The text of a run as the training zone would show it, and what a deep scan says of it: never a value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trajlake.expectations.tables import TRAJECTORIES, TRAJECTORY_REWARD, TRAJECTORY_STEP
from trajlake.expectations.tables.curated import FIELD_ACTIONS
from trajlake.transforms.curate.fieldactions import Actions
from trajlake.transforms.curate.scores import Scores
from trajlake.transforms.curate.steps import Membership

JSON_DEPTH: Final = 3
"""Levels of JSON inside strings that are read as what they say."""


class Text(NamedTuple):
    """A text and its place in the published row: `steps[3].observations[0].content`."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """A line of evidence: where, what kind, the highest score (0 to 1), and how often."""

    path: str
    entity_type: str
    score: float
    count: int


class Scan(NamedTuple):
    """What a scan of a run came to. `failure`: why it is not known to be all; None where it is."""

    findings: tuple[ScanFinding, ...] = ()
    failure: str | None = None


class PublishedTexts:
    """The texts of runs, field actions done: all strings of what would be their rows of `trajectories`.

    `field_actions`: by run. `rewards_after`: by run, the offset beyond which rewards are looked at; None for a run of
    which everything is.
    """

    def __init__(
        self,
        runs: pa.Table,
        steps: pa.Table,
        rewards: pa.Table,
        members: Membership,
        scores: Scores,
        field_actions: Sequence[Sequence[tuple[str, str]]],
    ) -> None:
        listed = [[{"field": name, "action": action} for name, action in one] or None for one in field_actions]
        actions = Actions.of(pa.chunked_array([pa.array(listed, FIELD_ACTIONS)]))
        self._runs = actions.on_runs(_with_text(runs, TRAJECTORIES.schema))
        self._steps = actions.on_members("steps", _with_text(steps, TRAJECTORY_STEP), members)
        self._rewards = actions.on_members("rewards", _with_text(rewards, TRAJECTORY_REWARD, "offset"), scores.members)
        self._own_steps, self._own_rewards = _Rows(members), _Rows(scores.members)

    def of(self, place: int, rewards_after: int | None = None) -> Iterator[Text]:
        """All texts of one run; only those of rewards beyond an offset where one is given."""
        if rewards_after is None:
            [row] = self._runs.slice(place, 1).to_pylist()
            yield from _texts("", row)
            for number, step in enumerate(self._steps.take(self._own_steps.of(place)).to_pylist()):
                yield from _texts(f"steps[{number}]", step)
        for number, reward in enumerate(self._rewards.take(self._own_rewards.of(place)).to_pylist()):
            if rewards_after is None or reward["offset"] > rewards_after:
                yield from _texts(f"rewards[{number}]", reward)


class _Rows:
    """Places of each run's rows in their table."""

    def __init__(self, members: Membership) -> None:
        self._rows, self._ends, self._counts = members.rows, np.cumsum(members.counts), members.counts

    def of(self, place: int) -> pa.Array:
        return pa.array(self._rows[self._ends[place] - self._counts[place] : self._ends[place]], pa.int64())


def _with_text(table: pa.Table, published: pa.Schema | pa.StructType, *also: str) -> pa.Table:
    """Columns that are published and hold strings, at any depth."""
    names = {field.name for field in published if _has_text(field.type)} | set(also)
    return table.select([name for name in table.column_names if name in names])


def _has_text(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _has_text(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_text(field.type) for field in kind)
    return bool(pa.types.is_string(kind))


def _texts(path: str, value: Any) -> Iterator[Text]:
    if isinstance(value, str):
        yield Text(path, readable(value))
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _texts(f"{path}.{name}" if path else name, part)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _texts(f"{path}[{number}]", part)


def readable(text: str, depth: int = JSON_DEPTH) -> str:
    """A text as it reads: JSON with escapes in it as lines of `key: value`, so that no escape hides a letter; all
    other texts as they are. Keys that stand twice are all there."""
    if "\\" not in text or depth == 0 or text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        value = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError:
        return text
    return "\n".join(_lines("", value, depth - 1))


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with all its keys."""


def _lines(name: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, list):
        if name:
            yield name
        pairs = value if isinstance(value, _Pairs) else [("", part) for part in value]
        for key, part in pairs:
            yield from _lines(key, part, depth)
    else:
        said = readable(value, depth) if isinstance(value, str) else str(value)
        yield f"{name}: {said}" if name else said
