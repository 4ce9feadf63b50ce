"""One pass of curation: everything that gives reason to judge runs, in order, a batch at a time.

    1  a publication that was decided and did not wholly take effect takes effect
    2  runs closed since the last pass                            cause new
    3  rewards that came for runs judged before                   cause reward
    4  consents that changed, or ran out                          cause consent
    5  policies or suites that changed                            cause policy
    6  held runs whose time is over, where a rule says what then  cause release, reject

Each batch is a publication of its own: memory is bounded by a batch, and a pass that is broken off has done whole
publications. What has been read is a `txn` per partition of `runs` and `rewards`, moved in the commit of the verdicts.

Runs that are erased are not judged. The list of them is read before the tables are, so a pass that an erasure comes
upon is refused at its next commit, and begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import polars as pl
import pyarrow as pa

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.reasons import Cause, Publication
from trajlake.expectations.tables import CURATION, RUNS
from trajlake.sinks.deltalog import Advance
from trajlake.sinks.errors import Fenced, FileGone, SinkError, StaleWriter
from trajlake.sinks.lake import Lake
from trajlake.sinks.reports import report_place
from trajlake.streams.curate.batch import KEY_COLUMNS, Loaded, Reader, halves, in_batches
from trajlake.streams.curate.commit import (
    APP,
    CONSENTS_VERSION,
    REWARDS_VERSION,
    RUNS_VERSION,
    Effects,
    offsets_app,
)
from trajlake.streams.curate.deciding import PROGRAM, Task, check, heed_cause, news
from trajlake.streams.curate.files import HIGHEST, LOWEST
from trajlake.streams.curate.revision import code_revision
from trajlake.streams.curate.rules import Memory, Rules, write_checkpoint
from trajlake.streams.curate.scanning import SCAN_CODES, deep_scan
from trajlake.streams.curate.source import TooMuch
from trajlake.streams.curate.standings import ROUND_RUNS, Standings
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.transforms.curate.judging import judge
from trajlake.transforms.curate.standing import RUN
from trajlake.transforms.curate.steps import RUN_KEY
from trajlake.transforms.curate.trajectories import assemble, build, in_contract
from trajlake.transforms.curate.verdicts import Basis, verdict_rows
from trajlake.transforms.gate.batchframe import batch_frame
from trajlake.transforms.landing.suppression import NO_SUPPRESSION

BEGINNINGS: Final = 20
"""How often a pass begins anew because the tables changed under it."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a batch: steps, and bytes of its rows in memory. `run_max_bytes`: of a single run."""

    batch_steps: int = 100_000
    batch_bytes: int = 256 << 20
    run_max_bytes: int = 512 << 20
    held_then: Literal["wait", "release", "reject"] = "wait"
    held_after_s: int = 86_400


@dataclass
class Done:
    """One publication of a pass, in numbers."""

    publication: int
    cause: str
    runs: int
    published: int
    held: int
    refused: int
    withdrawn: int
    steps: int
    report: str
    """Where the report that people read lies."""
    reasons: dict[str, int] = field(default_factory=dict)


class Curator:
    """Judges and publishes. One per process; a second one on the same lake is refused by the tables' transactions.

    `clock`: µs since the Unix epoch, for consents and for the record. `on_step`: told each step of the commit order.
    `progress` counts runs.
    """

    def __init__(
        self,
        lake: Lake,
        rules: Rules,
        limits: Limits | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        on_step: Callable[[str], None] = lambda step: None,
        progress: Progress = SILENT,
    ) -> None:
        self.lake = lake
        self.rules = rules
        self.limits = limits or Limits()
        self._clock = clock
        self._on_step = on_step
        self._progress = progress
        self._forget()
        self._looked_us = LOWEST

    def _forget(self) -> None:
        """Know nothing of the tables."""
        self._effects = Effects(self.lake, self._on_step)
        self._reader = Reader(self.lake)
        self._stands = Standings(self.lake)
        self._memory = Memory(self.lake)
        self._suppression = NO_SUPPRESSION
        self._opened = False

    # What the outside calls

    def run_once(self) -> Iterator[Done]:
        """Do all that there is to do now, and yield each publication as it has taken effect.

        Raises `SinkUnavailable` when a store does not answer and `StaleWriter` when another curator is at work: the
        next pass goes on where the tables stand.
        """
        yield from self._begin_anew(self._pass, Fenced, FileGone)

    def _begin_anew(self, work: Callable[[], Iterator[Done]], *errors: type[SinkError]) -> Iterator[Done]:
        """Do something, and begin anew from the tables where somebody else came in between."""
        for beginning in range(BEGINNINGS):
            try:
                yield from work()
                return
            except errors:
                if beginning == BEGINNINGS - 1:
                    raise
                self._forget()

    def _pass(self) -> Iterator[Done]:
        self._begin()
        if self._reader.runs.version < 0:
            return
        # Before anything is judged by the rules of now, or a first pass would judge all that it has just judged.
        stale = self._revisions_changed()
        yield from self._new_runs()
        yield from self._late_rewards()
        yield from self._judged_before(stale=stale)
        yield from self._overdue()

    def release(self, publication: int, operator: str) -> Iterator[Done]:
        """Let the held runs of a publication in, unless the policies say no by now. Raises `LookupError` for none.

        May be called beside a service: whoever comes second begins anew."""
        yield from self._begin_anew(lambda: self._settle(publication, operator, Cause.RELEASE), StaleWriter, FileGone)

    def reject(self, publication: int, operator: str) -> Iterator[Done]:
        """Keep the held runs of a publication out for good. Raises `LookupError` for none."""
        yield from self._begin_anew(lambda: self._settle(publication, operator, Cause.REJECT), StaleWriter, FileGone)

    def held(self) -> pl.DataFrame:
        """Runs that wait, with the publication that holds them."""
        self._begin()
        return self._stands.waiting()

    # Reasons to judge

    def _begin(self) -> None:
        self._progress.stage("looking for what is new")
        if not self._opened:
            self._effects.open()
            self._opened = True
        # Behind the tables' making, or an erasure could find none to put its fence into; before their rows are read.
        self._suppression = read_suppression(self.lake)
        self._effects.obeys = self._suppression.epoch
        if (number := self._effects.undone()) is not None:
            self._redo(number)
        positions = self._effects.read_positions([RUNS_VERSION, REWARDS_VERSION, CONSENTS_VERSION])
        self._reader.refresh(
            {
                "runs": positions[RUNS_VERSION],
                "rewards": positions[REWARDS_VERSION],
                "consents": positions[CONSENTS_VERSION],
            }
        )

    def _redo(self, number: int) -> None:
        """Let a publication take effect from its rows of `curation` alone."""
        rows = self._unerased(self._stands.verdicts_of(number))
        verdicts = _to_contract(rows)
        published = rows.filter(pl.col("verdict") == Publication.PUBLISHED.value)
        self._reader.refresh({})
        keys = self._with_times(published)
        published = published.join(keys, on=[*RUN_KEY, "offset"], how="semi", maintain_order="left")
        if published.height:
            # Without a bound: it was held in memory when it was decided.
            loaded = self._reader.load(keys, HIGHEST, published["reward_offset"].to_numpy())
            made = build(loaded.runs, loaded.steps, loaded.rewards, _to_contract(published))
            self._memory.note(number, batch_frame(_frame(loaded.runs), _frame(loaded.rewards)))
        else:
            made = in_contract({}, 0)
        self._effects.take_effect(verdicts, made, number)

    def _new_runs(self) -> Iterator[Done]:
        version = self._reader.runs.version
        since = self._effects.curation.at(RUNS_VERSION)
        self._progress.stage("judging new runs", self._reader.runs.rows_since(since), "runs")
        read = 0
        for found in self._reader.runs.new_keys(since, KEY_COLUMNS, ROUND_RUNS):
            fresh = self._beyond(found, "runs").sort("topic", "partition", "offset")
            newest = fresh.unique([*RUN_KEY, "first_offset"], keep="last", maintain_order=True)
            for keys in in_batches(newest, self.limits.batch_steps):
                yield from self._judge(Task(keys, Cause.NEW, prior=self._stands.before_revision(keys)), "runs")
                self._progress.advance(len(keys))
            read += len(found)
            self._progress.reach(read)
        if version > since:
            self._effects.decide(_no_verdicts(), 0, [Advance(RUNS_VERSION, since, version)])

    def _late_rewards(self) -> Iterator[Done]:
        """Rewards beyond those that were judged: for runs that were judged without them."""
        source = self._reader.rewards
        since = self._effects.curation.at(REWARDS_VERSION)
        for found in source.new_keys(since, (*RUN_KEY, "offset"), ROUND_RUNS):
            fresh = self._beyond(found, "rewards")
            if fresh.is_empty():
                continue
            stand = self._stands.of(fresh.select(RUN).unique())
            newest = fresh.group_by(RUN_KEY).agg(pl.col("offset").max().alias("rewarded"))
            late = stand.join(newest, on=RUN_KEY).filter(
                (pl.col("rewarded") > pl.col("reward_offset")) & ~pl.col("fragment")
                & (pl.col("verdict") != Publication.HELD.value)
            ).drop("rewarded")  # fmt: skip
            yield from self._judge_again("judging runs that were rewarded", late, Cause.REWARD)
            self._effects.decide(_no_verdicts(), 0, self._advances(fresh, "rewards"))
        if source.version > since:
            self._effects.decide(_no_verdicts(), 0, [Advance(REWARDS_VERSION, since, source.version)])

    def _judged_before(self, *, stale: bool) -> Iterator[Done]:
        """Runs whose verdict may be another by now: consent that changed or ran out, policies or suite that changed."""
        consents = self._reader.consents
        since = self._effects.curation.at(CONSENTS_VERSION)
        changed: pl.Series | None = None
        if consents is not None and consents.version > since:
            parts = consents.new_keys(since, ("tenant_id", "subject_id", "offset"), ROUND_RUNS)
            none = pl.DataFrame(schema={"subject_id": pl.String})
            changed = pl.concat([none, *(part.select("subject_id") for part in parts)])["subject_id"].unique()
        now = self._clock()
        by_time = pl.col("holds_until").cast(pl.Int64) <= now
        people = changed if changed is not None else pl.Series([], dtype=pl.String)
        by_person = pl.col("subject_id").is_in(people.implode())
        stands: Iterable[pl.DataFrame] = ()
        if stale:
            stands = self._stands.all_in_parts()
        elif changed is not None or self._stands.may_have_run_out(self._looked_us, now):
            stands = [self._stands.where(("subject_id", "holds_until"), by_person | by_time)]
        # The newest verdict may hold or refuse a later state: it says nothing of the consent to the published one.
        run_out = (pl.col("live_until").cast(pl.Int64) <= now) & pl.col("live")
        for stand in stands:
            meant = by_person.fill_null(False) | run_out.fill_null(False) | pl.lit(stale)
            who = stand.filter(~pl.col("fragment") & meant)
            cause = Cause.POLICY if stale else Cause.CONSENT
            changed_what = "policies" if stale else "consents"
            yield from self._judge_again(f"judging again by changed {changed_what}", who, cause)
        if consents is not None and consents.version > since:
            self._effects.decide(_no_verdicts(), 0, [Advance(CONSENTS_VERSION, since, consents.version)])
        if stale:
            self._memory.note_revisions(self.rules.revisions)
        self._looked_us = now

    def _settle(self, publication: int, operator: str, cause: Cause) -> Iterator[Done]:
        waiting = self.held().filter(pl.col("publication") == publication)
        if waiting.is_empty():
            raise LookupError(f"publication {publication} holds no run; `trajlake curate held` lists those that wait")
        yield from self._judge_again("judging runs that were held", waiting, cause, operator)

    def _overdue(self) -> Iterator[Done]:
        """Held runs for which the rule says what comes after so long."""
        limits = self.limits
        if limits.held_then == "wait":
            return
        before_us = self._clock() - limits.held_after_s * 1_000_000
        waiting = self._stands.waiting().filter(pl.col("decided_at").cast(pl.Int64) <= before_us)
        cause = Cause.RELEASE if limits.held_then == "release" else Cause.REJECT
        if cause is Cause.RELEASE:
            # What the deep scan found, or did not get to, is for a person to look at.
            codes = pl.col("reasons").list.eval(pl.element().struct.field("code").is_in(sorted(SCAN_CODES))).list.any()
            waiting = waiting.filter(~codes.fill_null(False))
        yield from self._judge_again("judging runs that were held too long", waiting, cause, "rule")

    # Judging

    def _judge_again(self, text: str, stand: pl.DataFrame, cause: Cause, decided_by: str = PROGRAM) -> Iterator[Done]:
        """Judge runs that were judged before, batch by batch. `stand`: where they stand."""
        known = self._with_times(stand)
        self._progress.stage(text, len(known), "runs")
        for keys in in_batches(known, self.limits.batch_steps):
            yield from self._judge(Task(keys, cause, decided_by, stand), "")
            self._progress.advance(len(keys))

    def _judge(self, task: Task, source: str) -> Iterator[Done]:
        """Judge, decide, and let it take effect. A batch that is too large is judged in halves."""
        keys = self._unerased(task.keys)
        if keys.is_empty():
            if source:
                self._effects.decide(_no_verdicts(), 0, self._advances(task.keys, source))
            return
        try:
            loaded = self._reader.load(keys, self.limits.batch_bytes)
        except TooMuch:
            if len(keys) > 1:
                for part in halves(keys):
                    yield from self._judge(Task(part, task.cause, task.decided_by, task.prior), source)
                return
            loaded = self._load_one(keys)
        yield from self._decide(task, loaded, source)

    def _load_one(self, keys: pl.DataFrame) -> Loaded:
        """A single run; without its steps where they are more than a run may have."""
        try:
            return self._reader.load(keys, self.limits.run_max_bytes)
        except TooMuch:
            return self._reader.load_bare(keys)

    def _decide(self, task: Task, loaded: Loaded, source: str) -> Iterator[Done]:
        now = self._clock()
        number = max(0, self._effects.curation.at(APP)) + 1
        subjects = sorted({s for s in loaded.runs.column("subject_id").to_pylist() if s is not None})
        judged = judge(
            loaded.runs, loaded.steps, loaded.rewards, loaded.members, loaded.scores, self.rules.policies,
            self._reader.consents_of(subjects), now, self.rules.place,
        )  # fmt: skip
        before = task.before(loaded)
        heed_cause(task, loaded, judged, before)
        deep_scan(self.rules.scanner, loaded, judged, before, task.cause)
        checked = check(task, loaded, judged, before, self.rules.suite, self._memory, number)
        kept, verdicts = news(task, loaded, judged, before)
        advances = self._advances(task.keys, source) if source else []
        basis = Basis(
            number, task.cause, task.decided_by, now, self.rules.policies.revision, self.rules.suite.revision,
            code_revision(), self._reader.versions,
        )  # fmt: skip
        places = pa.array(kept, pa.int64())
        rows = verdict_rows(
            loaded.runs.take(places), [judged[p] for p in kept], verdicts, loaded.reward_offsets[kept].tolist(),
            loaded.scores.score.take(places), basis,
        )  # fmt: skip
        if not kept:
            self._effects.decide(rows, number, advances)
            return
        if checked is not None:
            write_checkpoint(self.lake, number, now, checked)
        self._effects.decide(rows, number, advances)
        yield self._publish(loaded, kept, verdicts, rows, number, task.cause)

    def _publish(
        self, loaded: Loaded, kept: list[int], verdicts: list[Publication], rows: pa.Table, number: int, cause: Cause
    ) -> Done:
        let_in = [i for i, verdict in enumerate(verdicts) if verdict is Publication.PUBLISHED]
        places = [kept[i] for i in let_in]
        if places:
            whole = places == list(range(loaded.runs.num_rows))
            runs = loaded.runs if whole else loaded.runs.take(pa.array(places))
            own = rows.take(pa.array(let_in))
            plain = whole and rows.column("left_out_rewards").null_count == rows.num_rows
            made = (
                assemble(runs, loaded.steps, loaded.rewards, own, loaded.members, loaded.scores)
                if plain
                else build(runs, loaded.steps, loaded.rewards, own)
            )
            self._memory.note(number, batch_frame(_frame(runs), _frame(loaded.rewards)))
        else:
            made = in_contract({}, 0)
        self._effects.take_effect(rows, made, number)
        counts = {verdict.value: sum(v is verdict for v in verdicts) for verdict in Publication}
        codes: dict[str, int] = {}
        for reasons in rows.column("reasons").to_pylist():
            for code in {reason["code"] for reason in reasons or ()}:
                codes[code] = codes.get(code, 0) + 1
        steps = int(loaded.members.counts[places].sum()) if places else 0
        report = report_place(self.lake, number, "report.html")
        return Done(number, cause.value, len(kept), **counts, steps=steps, report=report, reasons=codes)

    # Positions

    def _beyond(self, rows: pl.DataFrame, table: str) -> pl.DataFrame:
        """Rows that lie beyond what has been judged, by partition."""
        partitions = rows.select("topic", "partition").unique().rows()
        apps = {key: offsets_app(table, *key) for key in partitions}
        positions = self._effects.read_positions(list(apps.values()))
        marks = pl.DataFrame(
            [(*key, positions[app]) for key, app in apps.items()],
            {"topic": pl.String, "partition": pl.Int32, "judged": pl.Int64},
            orient="row",
        )
        joined = rows.join(marks, on=["topic", "partition"], how="left", maintain_order="left")
        return joined.filter(pl.col("offset") > pl.col("judged")).drop("judged")

    def _advances(self, rows: pl.DataFrame, table: str) -> list[Advance]:
        highest = rows.group_by("topic", "partition").agg(pl.col("offset").max()).sort("topic", "partition")
        found = []
        for topic, partition, offset in highest.iter_rows():
            app = offsets_app(table, topic, partition)
            before = self._effects.curation.at(app)
            if offset > before:
                found.append(Advance(app, before, offset))
        return found

    # Rows of runs

    def _unerased(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows without those of erased runs."""
        erased = self._suppression
        if not erased.digests or rows.is_empty():
            return rows
        return rows.filter(
            pl.Series([not erased.has_run(*run) for run in rows.select(RUN).iter_rows()], dtype=pl.Boolean)
        )

    def _with_times(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keys of runs from rows of `curation`, with what `runs` knows of their times and sizes."""
        keys = rows.select(*RUN_KEY, "offset").unique()
        if keys.is_empty():
            return pl.DataFrame(schema=pl.Schema(pa.schema([RUNS.schema.field(name) for name in KEY_COLUMNS])))
        wanted = keys.select(*RUN_KEY, pl.col("offset").alias("low"), pl.col("offset").alias("high"))
        found = self._reader.runs.rows_of(wanted, KEY_COLUMNS, pl.col("offset") == pl.col("high"))
        frame = _frame(found).unique([*RUN_KEY, "offset"], keep="first")
        order = rows.select(*RUN_KEY, "offset").join(frame, on=[*RUN_KEY, "offset"], how="inner", maintain_order="left")
        return order.select(KEY_COLUMNS)

    def _revisions_changed(self) -> bool:
        """Whether runs were judged by other policies, or another suite, than those of now."""
        if self._effects.decided() == 0:
            self._memory.note_revisions(self.rules.revisions)
            return False
        return self._memory.revisions() != self.rules.revisions


def _frame(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table))


def _to_contract(rows: pl.DataFrame) -> pa.Table:
    return rows.select(CURATION.names).to_arrow().cast(CURATION.schema)


def _no_verdicts() -> pa.Table:
    return CURATION.schema.empty_table()
