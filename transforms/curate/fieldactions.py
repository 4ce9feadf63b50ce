"""Field actions of policies: content that is masked or dropped before a run is published.

`drop` makes the field null. `mask` keeps the shape (who spoke, which tool was called, how many results came) and puts a
marker in place of what was said. Token ids say the same as the text: where either is done to what a model read or
wrote, all steps of the run lose them, for later prompts repeat what came before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.transforms.curate.steps import Membership

MASK: Final = "[masked by policy]"
_MASKED_LEAVES: Final = frozenset({"content", "arguments", "summary", "error_message", "payload_ref", "name"})
"""Fields of nested content that a mask covers; ids, roles, names of functions and numbers stay."""
_TOKENS: Final = ("prompt_token_ids", "completion_token_ids", "logprobs", "loss_mask")
_IN_PROMPTS: Final = frozenset({"runs.input", "runs.final_messages", "runs.compactions"})
"""Fields beside those of steps whose text stands in prompts."""


@dataclass(frozen=True)
class Actions:
    """Actions by run: (table.column, action) -> places of the runs, as a boolean array."""

    by_field: dict[tuple[str, str], np.ndarray]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Actions:
        """From `curation.field_actions`."""
        if column.null_count == len(column):
            return cls({})
        found: dict[tuple[str, str], np.ndarray] = {}
        for place, actions in enumerate(column.to_pylist()):
            for action in actions or ():
                key = (action["field"], action["action"])
                found.setdefault(key, np.zeros(len(column), bool))[place] = True
        return cls(found)

    def on_runs(self, runs: pa.Table) -> pa.Table:
        """Rows of `runs` with the actions done, one for each run and in order."""
        return self._on("runs", runs, np.arange(runs.num_rows))

    def on_members(self, table: str, rows: pa.Table, members: Membership) -> pa.Table:
        """Rows of `steps` or `rewards` with the actions of their runs done; rows of no run are untouched."""
        runs = np.full(rows.num_rows, -1)
        runs[members.rows] = members.runs_of_rows()
        done = self._on(table, rows, runs)
        return self._without_tokens(done, runs) if table == "steps" else done

    def _without_tokens(self, steps: pa.Table, runs: np.ndarray) -> pa.Table:
        touched = [
            places for (field, _), places in self.by_field.items() if field in _IN_PROMPTS or field.startswith("steps.")
        ]
        if not touched:
            return steps
        hit = pa.array(np.where(runs >= 0, np.logical_or.reduce(touched)[np.maximum(runs, 0)], False))
        for name in _TOKENS:
            if name in steps.column_names:
                column = steps.column(name).combine_chunks()
                done = _choose(hit, pa.nulls(len(column), column.type), column)
                steps = steps.set_column(steps.column_names.index(name), steps.schema.field(name), done)
        return steps

    def _on(self, table: str, rows: pa.Table, runs: np.ndarray) -> pa.Table:
        for (field, action), places in self.by_field.items():
            owner, _, name = field.partition(".")
            if owner != table or name not in rows.column_names:
                continue
            hit = pa.array(np.where(runs >= 0, places[np.maximum(runs, 0)], False))
            column = rows.column(name).combine_chunks()
            changed = pa.nulls(len(column), column.type) if action == "drop" else _masked(column)
            done = _choose(hit, changed, column)
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), done)
        return rows


def _choose(hit: pa.Array, changed: pa.Array, column: pa.Array) -> pa.Array:
    """Rows of `changed` where `hit`, else of `column`. By taking from both, which works for every type."""
    count = len(column)
    places = np.where(hit.to_numpy(zero_copy_only=False), np.arange(count) + count, np.arange(count))
    return pa.concat_arrays([column, changed]).take(pa.array(places))


def _masked(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return pc.if_else(pc.is_null(column), pa.scalar(None, kind), pa.scalar(MASK, kind))
    if not pa.types.is_list(kind):
        return pa.nulls(len(column), kind)
    values = column.values
    fields = list(kind.value_type)
    children = [
        _masked(values.field(place)) if field.name in _MASKED_LEAVES and pa.types.is_string(field.type)
        else values.field(place)
        for place, field in enumerate(fields)
    ]  # fmt: skip
    return pa.ListArray.from_arrays(
        column.offsets, pa.StructArray.from_arrays(children, fields=fields), type=kind, mask=pc.is_null(column)
    )
