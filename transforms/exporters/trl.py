"""TRL's dataset formats, conversational (TRL documentation, "Dataset formats and types").

- `trl-sft`: prompt-completion with `tools`. The prompt is everything up to the first decision that carries loss, and
  a completion ends before one that carries none, so copied context is never trained on; `SFTTrainer` computes loss on
  the completion.
- `trl-sft-messages`: language modelling with `messages` and `tools`. It cannot say which turns not to train on, so a
  conversation that repeats another session's is left out and counted.
- `trl-preference`: the best against the worst attempt of a group, under their common prompt.
- `trl-prompt`: prompts with the reward of each attempt (null stays null), however long the attempt became.

TRL tells formats apart by `messages`, `prompt`, `completion`, `chosen`, `rejected` (`trl.data_utils.is_conversational`
and `apply_chat_template`); all other columns are ours. Arguments of calls are text as emitted, because a column of
nested values would give each call the arguments of all others.

The files are Parquet, because `datasets` guesses the types of JSON lines from the first megabytes of a file, and fails
where a reward or a tool call comes for the first time behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Made, Omission, Run, run_key, spread
from trajlake.transforms.exporters.messages import (
    MESSAGES,
    Conversation,
    Message,
    conversations,
    prompt_of,
    refers_elsewhere,
    tools_text,
    uniform,
)


def _sft(runs: Sequence[Run]) -> Iterator[Made]:
    for run in runs:
        tools = tools_text(run)
        for talk in _usable(run):
            if isinstance(talk, Omission):
                yield talk
                continue
            for prompt, completion in talk.parts():
                if not prompt:
                    yield Omission(LeftOut.PROMPT_MISSING)
                    continue
                yield {
                    "prompt": uniform(prompt), "completion": uniform(completion), "tools": tools, **_facts(run, talk),
                }  # fmt: skip


def _sft_messages(runs: Sequence[Run]) -> Iterator[Made]:
    for run in runs:
        tools = tools_text(run)
        for talk in _usable(run):
            if isinstance(talk, Omission):
                yield talk
            elif talk.has_copies:
                yield Omission(LeftOut.COPIED_CONTEXT)
            else:
                yield {"messages": uniform(talk.messages), "tools": tools, **_facts(run, talk)}


def _usable(run: Run) -> Iterator[Conversation | Omission]:
    """Conversations with something to train on; a run without one counts once."""
    found = False
    for talk in conversations(run):
        if any(talk.trained):
            found = True
            yield Omission(LeftOut.CONTENT_STORED_ELSEWHERE) if refers_elsewhere(talk.messages) else talk
    if not found:
        yield Omission(LeftOut.NO_DECISION)


def _facts(run: Run, talk: Conversation) -> dict[str, Any]:
    return {
        **run_key(run), "segment": talk.segment, "reward": run["reward"], "outcome_class": run["outcome_class"],
        "skill_name": run["skill_name"], "model_name": run["model_name"], "task_id": run["task_id"],
    }  # fmt: skip


def whole_attempt(run: Run) -> tuple[list[Message], list[Message]] | LeftOut:
    """Prompt and completion of an attempt that can be compared with others: one context, nothing copied."""
    talks = conversations(run)
    if not any(any(talk.trained) for talk in talks):
        return LeftOut.NO_DECISION
    if any(talk.has_copies for talk in talks):
        return LeftOut.COPIED_CONTEXT
    if len(talks) > 1 or talks[0].segment:
        return LeftOut.CONTEXT_COMPACTED
    if refers_elsewhere(talks[0].messages):
        return LeftOut.CONTENT_STORED_ELSEWHERE
    [parts] = talks[0].parts()
    return parts if parts[0] else LeftOut.PROMPT_MISSING


def _preference(runs: Sequence[Run]) -> Iterator[Made]:
    """One pair a group: its best and its worst graded attempt, the first of equals."""
    if len(runs) < 2:
        yield Omission(LeftOut.SINGLE_ATTEMPT)
        return
    graded = [run for run in runs if run["reward"] is not None]
    if missing := len(runs) - len(graded):
        yield Omission(LeftOut.REWARD_MISSING, missing)
    usable: list[tuple[Run, list[Message], list[Message]]] = []
    for run in graded:
        parts = whole_attempt(run)
        if isinstance(parts, LeftOut):
            yield Omission(parts)
        else:
            usable.append((run, *parts))
    if not spread([run["reward"] for run, _, _ in usable]):
        yield Omission(LeftOut.NO_SPREAD)
        return
    best = max(usable, key=lambda one: one[0]["reward"])
    worst = min(usable, key=lambda one: one[0]["reward"])
    if best[1] != worst[1]:
        yield Omission(LeftOut.PROMPTS_DIFFER)
        return
    yield {
        "prompt": uniform(best[1]),
        "chosen": uniform(best[2]),
        "rejected": uniform(worst[2]),
        "tools": tools_text(best[0]),
        "score_chosen": best[0]["reward"],
        "score_rejected": worst[0]["reward"],
        "group_id": best[0]["group_id"],
        "task_id": best[0]["task_id"],
        "group_size": len(runs),
        "chosen_run": run_key(best[0]),
        "rejected_run": run_key(worst[0]),
    }


def _prompt(runs: Sequence[Run]) -> Iterator[Made]:
    """One row an attempt: all of a group are kept, and a group without spread is marked."""
    rewards = [run["reward"] for run in runs]
    for run in runs:
        prompt = prompt_of(run)
        if isinstance(prompt, LeftOut):
            yield Omission(prompt)
            continue
        yield {
            "prompt": uniform(prompt),
            "tools": tools_text(run),
            "reward": run["reward"],
            "group_id": run["group_id"],
            "task_id": run["task_id"],
            "attempt_id": run["attempt_id"],
            "group_size": len(runs),
            "group_has_spread": spread(rewards),
            "outcome_class": run["outcome_class"],
            **run_key(run),
        }


def _schema(messages: tuple[str, ...], *others: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*((name, MESSAGES) for name in messages), ("tools", pa.string()), *others])


_STR, _INT, _REAL = pa.string(), pa.int64(), pa.float64()
_KEY = (("tenant_id", _STR), ("run_id", _STR), ("publication", _INT))
_OF_RUN = (
    *_KEY, ("segment", _INT), ("reward", _REAL), ("outcome_class", _STR), ("skill_name", _STR), ("model_name", _STR),
    ("task_id", _STR),
)  # fmt: skip
_OF_GROUP = (("group_id", _STR), ("task_id", _STR), ("group_size", _INT))
_OF_PAIR = (
    ("score_chosen", _REAL), ("score_rejected", _REAL), *_OF_GROUP, ("chosen_run", pa.struct(_KEY)),
    ("rejected_run", pa.struct(_KEY)),
)  # fmt: skip
_OF_ATTEMPT = (
    ("reward", _REAL), *_OF_GROUP, ("attempt_id", _STR), ("group_has_spread", pa.bool_()),
    ("outcome_class", _STR), *_KEY,
)  # fmt: skip
_CONSUMER = "TRL"
SFT = ExportFormat(
    "trl-sft", "prompt and completion with tools, for SFTTrainer", _CONSUMER, "run", _sft,
    _schema(("prompt", "completion"), *_OF_RUN),
)  # fmt: skip
SFT_MESSAGES = ExportFormat(
    "trl-sft-messages", "whole conversations with tools", _CONSUMER, "run", _sft_messages,
    _schema(("messages",), *_OF_RUN),
)  # fmt: skip
PREFERENCE = ExportFormat(
    "trl-preference", "best against worst attempt of a group, for DPOTrainer", _CONSUMER, "group", _preference,
    _schema(("prompt", "chosen", "rejected"), *_OF_PAIR),
)  # fmt: skip
PROMPT = ExportFormat(
    "trl-prompt", "prompts with the reward of each attempt", _CONSUMER, "group", _prompt,
    _schema(("prompt",), *_OF_ATTEMPT),
)  # fmt: skip
