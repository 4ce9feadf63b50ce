"""One agent from its start to its end: asks the model, runs the tools, records all of it, has the result graded.

This is how any agent is recorded: `Recorder.run`, `step`, `tool` and `reward` around what it does anyway.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from trajlake.demo import tools
from trajlake.demo.plan import Plan
from trajlake.demo.provider import CHARS_PER_TOKEN, MODELS, Provider, ProviderError
from trajlake.demo.skills import SKILLS
from trajlake.demo.skills.base import Ask, GaveUp, Grade, Reply, Seen, Task
from trajlake.recording.recorder import Call, Recorder, Run, Step

MAX_STEPS: Final = 8
RUN_S: Final = 20.0
"""Time allowed for a run."""

SLOW_RUN_S: Final = 0.4
"""Time allowed for a run whose script is slow."""

CONTEXT_CHARS: Final = 4_800
"""What the model holds; above it the harness replaces what was said by a summary."""

AGENT: Final = {"name": "demo-agent", "version": "1"}


class Cancelled(BaseException):
    """The demo is being stopped. Not an `Exception`: tools that fail must not swallow it."""


class StepLimitReached(Exception):
    """The agent used all steps that it may take."""


class DeadlineReached(Exception):
    """The time allowed for the run is over."""


@dataclass(frozen=True)
class World:
    """What all agents of a demo share. `folder`: each agent gets a folder of its own in it. `stop`: ends them early."""

    recorders: Mapping[str, Recorder]
    provider: Provider
    folder: Path
    stop: threading.Event
    seed: int
    run_ids: set[tuple[str, str]] = field(default_factory=set)
    """(tenant, run id) of every run that was started."""


@dataclass(frozen=True)
class Outcome:
    """What a spawned agent hands back to the one that spawned it."""

    answer: str
    passed: bool


def perform(world: World, plan: Plan, parent: Call | None = None) -> Outcome | None:
    """Do one run. None when it did not complete; how it ended is in its events."""
    skill = SKILLS[plan.skill]
    started = world.recorders[plan.tenant].run(parent=parent, **identity(plan, skill.tools))
    folder = world.folder / started.id
    (folder / "work").mkdir(parents=True)
    rng = Random(f"task {plan.skill} {plan.task_seed}")
    task = Task("", folder / "work", folder / "key.json")
    try:
        skill.lay_out(task, rng, plan.slip)
        world.run_ids.add((plan.tenant, started.id))
        with started as run:
            return _Agent(world, plan, task, run).work(rng)
    except (GaveUp, ProviderError):
        # The run ended as failed, with this exception as its evidence.
        return None
    finally:
        for close in task.close:
            close()
        shutil.rmtree(folder, ignore_errors=True)


def identity(plan: Plan, offered: tuple[str, ...]) -> dict[str, Any]:
    """Who runs what: the fields with which a run starts."""
    card = MODELS.get(plan.model)
    return {
        "agent": AGENT,
        "skill": plan.skill,
        "skill_version": plan.release,
        "model": plan.model,
        "model_tier": card.tier if card else "upper",
        "model_provider": "demo-provider",
        "tools": [{"name": name, "version": tools.VERSION} for name in offered],
        "task_id": f"{plan.skill}/{plan.task_seed}",
        "task_family": plan.skill,
        "group_id": f"{plan.skill}/{plan.task_seed}",
        "attempt_id": str(plan.number),
    }


class _Agent:
    def __init__(self, world: World, plan: Plan, task: Task, run: Run) -> None:
        self._world = world
        self._plan = plan
        self._task = task
        self._run = run
        self._skill = SKILLS[plan.skill]
        self._steps = 0
        self._context_chars = len(task.prompt)
        self._deadline = time.monotonic() + (SLOW_RUN_S if plan.slip == "slow" else RUN_S)

    def work(self, rng: Random) -> Outcome | None:
        """Work to the end, have it graded, and say how it ended."""
        try:
            answer = self._converse(rng)
        except StepLimitReached:
            self._run.end("truncated", truncated=True, stop_condition="max_steps")
            return None
        except DeadlineReached:
            self._run.end("timeout", truncated=True, stop_condition="run_deadline")
            return None
        try:
            grade = self._skill.grade(self._task, answer)
        except Exception as error:
            why = f"{type(error).__name__}: {error}".replace(str(self._task.key.parent), "<folder>")
            self._run.reward("result", None, annotator_id=self._skill.name, explanation=f"not graded: {why}")
            self._run.end("completed", output=answer, error_type="GraderError", error_message=why)
            return Outcome(answer, False)
        self._reward(grade)
        self._run.end("completed", terminated=True, success=grade.passed, output=answer)
        return Outcome(answer, grade.passed)

    def _reward(self, grade: Grade) -> None:
        self._run.reward(
            "result",
            1.0 if grade.passed else 0.0,
            passed=grade.passed,
            annotator_id=f"{self._skill.name}-grader",
            annotator_version="1",
            explanation=grade.why,
        )

    def _converse(self, rng: Random) -> str:
        policy = self._skill.policy(self._task.prompt, rng, self._plan.slip)
        reply = next(policy)
        while True:
            seen = self._step(reply)
            try:
                reply = policy.send(seen)
            except StopIteration as end:
                answer: str = end.value
                self._step(Reply(answer))
                return answer

    # One decision

    def _step(self, reply: Reply) -> list[Seen]:
        self._check()
        if self._steps == MAX_STEPS:
            raise StepLimitReached
        self._steps += 1
        with self._run.step() as step:
            self._respond(step, reply)
            seen = self._call_all(step, reply.asks)
        self._context_chars += len(reply.message) + sum(len(str(part.content)) for part in seen)
        if self._context_chars > CONTEXT_CHARS:
            self._compact()
        return seen

    def _check(self) -> None:
        if self._world.stop.is_set():
            raise Cancelled("the demo is being stopped")
        if time.monotonic() > self._deadline:
            raise DeadlineReached

    def _respond(self, step: Step, reply: Reply) -> None:
        """Ask the provider for this reply, and record it: in pieces where the model streams."""
        plan = self._plan
        emitted = len(reply.message) + sum(len(ask.arguments) for ask in reply.asks)
        brown_out = plan.brown_out if self._steps == 2 else 0
        answer = self._world.provider.ask(plan.tenant, plan.model, self._context_chars, emitted, brown_out)
        if plan.streams and len(reply.message) > 8:
            half = len(reply.message) // 2
            step.respond(partial=True, message=reply.message[:half])
        more: dict[str, Any] = {}
        if self._steps == 1:
            more["input_messages"] = [{"role": "user", "content": self._task.prompt}]
        step.respond(
            message=reply.message,
            reasoning_content=reply.thought,
            tool_calls=[
                {"id": f"call-{self._steps}-{place}", "function": {"name": ask.tool, "arguments": ask.arguments}}
                for place, ask in enumerate(reply.asks, start=1)
            ],
            finish_reason="tool_calls" if reply.asks else "stop",
            usage={"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
            cost_usd=answer.cost_usd,
            latency_ms=answer.latency_ms,
            retry_count=answer.retries,
            **more,
        )

    def _compact(self) -> None:
        before = self._context_chars
        summary = f"{self._steps} steps are behind us. The task: {self._task.prompt}"
        self._context_chars = len(summary)
        self._run.compacted(
            summary,
            trigger="context is full",
            tokens_before=before // CHARS_PER_TOKEN,
            tokens_after=self._context_chars // CHARS_PER_TOKEN,
        )

    # Tools

    def _call_all(self, step: Step, asks: tuple[Ask, ...]) -> list[Seen]:
        """Calls of one reply: several run side by side, so their results are recorded as they come."""
        ids = [f"call-{self._steps}-{place}" for place in range(1, len(asks) + 1)]
        if len(asks) < 2:
            return [self._call(step, ask, call_id) for ask, call_id in zip(asks, ids, strict=True)]
        with ThreadPoolExecutor(len(asks)) as threads:
            return list(threads.map(self._call, [step] * len(asks), asks, ids))

    def _call(self, step: Step, ask: Ask, call_id: str) -> Seen:
        try:
            with step.tool(ask.tool, ask.arguments, tool_call_id=call_id, tool_version=tools.VERSION) as call:
                result = self._use(ask, call)
                call.result(result.content)
                if result.exit_code is not None:
                    call.result(exit_code=result.exit_code, is_error=result.exit_code != 0)
                return Seen(result.content, is_error=bool(result.exit_code))
        except Exception as error:
            # It is recorded with the call; to the model it is one more thing that it sees.
            return Seen(f"{type(error).__name__}: {error}", is_error=True)

    def _use(self, ask: Ask, call: Call) -> tools.Result:
        if ask.tool not in self._skill.tools:
            raise tools.ToolNotFoundError(f"there is no tool {ask.tool}")
        arguments = json.loads(ask.arguments)
        if ask.tool == "delegate":
            return self._delegate(arguments["part"], call)
        self._guard(ask, arguments, call)
        result = tools.TOOLS[ask.tool](self._task.folder, **arguments)
        return result if isinstance(result, tools.Result) else tools.Result(result)

    def _guard(self, ask: Ask, arguments: dict[str, Any], call: Call) -> None:
        """The policy on files: nothing outside the agent's folder. Raises `PolicyDenied`."""
        wrong = tools.outside(self._task.folder, arguments)
        if wrong is None and ask.tool != "remove_file":
            return
        rule = {"rule_id": "inside-own-folder", "tool_call_id": call.tool_call_id}
        if wrong is None:
            self._run.policy("sandbox", "allow", action="none", **rule)
            return
        reason = f"argument {wrong} names a place outside the agent's folder"
        self._run.policy("sandbox", "deny", action="blocked", reason=reason, **rule)
        raise tools.PolicyDenied(f"{ask.tool} outside the agent's folder is not allowed")

    def _delegate(self, part: int, call: Call) -> tools.Result:
        plan = self._plan.parts[part]
        outcome = perform(self._world, plan, parent=call)
        content = {
            "skill": plan.skill,
            "answer": outcome.answer if outcome else None,
            "passed": outcome is not None and outcome.passed,
        }
        return tools.Result(content)
