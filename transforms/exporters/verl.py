"""verl's Parquet of prompts (verl documentation, "Prepare data for post-training"; `verl.utils.dataset.rl_dataset`).

One row a group: `data_source`, `prompt` (list of role and content), `ability`, `reward_model` {style, ground_truth},
`extra_info`. A published run has no ground truth; the text is empty and `extra_info` holds what graders gave: the
reward of every attempt, null where there is none, and whether they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Made, Omission, Run, spread
from trajlake.transforms.exporters.messages import prompt_of

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", _MESSAGES),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [
                    ("split", pa.string()), ("index", pa.int64()), ("tenant_id", pa.string()),
                    ("group_id", pa.string()), ("task_id", pa.string()), ("run_ids", pa.list_(pa.string())),
                    ("publications", pa.list_(pa.int64())), ("rewards", pa.list_(pa.float64())),
                    ("has_spread", pa.bool_()),
                ]
            ),
        ),
    ]
)  # fmt: skip


def _rows(runs: Sequence[Run]) -> Iterator[Made]:
    prompts = []
    for run in runs:
        asked = prompt_of(run)
        if isinstance(asked, LeftOut):
            yield Omission(asked)
        else:
            prompts.append((run, [{"role": m["role"], "content": m["content"]} for m in asked]))
    if not prompts:
        return
    first, prompt = prompts[0]
    alike = [run for run, other in prompts if other == prompt]
    if len(alike) < len(prompts):
        yield Omission(LeftOut.PROMPTS_DIFFER, len(prompts) - len(alike))
    rewards = [run["reward"] for run in alike]
    yield {
        "data_source": first["environment"] or first["skill_name"] or "trajlake",
        "prompt": prompt,
        "ability": first["task_family"] or first["skill_name"] or "agent",
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {
            "split": "train",
            "index": first["offset"],
            "tenant_id": first["tenant_id"],
            "group_id": first["group_id"],
            "task_id": first["task_id"],
            "run_ids": [run["run_id"] for run in alike],
            "publications": [run["publication"] for run in alike],
            "rewards": rewards,
            "has_spread": spread(rewards),
        },
    }


FORMAT = ExportFormat("verl", "one prompt a group, with the rewards of its attempts", "verl", "group", _rows, SCHEMA)
