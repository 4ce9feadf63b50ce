"""Chat JSON lines: one conversation a line, in the shape of OpenAI's chat API, with `weight` 0 on decisions that are
not to be trained on (fine-tuning API reference, "weight")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Made, Omission, Run, run_key
from trajlake.transforms.exporters.messages import conversations, refers_elsewhere, tools_text


def _rows(runs: Sequence[Run]) -> Iterator[Made]:
    for run in runs:
        found = False
        for talk in conversations(run):
            if not any(talk.trained):
                continue
            found = True
            if refers_elsewhere(talk.messages):
                yield Omission(LeftOut.CONTENT_STORED_ELSEWHERE)
                continue
            messages = [
                {**message, "weight": int(trained)} if message["role"] == "assistant" else message
                for message, trained in zip(talk.messages, talk.trained, strict=True)
            ]
            facts = {
                **run_key(run), "segment": talk.segment, "reward": run["reward"], "outcome_class": run["outcome_class"],
                "skill_name": run["skill_name"], "model_name": run["model_name"], "task_id": run["task_id"],
                "group_id": run["group_id"],
            }  # fmt: skip
            yield {"messages": messages, "tools": orjson.loads(tools_text(run)), "metadata": facts}
        if not found:
            yield Omission(LeftOut.NO_DECISION)


FORMAT = ExportFormat("chat", "conversations as OpenAI's chat API has them", "chat fine-tuning", "run", _rows)
