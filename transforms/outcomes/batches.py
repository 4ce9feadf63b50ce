"""Rows of `runs` to messages: one per skill, with the runs that closed and what they counted as before.

The rows alone decide, so a message that is made again from the table equals the one that was made when they landed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from trajlake.expectations.events import LeverAppliedEvent
from trajlake.expectations.outcomes import NANO, ClosedRun, LeverPull, OutcomeBatch, RunOutcome, RunVersions
from trajlake.transforms.decode.timestamps import micros

MOST: Final = 2**53
"""Largest figure of one run, in its own unit: sums of many stay far below what tables hold."""

RUNS_PER_MESSAGE: Final = 2_000
"""Runs of a message where nothing says otherwise."""

_PLAIN: Final = (
    "run_id", "outcome_class", "failure_kind", "failure_basis", "model_tier", "model_provider", "task_family",
    "failing_tool", "error_type", "provider_code", "http_status", "attributed_step_id", "classifier_revision",
)  # fmt: skip
_VERSIONS: Final = {
    "agent": "agent_version",
    "skill": "skill_version",
    "prompt": "prompt_version",
    "memory": "memory_version",
    "model": "model_name",
    "policy": "policy_version_end",
}
_TIMES: Final = ("started_at", "ended_at", "closed_at")
_OTHERS: Final = (
    "tenant_id", "skill_name", "offset", "first_offset", "close_offset", "revision", "retry_count", "input_tokens",
    "output_tokens", "cost_usd",
)  # fmt: skip
COLUMNS: Final = (*_PLAIN, *_VERSIONS.values(), *_TIMES, *_OTHERS)
"""Columns of `runs` that an outcome is a function of."""


class Closed(NamedTuple):
    """One row of `runs`: whose it is, the life of the run that it closes, and what it says. `close_offset`: that of the
    row, set where it classifies the run again."""

    tenant_id: str
    skill_name: str
    first_offset: int
    outcome: RunOutcome
    close_offset: int | None = None


class Pulled(NamedTuple):
    """A lever that was pulled, and on whose skill; the skill is empty where the event names none."""

    tenant_id: str
    skill_name: str
    pull: LeverPull


LEVER_TYPE: Final = "agent.lever.applied"
LEVER_COLUMNS: Final = ("tenant_id", "partition", "offset", "append_time", "event")
"""Columns of `events` that a pulled lever is a function of."""
_LEVERS: Final = msgspec.json.Decoder(LeverAppliedEvent)


def pulled_levers(rows: pa.RecordBatch) -> list[Pulled]:
    """Levers from rows of `events` of type `LEVER_TYPE`, in order of offset. `rows`: at least `LEVER_COLUMNS`."""
    columns = {name: rows.column(name).to_pylist() for name in ("tenant_id", "partition", "offset", "event")}
    appended = rows.column("append_time").cast(pa.int64()).to_pylist()
    found = []
    for place, text in enumerate(columns["event"]):
        event = _LEVERS.decode(text)
        told = micros(event.time) if event.time is not None else appended[place]
        data = event.data
        skill = data.skill.name if data.skill is not None else None
        pull = LeverPull(
            columns["offset"][place], columns["partition"][place], min(told, appended[place]), data.lever,
            data.change_from, data.change_to, data.applied_by, data.decision_id,
        )  # fmt: skip
        found.append(Pulled(columns["tenant_id"][place], skill or "", pull))
    return sorted(found, key=lambda pulled: pulled.pull.offset)


Earlier = Mapping[tuple[int, int], Closed]
"""Rows that later ones replace, by (first_offset, revision)."""


def closed_runs(rows: pa.RecordBatch) -> list[Closed]:
    """What the rows of `runs` of one partition say. `rows`: at least the columns `COLUMNS`, in any order."""
    columns = {name: rows.column(name).to_pylist() for name in (*_PLAIN, *_VERSIONS.values(), *_OTHERS)}
    columns.update({name: rows.column(name).cast(pa.int64()).to_pylist() for name in _TIMES})
    versions = [RunVersions(*values) for values in zip(*(columns[name] for name in _VERSIONS.values()), strict=True)]
    return [_closed(columns, versions[place], place) for place in range(rows.num_rows)]


def _closed(columns: dict[str, list[Any]], versions: RunVersions, place: int) -> Closed:
    started, ended, closed = (columns[name][place] for name in _TIMES)
    cost = columns["cost_usd"][place]
    outcome = RunOutcome(
        offset=columns["offset"][place],
        # A producer's clock that is ahead must not open windows that nobody has lived through yet.
        end_us=closed if ended is None else min(ended, closed),
        versions=versions,
        attempts=1 + (columns["retry_count"][place] or 0),
        latency_us=None if started is None or ended is None else min(max(0, ended - started), MOST),
        input_tokens=_bounded(columns["input_tokens"][place]),
        output_tokens=_bounded(columns["output_tokens"][place]),
        cost_nano_usd=None if cost is None else round(min(max(cost, 0.0), MOST / NANO) * NANO),
        revision=columns["revision"][place],
        **{name: columns[name][place] for name in _PLAIN},
    )
    return Closed(
        columns["tenant_id"][place], columns["skill_name"][place] or "", columns["first_offset"][place], outcome,
        columns["close_offset"][place],
    )  # fmt: skip


def _bounded(figure: int | None) -> int | None:
    return None if figure is None else min(max(figure, 0), MOST)


def needed_earlier(rows: list[Closed]) -> set[tuple[int, int]]:
    """Rows that these replace and that are not among them, by (first_offset, revision)."""
    here = {(row.first_offset, row.outcome.revision) for row in rows}
    return {
        (row.first_offset, row.outcome.revision - 1)
        for row in rows
        if row.outcome.revision and (row.first_offset, row.outcome.revision - 1) not in here
    }


def outcome_batches(
    topic: str,
    partition: int,
    rows: list[Closed],
    earlier: Earlier | None = None,
    emitted_us: int = 0,
    pulls: list[Pulled] | None = None,
    most_runs: int = RUNS_PER_MESSAGE,
) -> Iterator[OutcomeBatch]:
    """Messages for the closed runs of a stretch of one partition, each skill's in order of closing offset.

    `rows`: all of the stretch; the same row twice counts once. `earlier`: what `needed_earlier` names. A revision
    without its predecessor counts as new: the table does not hold what it replaces any more. `most_runs`: a message
    ends behind so many, once the closing offset moves on.
    """
    known = {(row.first_offset, row.outcome.revision): row for row in rows}
    before = {**(earlier or {}), **known}
    by_skill: dict[tuple[str, str], list[ClosedRun]] = {}
    for row in sorted(known.values(), key=lambda row: (row.outcome.offset, row.first_offset)):
        offset = row.outcome.offset
        old = before.get((row.first_offset, row.outcome.revision - 1))
        skill = (row.tenant_id, row.skill_name)
        if old is None or (old.tenant_id, old.skill_name) == skill:
            replaced = None if old is None else old.outcome
            by_skill.setdefault(skill, []).append(ClosedRun(offset, row.outcome, replaced))
        else:
            # The start came late and named the skill: the run leaves the nameless ones.
            by_skill.setdefault(skill, []).append(ClosedRun(offset, row.outcome))
            by_skill.setdefault((old.tenant_id, old.skill_name), []).append(ClosedRun(offset, None, old.outcome))
    levers: dict[tuple[str, str], list[LeverPull]] = {}
    for pulled in pulls or ():
        levers.setdefault((pulled.tenant_id, pulled.skill_name), []).append(pulled.pull)
    for tenant_id, skill_name in by_skill.keys() | levers.keys():
        waiting = levers.get((tenant_id, skill_name), [])
        parts = list(_parts(by_skill.get((tenant_id, skill_name), []), most_runs))
        for place, part in enumerate(parts or [[]]):
            # Runs and levers of a message are skipped by one offset, so none may run ahead of the other.
            last = part[-1].offset if place + 1 < len(parts) else None
            here = [pull for pull in waiting if last is None or pull.offset <= last]
            waiting = waiting[len(here) :]
            yield OutcomeBatch(tenant_id, skill_name, topic, partition, part, emitted_us, here)


def _parts(runs: list[ClosedRun], most: int) -> Iterator[list[ClosedRun]]:
    """Runs in pieces that never part two of the same closing offset."""
    part: list[ClosedRun] = []
    for run in runs:
        if len(part) >= most and part[-1].offset != run.offset:
            yield part
            part = []
        part.append(run)
    if part:
        yield part
