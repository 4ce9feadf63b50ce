"""Common causes: trouble that many runs share is named once, and nobody is accused of it."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.transforms.stats.causes import Cause, Faults, find_causes, merge_faults, new_faults, observe_run

NIGHT = 492_000
SKILLS = [f"job-{n:02d}" for n in range(38)] + ["orchestrate-a", "orchestrate-b"]


def quiet_weeks(skills: list[str] = SKILLS, hours: int = 24 * 7, until: int = NIGHT) -> Faults:
    faults = new_faults()
    random = Random(11)
    for hour in range(until - hours, until):
        for skill in random.sample(skills, min(6, len(skills))):
            fault = random.random() < 0.004
            observe_run(
                faults, hour, skill, "infra_fault" if fault else "success", provider="north", error_type="ReadTimeout"
            )
    return faults


def test_s5_a_spent_quota_that_fails_forty_skills_in_one_night_is_one_finding() -> None:
    faults = quiet_weeks()
    for n, skill in enumerate(SKILLS):
        observe_run(faults, NIGHT + n % 8, skill, "quota", provider="north", error_type="RateLimitError")
    causes = find_causes(faults, "acme", NIGHT + 8)
    assert len(causes) == 1
    cause = causes[0]
    assert (cause.classes, cause.dimension, cause.value) == (("quota",), "provider", "north")
    assert cause.skills == tuple(sorted(SKILLS))
    assert (cause.faults, cause.since_hour, cause.last_hour) == (40, NIGHT, NIGHT + 7)
    assert cause.reason == "quota of provider north: 40 of 40 runs of 40 skills"


def test_a_quiet_month_has_no_cause() -> None:
    faults = new_faults()
    random = Random(2)
    found = []
    for hour in range(NIGHT, NIGHT + 720):
        for skill in random.sample(SKILLS, 5):
            draw = random.random()
            outcome = "infra_fault" if draw < 0.01 else "tool_fault" if draw < 0.03 else "success"
            observe_run(faults, hour, skill, outcome, provider="north", tool="search", error_type="E")
        if hour >= NIGHT + 72:
            found += find_causes(faults, "acme", hour)
    assert found == []


def test_a_broken_tool_is_named_by_the_tool() -> None:
    faults = quiet_weeks()
    for n in range(30):
        observe_run(faults, NIGHT, SKILLS[n % 10], "tool_fault", tool="search", error_type=f"E{n}", provider="north")
        observe_run(faults, NIGHT, SKILLS[n % 40], "success")
    causes = find_causes(faults, "acme", NIGHT)
    assert [(cause.dimension, cause.value, len(cause.skills)) for cause in causes] == [("tool", "search", 10)]


def test_one_provider_that_fails_in_several_ways_is_one_cause() -> None:
    faults = quiet_weeks()
    for n in range(30):
        observe_run(faults, NIGHT, SKILLS[n], "quota" if n % 2 else "infra_fault", provider="north", error_type=f"E{n}")
    causes = find_causes(faults, "acme", NIGHT)
    assert [(cause.classes, cause.value, cause.faults) for cause in causes] == [(("quota", "infra_fault"), "north", 30)]


def test_without_a_name_that_covers_it_the_class_is_the_name() -> None:
    faults = quiet_weeks()
    for n in range(20):
        observe_run(faults, NIGHT, SKILLS[n], "unknown", error_type=f"E{n}")
    assert [(each.dimension, each.value) for each in find_causes(faults, "acme", NIGHT)] == [("class", "unknown")]


def test_a_cause_keeps_its_id_while_it_goes_on_and_ends_when_it_is_over() -> None:
    faults = quiet_weeks()
    known: list[Cause] = []
    ids: set[str] = set()
    for hour in range(NIGHT, NIGHT + 30):
        for n in range(4):
            observe_run(faults, hour, SKILLS[(hour + n) % 40], "quota", provider="north")
        known = find_causes(faults, "acme", hour, previous=known)
        ids.update(cause.cause_id for cause in known)
    assert len(ids) == 1
    for hour in range(NIGHT + 30, NIGHT + 90):
        observe_run(faults, hour, SKILLS[0], "success")
    assert find_causes(faults, "acme", NIGHT + 90, previous=known) == []


RUN = st.tuples(
    st.integers(NIGHT, NIGHT + 70),
    st.sampled_from(SKILLS[:4]),
    st.sampled_from(["success", "quota", "tool_fault", "quality_failure"]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(RUN, max_size=60), st.randoms(use_true_random=False), st.integers(0, 60))
def test_order_and_split_of_runs_do_not_matter(runs: list[tuple[int, str, str]], random: Random, cut: int) -> None:
    def counted(some: list[tuple[int, str, str]]) -> Faults:
        faults = new_faults()
        for hour, skill, outcome in some:
            observe_run(faults, hour, skill, outcome, provider="north", tool="t", error_type="E")
        return faults

    whole = counted(runs)
    shuffled = list(runs)
    random.shuffle(shuffled)
    parts: list[Faults] = [json.loads(json.dumps(counted(part))) for part in (shuffled[:cut], shuffled[cut:])]
    now = NIGHT + 70
    assert find_causes(merge_faults(parts), "acme", now) == find_causes(whole, "acme", now)
    assert find_causes(counted(shuffled), "acme", now) == find_causes(whole, "acme", now)
