"""What follows once runs have landed: statistics of their skills in the tables, and the training zone."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from trajlake.demo.arrival import STALL_S
from trajlake.expectations.progress import Progress
from trajlake.reading.tables import LakeTables
from trajlake.streams.settings import Settings

_LOOK_S: Final = 0.2
_PLACE: Final = ["tenant_id", "skill_name", "partition"]


@dataclass
class Curated:
    """Runs of the publications of a demo by verdict, and the reasons of those that were not published."""

    runs: int = 0
    published: int = 0
    held: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Most first."""


def warm_up() -> None:
    """Import in the background what curation checks with: it takes seconds, in which agents are waited for anyway."""
    from trajlake.streams.checkpoints.checkpoint import import_great_expectations

    threading.Thread(target=import_great_expectations, name="warm-up", daemon=True).start()


def curate(settings: Settings, check: Callable[[], None], progress: Progress) -> Curated:
    """One pass of curation over all that has landed."""
    from trajlake.streams.curate.service import curator_of

    total = Curated()
    reasons: Counter[str] = Counter()
    for done in curator_of(settings, progress).run_once():
        check()
        total.runs += done.runs
        total.published += done.published
        total.held += done.held
        total.refused += done.refused
        reasons.update(done.reasons)
    total.reasons = dict(reasons.most_common())
    return total


def wait_for_statistics(
    lake: LakeTables, topic: str, check: Callable[[], None], on_look: Callable[[int, int], None]
) -> int:
    """Wait until the statistics of every skill hold its last closed run.

    on_look: told how many skills are up to date, and of how many. check: may raise to end the wait. Returns how many
    skills are not up to date: 0, or what is missing when nothing moved for `STALL_S`.
    """
    seen, moved_at = -1, time.monotonic()
    while True:
        check()
        lake.reopen()
        behind, skills = _behind(lake, topic)
        on_look(skills - behind, skills)
        if not behind:
            return 0
        if behind != seen:
            seen, moved_at = behind, time.monotonic()
        elif time.monotonic() - moved_at > STALL_S:
            return behind
        time.sleep(_LOOK_S)


def _behind(lake: LakeTables, topic: str) -> tuple[int, int]:
    """How many skills have closed runs of this topic that no row of `skill_stats` holds, and how many skills there are.

    Compared by closing offset: a row says up to which offset of each partition its numbers go.
    """
    runs = lake.runs().filter(pl.col("topic") == topic).with_columns(pl.col("skill_name").fill_null(""))
    closed = runs.group_by(_PLACE).agg(pl.col("offset").max().alias("closed")).collect()
    told = (
        lake.frame("skill_stats")
        .select("tenant_id", "skill_name", "positions")
        .explode("positions")
        .unnest("positions")
        .filter(pl.col("topic") == topic)
        .group_by(_PLACE)
        .agg(pl.col("offset").max().alias("told"))
        .collect()
    )
    both = closed.join(told, on=_PLACE, how="left")
    late = both.filter(pl.col("told").fill_null(-1) < pl.col("closed"))
    names = ["tenant_id", "skill_name"]
    return late.select(names).n_unique(), both.select(names).n_unique()
