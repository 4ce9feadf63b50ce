"""Conversations: the steps of a run as chat messages in the shape that chat templates and OpenAI's API share.

    {"role": "system"|"user", "content"}                          what was new to the context before a decision
    {"role": "assistant", "content", "reasoning_content"?, "tool_calls"?: [{"id", "type", "function": {"name",
     "arguments": text as emitted}}]}
    {"role": "tool", "tool_call_id", "name", "content"}           one a result, paired by id

A model's call that failed, or gave nothing, is no message: the next decision did not see it.

A run is one conversation per context segment: where a summary replaced earlier turns, what came before is not in the
context of what came after, so the second conversation begins with the summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pyarrow as pa

from trajlake.transforms.exporters.format import LeftOut, Run, answered

Message = dict[str, Any]
_TEXT: Final = pa.string()
MESSAGES: Final = pa.list_(
    pa.struct(
        [
            ("role", _TEXT), ("content", _TEXT), ("reasoning_content", _TEXT),
            ("tool_calls", pa.list_(pa.struct(
                [("id", _TEXT), ("type", _TEXT), ("function", pa.struct([("name", _TEXT), ("arguments", _TEXT)]))]
            ))),
            ("tool_call_id", _TEXT), ("name", _TEXT),
        ]
    )
)  # fmt: skip
"""Type of a column of messages, as `uniform` makes them."""
_ROLES: Final = {"system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant"}
REFERENCE: Final = "payload:sha256:"


@dataclass
class Conversation:
    """Messages of one context segment. `trained`: for each message, whether it carries loss (only decisions of the
    agent in this very run do). `segment`: number of the segment within the run."""

    segment: int
    messages: list[Message] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)

    def add(self, message: Message, *, trained: bool = False) -> None:
        self.messages.append(message)
        self.trained.append(trained)

    @property
    def has_copies(self) -> bool:
        """Whether it holds a decision that is not to be trained on here."""
        return any(
            message["role"] == "assistant" and not trained
            for message, trained in zip(self.messages, self.trained, strict=True)
        )

    def parts(self) -> Iterator[tuple[list[Message], list[Message]]]:
        """Prompt and completion for each stretch of decisions that carry loss. A message of an assistant that carries
        none ends a completion: it is in the prompt of the next, where no loss is."""
        silent = [
            m["role"] == "assistant" and not trained for m, trained in zip(self.messages, self.trained, strict=True)
        ]
        begin = 0
        while True in self.trained[begin:]:
            first = self.trained.index(True, begin)
            begin = silent.index(True, first) if True in silent[first:] else len(silent)
            yield self.messages[:first], self.messages[first:begin]


def conversations(run: Run) -> list[Conversation]:
    """The conversations of a run, in order; those without a decision are left out."""
    segments: dict[int, Conversation] = {}
    for step in run["steps"] or ():
        number = step["context_segment"] or 0
        said = [_said(message) for message in step["input_messages"] or ()]
        talk = segments.get(number)
        if talk is None:
            said = _opening(run, number, said, first=not segments)
            talk = segments[number] = Conversation(number)
        for message in said:
            talk.add(message)
        _decision(talk, step)
    if segments:
        last = segments[max(segments)]
        for message in run["final_messages"] or ():
            last.add(_said(message))
    return [talk for talk in segments.values() if any(m["role"] == "assistant" for m in talk.messages)]


def prompt_of(run: Run) -> list[Message] | LeftOut:
    """What an attempt was asked: all messages before the first decision. What came of it does not matter here."""
    talk = Conversation(0)
    for place, step in enumerate(run["steps"] or ()):
        said = [_said(message) for message in step["input_messages"] or ()]
        for message in said if place else _opening(run, step["context_segment"] or 0, said, first=True):
            talk.add(message)
        if step["source"] == "agent" and step["is_copied_context"]:
            return LeftOut.COPIED_CONTEXT
        if step["source"] == "agent" and answered(step):
            break
        _decision(talk, step)
    if all(step["source"] != "agent" for step in run["steps"] or ()):
        return LeftOut.NO_DECISION
    if refers_elsewhere(talk.messages):
        return LeftOut.CONTENT_STORED_ELSEWHERE
    return talk.messages or LeftOut.PROMPT_MISSING


def _opening(run: Run, segment: int, said: list[Message], *, first: bool) -> list[Message]:
    """What a conversation begins with: the summary that took the place of earlier turns; else, where the first step
    brings no message of a user, the task, behind the messages of the system."""
    if segment:
        summaries = [note["summary"] for note in run["compactions"] or ()]
        summary = summaries[segment - 1] if segment <= len(summaries) else None
        return _behind_system(summary, said) if summary else said
    if not first or not run["input"] or any(message["role"] == "user" for message in said):
        return said
    return _behind_system(run["input"], said)


def _behind_system(text: str, said: list[Message]) -> list[Message]:
    """Messages with a user's before them, behind those of the system: chat templates want these first."""
    system = [message for message in said if message["role"] == "system"]
    others = [message for message in said if message["role"] != "system"]
    return [*system, {"role": "user", "content": text}, *others]


def _said(message: dict[str, Any]) -> Message:
    role = _ROLES.get(message["role"] or "", "user")
    return {"role": role, "content": message["content"] or ""}


def _decision(talk: Conversation, step: dict[str, Any]) -> None:
    """A step: the agent's message with its calls, then their results."""
    calls = step["tool_calls"] or ()
    names = {call["tool_call_id"]: call["function_name"] for call in calls}
    if step["source"] == "agent" and answered(step):
        message: Message = {"role": "assistant", "content": step["message"] or ""}
        if step["reasoning_content"]:
            message["reasoning_content"] = step["reasoning_content"]
        if calls:
            message["tool_calls"] = [
                {
                    "id": call["tool_call_id"],
                    "type": "function",
                    "function": {"name": call["function_name"] or "", "arguments": call["arguments"] or ""},
                }
                for call in calls
            ]
        talk.add(message, trained=bool(step["trains"]))
    for result in step["observations"] or ():
        call = result["source_call_id"]
        content = result["content"] if result["content"] is not None else (result["error_message"] or "")
        talk.add({"role": "tool", "tool_call_id": call or "", "name": names.get(call) or "", "content": content})


def tools_text(run: Run) -> str:
    """Tools that the run was offered, or called, as a JSON text of function declarations, by name.

    Only names are known; parameters are an open object. One text, not nested values: tables of nested values give every
    row the fields of all others.
    """
    offered = {tool["name"] for tool in run["tool_versions"] or () if tool["name"]}
    called = {
        call["function_name"]
        for step in run["steps"] or ()
        for call in step["tool_calls"] or ()
        if call["function_name"]
    }
    tools = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": _ANYTHING}}
        for name in sorted(offered | called)
    ]
    return orjson.dumps(tools).decode()


_ANYTHING: Final = {"type": "object", "properties": {}, "additionalProperties": True}


def uniform(messages: Sequence[Message]) -> list[Message]:
    """Messages that all have the same keys, so that columns of nested values hold them without loss."""
    return [
        {
            "role": message["role"],
            "content": message["content"],
            "reasoning_content": message.get("reasoning_content"),
            "tool_calls": message.get("tool_calls") or [],
            "tool_call_id": message.get("tool_call_id"),
            "name": message.get("name"),
        }
        for message in messages
    ]


def refers_elsewhere(messages: Sequence[Message]) -> bool:
    """Whether a text is a reference to content that is not in the training zone."""
    return any(
        isinstance(text, str) and text.startswith(REFERENCE)
        for message in messages
        for text in (message["content"], message.get("reasoning_content"), *_arguments(message))
    )


def _arguments(message: Message) -> Iterator[str]:
    for call in message.get("tool_calls") or ():
        yield call["function"]["arguments"]
