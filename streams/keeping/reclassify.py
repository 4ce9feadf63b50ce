"""Re-classification: closed runs judged again by the failure rules of now; those that come to something else get
further rows.

    1  catch up   wait until land has come to the end of the log: what an earlier call asked for is met first
    2  judge      closed runs, some thousand at a time: what do they come to now?
    3  ask        a request for each that comes to something else, in its own partition of the log
    4  await      land meets the requests: rows of `runs` and `steps` with the next revision, at the requests' offsets

Killed anywhere, the next call goes on: what land has met comes out as it stands, and is not asked for again. Several
calls at a time do no harm: a request is void once the run has a newer row than the one that it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.actions import add_actions
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.streams.keeping.asking import Asked, OtherRules, Requests, opened
from trajlake.streams.keeping.rejudging import Judged, Newest, Wanted, candidates, judge
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.streams.land.history import History
from trajlake.streams.land.recovery import LedgerTable
from trajlake.streams.settings import Settings
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.landing.suppression import Suppression


class Change(NamedTuple):
    """From what to what runs of a skill change. Where both are the same, another rule or step is the reason."""

    tenant_id: str
    skill_name: str
    from_class: str
    from_kind: str | None
    to_class: str
    to_kind: str | None


@dataclass
class Reclassified:
    """What a call did. `judged`: runs that were looked at. `changes`: runs that come to something else, by what.

    `steps`: rows of steps that change. `untold`: runs that the ledger does not hold any more as they were closed.
    `asked`: requests written; `done`: runs that have a further row because of them. The others had changed meanwhile.
    """

    revision: str = CLASSIFIER_REVISION
    judged: int = 0
    changes: Counter[Change] = field(default_factory=Counter)
    steps: int = 0
    untold: int = 0
    asked: int = 0
    done: int = 0

    @property
    def changed(self) -> int:
        """Runs that come to something else."""
        return sum(self.changes.values())


def reclassify(
    lake: Lake,
    settings: Settings,
    wanted: Wanted,
    *,
    dry_run: bool = False,
    by: str | None = None,
    patience_s: float = 60.0,
    on_step: Callable[[str], None] = lambda step: None,
    progress: Progress = SILENT,
) -> Reclassified:
    """Classify closed runs again that are wanted, and have those that change written anew by land.

    `dry_run`: only say what would change; needs no Kafka. `patience_s`: how long nothing may land. Raises
    `LookupError` where nothing of the events topic has landed, `SinkUnavailable`, and of `StreamError`
    `BrokerUnavailable`, `NothingLands`, `OtherRules` and `LogTooShort`.
    """
    requests = Requests(lake, settings, patience_s, by)
    partitions = [partition for partition in _partitions(lake) if requests.landed(partition) >= 0]
    if not partitions:
        raise LookupError(f"nothing of topic {settings.events_topic} has landed in {lake.uri} [setting: events_topic]")
    if not dry_run:
        _check_workers(lake)
        on_step("1 catch up")
        progress.stage("waiting until all has landed")
        for partition in partitions:
            requests.catch_up(partition)
    progress.stage("judging runs", None, "runs")
    work = _Work(lake, settings, wanted, requests, on_step, progress)
    for partition in partitions:
        work.run(partition, dry_run=dry_run)
    return work.done


class _Work:
    """One call, partition by partition."""

    def __init__(
        self,
        lake: Lake,
        settings: Settings,
        wanted: Wanted,
        requests: Requests,
        on_step: Callable[[str], None],
        progress: Progress,
    ) -> None:
        self.done = Reclassified()
        self._lake = lake
        self._settings = settings
        self._wanted = wanted
        self._requests = requests
        self._on_step = on_step
        self._progress = progress
        self._erased: Suppression = read_suppression(lake)

    def run(self, partition: int, *, dry_run: bool) -> None:
        """Classify the runs of a partition again."""
        topic = self._settings.events_topic
        seen = self._requests.landed(partition)
        history = History(self._lake, topic, partition, LandRules())
        newest = Newest()
        newest.read(history.table("runs"), 0, seen)
        begun = seen
        waiting: Asked | None = None
        for part in candidates(history, self._wanted, newest, begun):
            self._on_step("2 judge")
            known = [one for one in part if not self._erased.has_run(one.row.tenant_id, one.row.run_id)]
            changed = self._count(judge(history, known))
            if dry_run or not changed:
                continue
            self._settle(waiting)
            # What was asked for so far has landed: it must not make later requests look old.
            now = self._requests.landed(partition)
            if now > seen:
                newest.read(LedgerTable(self._lake, "runs", topic, partition), seen + 1, now)
                seen = now
            known_now = newest.of([one.candidate.row.first_offset for one in changed])
            still = zip(changed, known_now, strict=True)
            waiting = self._ask(
                partition, [one for one, revision in still if one.candidate.row.revision == revision], seen
            )
        self._settle(waiting)

    def _ask(self, partition: int, changed: Sequence[Judged], seen: int) -> Asked | None:
        if not changed:
            return None
        self._on_step("3 ask")
        asked = self._requests.write(partition, changed, seen)
        self.done.asked += len(asked.offsets)
        return asked

    def _settle(self, asked: Asked | None) -> None:
        if asked is not None:
            self._on_step("4 await")
            self.done.done += self._requests.met(asked)

    def _count(self, judged: Sequence[Judged]) -> list[Judged]:
        """Note what was found. Returns the runs that come to something else."""
        done = self.done
        changed = [one for one in judged if one.is_changed]
        done.judged += len(judged)
        self._progress.advance(len(judged))
        done.untold += sum(one.finding is None for one in judged)
        for one in changed:
            row, now = one.candidate, one.finding
            assert now is not None
            then = row.finding
            done.changes[Change(row.row.tenant_id, row.skill_name, then[0], then[1], now[0], now[1])] += 1
            done.steps += len(one.steps)
        return changed


def _partitions(lake: Lake) -> Iterator[int]:
    """Partitions that `runs` may have rows of."""
    try:
        files = add_actions(opened(lake, "runs"))
    except SinkUnavailable as error:
        if isinstance(error.__cause__, TableNotFoundError):
            return
        raise
    if not {"min.partition", "max.partition"} <= set(files.schema.names) or not files.num_rows:
        return
    yield from range(pc.min(files["min.partition"]).as_py(), pc.max(files["max.partition"]).as_py() + 1)


def _check_workers(lake: Lake) -> None:
    """Raise `OtherRules` where no worker that knows requests has ever opened the tables."""
    if "close_offset" not in {column.name for column in opened(lake, "runs").schema().fields}:
        raise OtherRules(
            f"no land worker of this version has opened {lake.table_uri('runs')} yet, and older ones do not know what "
            "is asked of them. Bring the workers to this version first"
        )
