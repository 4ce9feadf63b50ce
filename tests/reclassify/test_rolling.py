"""Runs of long ago that come to something else: what the state of a skill no longer holds one by one stays right."""

from __future__ import annotations

from trajlake.expectations.outcomes import DAY_US, ClosedRun, OutcomeBatch, RunOutcome, RunVersions
from trajlake.transforms.rolling.sequence import KEPT, streak
from trajlake.transforms.rolling.state import SkillState

START_US = 1_760_000_000_000_000
MINUTE_US = 60_000_000


def run(number: int, outcome: str, *, revision: int = 0, offset: int | None = None, version: str = "1") -> RunOutcome:
    """The n-th run of a skill; it closes at its number unless another offset is given."""
    return RunOutcome(
        run_id=f"r{number}", revision=revision, offset=number if offset is None else offset,
        end_us=START_US + number * MINUTE_US, outcome_class=outcome, attempts=1, versions=RunVersions(skill=version),
    )  # fmt: skip


def batch(*closed: ClosedRun) -> OutcomeBatch:
    return OutcomeBatch("acme", "mail", "events", 0, list(closed), 0)


def again(number: int, offset: int, was: str, now: str, version: str = "1") -> ClosedRun:
    """A run that is classified again at an offset."""
    after = run(number, now, revision=1, offset=offset, version=version)
    return ClosedRun(offset, after, run(number, was, version=version))


def test_failures_that_were_dropped_from_memory_leave_the_streak() -> None:
    state = SkillState("acme", "mail")
    count = KEPT + 10
    state.apply(
        batch(ClosedRun(0, run(0, "success")), *(ClosedRun(n, run(n, "quality_failure")) for n in range(1, count)))
    )
    assert streak(state.head.sequence)[0] == count - 1
    # Three of the dropped ones were no failures of the skill; one is a failure of another kind.
    state.apply(batch(*(again(n, 1_000 + n, "quality_failure", "quota") for n in (2, 3, 4))))
    state.apply(batch(again(5, 1_100, "quality_failure", "agent_action")))
    assert streak(state.head.sequence)[0] == count - 1 - 3
    # So does one that is still held.
    state.apply(batch(again(count - 1, 1_200, "quality_failure", "quota")))
    assert streak(state.head.sequence)[0] == count - 1 - 4
    window = state.windows["30d"]
    assert sum(window.classes) == count


def test_a_run_of_a_version_that_is_forgotten_leaves_nothing_behind() -> None:
    state = SkillState("acme", "mail")
    state.apply(batch(ClosedRun(0, run(0, "quality_failure", version="old"))))
    later = 100 * DAY_US // MINUTE_US
    state.apply(batch(ClosedRun(1, run(later, "success", offset=1, version="new"))))
    assert list(state.versions) == ["new||"]
    state.apply(batch(again(0, 2, "quality_failure", "quota", version="old")))
    assert list(state.versions) == ["new||"]
    assert all(count >= 0 for bucket in state.versions.values() for count in bucket.counts.classes)
    assert sum(state.windows["30d"].classes) == 1
