"""AReaL's rows: token sequences with loss mask, log-probabilities and weight versions, as its workflows return them
(`areal.workflow.rlvr.RLVRWorkflow.arun_episode`): prompt tokens have mask 0, log-probability 0 and version -1.

One row a decision, from the ids that were really sampled; where they are absent, or do not fit the mask and the
log-probabilities, there is no row: nothing is tokenised here. A decision whose run has no reward has no row either,
because the trainer needs a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Made, Omission, Run, answered, run_key

SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int64())), ("loss_mask", pa.list_(pa.int32())), ("logprobs", pa.list_(pa.float64())),
        ("versions", pa.list_(pa.int64())), ("attention_mask", pa.list_(pa.bool_())), ("rewards", pa.float64()),
        ("tokenizer_id", pa.string()), ("step_index", pa.int32()), ("tenant_id", pa.string()), ("run_id", pa.string()),
        ("publication", pa.int64()),
    ]
)  # fmt: skip


def _rows(runs: Sequence[Run]) -> Iterator[Made]:
    for run in runs:
        decisions = [step for step in run["steps"] or () if step["source"] == "agent"]
        if not decisions:
            yield Omission(LeftOut.NO_DECISION)
        for step in decisions:
            reason = _unfit(run, step)
            yield Omission(reason) if reason is not None else _row(run, step)


def _unfit(run: Run, step: dict[str, Any]) -> LeftOut | None:
    if step["is_copied_context"]:
        return LeftOut.COPIED_CONTEXT
    if not answered(step):
        return LeftOut.NOTHING_SAID
    if not step["completion_token_ids"] or not step["prompt_token_ids"]:
        return LeftOut.TOKENS_MISSING
    if not step["tokens_usable"]:
        return LeftOut.TOKENS_UNUSABLE
    if step["logprobs"] is None:
        return LeftOut.LOGPROBS_MISSING
    return LeftOut.REWARD_MISSING if run["reward"] is None else None


def _row(run: Run, step: dict[str, Any]) -> dict[str, Any]:
    prompt, completion = step["prompt_token_ids"], step["completion_token_ids"]
    given = step["loss_mask"]
    mask = [1] * len(completion) if given is None else given[-len(completion) :]
    version = _version(step["policy_version"])
    return {
        "input_ids": [*prompt, *completion],
        "loss_mask": [*[0] * len(prompt), *mask],
        "logprobs": [*[0.0] * len(prompt), *step["logprobs"]],
        "versions": [*[-1] * len(prompt), *[version] * len(completion)],
        "attention_mask": [True] * (len(prompt) + len(completion)),
        "rewards": run["reward"],
        "tokenizer_id": run["tokenizer_id"],
        "step_index": step["step_index"],
        **run_key(run),
    }


def _version(text: str | None) -> int:
    """Version of the weights as a number: the digits that its name ends in; -1 where it has none."""
    found = re.search(r"(\d{1,18})\Z", text or "")
    return int(found.group(1)) if found else -1


FORMAT = ExportFormat(
    "areal", "token sequences with mask, log-probabilities and versions", "AReaL", "run", _rows, SCHEMA
)
