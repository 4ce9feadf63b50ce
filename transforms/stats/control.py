"""Accusing among many: which of a fleet's e-values are large enough, so that few of those named are named wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")


def discoveries(e_values: Mapping[Key, float], alpha: float = 0.05) -> frozenset[Key]:
    """The e-BH procedure: the keys to name, with a false discovery rate of at most alpha.

    With e-values sorted from the largest, the k largest are named for the greatest k with e_(k) >= K / (k alpha), K the
    number of all. It holds whatever the dependence between skills, which share models, tools and nights. Where
    nothing is wrong at all, the chance of naming anybody is at most alpha.

    e_values: one for each skill that is watched, those that look fine included.
    Source: R. Wang, A. Ramdas, "False discovery rate control with e-values", JRSS B 84 (2022).
    """
    total = len(e_values)
    ranked = sorted(e_values.values(), reverse=True)
    named = max((k for k, e in enumerate(ranked, start=1) if e >= total / (k * alpha)), default=0)
    if named == 0:
        return frozenset()
    least = ranked[named - 1]
    return frozenset(key for key, e in e_values.items() if e >= least)


def surely_named(fleet: int, alpha: float = 0.05) -> float:
    """The e-value from which a skill is named whatever the others' are: for a worker that does not see the whole
    fleet."""
    return max(fleet, 1) / alpha
