"""Curation as a service: passes by the settings, one after the other, until it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event

import pyarrow as pa
import structlog

from trajlake.expectations import metrics
from trajlake.expectations.policies import PolicyError
from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.reasons import Publication
from trajlake.expectations.suites.suite import SuiteError
from trajlake.sinks.errors import SinkUnavailable, StaleWriter
from trajlake.streams.curate.curator import Curator, Done, Limits
from trajlake.streams.curate.rules import Rules
from trajlake.streams.metrics import Rounds, Tally
from trajlake.streams.settings import SettingError, Settings
from trajlake.streams.tracing import OFF, Tracing

log = structlog.get_logger("trajlake.curate")


def limits_of(settings: Settings) -> Limits:
    """The part of the settings that bounds a batch."""
    return Limits(
        batch_steps=settings.curate_batch_steps,
        batch_bytes=settings.curate_batch_max_bytes,
        run_max_bytes=settings.curate_run_max_bytes,
        held_then=settings.curate_held_then,
        held_after_s=settings.curate_held_after_s,
    )


def use_system_memory() -> None:
    """Let Arrow take its memory from the system's allocator, for the whole process.

    Batches are large and all of them are let go again: the default (mimalloc) gives the pages back and is given zeroed
    ones for the next batch, which is a fifth of the time of a pass.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def curator_of(settings: Settings, progress: Progress = SILENT) -> Curator:
    """A curator with the rules as they stand now. Raises `PolicyError`, `SuiteError` or `SettingError`."""
    use_system_memory()
    return Curator(settings.lake(), Rules.load(settings), limits_of(settings), progress=progress)


def passes() -> Rounds:
    """The figures of a curator that has done nothing yet."""
    return Rounds(
        metrics.CURATE, metrics.CURATE_READY, metrics.CURATE_PASSES, metrics.CURATE_PASSED, metrics.CURATE_DURATION
    )


def count_publication(tally: Tally, done: Done) -> None:
    """Count what a publication came to."""
    tally.add(metrics.CURATE_PUBLICATIONS, 1, done.cause)
    tally.add(metrics.CURATE_STEPS, done.steps)
    for verdict in Publication:
        tally.add(metrics.CURATE_RUNS, getattr(done, verdict.value), verdict.value)
    for code, runs in done.reasons.items():
        tally.add(metrics.CURATE_EXCLUDED, runs, code)


def keep_curating(
    settings: Settings,
    every_s: float,
    stop: Event,
    report: Callable[[Done], None],
    rounds: Rounds | None = None,
    tracing: Tracing = OFF,
) -> None:
    """Do a pass every so many seconds, until stopped; a pass under way ends with the batch it is at. `rounds`: the
    figures that it keeps. `tracing`: where its spans go.

    Policies and suites are read anew for each pass. Rules that cannot be read stop the program at its start; later they
    are logged, and nothing is judged until they can be. A store that does not answer, or another curator at work, is
    logged and tried again.
    """
    curator = curator_of(settings)
    rounds = rounds or passes()
    due = time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        try:
            curator.rules = Rules.load(settings)
            for done in _traced(curator, tracing):
                count_publication(rounds.tally, done)
                report(done)
                if stop.is_set():
                    return
            rounds.ended(began, "done")
        except StaleWriter as error:
            log.warning("another curator is at work; taking up where the tables stand", reason=str(error))
            curator = Curator(curator.lake, curator.rules, curator.limits)
            rounds.ended(began, "stale", f"another curator is at work: {error}")
        except SinkUnavailable as error:
            log.error("the store does not answer; trying again", reason=str(error), in_s=every_s)
            curator = Curator(curator.lake, curator.rules, curator.limits)
            rounds.ended(began, "store", f"the store does not answer: {error}")
        except (PolicyError, SuiteError, SettingError) as error:
            log.error("the rules cannot be read; nothing is judged until they can", reason=str(error), in_s=every_s)
            rounds.ended(began, "rules", f"the rules cannot be read: {error}")
        due = max(due + every_s, time.monotonic())
        stop.wait(due - time.monotonic())


def _traced(curator: Curator, tracing: Tracing) -> Iterator[Done]:
    """A pass, publication by publication, with a span of each."""
    with tracing.span("curate pass") as whole:
        began_ns = time.time_ns()
        for done in curator.run_once():
            span = tracing.start(
                "publication", whole, began_ns=began_ns, trajlake__publication=done.publication,
                trajlake__cause=done.cause, trajlake__runs=done.runs, trajlake__steps=done.steps,
            )  # fmt: skip
            if span is not None:
                span.end()
            yield done
            began_ns = time.time_ns()
