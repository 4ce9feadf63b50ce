"""Who runs what in a demo, with which model, and what goes wrong: a function of the seed and the number of runs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from trajlake.demo.provider import MODELS, TRIES
from trajlake.demo.skills import SKILLS, WATCH
from trajlake.demo.skills.teams import PARTS

HOME: Final = "acme"
LIMITED: Final = "globex"
"""The tenant whose weekly allowance of requests is too small for its agents."""

RELEASES: Final = ("1.4.0", "1.5.0")
NO_SUCH_MODEL: Final = "m-huge"

_LIMITED_SHARE: Final = 0.15
_LEAST_LIMITED: Final = 5
_TEAM_SHARE: Final = 0.07
_WAITING_SHARE: Final = 0.02
_SLIPS_PER_MODEL: Final = {"m-small": 0.34, "m-large": 0.18}
_REQUESTS_A_RUN: Final = 2
"""What the weekly allowance grants for each run of the limited tenant. Every run needs more, so it runs out."""


@dataclass(frozen=True)
class Plan:
    """One run. `slip` is the model's mistake; `brown_out`: requests that the provider sheds at the run's second step.

    `task_seed` lays out the task: runs that share it are attempts at one task. `parts`: runs that this one spawns.
    """

    number: int
    skill: str
    task_seed: int
    slip: str | None = None
    tenant: str = HOME
    model: str = "m-large"
    release: str = RELEASES[-1]
    brown_out: int = 0
    streams: bool = False
    parts: tuple[Plan, ...] = ()

    @property
    def runs(self) -> int:
        return 1 + sum(part.runs for part in self.parts)


_CERTAIN: Final[tuple[tuple[str, str | None, dict[str, Any]], ...]] = (
    # Every kind of end that the demo promises is here once; a demo of few runs has the first of them.
    ("tidy-files", None, {"brown_out": 2}),
    ("triage-log", None, {"streams": True}),
    ("run-script", "typo", {}),
    ("sum-report", "no-filter", {}),
    ("tidy-files", "escape", {}),
    ("run-script", "endless", {}),
    ("sum-report", "locked", {}),
    ("fix-json", "half-call", {}),
    (WATCH, "forgotten", {}),
    (WATCH, "stopped", {}),
    (WATCH, None, {}),
    ("tidy-files", "misplace", {}),
    ("run-script", "stuck", {}),
    ("sum-report", None, {"brown_out": TRIES}),
    ("tidy-files", "loop", {}),
    ("run-script", "slow", {}),
    ("fix-json", None, {"model": NO_SUCH_MODEL}),
    ("triage-log", "no-key", {}),
    ("tidy-files", "absent", {}),
    ("fix-json", "no-such-tool", {}),
)


def deal(runs: int, seed: int) -> list[Plan]:
    """Plans for so many runs, spawned ones counted, in the order in which they start.

    From 40 runs on, every kind of end is among them.
    """
    rng = Random(f"plan {seed}")
    certain = enumerate(_CERTAIN[:runs])
    plans = [Plan(number, name, rng.getrandbits(32), slip, **more) for number, (name, slip, more) in certain]
    limited = min(runs - len(plans), max(_LEAST_LIMITED, int(runs * _LIMITED_SHARE)))
    plans += [_draw(rng, len(plans) + place, LIMITED) for place in range(limited)]
    certain_team = True
    while (left := runs - (number := sum(plan.runs for plan in plans))) > 0:
        chance = rng.random()
        if left > PARTS and (certain_team or chance < _TEAM_SHARE):
            plans.append(_team(rng, number))
            certain_team = False
        elif chance > 1 - _WAITING_SHARE:
            plans.append(Plan(number, WATCH, rng.getrandbits(32), rng.choice(("forgotten", "stopped", None))))
        else:
            plans.append(_draw(rng, number, HOME))
    rng.shuffle(plans)
    # A stable sort: agents that wait start first, so that others work meanwhile.
    return sorted(plans, key=lambda plan: plan.skill != WATCH)


def allowance(plans: list[Plan]) -> tuple[dict[str, int], int]:
    """Requests a week of the limited tenant, and after how many refused ones the week turns over."""
    count = sum(plan.tenant == LIMITED for plan in plans)
    return {LIMITED: _REQUESTS_A_RUN * count}, max(2, count // 3)


def _draw(rng: Random, number: int, tenant: str) -> Plan:
    """A run of any skill but the one that spawns others. Cheap models and old releases slip more often."""
    name = rng.choice([name for name in SKILLS if name != "orchestrate"])
    model, release = rng.choice(list(MODELS)), rng.choice(RELEASES)
    chance = 0.0 if tenant == LIMITED else _SLIPS_PER_MODEL[model] * (1.0 if release == RELEASES[0] else 0.6)
    slip = rng.choice(SKILLS[name].slips) if rng.random() < chance else None
    return Plan(
        number,
        name,
        # Few tasks for many runs, so that tasks have several attempts, as groups of rollouts have.
        rng.randrange(64),
        slip,
        tenant,
        model,
        release,
        brown_out=rng.choice((1, 2, 2, TRIES)) if rng.random() < 0.04 else 0,
        streams=rng.random() < 0.3,
    )


def _team(rng: Random, number: int) -> Plan:
    parts = tuple(_draw(rng, number + place, HOME) for place in range(1, PARTS + 1))
    return Plan(number, "orchestrate", rng.getrandbits(32), model="m-large", parts=parts)
