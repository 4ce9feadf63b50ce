"""Rounds of upkeep over all tables of a lake, once or on a schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event

import structlog

from trajlake.expectations import metrics
from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake
from trajlake.sinks.maintenance import Upkeep, UpkeepRules, maintain_table
from trajlake.streams.keeping.forget import Forgotten, request_for_met, resume
from trajlake.streams.metrics import Rounds, Tally
from trajlake.streams.settings import Settings

log = structlog.get_logger("trajlake.maintain")


def upkeep_rules(settings: Settings) -> UpkeepRules:
    """The part of the settings that upkeep follows."""
    return UpkeepRules(
        target_bytes=settings.compact_target_bytes,
        least_files=settings.compact_least_files,
        vacuum_retention_h=settings.vacuum_retention_h,
        log_retention_h=settings.log_retention_h,
    )


def maintain_lake(
    lake: Lake,
    rules: UpkeepRules,
    names: Sequence[str] = tuple(TABLES),
    *,
    dry_run: bool = False,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Iterator[Upkeep]:
    """One round: the upkeep of each table that is there, as it is done."""
    for name in names:
        done = maintain_table(lake, name, rules, dry_run=dry_run, on_step=on_step, progress=progress)
        if done is not None:
            yield done


def finish_erasures(lake: Lake, progress: Progress = SILENT) -> list[Forgotten]:
    """Finish erasures that were begun and stopped, and take out what came behind them. Raises `SinkUnavailable`."""
    request_for_met(lake, progress)
    return resume(lake, progress=progress)


def upkeep_rounds() -> Rounds:
    """The figures of upkeep that has done nothing yet."""
    return Rounds(
        metrics.MAINTAIN,
        metrics.MAINTAIN_READY,
        metrics.MAINTAIN_ROUNDS,
        metrics.MAINTAIN_DONE,
        metrics.MAINTAIN_DURATION,
    )


def count_upkeep(tally: Tally, done: Upkeep) -> None:
    """Count what was done to a table."""
    tally.add(metrics.MAINTAIN_COMPACTED, done.compacted_files, done.table)
    tally.add(metrics.MAINTAIN_COMPACTED_BYTES, done.compacted_bytes, done.table)
    tally.add(metrics.MAINTAIN_VACUUMED, done.vacuumed_files, done.table)
    tally.add(metrics.MAINTAIN_PROBLEMS, len(done.problems), done.table)


def keep_going(
    round_: Callable[[], Sequence[Upkeep]], every_s: float, stop: Event, rounds: Rounds | None = None
) -> None:
    """Repeat a round every so many seconds, until stopped. One that takes longer is followed at once by the next.

    A round that fails is logged and tried again at its next turn: upkeep that waits harms nothing. `rounds`: the
    figures that it keeps.
    """
    rounds = rounds or upkeep_rounds()
    due = time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        try:
            done = round_()
            for one in done:
                count_upkeep(rounds.tally, one)
            problems = [f"{one.table}: {problem}" for one in done for problem in one.problems]
            rounds.ended(began, "problems" if problems else "done", problems[0] if problems else None)
        except Exception as error:
            log.error("upkeep failed; trying again at its next turn", reason=str(error), in_s=every_s)
            rounds.ended(began, "failed", str(error))
        due = max(due + every_s, time.monotonic())
        stop.wait(due - time.monotonic())
