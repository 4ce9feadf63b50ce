"""watch-log: agents that wait for somebody. One sees the line it waits for, one is stopped, one is forgotten.

Written with asyncio, as such agents are. The forgotten one records its call and never another word: its thread waits
for an approval that nobody gives, until the process ends. Log time closes its run.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from trajlake.demo.harness import World, identity
from trajlake.demo.plan import Plan
from trajlake.recording.recorder import Run

TOOLS: Final = ("follow_log", "ask_for_approval")
_POLL_S: Final = 0.01
_PATIENCE_S: Final = 0.15
LINE: Final = "deployment finished"


def wait_for_somebody(world: World, plan: Plan) -> None:
    """Do one run of this skill, as its plan says."""
    run = world.recorders[plan.tenant].run(**identity(plan, TOOLS))
    world.run_ids.add((plan.tenant, run.id))
    if plan.slip == "forgotten":
        threading.Thread(target=_ask_and_wait, args=(run, threading.Event()), name="forgotten", daemon=True).start()
        return
    log = world.folder / f"{run.id}.log"
    log.touch()
    with suppress(asyncio.CancelledError):
        asyncio.run(_follow_for_a_while(run, log, writes=plan.slip is None))
    log.unlink()


async def _follow_for_a_while(run: Run, log: Path, *, writes: bool) -> None:
    """The agent, beside what happens around it: either the line is written, or its user loses patience and stops it."""
    agent = asyncio.create_task(_follow(run, log))
    await asyncio.sleep(_PATIENCE_S)
    if writes:
        log.write_text(f"{LINE}\n", encoding="utf-8")
    else:
        agent.cancel()
    await agent


async def _follow(run: Run, log: Path) -> None:
    asked = {"function_name": "follow_log", "arguments": {"until": LINE}}
    async with run, run.step() as step:
        step.respond(message="I wait until it is deployed.", tool_calls=[asked])
        async with step.tool("follow_log", {"until": LINE}) as call:
            while LINE not in (text := log.read_text(encoding="utf-8")):
                await asyncio.sleep(_POLL_S)
            call.result(text)
        run.end("completed", terminated=True, success=True, output=LINE)


def _ask_and_wait(run: Run, approval: threading.Event) -> None:
    run.start()
    step = run.step()
    asked = {"function_name": "ask_for_approval", "arguments": {"for": "restart of payments"}}
    step.respond(message="This needs an approval.", tool_calls=[asked])
    step.tool("ask_for_approval", {"for": "restart of payments"}).start()
    approval.wait()
