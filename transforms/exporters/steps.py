"""The flat table of steps, in the terms of RLDS (Ramos et al., 2021, "RLDS: an Ecosystem to Generate, Share and Use
Datasets in Reinforcement Learning", section 3): each row holds an observation, the action taken on it, the reward that
followed, and `is_first`, `is_last`, `is_terminal`.

`reward` is null where nothing graded the step: a run's own score stands on its last step. Steps that carry no loss have
`trains` false; they are in the table because an episode is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa

from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Made, Omission, Run

_TEXT, _INT, _FLAG = pa.string(), pa.int64(), pa.bool_()
SCHEMA = pa.schema(
    [
        ("tenant_id", _TEXT), ("episode_id", _TEXT), ("publication", _INT), ("step_index", _INT),
        ("context_segment", _INT), ("is_first", _FLAG), ("is_last", _FLAG), ("is_terminal", _FLAG),
        ("is_truncated", _FLAG), ("observation", _TEXT), ("action", _TEXT), ("reward", pa.float64()),
        ("discount", pa.float64()), ("trains", _FLAG), ("is_copied_context", _FLAG), ("source", _TEXT),
        ("outcome_class", _TEXT), ("failure_kind", _TEXT), ("skill_name", _TEXT), ("skill_version", _TEXT),
        ("model_name", _TEXT), ("model_tier", _TEXT), ("task_id", _TEXT), ("group_id", _TEXT), ("attempt_id", _TEXT),
        ("episode_reward", pa.float64()), ("episode_outcome_class", _TEXT), ("input_tokens", _INT),
        ("output_tokens", _INT),
    ]
)  # fmt: skip


def _rows(runs: Sequence[Run]) -> Iterator[Made]:
    for run in runs:
        steps = run["steps"] or ()
        if not steps:
            yield Omission(LeftOut.NO_DECISION)
            continue
        scores = _scores(run)
        before: list[dict[str, Any]] = [{"role": "user", "content": run["input"]}] if run["input"] else []
        for place, step in enumerate(steps):
            last = place + 1 == len(steps)
            seen = [*before, *({"role": m["role"], "content": m["content"]} for m in step["input_messages"] or ())]
            terminal = bool(run["terminated"]) if last else False
            score = scores.get(step["step_id"])
            yield {
                **{name: step[name] for name in _OF_STEP},
                **{name: run[name] for name in _OF_RUN},
                "episode_id": run["run_id"],
                "is_first": place == 0,
                "is_last": last,
                "is_terminal": terminal,
                "is_truncated": bool(run["truncated"]) if last else False,
                "observation": _text(seen),
                "action": _text({"message": step["message"], "reasoning_content": step["reasoning_content"],
                                 "tool_calls": step["tool_calls"]}),
                "reward": run["reward"] if score is None and last else score,
                "discount": 0.0 if terminal else 1.0,
                "episode_reward": run["reward"],
                "episode_outcome_class": run["outcome_class"],
            }  # fmt: skip
            before = [
                {"role": "tool", "tool_call_id": result["source_call_id"], "content": result["content"]}
                for result in step["observations"] or ()
            ]


_OF_STEP = (
    "step_index", "context_segment", "trains", "is_copied_context", "source", "outcome_class", "failure_kind",
    "model_name", "model_tier", "input_tokens", "output_tokens",
)  # fmt: skip
_OF_RUN = ("tenant_id", "publication", "skill_name", "skill_version", "task_id", "group_id", "attempt_id")


def _scores(run: Run) -> dict[str, float]:
    """The last score that counts of each step that has one of its own."""
    return {
        given["step_id"]: given["score"]
        for given in run["rewards"] or ()
        if given["counts"] and given["step_id"] is not None and given["score"] is not None
    }


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


FORMAT = ExportFormat("steps", "one row a step, in the terms of RLDS", "Arrow readers", "run", _rows, SCHEMA)
