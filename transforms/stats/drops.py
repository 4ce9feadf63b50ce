"""Finds a drop of a skill's success rate while it happens, with a chosen budget of false alarms.

A mixture Shiryaev-Roberts e-detector over hours. For an hour with s successes and f failures, against a known base
failure rate q and an alternative q' whose failure odds are j times as high, the likelihood ratio is

    L_j = ((1 - q') / (1 - q))^s (q' / q)^f,    and    R_j <- (1 + R_j) L_j.

R_j adds up the evidence that a drop by j began in any of the hours so far. While nothing has changed, the mean of R_j
after n hours is at most n, so `e_value` = (mean of R_j over the mixture) / `BUDGET_HOURS` has mean at most 1 over 720
hours with runs (a month), and by Doob's inequality the chance that it reaches 1 / alpha within them is at most
alpha. Within an hour only counts matter, so the reading is a function of hourly counts: late and unordered runs
restate it, and it can be rebuilt.

**The base rate** is learned from the skill's own earlier runs, stratum by stratum: a stratum is a model tier and a task
family, and each run is judged against its own stratum, so a shift of the mix moves nothing. The newest `HELD_RUNS`
runs are kept out of it, or a drop would teach the base that it is normal. A learned base is uncertain, which is the
one thing the argument above does not cover; the base failure rate is raised by `MARGIN` for it, and simulation shows
that the budget holds at 1 / alpha (docs/statistics.md). Far larger e-values, which a fleet asks for, would come too
often from bases that are wrong by much: `e_among` is made with a margin that is wide while the base rests on few runs.

**Strata** are read together (one drop in all of them) and each by itself (one of them broke); half of the mixture is
for either.

Sources: A. N. Shiryaev, "On optimum methods in quickest detection problems", 1963; S. W. Roberts, "A comparison of
some control chart procedures", Technometrics 8 (1966); J. Shin, A. Ramdas, A. Rinaldo, "E-detectors: a nonparametric
framework for sequential change detection", NEJSDS 2 (2024).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log, sqrt
from typing import Final, TypeAlias, TypedDict

from msgspec import Struct

from trajlake.transforms.stats.intervals import bounded_exp

BUDGET_HOURS: Final = 720
"""Hours with runs over which the budget of false alarms is counted: a month of a skill that runs every hour."""
ODDS: Final = (2.0, 3.0, 5.0, 10.0)
"""How many times higher the odds of failing may have become."""
ODDS_WEIGHTS: Final = (0.2, 0.3, 0.4, 0.1)
LEAST_BASE_RUNS: Final = 80
"""A stratum says nothing before its base rests on so many runs."""
HELD_RUNS: Final = 100
HELD_HOURS: Final = 24
MOST_BASE_RUNS: Final = 4000
"""At so many runs the base is halved, so that it follows what the skill has become over months."""
MARGIN: Final = 6.0
"""The base failure rate q of n runs is raised by MARGIN sqrt(q (1 - q)) / n."""
WIDE_MARGIN: Final = 200.0
"""For `Reading.e_among`, raised by WIDE_MARGIN sqrt(q (1 - q) / n) / n more, with WIDE_MARGIN / n failures added."""
PRIOR_FAILURES: Final = 0.25
"""Added to the failures, and to the successes, that the base rate is worked out from."""
LEAST_FAILURE_RATE: Final = 0.002
MOST_FAILURE_RATE: Final = 0.98
GRACE_HOURS: Final = 1
"""Hours stay open for so long after a later one has begun: runs of several partitions arrive in any order around it."""
MOST_STRATA: Final = 24
"""Further strata of a skill share one."""

_OTHER: Final = "…"
_MOST: Final = 1e10
BLOCK_RUNS: Final = 10
"""Held runs are kept in blocks of so many."""

Counts: TypeAlias = list[int]
"""[successes, failures]."""


class Stratum(TypedDict):
    """`base`: counts that the base rate rests on. `held`: [last hour, successes, failures] of newer blocks. `r`:
    R_j."""

    base: Counts
    held: list[list[int]]
    r: list[float]


class Drops(TypedDict):
    """State of a detector; plain JSON. `closed`: last hour that is folded in; `open`: hour -> stratum -> counts.

    `onset`: for each j of the mixture [log of the best likelihood ratio, hour where it begins, successes, failures].
    """

    closed: int | None
    open: dict[str, dict[str, Counts]]
    joint: list[float]
    onset: list[list[float]]
    strata: dict[str, Stratum]


class Reading(Struct, frozen=True, kw_only=True):
    """What a detector says now."""

    e_value: float
    """At or above 1 / alpha: a drop, at a budget of alpha false alarms in `BUDGET_HOURS`. 0 without a base."""
    e_among: float
    """The same for `control.discoveries` among many skills, which asks for values that are rarer still."""
    since_hour: int | None
    """Hour (since the Unix epoch) at which the drop most likely began; null where nothing points to one."""
    before: tuple[int, int]
    """Successes and failures that the base rests on, of all strata."""
    after: tuple[int, int]
    """Successes and failures since `since_hour`."""
    based: bool
    """Whether at least one stratum has enough runs for a base."""


def new_drops() -> Drops:
    """A detector that has seen nothing."""
    return Drops(closed=None, open={}, joint=_zeros(), onset=_no_onset(), strata={})


def stratum_of(model_tier: str | None, task_family: str | None) -> str:
    """Name of the stratum that a run belongs to; a bar in the tier's name becomes a slash."""
    return f"{(model_tier or '').replace('|', '/')}|{task_family or ''}"


def observe(drops: Drops, hour: int, stratum: str, successes: int, failures: int) -> bool:
    """Count runs that ended in an hour (since the Unix epoch), in place. The cost is two look-ups, whatever the number.

    False where that hour is closed already: then nothing is counted, and the state has to be rebuilt from hourly counts
    (`rebuild`) to hold them. Runs that do not speak of quality must not be counted.
    """
    closed = drops["closed"]
    if closed is not None and hour <= closed:
        return False
    key = str(hour)
    opened = drops["open"].get(key)
    if opened is None:
        opened = drops["open"][key] = {}
        _close(drops, max(int(each) for each in drops["open"]) - GRACE_HOURS - 1)
    counts = opened.get(stratum)
    if counts is None:
        opened[stratum] = [successes, failures]
    else:
        counts[0] += successes
        counts[1] += failures
    return drops["closed"] is None or hour > drops["closed"]


def rebuild(hours: Iterable[tuple[int, str, int, int]], start: Drops | None = None) -> Drops:
    """The state after (hour, stratum, successes, failures) in any order, on top of `start` where one is given.

    Equal to observing the same runs one at a time, in any order within the grace. Hours that `start` has closed are
    left out.
    """
    drops = new_drops() if start is None else _copy(start)
    for hour, stratum, successes, failures in sorted(hours):
        observe(drops, hour, stratum, successes, failures)
    return drops


def restart(drops: Drops) -> None:
    """Forget the evidence, keep the base, in place: after a new version or a pulled lever, so that it is judged afresh.

    Open hours are folded in first, as history. Whoever rebuilds has to restart at the same hour.
    """
    if drops["open"]:
        _close(drops, max(int(each) for each in drops["open"]))
    drops["joint"], drops["onset"] = _zeros(), _no_onset()
    for stratum in drops["strata"].values():
        stratum["r"] = _zeros()


def read_drops(drops: Drops) -> Reading:
    """What the detector says, open hours included. The state stays as it is."""
    drops = _copy(drops)
    if drops["open"]:
        _close(drops, max(int(each) for each in drops["open"]))
    strata = drops["strata"].values()
    based = sum(_has_base(each) for each in strata)
    joint = _mixed(drops["joint"])
    parts = [_mixed(each["r"]) for each in strata if _has_base(each)]
    evidence = [
        (joint[i] + sum(part[i] for part in parts) / based) / 2 / BUDGET_HOURS if based else 0.0 for i in range(2)
    ]
    best = max(drops["onset"], key=lambda each: each[0])
    began = best[0] > 0
    return Reading(
        e_value=evidence[0],
        e_among=evidence[1],
        since_hour=int(best[1]) if began else None,
        before=(sum(each["base"][0] for each in strata), sum(each["base"][1] for each in strata)),
        after=(int(best[2]), int(best[3])) if began else (0, 0),
        based=based > 0,
    )


def _copy(drops: Drops) -> Drops:
    return Drops(
        closed=drops["closed"],
        open={hour: {name: [*c] for name, c in counted.items()} for hour, counted in drops["open"].items()},
        joint=drops["joint"],
        onset=[[*each] for each in drops["onset"]],
        strata={
            name: Stratum(base=[*each["base"]], held=[[*block] for block in each["held"]], r=each["r"])
            for name, each in drops["strata"].items()
        },
    )


def _close(drops: Drops, through: int) -> None:
    """Fold in every open hour up to one."""
    for hour in sorted(int(each) for each in drops["open"]):
        if hour <= through:
            _fold(drops, hour, drops["open"].pop(str(hour)))
    if drops["closed"] is None or through > drops["closed"]:
        drops["closed"] = through


def _fold(drops: Drops, hour: int, counted: dict[str, Counts]) -> None:
    total = _zeros()
    successes = failures = 0
    judged = False
    for name in sorted(counted):
        s, f = counted[name]
        stratum = _stratum(drops, name)
        if _has_base(stratum):
            logs = _log_ratios(stratum["base"], s, f)
            stratum["r"] = [_grow(r, each) for r, each in zip(stratum["r"], logs, strict=True)]
            total = [a + b for a, b in zip(total, logs, strict=True)]
            successes, failures, judged = successes + s, failures + f, True
        _hold(stratum, hour, s, f)
    if judged:
        drops["joint"] = [_grow(r, each) for r, each in zip(drops["joint"], total, strict=True)]
        for onset, each in zip(drops["onset"], total, strict=False):
            if onset[0] <= 0:
                onset[:] = [0.0, hour, 0, 0]
            onset[:] = [onset[0] + each, onset[1], onset[2] + successes, onset[3] + failures]


def _stratum(drops: Drops, name: str) -> Stratum:
    strata = drops["strata"]
    if name not in strata and len(strata) >= MOST_STRATA:
        name = _OTHER
    return strata.setdefault(name, Stratum(base=[0, 0], held=[], r=_zeros()))


def _hold(stratum: Stratum, hour: int, successes: int, failures: int) -> None:
    """Keep the newest runs apart, and let those that are old enough into the base."""
    held, base = stratum["held"], stratum["base"]
    if held and held[-1][1] + held[-1][2] < BLOCK_RUNS:
        held[-1] = [hour, held[-1][1] + successes, held[-1][2] + failures]
    else:
        held.append([hour, successes, failures])
    runs = sum(each[1] + each[2] for each in held)
    while held and hour - held[0][0] >= HELD_HOURS and runs - held[0][1] - held[0][2] >= HELD_RUNS:
        _, s, f = held.pop(0)
        runs -= s + f
        base[0] += s
        base[1] += f
    if sum(base) > MOST_BASE_RUNS:
        base[:] = [base[0] // 2, base[1] // 2]


def _has_base(stratum: Stratum) -> bool:
    return sum(stratum["base"]) >= LEAST_BASE_RUNS


def _log_ratios(base: Counts, successes: int, failures: int) -> list[float]:
    """ln L_j of an hour's counts for each j: against the base's rate with its margin, then with the wide one."""
    n = base[0] + base[1]
    ratios = []
    for wide in (0.0, WIDE_MARGIN):
        prior = PRIOR_FAILURES + wide / n
        q = (base[1] + prior) / (n + 2 * prior)
        q += (MARGIN / sqrt(n) + wide / n) * sqrt(q * (1 - q) / n)
        q = min(max(q, LEAST_FAILURE_RATE), MOST_FAILURE_RATE)
        for odds in ODDS:
            scale = 1 / (1 - q + odds * q)  # (1 - q') / (1 - q); q' / q is `odds` times as much
            ratios.append(successes * log(scale) + failures * log(odds * scale))
    return ratios


def _grow(evidence: float, log_ratio: float) -> float:
    # Held below a limit, which only makes it smaller, so that a skill that recovers is not accused for weeks.
    return min((1 + evidence) * bounded_exp(log_ratio), _MOST)


def _mixed(evidence: list[float]) -> tuple[float, float]:
    """Mean over the mixture, with the margin and with the wide one."""
    near = sum(weight * each for weight, each in zip(ODDS_WEIGHTS, evidence, strict=False))
    wide = sum(weight * each for weight, each in zip(ODDS_WEIGHTS, evidence[len(ODDS) :], strict=True))
    return near, wide


def _zeros() -> list[float]:
    return [0.0] * (2 * len(ODDS))


def _no_onset() -> list[list[float]]:
    return [[0.0, 0, 0, 0] for _ in ODDS]
