"""Any order of delivery, duplication and batching gives the same windows, and they equal a plain recount."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.outcomes import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    WINDOWS,
    ClosedRun,
    OutcomeBatch,
    RunOutcome,
    RunVersions,
)
from trajlake.streams.roll.store import decode_value, encode_value, restore, value_key
from trajlake.transforms.rolling.bucket import Bucket, Counts, count_run, stratum_parts
from trajlake.transforms.rolling.readings import Detectors, skill_stats
from trajlake.transforms.rolling.sequence import streak
from trajlake.transforms.rolling.state import Head, SkillState, version_label

START_US = 500_000 * HOUR_US
CLASSES = ("success", "success", "quality_failure", "quota", "timeout", "cancelled")

outcomes = st.builds(
    lambda minutes, name, tier, price, version: (minutes, name, tier, price, version),
    st.integers(0, 60 * 24 * 33) | st.integers(0, 90),
    st.sampled_from(CLASSES),
    st.sampled_from((None, "cheap", "upper")),
    st.sampled_from((None, 0, 7, 2_000_000)),
    st.sampled_from(("1", "2")),
)


@st.composite
def logs(draw: st.DrawFn) -> list[list[ClosedRun]]:
    """Runs of one skill in two partitions, each in order of closing offset; some close again as something else."""
    partitions = []
    for partition in (0, 1):
        closed: list[ClosedRun] = []
        offset = 0
        for number, (minutes, name, tier, price, version) in enumerate(draw(st.lists(outcomes, max_size=18))):
            offset += draw(st.integers(0, 1))
            run = RunOutcome(
                offset=offset, run_id=f"{partition}-{number}", end_us=START_US + minutes * MINUTE_US + number,
                outcome_class=name, model_tier=tier, cost_nano_usd=price, latency_us=1 + minutes,
                versions=RunVersions(skill=version), attempts=1 + number % 3, input_tokens=number,
            )  # fmt: skip
            closed.append(ClosedRun(offset, run))
        again = st.lists(st.sampled_from(range(len(closed))), unique=True, max_size=4) if closed else st.just([])
        for place in draw(again):
            old = closed[place]
            before = old.outcome
            assert before is not None
            offset += 1
            after = RunOutcome(
                offset=offset, run_id=before.run_id, end_us=before.end_us + draw(st.integers(0, 3)) * MINUTE_US,
                outcome_class=draw(st.sampled_from(CLASSES)), model_tier=before.model_tier, revision=1,
                versions=before.versions,
            )  # fmt: skip
            closed.append(ClosedRun(offset, draw(st.sampled_from((after, after, None))), before))
        partitions.append(closed)
    return partitions


def batches_of(random: Random, partitions: list[list[ClosedRun]]) -> list[OutcomeBatch]:
    """A delivery: each partition in order and whole, cut between offsets, redelivered, interleaved."""
    queues = []
    for number, runs in enumerate(partitions):
        cuts = sorted({0, len(runs), *(random.randint(0, len(runs)) for _ in range(5))})
        cuts = [c for c in cuts if c in (0, len(runs)) or runs[c - 1].offset != runs[c].offset]
        parts = [OutcomeBatch("acme", "mail", "t", number, runs[a:b]) for a, b in pairwise(cuts)]
        again = [parts[max(0, i - random.randint(0, 2)) : i + 1] for i in range(len(parts))]
        queues.append([part for group in again for part in group])
    delivered = []
    while any(queues):
        queue = random.choice([queue for queue in queues if queue])
        delivered.append(queue.pop(0))
    return delivered


def windows_of(state: SkillState) -> object:
    """All that statistics are made from. Restatement numbers depend on the order, by their meaning."""
    versions = {name: bucket.counts for name, bucket in state.versions.items() if any(bucket.counts.classes)}
    head = state.head
    return state.windows, versions, head.as_of_us, head.sequence.runs, streak(head.sequence), head.applied, head.runs


def recount(partitions: list[list[ClosedRun]]) -> tuple[dict[str, Counts], int, int]:
    """Windows and streak from the runs that count in the end, by plain loops."""
    counting: dict[str, tuple[int, RunOutcome]] = {}
    as_of = 0
    for partition, runs in enumerate(partitions):
        for closed in runs:
            for run in (closed.replaces, closed.outcome):
                as_of = max(as_of, run.end_us) if run is not None else as_of
            if closed.replaces is not None:
                del counting[closed.replaces.run_id]
            if closed.outcome is not None:
                counting[closed.outcome.run_id] = partition, closed.outcome
    windows = {}
    for name, length in WINDOWS.items():
        if name != "version":
            size = MINUTE_US if name == "1h" else HOUR_US
            first = as_of // size - length // size + 1
            windows[name] = Counts()
            for _, run in counting.values():
                if run.end_us // size >= first:
                    count_run(windows[name], run, 1)
    in_a_row = 0
    for _, run in sorted(counting.values(), key=lambda each: (each[1].end_us, each[0], each[1].offset, each[1].run_id)):
        if run.outcome_class in ("success", "quality_failure", "agent_action"):
            in_a_row = 0 if run.outcome_class == "success" else in_a_row + 1
    return windows, as_of, in_a_row


def applied(batches: Iterable[OutcomeBatch]) -> SkillState:
    state = SkillState("acme", "mail")
    for batch in batches:
        state.apply(batch)
    return state


@settings(max_examples=120, deadline=None)
@given(logs(), st.randoms(use_true_random=False))
def test_any_delivery_gives_the_windows_of_a_recount(partitions: list[list[ClosedRun]], random: Random) -> None:
    one = applied(batches_of(random, partitions))
    other = applied(batches_of(random, partitions))
    assert windows_of(one) == windows_of(other)
    if any(partitions):
        windows, as_of, in_a_row = recount(partitions)
        assert (one.windows, one.head.as_of_us, streak(one.head.sequence)[0]) == (windows, as_of, in_a_row)


@settings(max_examples=120, deadline=None)
@given(logs(), st.randoms(use_true_random=False))
def test_a_crash_that_stored_some_values_of_a_batch_loses_and_doubles_nothing(
    partitions: list[list[ClosedRun]], random: Random
) -> None:
    batches = batches_of(random, partitions)
    whole = applied(batches)
    stored: dict[str, Head | Bucket | None] = {}
    state = SkillState("acme", "mail")
    position = 0
    while position < len(batches):
        touched = sorted(state.apply(batches[position]))
        crash = random.random() < 0.4
        kept = random.sample(touched, random.randint(0, len(touched))) if crash else touched
        for name in kept:
            value = state.value(name)
            stored[name] = _copy(name, value) if value is not None else None
        if crash:
            state = SkillState.restored("acme", "mail", {name: _copy(name, v) for name, v in stored.items() if v})
        else:
            position += 1
    assert windows_of(state) == windows_of(whole)


def _copy(name: str, value: Head | Bucket) -> Head | Bucket:
    return decode_value(name, encode_value(value))


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["quality_failure", "cancelled", "quality_failure"], 2),
        (["quality_failure", "success", "quality_failure"], 1),
        (["success"], 0),
        (["quality_failure"] * 200, 200),
        (["success", *["quality_failure"] * 100, *["quota"] * 80], 100),
    ],
)
def test_S4_streaks_pass_over_what_says_nothing_of_quality(classes: list[str], expected: int) -> None:
    runs = [
        ClosedRun(place, RunOutcome(place, f"r{place}", START_US + place, name)) for place, name in enumerate(classes)
    ]
    random = Random(5)
    assert streak(applied(batches_of(random, [runs, []])).head.sequence)[0] == expected


def test_S8_a_run_three_days_late_restates_its_hour() -> None:
    newest = ClosedRun(1, RunOutcome(1, "new", START_US + 72 * HOUR_US, "success"))
    late = ClosedRun(2, RunOutcome(2, "late", START_US, "quality_failure"))
    state = applied([OutcomeBatch("acme", "mail", "t", 0, [newest])])
    assert state.head.restated == 0
    state.apply(OutcomeBatch("acme", "mail", "t", 0, [late]))
    assert state.head.restated == 1
    assert state.buckets["h"][START_US // HOUR_US].restated == 1
    assert state.restated_from_us == START_US
    assert sum(state.windows["24h"].classes) == 1
    assert sum(state.windows["7d"].classes) == 2


def test_versions_are_counted_apart() -> None:
    runs = [
        ClosedRun(
            place,
            RunOutcome(place, f"r{place}", START_US + place * HOUR_US, "success", versions=RunVersions(skill=version)),
        )
        for place, version in enumerate("1112")
    ]
    state = applied([OutcomeBatch("acme", "mail", "t", 0, runs)])
    label = version_label(RunVersions(skill="2"))
    assert sum(state.versions[label].counts.classes) == 1
    assert isinstance(state.value("s"), Head)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_old_runs_of_a_partition_that_comes_late_end_no_long_streak(order: tuple[int, int]) -> None:
    random = Random(11)
    partitions: list[list[ClosedRun]] = [[], []]
    for place in range(350):
        name = "success" if place < 150 else "quality_failure"
        runs = partitions[0 if 80 <= place < 120 else random.choice((0, 1, 1))]
        runs.append(ClosedRun(len(runs), RunOutcome(len(runs), f"r{place}", START_US + place, name)))
    batches = [OutcomeBatch("acme", "mail", "t", number, partitions[number]) for number in order]
    assert streak(applied(batches).head.sequence) == (200, START_US + 150)


def test_tiers_and_families_with_bars_in_their_names_are_kept_apart() -> None:
    counts = Counts()
    for tier, family in (("a|b", "c"), ("a", "b|c")):
        count_run(counts, RunOutcome(1, "r", START_US, "success", model_tier=tier, task_family=family), 1)
    assert sorted(map(stratum_parts, counts.strata)) == [("a", "b|c"), ("a/b", "c")]


def _run(place: int, day: int, name: str = "success", version: str | None = "1", revision: int = 0) -> RunOutcome:
    versions = RunVersions(skill=version)
    end_us = START_US + day * DAY_US + place
    return RunOutcome(place, f"day-{day}", end_us, name, versions=versions, revision=revision)


def _told(state: SkillState) -> dict[str, int]:
    """Runs by class of the version window, from statistics that can be worked out."""
    stats = skill_stats(state, Detectors(), emitted_us=0, code_revision="x")
    return next(window.counts for window in stats.windows if window.window == "version")


@pytest.mark.parametrize("version", ["1", None])
@pytest.mark.parametrize("at_once", [False, True])
def test_runs_of_a_version_that_was_forgotten_and_ran_again_are_not_taken_back_from_it(
    version: str | None, at_once: bool
) -> None:
    old = [_run(place, place, version=version) for place in range(4)]
    closed = [ClosedRun(run.offset, run) for run in old]
    fresh = [ClosedRun(10, _run(10, 100, version=version))]
    # Spooled for long: older than all that was forgotten, and counted nevertheless.
    late = [ClosedRun(11, _run(11, -1, version=version))]
    again = [ClosedRun(20 + run.offset, _run(20 + run.offset, run.offset, "quota", version, 1), run) for run in old]
    moves = [fresh, late, again]
    whole = [[*fresh, *late, *again]]
    state = applied(OutcomeBatch("acme", "mail", "t", 0, runs) for runs in [closed, *(whole if at_once else moves)])
    assert _told(state) == {"success": 2}


def test_late_runs_of_a_version_that_was_never_forgotten_count_and_can_be_exchanged() -> None:
    other = [ClosedRun(1, _run(1, 0, version="0")), ClosedRun(2, _run(2, 120))]
    late = _run(3, 5)
    moves = [other, [ClosedRun(3, late)], [ClosedRun(4, _run(4, 5, "quota", revision=1), late)]]
    state = applied(OutcomeBatch("acme", "mail", "t", 0, runs) for runs in moves)
    assert _told(state) == {"success": 1, "quota": 1}


def test_any_name_of_a_skill_or_version_is_recovered() -> None:
    state = SkillState("acme", "ma\x1fil")
    state.apply(OutcomeBatch("acme", "ma\x1fil", "t", 0, [ClosedRun(1, _run(1, 0, version="1\x1f2"))]))
    values = [(value_key(0, "acme", "ma\x1fil", name), encode_value(value)) for name, value in state.values()]
    found = restore(values, {0})
    assert list(found) == [("acme", "ma\x1fil")]
    assert windows_of(found["acme", "ma\x1fil"]) == windows_of(state)
    assert _told(found["acme", "ma\x1fil"]) == {"success": 1}
