"""Drops: the guarantee by simulation, and a state that is a function of hourly counts."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.transforms.stats.control import discoveries, surely_named
from trajlake.transforms.stats.drops import (
    LEAST_BASE_RUNS,
    Drops,
    new_drops,
    observe,
    read_drops,
    rebuild,
    restart,
    stratum_of,
)

ALPHA = 0.05
CHEAP, UPPER = stratum_of("cheap", "mail"), stratum_of("upper", "mail")
START = 490_000
HOUR = st.tuples(st.integers(START, START + 60), st.sampled_from([CHEAP, UPPER]), st.integers(0, 9), st.integers(0, 4))


def history(rate: float, runs: int, start: int = START, stratum: str = CHEAP, seed: int = 1) -> Drops:
    """One run an hour at a constant rate."""
    random = Random(seed)
    drops = new_drops()
    for hour in range(start, start + runs):
        good = random.random() < rate
        observe(drops, hour, stratum, int(good), int(not good))
    return drops


def test_a_drop_is_seen_and_dated() -> None:
    drops = history(0.95, 500)
    assert read_drops(drops).e_value < 1
    change = START + 500
    for n in range(30):
        observe(drops, change + n, CHEAP, int(n % 2 == 0), int(n % 2 == 1))
    reading = read_drops(drops)
    assert reading.e_value >= 1 / ALPHA
    assert reading.since_hour is not None
    assert abs(reading.since_hour - change) <= 24
    assert reading.based
    before, after = reading.before, reading.after
    assert before[0] / sum(before) > 0.9 > 0.65 > after[0] / sum(after)


def test_s12_a_shift_of_the_mix_of_tiers_raises_nothing() -> None:
    # 99% on the upper tier, 70% on the cheap one; the mix moves from nine tenths upper to nine tenths cheap.
    random = Random(3)
    drops = new_drops()
    worst = 0.0
    for n in range(1200):
        upper = random.random() < (0.9 if n < 800 else 0.1)
        good = random.random() < (0.99 if upper else 0.7)
        observe(drops, START + n, UPPER if upper else CHEAP, int(good), int(not good))
        if n % 10 == 0:
            worst = max(worst, read_drops(drops).e_value)
    assert worst < 1 / ALPHA
    # The same runs without strata would have been an alarm.
    random = Random(3)
    blind = new_drops()
    blind_worst = 0.0
    for n in range(1200):
        upper = random.random() < (0.9 if n < 800 else 0.1)
        good = random.random() < (0.99 if upper else 0.7)
        observe(blind, START + n, "|", int(good), int(not good))
        if n % 10 == 0:
            blind_worst = max(blind_worst, read_drops(blind).e_value)
    assert blind_worst >= 1 / ALPHA


def test_one_stratum_that_breaks_is_seen_beside_many_that_hold() -> None:
    random = Random(5)
    drops = new_drops()
    families = [stratum_of("cheap", f"family-{n}") for n in range(5)]
    for n in range(5 * 400):
        broken = n >= 5 * 300 and n % 5 == 0
        good = random.random() < (0.4 if broken else 0.95)
        observe(drops, START + n // 5, families[n % 5], int(good), int(not good))
    assert read_drops(drops).e_value >= 1 / ALPHA


def test_a_stratum_without_history_accuses_nobody() -> None:
    drops = new_drops()
    for n in range(LEAST_BASE_RUNS):
        observe(drops, START + n, CHEAP, 0, 1)
    assert read_drops(drops).e_value == 0
    assert not read_drops(drops).based


def test_after_a_pulled_lever_a_skill_is_judged_afresh_against_the_same_base() -> None:
    drops = history(0.95, 500)
    for n in range(40):
        observe(drops, START + 500 + n, CHEAP, 0, 1)
    assert read_drops(drops).e_value >= 1 / ALPHA
    restart(drops)
    assert read_drops(drops).e_value < 1
    for n in range(40):
        observe(drops, START + 540 + n, CHEAP, 0, 1)
    assert read_drops(drops).e_value >= 1 / ALPHA


def test_a_skill_that_recovers_is_cleared() -> None:
    drops = history(0.9, 600)
    for n in range(60):
        observe(drops, START + 600 + n, CHEAP, 0, 1)
    for n in range(250):
        observe(drops, START + 660 + n, CHEAP, int(n % 10 != 0), int(n % 10 == 0))
    assert read_drops(drops).e_value < 1 / ALPHA


@settings(max_examples=40, deadline=None)
@given(st.lists(HOUR, max_size=120), st.randoms(use_true_random=False))
def test_s9_state_depends_on_hourly_counts_alone(hours: list[tuple[int, str, int, int]], random: Random) -> None:
    once = rebuild(hours)
    shuffled = list(hours)
    random.shuffle(shuffled)
    assert rebuild(shuffled) == once
    singles = [
        (hour, stratum, good, 1 - good)
        for hour, stratum, successes, failures in hours
        for good in [1] * successes + [0] * failures
    ]
    merged: dict[tuple[int, str], list[int]] = {}
    for hour, stratum, s, f in singles:
        counts = merged.setdefault((hour, stratum), [0, 0])
        counts[0] += s
        counts[1] += f
    assert read_drops(rebuild(singles)) == read_drops(rebuild((h, k, s, f) for (h, k), (s, f) in merged.items()))


@settings(max_examples=30, deadline=None)
@given(st.lists(HOUR, max_size=80), st.integers(0, 80))
def test_state_is_json_and_goes_on_from_there(hours: list[tuple[int, str, int, int]], cut: int) -> None:
    hours = sorted(hours)
    kept: Drops = json.loads(json.dumps(rebuild(hours[:cut])))
    assert rebuild(hours[cut:], start=kept) == rebuild(hours)


def test_a_run_of_a_closed_hour_is_refused_and_a_rebuild_takes_it() -> None:
    hours = [(START + n, CHEAP, 1, 0) for n in range(200)]
    drops = rebuild(hours)
    before = json.dumps(drops)
    assert not observe(drops, START + 100, CHEAP, 0, 1)
    assert json.dumps(drops) == before
    assert read_drops(rebuild([*hours, (START + 100, CHEAP, 0, 1)])).before[1] in (0, 1)


def test_state_stays_small() -> None:
    drops = history(0.9, 3000)
    assert len(json.dumps(drops)) < 2500


def test_e_bh_names_skills_by_their_evidence_among_all() -> None:
    quiet = {f"skill-{n}": 0.5 for n in range(18)}
    assert discoveries({"one": 20.0}) == {"one"}
    assert discoveries({**quiet, "one": 20.0}) == frozenset()
    assert discoveries({**quiet, "one": 400.0}) == {"one"}
    assert discoveries({**quiet, "one": 200.0, "two": 200.0}) == {"one", "two"}
    assert discoveries({}) == frozenset()
    assert surely_named(19) == pytest.approx(380.0)


@given(st.dictionaries(st.integers(0, 40), st.floats(0, 1e4), max_size=40))
def test_what_is_surely_named_is_named(e_values: dict[int, float]) -> None:
    sure = {key for key, e in e_values.items() if e >= surely_named(len(e_values))}
    assert sure <= discoveries(e_values)
