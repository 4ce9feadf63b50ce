"""Upkeep of tables beside those who write and read them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.conftest import Eventually
from tests.keeping.conftest import APP, Landed
from tests.landkit.checker import Landed as Rows
from tests.landkit.checker import assert_offsets_only_grow, read
from tests.landkit.events import mixture
from tests.landkit.killed import Killed, kill_at
from tests.landkit.stretches import TOPIC
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import transaction_app
from trajlake.sinks.maintenance import Upkeep, UpkeepRules, groups, maintain_table, superfluous
from trajlake.sinks.rewriting import LiveFile
from trajlake.streams.keeping.upkeep import maintain_lake

REPO = Path(__file__).resolve().parents[2]
AT_ONCE = UpkeepRules(vacuum_retention_h=0, log_retention_h=0, log_versions_kept=0, checkpoint_every=1)
CAREFUL = UpkeepRules(checkpoint_every=1)


def maintain(landed: Landed, rules: UpkeepRules = CAREFUL, *, dry_run: bool = False) -> dict[str, Upkeep]:
    return {done.table: done for done in maintain_lake(landed.lake, rules, dry_run=dry_run)}


def files(landed: Landed, table: str) -> int:
    return len(landed.lake.open(table).file_uris())


def offsets(landed: Landed) -> dict[str, int | None]:
    """Watermark of the partition in each table."""
    app = transaction_app(APP, TOPIC, 0)
    return {name: landed.lake.open(name).transaction_version(app) for name in ("events", "steps", "quarantine")}


def test_compaction_joins_small_files_and_keeps_rows_watermarks_and_old_versions(filled: Landed) -> None:
    before, watermarks = Rows.of(filled.root), offsets(filled)
    version = filled.lake.open("events").version()
    assert files(filled, "events") > 10
    done = maintain(filled)
    assert done["events"].compacted_into == files(filled, "events") == 1
    assert not any(one.problems for one in done.values())
    assert Rows.of(filled.root) == before
    assert offsets(filled) == watermarks
    old = filled.lake.open("events", version).to_pyarrow_table()
    assert old.num_rows == len(read(filled.root, "events"))


def test_compacted_files_carry_the_bounds_that_readers_skip_files_by(filled: Landed) -> None:
    maintain(filled)
    actions = filled.lake.open("events").get_add_actions(flatten=True)
    rows = read(filled.root, "events")
    found = {name: actions[name].to_pylist() for name in ("num_records", "min.offset", "max.offset", "max.run_id")}
    offsets = [row["offset"] for row in rows]
    assert found == {
        "num_records": [len(rows)],
        "min.offset": [min(offsets)],
        "max.offset": [max(offsets)],
        "max.run_id": [max(row["run_id"] for row in rows)],
    }


def test_a_dry_run_says_what_would_be_done_and_does_nothing(filled: Landed) -> None:
    versions = {name: filled.lake.open(name).version() for name in TABLES if filled.lake.exists(name)}
    planned = maintain(filled, dry_run=True)
    assert planned["events"].compacted_files == files(filled, "events")
    assert versions == {name: filled.lake.open(name).version() for name in versions}
    assert maintain(filled)["events"].compacted_files == planned["events"].compacted_files


@pytest.mark.parametrize(
    "step",
    [
        *("events: compact", "events: compact, commit", "events: checkpoint"),
        *("events: vacuum", "events: vacuum, delete", "events: clean log", "events: clean log, delete"),
    ],
)
def test_upkeep_killed_at_a_step_and_run_again_keeps_every_row(filled: Landed, step: str) -> None:
    before = Rows.of(filled.root)
    with pytest.raises(Killed):
        list(maintain_lake(filled.lake, AT_ONCE, ["events"], on_step=kill_at(step)))
    assert Rows.of(filled.root) == before
    list(maintain_lake(filled.lake, AT_ONCE, ["events"]))
    assert Rows.of(filled.root) == before
    assert files(filled, "events") == 1
    filled.land(mixture(2, name="after"))
    assert len(read(filled.root, "events")) > len(before.tables["events"])


def test_L17_compaction_in_a_loop_and_appends_both_make_progress(filled: Landed) -> None:
    stop = threading.Event()
    rounds: list[Upkeep] = []

    def compact() -> None:
        while not stop.is_set():
            done = maintain_table(filled.lake, "events", UpkeepRules(least_files=2, checkpoint_every=10))
            assert done is not None
            rounds.append(done)

    compactor = threading.Thread(target=compact)
    compactor.start()
    try:
        filled.land(mixture(30, name="beside"), per_batch=4)
    finally:
        stop.set()
        compactor.join(60)
    assert sum(done.compacted_into for done in rounds) >= 2
    assert not [problem for done in rounds for problem in done.problems]
    rows = [row["offset"] for table in ("events", "quarantine") for row in read(filled.root, table)]
    assert sorted(rows) == list(range(filled.batches.fold.next_offset))
    assert_offsets_only_grow(filled.root)


def test_two_compactions_at_a_time_never_double_or_drop_a_row(filled: Landed) -> None:
    before = Rows.of(filled.root)
    rules = UpkeepRules(least_files=2, checkpoint_every=1)
    workers = [threading.Thread(target=maintain_table, args=(filled.lake, "events", rules)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert Rows.of(filled.root) == before


def test_L18_vacuum_keeps_what_a_paused_writer_has_stored_and_not_yet_committed(filled: Landed) -> None:
    stored: list[Upkeep] = []

    def on_step(step: str) -> None:
        if step == "3 steps":
            # Its data files are stored by now.
            stored.extend(maintain_lake(filled.lake, UpkeepRules(vacuum_retention_h=1, checkpoint_every=1)))

    filled.ledger._on_step = on_step
    filled.land(mixture(3, name="paused"), per_batch=1_000)
    assert stored
    rows = [row["offset"] for table in ("events", "quarantine") for row in read(filled.root, table)]
    assert sorted(rows) == list(range(filled.batches.fold.next_offset))


def test_L18_vacuum_takes_files_that_nobody_ever_committed_once_they_are_old(filled: Landed) -> None:
    orphan = Path(filled.root) / "restricted/events/part-orphan.parquet"
    orphan.write_bytes(b"x")
    assert maintain(filled, UpkeepRules(vacuum_retention_h=1))["events"].vacuumed_files == 0
    assert orphan.exists()
    maintain(filled, AT_ONCE)
    assert not orphan.exists()


def test_L20_a_log_that_is_cleaned_stays_short_and_its_writer_goes_on(landed: Landed) -> None:
    log = Path(landed.root) / "restricted/events/_delta_log"
    for turn in range(3):
        landed.land(mixture(10, name=f"turn-{turn}"), per_batch=4)
        maintain(landed, AT_ONCE)
        assert len(list(log.glob("*.json"))) < 40
        assert len(list(log.glob("*.checkpoint*.parquet"))) <= 2
    assert landed.lake.open("events").version() > 70
    rows = [row["offset"] for table in ("events", "quarantine") for row in read(landed.root, table)]
    assert sorted(rows) == list(range(landed.batches.fold.next_offset))


def test_L21_killed_while_checkpoints_are_written_the_table_opens(filled: Landed, eventually: Eventually) -> None:
    code = """
import sys
from trajlake.sinks.lake import Lake
lake = Lake(sys.argv[1])
while True:
    lake.open("events").create_checkpoint()
    print("written", flush=True)
"""
    before = Rows.of(filled.root)
    for pause in (0.002, 0.011):
        process = subprocess.Popen(
            [sys.executable, "-c", code, filled.root], cwd=REPO, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        time.sleep(pause)
        process.kill()
        process.wait(10)
        process.stdout.close()
        assert Rows.of(filled.root) == before
        assert DeltaTable(filled.lake.table_uri("events")).version() == filled.lake.open("events").version()


def file(place: int, size: int) -> LiveFile:
    return LiveFile(f"f{place}", size, 1, place, (0, place))


def test_only_neighbouring_small_files_are_joined_up_to_the_target() -> None:
    rules = UpkeepRules(target_bytes=100, least_files=2)
    sizes = [10, 40, 45, 60, 30, 30, 99, 20]
    joined = [[f.path for f in group] for group in groups([file(i, s) for i, s in enumerate(sizes)], rules)]
    assert joined == [["f0", "f1", "f2"], ["f4", "f5", "f7"]]


def test_a_log_keeps_what_any_version_within_the_retention_needs() -> None:
    hour = 3600.0
    names = [f"{version:020d}.json" for version in range(40)]
    names += [f"{version:020d}.checkpoint.parquet" for version in (10, 20, 30)]
    listed = sorted((name, int(name[:20]) * hour) for name in names)
    rules = UpkeepRules(log_retention_h=15, log_versions_kept=0)
    gone = superfluous(listed, rules, now=40 * hour)
    # The oldest version to be kept is 25; it is read from checkpoint 20.
    assert {int(name[:20]) for name in gone} == set(range(20))
    assert not superfluous(listed, UpkeepRules(log_retention_h=15, log_versions_kept=35), now=40 * hour)
    assert not superfluous([], rules, now=0.0)
