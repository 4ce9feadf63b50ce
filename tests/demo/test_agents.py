"""The agents themselves: same seed, same work; graders tell right from wrong by what is really there."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.demo import tools
from trajlake.demo.plan import LIMITED, Plan, allowance, deal
from trajlake.demo.provider import TRIES, Provider, ProviderError
from trajlake.demo.skills import SKILLS, WATCH
from trajlake.demo.skills.base import GaveUp, Grade, Seen, Task, ask


def work(folder: Path, name: str, slip: str | None = None, seed: int = 7) -> Grade:
    """Let a skill do its task with the real tools, as the harness does, without recording."""
    (folder / "work").mkdir()
    task = Task("", folder / "work", folder / "key.json")
    rng = Random(seed)
    skill = SKILLS[name]
    try:
        skill.lay_out(task, rng, slip)
        policy = skill.policy(task.prompt, rng, slip)
        reply = next(policy)
        while True:
            try:
                reply = policy.send([use(skill.tools, task.folder, call.tool, call.arguments) for call in reply.asks])
            except StopIteration as end:
                return skill.grade(task, end.value)
    finally:
        for close in task.close:
            close()


def use(offered: tuple[str, ...], folder: Path, name: str, arguments: str) -> Seen:
    try:
        assert name in offered
        given: dict[str, Any] = json.loads(arguments)
        if tools.outside(folder, given):
            return Seen("not allowed", is_error=True)
        result = tools.TOOLS[name](folder, **given)
    except Exception as error:
        return Seen(str(error), is_error=True)
    if isinstance(result, tools.Result):
        return Seen(result.content, is_error=bool(result.exit_code))
    return Seen(result)


LONERS = [name for name in SKILLS if name != "orchestrate"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", LONERS)
def test_a_skill_without_a_slip_does_its_task(tmp_path: Path, name: str, seed: int) -> None:
    grade = work(tmp_path, name, seed=seed)
    assert grade.passed, grade.why


@pytest.mark.parametrize(
    ("name", "slip"),
    [
        ("tidy-files", "misplace"),
        ("sum-report", "no-filter"),
        ("run-script", "off-by-one"),
        ("fix-json", "cut"),
        ("triage-log", "one-log"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_result_is_found_by_its_grader(tmp_path: Path, name: str, slip: str, seed: int) -> None:
    grade = work(tmp_path, name, slip, seed)
    assert not grade.passed
    assert " not " in grade.why


@pytest.mark.parametrize(("name", "slip"), [("sum-report", "bad-column"), ("run-script", "typo")])
def test_a_mistake_that_is_noticed_is_made_good(tmp_path: Path, name: str, slip: str) -> None:
    assert work(tmp_path, name, slip).passed


@pytest.mark.parametrize(
    ("name", "slip"),
    [
        ("tidy-files", "absent"),
        ("tidy-files", "escape"),
        ("sum-report", "locked"),
        ("run-script", "stuck"),
        ("run-script", "endless"),
        ("fix-json", "half-call"),
        ("fix-json", "no-such-tool"),
    ],
)
def test_an_agent_that_sees_no_way_on_gives_up(tmp_path: Path, name: str, slip: str) -> None:
    with pytest.raises(GaveUp):
        work(tmp_path, name, slip)


def test_a_grader_without_its_key_fails_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        work(tmp_path, "triage-log", "no-key")


@given(runs=st.integers(1, 400), seed=st.integers(0, 2**31))
def test_a_plan_has_as_many_runs_as_asked_for_and_is_a_function_of_its_seed(runs: int, seed: int) -> None:
    plans = deal(runs, seed)
    assert sum(plan.runs for plan in plans) == runs
    assert plans == deal(runs, seed)
    slips = {(plan.skill, plan.slip) for plan in plans if plan.skill != WATCH and plan.slip}
    assert all(slip in SKILLS[skill].slips for skill, slip in slips)


@given(runs=st.integers(40, 400), seed=st.integers(0, 2**31))
def test_from_forty_runs_on_every_kind_of_end_is_planned(runs: int, seed: int) -> None:
    plans = deal(runs, seed)
    kinds = {(plan.skill, plan.slip) for plan in plans}
    assert kinds >= {(WATCH, None), (WATCH, "forgotten"), (WATCH, "stopped"), ("orchestrate", None)}
    for name in ("tidy-files", "sum-report", "run-script", "fix-json", "triage-log"):
        assert any(plan.skill == name and plan.slip for plan in plans)
    limited = [plan for plan in plans if plan.tenant == LIMITED]
    # Every run needs three requests and more: this allowance runs out.
    assert allowance(plans)[0][LIMITED] < 3 * len(limited)
    # What runs on the limited tenant goes wrong by the limit alone.
    assert not [plan for plan in limited if plan.slip]


def test_spawned_agents_never_wait_or_spawn_again() -> None:
    def parts(plans: list[Plan]) -> list[Plan]:
        return [part for plan in plans for part in plan.parts]

    assert {part.skill for part in parts(deal(2_000, 3))} <= set(LONERS)


def test_a_week_that_has_run_out_turns_over_and_touches_nobody_else() -> None:
    provider = Provider({"small": 2}, refusals_a_week=2)
    refused = []

    def served(tenant: str) -> bool:
        try:
            provider.ask(tenant, "m-small", 100, 40)
        except ProviderError as error:
            refused.append((error.status_code, error.code))
            return False
        return True

    assert [served("small") for _ in range(6)] == [True, True, False, False, True, True]
    assert all(served("large") for _ in range(9))
    assert refused == [(429, "insufficient_quota")] * 2


def test_a_brown_out_is_waited_out_or_reported() -> None:
    provider = Provider({}, refusals_a_week=1)
    answer = provider.ask("a", "m-large", 4_000, 400, brown_out=2)
    assert (answer.retries, answer.input_tokens, answer.output_tokens) == (2, 1_001, 101)
    assert answer.cost_usd == pytest.approx((1_001 * 3.0 + 101 * 15.0) / 1e6)
    with pytest.raises(ProviderError) as refused:
        provider.ask("a", "m-large", 1, 1, brown_out=TRIES)
    assert refused.value.status_code == 503


def test_a_model_that_does_not_exist_is_no_matter_of_waiting() -> None:
    with pytest.raises(ProviderError) as refused:
        Provider({}, refusals_a_week=1).ask("a", "m-huge", 1, 1)
    assert (refused.value.status_code, refused.value.retryable) == (404, False)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/hostname", "link/x"])
def test_no_argument_may_lead_out_of_the_folder(tmp_path: Path, path: str) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    assert tools.outside(inside, {"path": path}) == "path"
    assert tools.outside(inside, {"path": "a", "to": path}) == "to"
    assert tools.outside(inside, {"path": "a/../b", "text": path}) is None


def test_arguments_are_the_text_that_the_model_emits() -> None:
    assert ask("run_sql", sql="SELECT 1").arguments == '{"sql": "SELECT 1"}'
