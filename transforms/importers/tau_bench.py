"""tau-bench result files: one JSON array of `{task_id, trial, reward, info, traj}`, one element a trial of a task.

Source of the rules: `tau_bench/run.py`, `types.py`, `envs/base.py` and `agents/` of sierra-research/tau-bench. There:

- `reward` is set by `Env.calculate_reward` when the episode is done, and `info.reward_info` says how. An episode that
  ran out of steps has no `reward_info`: its reward is the 0 that `Env.step` gives before the end, which no evaluator
  vouches for. A trial that raised has `info.error` and an empty `traj`: its `reward` of 0.0 only fills the field, so no
  reward is imported.
- A trial is a success when its reward is within 1e-6 of 1.
- Tool results that begin with `Error:` or `Unknown action` are how the environment reports a failed call.

A run's id holds a digest of the trial's content, because files of different models share task and trial numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from trajlake.expectations.events import (
    Message,
    ModelResponded,
    Named,
    RewardAssigned,
    RunEnded,
    RunStarted,
    ToolCall,
    ToolReturned,
)
from trajlake.transforms.importers import fields
from trajlake.transforms.importers.format import Format, Values
from trajlake.transforms.importers.framing import Value
from trajlake.transforms.importers.origin import Imported, ImportedEvent, ImportProblem, Origin, Scribe, digest
from trajlake.transforms.importers.sample import Sample

NAME: Final = "tau-bench"
EVALUATOR: Final = "tau_bench.envs.base.Env.calculate_reward"
UNFINISHED: Final = "tau_bench.envs.base.Env.step"
STOP_MARK: Final = "###STOP###"
"""The simulated user ends an episode by writing this."""

_SUCCESS_TOLERANCE = 1e-6
# The system prompt is the environment's wiki, whose first heading names the domain: "# Airline Agent Policy".
_WIKI_HEADING = re.compile(r"\s*#\s*(\w+) agent policy\b", re.IGNORECASE)
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_STATED_STATUS = re.compile(r"\b(?:error code|status code|status|http)\W{0,3}(\d{3})\b", re.IGNORECASE)


class TauBench(Format):
    name = NAME
    title = "tau-bench result file"

    def fits(self, sample: Sample) -> bool:
        return sample.shape == "array" and any(
            isinstance(body.get("traj"), list) and "task_id" in body and ("reward" in body or "info" in body)
            for body in sample.objects
        )

    def survey(self, values: Values, origin: Origin) -> str | None:
        """The environment of the file: `airline`, `retail`, or None where no trial tells."""
        for value in values:
            if isinstance(value, Value) and (domain := _domain(fields.mapping(value.body))):
                return domain
        return None

    def read(self, values: Values, origin: Origin, survey: Any, relations: Any) -> Iterator[Imported]:
        for value in values:
            if isinstance(value, ImportProblem):
                yield value
            elif not isinstance(value.body, dict) or not isinstance(value.body.get("traj"), list):
                yield ImportProblem(origin.file, value.place, "not a trial: no object with a traj")
            elif fields.text(value.body.get("task_id")) is None:
                yield ImportProblem(origin.file, value.place, "a trial without task_id")
            else:
                yield from _Trial(value, origin, survey).events()


FORMAT: Final = TauBench()


class _Trial:
    """One element of the file on its way to the events of one run."""

    def __init__(self, value: Value, origin: Origin, file_domain: str | None) -> None:
        self.place = value.place
        self.body: dict[str, Any] = value.body
        self.info = fields.mapping(self.body.get("info"))
        self.task = fields.text(self.body["task_id"]) or ""
        self.trial = fields.text(self.body.get("trial"))
        self.origin = origin
        self.domain = _domain(self.body) or file_domain
        trial = self.trial if self.trial is not None else "x"
        self.scribe = Scribe(origin, f"{NAME}:{self.task}:{trial}:{digest(self.body)}")
        self.pending: list[Message] = []

    def events(self) -> Iterator[Imported]:
        yield self.scribe.write("start", self._started(), place=self.place)
        for index, message in enumerate(self.body["traj"]):
            yield from self._message(message, index)
        score, problem = self._score()
        if problem is not None:
            yield problem
        if "error" not in self.info:
            yield self.scribe.write("reward", self._reward(score), place=f"{self.place}.reward")
        yield self.scribe.write("end", self._ended(score), place=self.place)

    def _started(self) -> RunStarted:
        skill = self.origin.skill or (f"{NAME}/{self.domain}" if self.domain else NAME)
        group = ":".join(part for part in (NAME, self.domain, self.task) if part)
        return RunStarted(
            skill=Named(skill),
            framework=Named(NAME),
            environment=Named(f"{NAME}/{self.domain}") if self.domain else None,
            task_id=self.task,
            task_family=self.domain,
            group_id=group,
            attempt_id=self.trial,
            input=fields.mapping(self.info.get("task")).get("instruction"),
            origin=self.origin.label,
        )

    def _message(self, message: Any, index: int) -> Iterator[Imported]:
        place = f"{self.place}.traj[{index}]"
        role = fields.text(message.get("role")) if isinstance(message, dict) else None
        if role is None:
            yield ImportProblem(self.origin.file, place, "a message without a role")
        elif role == "assistant":
            yield from self._response(message, f"m{index}", place)
        elif role == "tool":
            yield self.scribe.write(f"m{index}", _returned(message), place=place)
        else:
            self.pending.append(Message(role, fields.flat(message.get("content")), fields.text(message.get("name"))))

    def _response(self, message: dict[str, Any], key: str, place: str) -> Iterator[Imported]:
        calls = []
        for index, call in enumerate(fields.sequence(message.get("tool_calls"))):
            function = fields.mapping(fields.mapping(call).get("function"))
            if not isinstance(fields.mapping(call).get("id"), str):
                reason = "a tool call without an id; left out"
                yield ImportProblem(self.origin.file, f"{place}.tool_calls[{index}]", reason, kept=True)
                continue
            calls.append(ToolCall(call["id"], fields.text(function.get("name")), function.get("arguments")))
        data = ModelResponded(
            message=fields.flat(message.get("content")),
            reasoning_content=fields.flat(message.get("reasoning_content")),
            tool_calls=calls or None,
            input_messages=self.pending or None,
        )
        response = self.scribe.write(key, data, place=place)
        yield response
        if isinstance(response, ImportedEvent):
            self.pending = []

    def _graded(self) -> bool:
        """Whether the evaluator ran. Without its `reward_info` only a reward other than 0.0 can be its word."""
        return bool(self.info.get("reward_info")) or self.body.get("reward") not in (0, None)

    def _score(self) -> tuple[float | None, ImportProblem | None]:
        reward = self.body.get("reward")
        score = fields.number(reward)
        if score is None and reward is not None:
            reason = f"reward is no finite number but a {type(reward).__name__}; imported as missing"
            return None, ImportProblem(self.origin.file, f"{self.place}.reward", reason, kept=True)
        return score, None

    def _reward(self, score: float | None) -> RewardAssigned:
        if not self._graded():
            why = "the episode was cut at the step limit; the evaluator did not run"
            return RewardAssigned(
                name="reward", score=score, annotator_kind="code", annotator_id=UNFINISHED, explanation=why
            )
        evidence = fields.mapping(self.info.get("reward_info"))
        return RewardAssigned(
            name="reward",
            score=score,
            passed=_success(score),
            annotator_kind="code",
            annotator_id=EVALUATOR,
            explanation=orjson.dumps(evidence).decode() if evidence else None,
        )

    def _ended(self, score: float | None) -> RunEnded:
        trailing = self.pending or None
        error = self.info.get("error")
        if error is not None:
            kind, status = _raised(error, self.info.get("traceback"))
            return RunEnded(
                end_state="failed",
                stop_condition="exception",
                error_type=kind,
                error_message=fields.flat(error) if isinstance(error, str) else None,
                http_status=status,
                input_messages=trailing,
            )
        if not self._graded():
            return RunEnded(
                end_state="truncated",
                terminated=False,
                truncated=True,
                stop_condition="max_steps",
                input_messages=trailing,
            )
        return RunEnded(
            end_state="completed",
            terminated=True,
            truncated=False,
            success=_success(score),
            stop_condition=self._stop(),
            input_messages=trailing,
        )

    def _stop(self) -> str | None:
        last = fields.mapping((self.body["traj"] or [None])[-1])
        if STOP_MARK in str(last.get("content") or ""):
            return "user_stop"
        source = fields.text(self.info.get("source"))
        return f"tool:{source}"[: fields.TEXT_MAX] if source and source != "user" else None


def _domain(body: dict[str, Any]) -> str | None:
    for message in fields.sequence(body.get("traj"))[:1]:
        content = fields.mapping(message).get("content")
        if isinstance(content, str) and (heading := _WIKI_HEADING.match(content)):
            return heading.group(1).lower()
    return None


def _returned(message: dict[str, Any]) -> ToolReturned:
    content = fields.flat(message.get("content"))
    unknown = isinstance(content, str) and content.startswith("Unknown action ")
    return ToolReturned(
        tool_call_id=message["tool_call_id"] if isinstance(message.get("tool_call_id"), str) else "",
        function_name=fields.text(message.get("name")),
        content=content,
        is_error=unknown or (isinstance(content, str) and content.startswith("Error:")),
        error_type="unknown_tool" if unknown else None,
    )


def _success(score: float | None) -> bool | None:
    return None if score is None else abs(score - 1.0) <= _SUCCESS_TOLERANCE


def _raised(error: Any, traceback: Any) -> tuple[str | None, int | None]:
    """Exception class that a traceback ends in, and the HTTP status that the error states."""
    stated = _STATED_STATUS.search(error) if isinstance(error, str) else None
    status = fields.http_status(int(stated.group(1))) if stated else None
    lines = traceback.splitlines() if isinstance(traceback, str) else []
    frames = [index for index, line in enumerate(lines) if line.startswith("  File ")]
    for line in lines[frames[-1] + 1 :] if frames else []:
        if match := _RAISED.match(line):
            return match.group(1)[: fields.TEXT_MAX], status
    return None, status
