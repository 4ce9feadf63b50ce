"""`verify` on rows that the program itself made: sound at every moment, whatever the log held."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fold.logs import logs, rules
from tests.fold.story import TOPIC, Log, fold_in_batches
from trajlake.reading.tables import LakeTables
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger, Stretch
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record
from trajlake.verification.report import Report
from trajlake.verification.verify import verify

APP = "trajlake-land"


def check(root: Path | str) -> Report:
    report = verify(LakeTables(Lake(str(root))), APP)
    assert report.ok, report.problems
    return report


def stretch(landing: Landing, land: LandRules) -> Stretch:
    rows = batches(landing, land.revision, land.payload_inline_max_bytes)
    return Stretch(landing.topic, landing.partition, landing.first, landing.last, rows, landing.payloads)


def stretches(records: Sequence[Record], land: LandRules, cuts: Iterable[int], partition: int = 0) -> list[Stretch]:
    fold = PartitionFold(TOPIC, partition, land)
    found = fold_in_batches(fold, records, cuts)
    return [stretch(landing, land) for landing in found if landing.last >= landing.first]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs(), rules, st.lists(st.integers(1, 60), max_size=2))
def test_any_log_lands_as_a_lake_that_verifies_up_to_what_came_again_too_late(
    records: list[Record], land: LandRules, cuts: list[int]
) -> None:
    with TemporaryDirectory() as root:
        ledger = Ledger(Lake(root), APP)
        ledger.open()
        try:
            for batch in stretches(records, land, cuts):
                ledger.commit([batch])
        finally:
            ledger.close()
        reader = LakeTables(Lake(root))
        report = verify(reader, APP)
        # The fold remembers closed runs for so long: an event that comes again later is doubled, and is said to be.
        identity = ["tenant_id", "run_id", "sequence", "id"]
        events = reader.events().filter(pl.col("run_id").is_not_null()).select(identity).collect()
        doubled = events.height - events.unique().height
        assert set(report.problem_counts) == ({"duplicate_event"} if doubled else set()), report.problems
        produced = records[-1].offset + 1 if records else 0
        assert sum(p.events + p.quarantined + p.holes for p in report.partitions) == produced


def told(log: Log | None = None, name: str = "run") -> Log:
    """Six more runs, with poison, holes, late parts, rewards and one that never ends."""
    log = log or Log()
    for number in range(6):
        run = log.run(f"{name}-{number}")
        run.starts()
        run.responds("looking", calls=["a", "b"])
        log.append(b"{not json", b"acme/x")
        run.returns("b")
        run.returns("a")
        run.responds("done")
        run.rewarded()
        log.hole()
        if number != 3:
            run.ends()
        if number == 2:
            run.returns("a", "again, late")
            run.rewarded(0.5)
    log.tick(idle_s=30)
    return log


def test_L01_a_lake_verifies_before_every_step_of_the_commit_order(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def look(step: str) -> None:
        seen.append((step, sum(part.in_flight for part in check(tmp_path).partitions)))

    log, land = told(), LandRules()
    ledger = Ledger(Lake(str(tmp_path)), APP, look)
    ledger.open()
    try:
        for batch in stretches(log.records, land, range(7, log.next_offset, 11)):
            ledger.commit([batch])
    finally:
        ledger.close()
    assert {step.split()[0] for step, _ in seen} == {"1", "2", "3", "4"}
    assert any(on_its_way for _, on_its_way in seen), "no look fell between two commits"
    assert sum(p.landed_offset for p in check(tmp_path).partitions) == log.next_offset - 1


class Writer(threading.Thread):
    """Lands one partition in small batches until it is told to stop or has nothing more."""

    def __init__(self, root: Path, batches: list[Stretch]) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.batches = batches
        self.stopped = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        ledger = Ledger(Lake(str(self.root)), APP)
        try:
            ledger.open()
            for batch in self.batches:
                # A pace that leaves the reader something to see; it stops the writer when it has seen enough.
                if self.stopped.wait(0.03):
                    return
                ledger.commit([batch])
        except BaseException as error:
            self.failure = error
        finally:
            ledger.close()


def test_a_lake_verifies_while_two_workers_land(tmp_path: Path) -> None:
    logs = [Log(), Log()]
    for partition, log in enumerate(logs):
        for number in range(40):
            told(log, f"{partition}-{number}")
    land = LandRules()
    Ledger(Lake(str(tmp_path)), APP).open()
    writers = [
        Writer(tmp_path, stretches(log.records, land, range(5, log.next_offset, 7), partition))
        for partition, log in enumerate(logs)
    ]
    for writer in writers:
        writer.start()
    versions: set[Any] = set()
    try:
        while any(writer.is_alive() for writer in writers) and len(versions) < 6:
            versions.add(check(tmp_path).versions["events"])
    finally:
        for writer in writers:
            writer.stopped.set()
            writer.join(60)
    assert [writer.failure for writer in writers] == [None, None]
    assert len(versions) >= 4, "the lake did not grow while it was looked at"
    check(tmp_path)


def test_what_the_views_show_is_what_the_runs_count(tmp_path: Path) -> None:
    log, land = told(), LandRules()
    ledger = Ledger(Lake(str(tmp_path)), APP)
    ledger.open()
    try:
        for batch in stretches(log.records, land, []):
            ledger.commit([batch])
    finally:
        ledger.close()
    reader = LakeTables(Lake(str(tmp_path)))
    runs = reader.current_runs().select("run_id", "step_count").collect()
    steps = reader.current_steps().group_by("run_id").agg(pl.len().alias("step_count")).collect()
    shown = dict(steps.select("run_id", "step_count").rows())
    # The run without an end is open: it has steps, and no row of its own yet.
    assert shown.pop("run-3") == 1
    assert dict(runs.rows()) == shown == {f"run-{number}": 2 for number in (0, 1, 2, 4, 5)}


@pytest.mark.parametrize("name", ["events", "steps", "runs", "rewards", "quarantine", "gaps"])
def test_rows_that_are_lost_are_noticed(tmp_path: Path, name: str) -> None:
    log, land = told(), LandRules()
    ledger = Ledger(Lake(str(tmp_path)), APP)
    ledger.open()
    try:
        for batch in stretches(log.records, land, [20]):
            ledger.commit([batch])
    finally:
        ledger.close()
    table = ledger.lake.open(name)
    table.delete(f'"offset" <= {log.next_offset // 2}')
    report = verify(LakeTables(Lake(str(tmp_path))), APP)
    assert not report.ok
    expected = {
        "events": "missing_offsets", "quarantine": "missing_offsets", "gaps": "missing_offsets",
        "steps": "step_count", "runs": "missing_run", "rewards": "missing_reward",
    }  # fmt: skip
    assert expected[name] in report.problem_counts
