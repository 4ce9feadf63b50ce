"""Steps and tool calls of a run, as context managers that publish events as they are entered and left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import orjson

from trajlake.recording.shapes import failure_of, gather, shape_call, shape_usage

if TYPE_CHECKING:
    from trajlake.recording.fields import AnnotatorKind, CallFields, ResponseFields, ResultFields, RewardFields
    from trajlake.recording.recorder import Recorder
    from trajlake.recording.runs import Run

RESPONDED: Final = "agent.model.responded"
CALLED: Final = "agent.tool.called"
RETURNED: Final = "agent.tool.returned"


class Context:
    """`with` and `async with` alike: entering starts, leaving ends with the exception, which goes on."""

    def start(self) -> Self:
        raise NotImplementedError

    def _leave(self, error: BaseException | None) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)


class Step(Context):
    """One decision of the agent. Made by `Run.step`; `id` is its step id.

    `agent.model.responded` is published by `respond`, else when the first tool is called, else on leaving.
    """

    def __init__(self, run: Run, fields: Mapping[str, Any]) -> None:
        self._run = run
        self._fields = dict(fields)
        self._has_responded = False
        self._listed: list[dict[str, Any]] = []
        self.id = f"step-{next(run._step_ids)}"

    def __repr__(self) -> str:
        return f"<{self.id} of {self._run!r}>"

    def start(self) -> Self:
        """Nothing is published yet: a step begins with its response."""
        return self

    def respond(self, **fields: Unpack[ResponseFields]) -> None:
        """Publish the model's response now. Call it again with `partial=True` before the last for one that streams."""
        self._respond({**self._fields, **fields})

    def tool(
        self, name: str, arguments: Any = None, *, tool_call_id: str | None = None, **fields: Unpack[CallFields]
    ) -> Call:
        """One tool call of this decision.

        Without `tool_call_id` it is paired with the first call of that name that the response lists and nobody has made
        yet (one with the same arguments, if there is any); where there is none it gets an id of its own.
        """
        if tool_call_id is None:
            if "tool_calls" in self._fields:
                # The calls are known already: the response goes first, so that this one finds its own among them.
                self._respond_if_silent()
            tool_call_id = self._claim(name, arguments) or self._run._new_call_id()
        return Call(self._run, self, name, arguments, tool_call_id, fields)

    def reward(
        self,
        name: str,
        score: float | None,
        *,
        annotator_kind: AnnotatorKind = "code",
        **fields: Unpack[RewardFields],
    ) -> str:
        """`Run.reward` of this step."""
        fields.setdefault("step_id", self.id)
        return self._run.reward(name, score, annotator_kind=annotator_kind, **fields)

    def _respond(self, fields: Mapping[str, Any]) -> None:
        data: dict[str, Any] = {"step_id": self.id, "message_id": self.id}
        try:
            data.update(gather(fields))
            if "usage" in data:
                data["usage"] = shape_usage(data["usage"])
            if "tool_calls" in data:
                calls = [shape_call(call, self._run._new_call_id) for call in data["tool_calls"]]
                data["tool_calls"] = self._listed = calls
        except Exception as error:
            self._run._recorder._publisher.reports.error(error)
        self._has_responded = True
        self._run.record(RESPONDED, data)

    def _respond_if_silent(self) -> None:
        if not self._has_responded:
            self._respond(self._fields)

    def _claim(self, name: str, arguments: Any) -> str | None:
        """The id of a listed call that this one makes; each is claimed once."""
        try:
            with self._run._lock:
                same = [call for call in self._listed if call.get("function_name") == name]
                chosen = next((call for call in same if _parsed(call.get("arguments")) == arguments), None)
                chosen = chosen or next(iter(same), None)
                if chosen is None:
                    return None
                self._listed = [call for call in self._listed if call is not chosen]
                return str(chosen["tool_call_id"])
        except Exception as error:
            self._run._recorder._publisher.reports.error(error)
            return None

    def _leave(self, error: BaseException | None) -> None:
        if not self._has_responded:
            self._respond({**self._fields, **failure_of(error)} if error is not None else self._fields)


class Call(Context):
    """One tool call. Made by `Step.tool` or `Run.tool`; `tool_call_id` pairs it with its result.

    Entering publishes `agent.tool.called`, leaving `agent.tool.returned` with the time between. An exception makes the
    result an error and goes on.
    """

    def __init__(
        self, run: Run, step: Step | None, name: str, arguments: Any, tool_call_id: str, fields: Mapping[str, Any]
    ) -> None:
        self._run = run
        self._step = step
        self._name = name
        self._call: dict[str, Any] = {"tool_call_id": tool_call_id, "function_name": name}
        if arguments is not None:
            self._call["arguments"] = arguments
        if fields:
            self._call.update(gather_safely(run._recorder, fields))
        self._result: dict[str, Any] = {}
        self._started_ns: int | None = None
        self._is_ended = False
        self.tool_call_id = tool_call_id

    def __repr__(self) -> str:
        return f"<{self.tool_call_id} of {self._run!r}>"

    def start(self) -> Self:
        """Publish `agent.tool.called`, once."""
        if self._started_ns is None:
            if self._step is not None:
                self._step._respond_if_silent()
            self._started_ns = time.monotonic_ns()
            self._run.record(CALLED, self._call)
        return self

    def result(self, content: Any = None, **fields: Unpack[ResultFields]) -> None:
        """Say what the tool returned, to be published on leaving; at once where it is `partial` (it streams)."""
        given = {name: value for name, value in fields.items() if value is not None}
        if content is not None:
            given["content"] = content
        if fields.get("partial"):
            self._publish(given)
        else:
            self._result.update(given)

    def end(self) -> None:
        """Publish `agent.tool.returned`, once, with what `result` was told."""
        self._leave(None)

    def _leave(self, error: BaseException | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        result = dict(self._result)
        if error is not None:
            result = {**failure_of(error), **result, "is_error": True}
        if self._started_ns is not None:
            result.setdefault("latency_ms", (time.monotonic_ns() - self._started_ns) / 1e6)
        self._publish(result)

    def _publish(self, result: Mapping[str, Any]) -> None:
        self._run.record(RETURNED, {"tool_call_id": self.tool_call_id, "function_name": self._name, **result})


def gather_safely(recorder: Recorder, fields: Mapping[str, Any]) -> dict[str, Any]:
    """`gather`; the fields as they are where that fails, because of the caller's own objects."""
    try:
        return gather(fields)
    except Exception as error:
        recorder._publisher.reports.error(error)
        return dict(fields)


def _parsed(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return arguments
    return arguments
