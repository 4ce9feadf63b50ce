"""The newest runs of a skill in the order of their ends, for streaks that no order of delivery changes."""

from __future__ import annotations

from bisect import insort
from typing import Final, NamedTuple

from msgspec import Struct, field

from trajlake.expectations.outcomes import RunOutcome
from trajlake.transforms.rolling.bucket import SCORED, SUCCESS

KEPT: Final = 64
"""Runs that are kept one by one. Of older ones only the failures since their last success are known."""


class Seen(NamedTuple):
    """One run. Sorts by end, then by place in the log."""

    end_us: int
    partition: int
    offset: int
    run_id: str
    revision: int
    outcome_class: str
    failure_kind: str | None
    model_tier: str | None
    task_family: str | None
    versions: tuple[str | None, str | None, str | None, str | None, str | None]
    """Of agent, skill, prompt, memory and model."""

    @property
    def place(self) -> tuple[int, int, int, str]:
        return self[:4]


class Sequence(Struct, array_like=True, gc=False):
    """runs: the newest, oldest first. success: end and place of the last success among those dropped, empty for none.

    failures, since_us: scorable failures dropped since then, and the end of the first of them.
    """

    runs: list[Seen] = field(default_factory=list)
    success: tuple[int, int, int, str] | None = None
    failures: int = 0
    since_us: int | None = None


def seen(run: RunOutcome, partition: int) -> Seen:
    """A run as the sequence keeps it."""
    v = run.versions
    return Seen(
        run.end_us, partition, run.offset, run.run_id, run.revision, run.outcome_class, run.failure_kind,
        run.model_tier, run.task_family, (v.agent, v.skill, v.prompt, v.memory, v.model),
    )  # fmt: skip


def insert(sequence: Sequence, run: Seen) -> None:
    """Put a run in its place, and drop the oldest above `KEPT`."""
    insort(sequence.runs, run, key=lambda each: each.place)
    if len(sequence.runs) > KEPT:
        _drop(sequence, sequence.runs.pop(0))


def remove(sequence: Sequence, run: Seen) -> None:
    """Take a run out that counts as something else now. Of those that were dropped a failure is taken back; a success
    stays known as one."""
    kept = [each for each in sequence.runs if each.place != run.place]
    if len(kept) == len(sequence.runs) and _is_counted(sequence, run):
        sequence.failures = max(0, sequence.failures - 1)
        if not sequence.failures:
            sequence.since_us = None
    sequence.runs = kept


def streak(sequence: Sequence) -> tuple[int, int | None]:
    """Scorable failures in a row up to the newest scorable run, and the end of the first of them.

    Runs of other classes neither count nor break it. Exact while late runs are among the newest `KEPT`; beyond, a late
    success that ended amid failures that were dropped clears all of these.
    """
    length, since = 0, None
    for run in reversed(sequence.runs):
        if run.outcome_class in SCORED:
            if run.outcome_class == SUCCESS:
                return length, since
            length, since = length + 1, run.end_us
    if sequence.failures:
        return length + sequence.failures, sequence.since_us
    return length, since


def _is_counted(sequence: Sequence, run: Seen) -> bool:
    """Whether a dropped run is among the failures since the last success that was dropped."""
    return (
        run.outcome_class in SCORED
        and run.outcome_class != SUCCESS
        and (sequence.success is None or run.place > tuple(sequence.success))
        and (sequence.since_us is not None and run.end_us >= sequence.since_us)
    )


def _drop(sequence: Sequence, run: Seen) -> None:
    if run.outcome_class not in SCORED:
        return
    after = sequence.success is None or run.place > tuple(sequence.success)
    if not after:
        return
    if run.outcome_class == SUCCESS:
        sequence.success = run.place
        if sequence.since_us is None or run.end_us >= sequence.since_us:
            sequence.failures, sequence.since_us = 0, None
    else:
        sequence.failures += 1
        sequence.since_us = run.end_us if sequence.since_us is None else min(sequence.since_us, run.end_us)
