"""ATIF trajectories (Agent Trajectory Interchange Format, Harbor RFC 0001), versions 1.0 to 1.8.

Each document is checked with the `atif` package; what it objects to is reported with its JSON path, and the record is
imported all the same where it can be used. Rules of the format that decide the mapping:

- `session_id` may be shared by siblings and continuations, so it does not name a run; `trajectory_id` does. Where it is
  missing, a digest of everything up to the first agent step stands in for it.
- Embedded `subagent_trajectories` are runs of their own; `subagent_trajectory_ref` names the call that spawned them.
- `prompt_tokens` include the cached ones; `cached_tokens` is a part of them.
- Results without `source_call_id` answer no call: they are messages of role `environment` before the next decision.
- The last step of a finished run is often a call that nothing answers (`finish`, `submit`). Where the document has
  `final_metrics` its writer closed it, and the run counts as completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from trajlake.expectations.events import (
    Message,
    Model,
    ModelResponded,
    Named,
    RunEnded,
    RunStarted,
    ToolCall,
    ToolReturned,
    Usage,
)
from trajlake.transforms.importers import fields
from trajlake.transforms.importers.atif_check import problems_of
from trajlake.transforms.importers.atif_identity import NAME, Spawns, references, run_id, same_file
from trajlake.transforms.importers.format import Format, Values
from trajlake.transforms.importers.framing import Value
from trajlake.transforms.importers.origin import (
    END_OF_FILE,
    Imported,
    ImportedEvent,
    ImportProblem,
    Origin,
    Scribe,
    digest,
)
from trajlake.transforms.importers.sample import Sample

NEWEST_MINOR: Final = 8

_VERSION = re.compile(r"ATIF-v(\d+)\.(\d+)\Z")
_MARK = re.compile(rb'"schema_version"\s*:\s*"ATIF-v')


class Atif(Format):
    name = NAME
    title = "ATIF trajectory"

    def fits(self, sample: Sample) -> bool:
        if sample.values:
            return any(str(body.get("schema_version")).startswith("ATIF-v") for body in sample.objects)
        return sample.shape in ("document", "array") and _MARK.search(sample.head) is not None

    def survey(self, values: Values, origin: Origin) -> Spawns:
        """Calls of this file that refer to trajectories in other files."""
        spawns: Spawns = {}
        for value in values:
            if isinstance(value, Value) and isinstance(value.body, dict) and isinstance(value.body.get("steps"), list):
                run = run_id(value.body, None)
                spawns |= {path: (run, call) for path, call in references(value.body, "trajectory_path").items()}
        return spawns

    def relate(self, surveys: Sequence[Any]) -> Spawns:
        return {path: spawn for spawns in surveys for path, spawn in spawns.items()}

    def read(self, values: Values, origin: Origin, survey: Any, relations: Any) -> Iterator[Imported]:
        spawns: Spawns = relations or {}
        parent = next((spawn for path, spawn in spawns.items() if same_file(origin.file, path)), (None, None))
        for value in values:
            if isinstance(value, ImportProblem):
                yield value
                continue
            problem = _unusable(value)
            if problem is not None:
                yield ImportProblem(origin.file, value.place, problem)
                continue
            for place, reason in problems_of(value.body, value.place):
                yield ImportProblem(origin.file, place, reason, kept=True)
            yield from _Trajectory(value.body, value.place, origin, run_id(value.body, None), *parent).events()


FORMAT: Final = Atif()


class _Trajectory:
    """One ATIF document, or one embedded in another, on its way to the events of one run."""

    def __init__(
        self,
        body: dict[str, Any],
        place: str,
        origin: Origin,
        run: str,
        parent_run_id: str | None,
        spawned_by: str | None,
    ) -> None:
        self.body = body
        self.place = place
        self.origin = origin
        self.spawned_by = spawned_by
        self.agent = fields.mapping(body.get("agent"))
        self.scribe = Scribe(origin, run, parent_run_id)
        self.pending: list[Message] = []
        self.open_calls = 0

    def events(self) -> Iterator[Imported]:
        yield self.scribe.write("start", self._started(), place=self.place, additions=self._start_extra())
        for index, step in enumerate(self.body["steps"]):
            yield from self._step(step, index)
        metrics = self.body.get("final_metrics")
        data = self._ended()
        # Another event when the document has grown: the old end stays where it was published.
        key = f"end:{digest([self.scribe.written, msgspec.to_builtins(data)])}"
        additions = {"extra": {"final_metrics": metrics}} if isinstance(metrics, dict) else None
        yield self.scribe.write(key, data, place=self.place, additions=additions)
        yield from self._subagents()

    def _started(self) -> RunStarted:
        name = fields.text(self.agent.get("name"))
        model = fields.text(self.agent.get("model_name"))
        tools = [
            tool
            for definition in fields.sequence(self.agent.get("tool_definitions"))
            if (tool := fields.named(fields.mapping(fields.mapping(definition).get("function")).get("name")))
        ]
        return RunStarted(
            agent=fields.named(name, self.agent.get("version")),
            skill=Named(self.origin.skill or (f"{NAME}/{name}"[: fields.TEXT_MAX] if name else NAME)),
            tools=tools or None,
            model=Model(model) if model else None,
            session_id=fields.text(self.body.get("session_id")),
            spawned_by_tool_call_id=fields.text(self.spawned_by),
            input=_first_user_message(self.body["steps"]),
            origin=self.origin.label,
        )

    def _start_extra(self) -> dict[str, Any] | None:
        extra = {
            name: value
            for name, value in (
                ("schema_version", self.body.get("schema_version")),
                ("agent", self.agent.get("extra")),
                ("trajectory", self.body.get("extra")),
                ("notes", self.body.get("notes")),
            )
            if value is not None
        }
        return {"extra": extra} if extra else None

    def _step(self, step: Any, index: int) -> Iterator[Imported]:
        place = f"{self.place}.steps[{index}]"
        source = step.get("source") if isinstance(step, dict) else None
        if source not in ("system", "user", "agent"):
            yield ImportProblem(self.origin.file, place, "a step whose source is not system, user or agent; left out")
        elif source == "agent":
            yield from self._response(step, index, place)
        else:
            self.pending.append(Message(source, fields.flat(step.get("message"))))
            yield from self._results(step, index, place, {})

    def _response(self, step: dict[str, Any], index: int, place: str) -> Iterator[Imported]:
        calls = []
        for number, call in enumerate(fields.sequence(step.get("tool_calls"))):
            call = fields.mapping(call)
            if isinstance(call.get("tool_call_id"), str):
                name = fields.text(call.get("function_name"))
                calls.append(ToolCall(call["tool_call_id"], name, call.get("arguments")))
            else:
                reason = "a tool call without an id; left out"
                yield ImportProblem(self.origin.file, f"{place}.tool_calls[{number}]", reason)
        response = self.scribe.write(
            f"s{index + 1}",
            self._responded(step, index, calls),
            place=place,
            time=fields.moment(step.get("timestamp")),
            additions=_step_extra(step),
        )
        yield response
        if isinstance(response, ImportedEvent):
            self.pending = []
        self.open_calls = len(calls)
        yield from self._results(step, index, place, {call.tool_call_id: call.function_name for call in calls})

    def _responded(self, step: dict[str, Any], index: int, calls: list[ToolCall]) -> ModelResponded:
        metrics = fields.mapping(step.get("metrics"))
        dispatched = step.get("llm_call_count") == 0
        model = None if dispatched else fields.text(step.get("model_name") or self.agent.get("model_name"))
        cost = fields.number(metrics.get("cost_usd"))
        return ModelResponded(
            step_id=str(index + 1),
            message=fields.flat(step.get("message")),
            reasoning_content=fields.flat(step.get("reasoning_content")),
            tool_calls=calls or None,
            input_messages=self.pending or None,
            model=Model(model) if model else None,
            usage=_usage(metrics),
            cost_usd=cost if cost is not None and cost >= 0 else None,
            is_copied_context=step.get("is_copied_context") is True,
            prompt_token_ids=_numbers(metrics.get("prompt_token_ids"), int),
            completion_token_ids=_numbers(metrics.get("completion_token_ids"), int),
            logprobs=_numbers(metrics.get("logprobs"), float),
        )

    def _results(
        self, step: dict[str, Any], index: int, place: str, calls: dict[str, str | None]
    ) -> Iterator[Imported]:
        results = fields.sequence(fields.mapping(step.get("observation")).get("results"))
        for number, result in enumerate(results):
            result = fields.mapping(result)
            call_id = result.get("source_call_id")
            referred = result.get("subagent_trajectory_ref")
            content = fields.flat(result.get("content"))
            if content is None and referred is not None:
                content = {"subagent_trajectory_ref": referred}
            if not isinstance(call_id, str):
                self.pending.append(Message("environment", content))
                continue
            extra = {"extra": result["extra"]} if isinstance(result.get("extra"), dict) else None
            data = ToolReturned(tool_call_id=call_id, function_name=calls.get(call_id), content=content)
            where = f"{place}.observation.results[{number}]"
            yield self.scribe.write(f"s{index + 1}:r{number + 1}", data, place=where, additions=extra)
            self.open_calls -= call_id in calls

    def _ended(self) -> RunEnded:
        closed_by_writer = isinstance(self.body.get("final_metrics"), dict)
        completed = closed_by_writer or (self.open_calls <= 0 and _has_agent_step(self.body["steps"]))
        continued = self.body.get("continued_trajectory_ref") is not None
        return RunEnded(
            end_state="completed" if completed or continued else "abandoned",
            stop_condition="continued" if continued else END_OF_FILE,
            input_messages=self.pending or None,
        )

    def _subagents(self) -> Iterator[Imported]:
        spawners = references(self.body, "trajectory_id")
        for index, embedded in enumerate(fields.sequence(self.body.get("subagent_trajectories"))):
            place = f"{self.place}.subagent_trajectories[{index}]"
            if not isinstance(embedded, dict) or not isinstance(embedded.get("steps"), list):
                yield ImportProblem(self.origin.file, place, "a sub-agent's trajectory without steps")
                continue
            spawned_by = spawners.get(str(embedded.get("trajectory_id")))
            parent = self.scribe.run_id
            yield from _Trajectory(embedded, place, self.origin, run_id(embedded, parent), parent, spawned_by).events()


def _unusable(value: Value) -> str | None:
    if not isinstance(value.body, dict):
        return "not a trajectory: no JSON object"
    version = str(value.body.get("schema_version"))[:40]
    match = _VERSION.match(version)
    if match is None or match.group(1) != "1":
        return f"schema_version {version!r}; ATIF-v1.0 to ATIF-v1.{NEWEST_MINOR} can be imported"
    return None if isinstance(value.body.get("steps"), list) else "a trajectory without steps"


def _first_user_message(steps: list[Any]) -> Any:
    for step in steps:
        source = fields.mapping(step).get("source")
        if source == "agent":
            return None
        if source == "user":
            return fields.flat(step.get("message"))
    return None


def _has_agent_step(steps: list[Any]) -> bool:
    return any(fields.mapping(step).get("source") == "agent" for step in steps)


def _usage(metrics: dict[str, Any]) -> Usage | None:
    usage = Usage(
        input_tokens=fields.count(metrics.get("prompt_tokens")),
        output_tokens=fields.count(metrics.get("completion_tokens")),
        cache_read_input_tokens=fields.count(metrics.get("cached_tokens")),
        reasoning_tokens=fields.count(fields.mapping(metrics.get("extra")).get("reasoning_tokens")),
    )
    return None if usage == Usage() else usage


def _numbers(value: Any, kind: type) -> list[Any] | None:
    """A list of numbers, an empty one kept; None where an item is anything else, so that nothing shifts."""
    if not isinstance(value, list):
        return None
    if kind is int:
        return value if all(isinstance(item, int) and not isinstance(item, bool) for item in value) else None
    return [float(item) for item in value] if all(fields.number(item) is not None for item in value) else None


def _step_extra(step: dict[str, Any]) -> dict[str, Any] | None:
    extra = {
        name: value
        for name, value in (
            ("step", step.get("extra")),
            ("metrics", fields.mapping(step.get("metrics")).get("extra")),
            ("reasoning_effort", step.get("reasoning_effort")),
            ("llm_call_count", step.get("llm_call_count")),
        )
        if value is not None
    }
    return {"extra": extra} if extra else None
