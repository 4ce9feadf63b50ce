"""All agents of a demo, several at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from trajlake.demo.harness import Cancelled, World, perform
from trajlake.demo.plan import Plan
from trajlake.demo.skills import WATCH
from trajlake.demo.waiting import wait_for_somebody

AGENTS: Final = 8
"""Agents that work at a time."""

_LOOK_S: Final = 0.1


def run_all(world: World, plans: list[Plan], on_done: Callable[[int], None], check: Callable[[], None]) -> None:
    """Run every plan; return when all have ended, the forgotten ones aside.

    on_done: told how many runs have ended since it was told last. check: called ten times a second; what it raises ends
    the agents, and then this. Raises what an agent dies of that is no part of its story.
    """
    todo = iter(plans)
    open_runs: dict[Future[None], Plan] = {}
    with ThreadPoolExecutor(AGENTS, thread_name_prefix="agent") as threads:
        try:
            while True:
                # No queue inside the pool: whoever stops a demo waits only for agents that have begun.
                while len(open_runs) < AGENTS and (plan := next(todo, None)) is not None:
                    open_runs[threads.submit(_run, world, plan)] = plan
                if not open_runs:
                    return
                done, _ = wait(open_runs, _LOOK_S, FIRST_COMPLETED)
                for future in done:
                    on_done(open_runs.pop(future).runs)
                    future.result()
                check()
        except BaseException:
            world.stop.set()
            raise


def _run(world: World, plan: Plan) -> None:
    try:
        if plan.skill == WATCH:
            wait_for_somebody(world, plan)
        else:
            perform(world, plan)
    except Cancelled:
        return
