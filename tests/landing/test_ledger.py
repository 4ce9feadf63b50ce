"""The commit order over all tables: whatever stops it, wherever, every row lands once."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.landing.conftest import APP, MakeLedger
from tests.landkit.checker import assert_same_rows, read
from tests.landkit.events import Sent, event, mixture, poison, run_events
from tests.landkit.faults import FaultyStore
from tests.landkit.stretches import TOPIC, Batches
from trajlake.expectations.tables import TABLES
from trajlake.sinks.errors import SinkUnavailable, StaleWriter
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger, Stretch

REPO = Path(__file__).resolve().parents[2]
LOG = mixture(14)[:120]


class Killed(BaseException):
    """Stands for the end of the process: nothing of the program catches it."""


def stretches(sizes: tuple[int, ...] = (40, 40, 40), sent: list[Sent] | None = None) -> list[Stretch]:
    """The first records of a log in batches of the given sizes, as a fresh worker would fold them."""
    log = LOG if sent is None else sent
    batches = Batches()
    made = []
    for size in sizes:
        made.append(batches.take(log[:size]))
        log = log[size:]
    return made


def parquet_files(lake: Lake) -> int:
    return len(list(Path(lake.uri).rglob("*.parquet")))


def test_L2_the_same_batches_twice_land_once(lake: Lake, make_ledger: MakeLedger) -> None:
    ledger = make_ledger()
    assert ledger.landed(TOPIC, 0) == -1
    assert all(ledger.commit([stretch]) for stretch in stretches())
    before = ledger.versions()
    assert not any(ledger.commit([stretch]) for stretch in stretches())
    again = make_ledger()
    assert again.landed(TOPIC, 0) == 119
    assert not any(again.commit([stretch]) for stretch in stretches())
    assert ledger.versions() == again.versions() == before
    offsets = [row["offset"] for table in ("events", "quarantine") for row in read(lake.uri, table)]
    assert sorted(offsets) == list(range(120))


def test_L3_of_two_processes_with_the_same_batch_one_lands_and_the_other_is_told(lake: Lake, tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from tests.landing.test_ledger import APP, TOPIC, stretches
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
root, gate, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def on_step(step):
    if step == "3 quarantine":
        (gate / name).touch()
        deadline = time.monotonic() + 30
        while len(list(gate.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.001)
ledger = Ledger(Lake(str(root)), APP, on_step)
ledger.open()
ledger.landed(TOPIC, 0)
print("landed" if ledger.commit(stretches((120,))) else "already landed")
"""
    gate = tmp_path / "gate"
    gate.mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, lake.uri, str(gate), name],
            cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in "ab"
    ]  # fmt: skip
    said = []
    for process in processes:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        said.append(out.strip())
    assert sorted(said) == ["already landed", "landed"]
    one = Lake(str(tmp_path / "one"))
    land_all(one, stretches((120,)))
    assert_same_rows(lake.uri, one.uri)


def land_all(lake: Lake, batches: list[Stretch]) -> None:
    ledger = Ledger(lake, APP)
    ledger.open()
    ledger.landed(TOPIC, 0)
    for stretch in batches:
        ledger.commit([stretch])
    ledger.close()


STEPS = ["1 payloads", "2 data files", *(f"3 {name}" for name in ("gaps", "quarantine", "rewards", "steps", "runs"))]


@pytest.mark.parametrize("killed_at", [*STEPS, "4 events"])
def test_L1_killed_before_any_step_and_resumed_with_other_batch_ends_every_row_lands_once(
    lake: Lake, make_ledger: MakeLedger, tmp_path: Path, killed_at: str
) -> None:
    def kill(step: str) -> None:
        if step == killed_at:
            raise Killed

    ledger = make_ledger(kill)
    ledger.landed(TOPIC, 0)
    first = with_hole(stretches((100,)))
    with pytest.raises(Killed):
        ledger.commit(first)
    resumed = make_ledger()
    assert resumed.landed(TOPIC, 0) == -1
    for stretch in with_hole(stretches((7, 60, 53))):
        resumed.commit([stretch])
    assert resumed.landed(TOPIC, 0) == 119
    whole = Lake(str(tmp_path / "whole"))
    land_all(whole, with_hole(stretches((120,))))
    assert_same_rows(lake.uri, whole.uri)


def with_hole(batches: list[Stretch]) -> list[Stretch]:
    """The same batches, with a row of `gaps` in the one that holds offset 50 (a table of its own in the order)."""
    made = []
    for stretch in batches:
        tables = dict(stretch.batches)
        if stretch.first <= 50 <= stretch.last:
            row = {"topic": TOPIC, "partition": 0, "offset": 50, "first_offset": 50, "code": "hole", "detail": None}
            tables["gaps"] = pa.RecordBatch.from_pylist([row], TABLES["gaps"].schema)
        made.append(Stretch(stretch.topic, stretch.partition, stretch.first, stretch.last, tables, stretch.payloads))
    return made


def test_L1_a_hole_that_grew_before_it_landed_is_accounted_for_once(lake: Lake, make_ledger: MakeLedger) -> None:
    def kill(step: str) -> None:
        if step == "4 events":
            raise Killed

    # At the first look the log ends with one transaction marker at 9; after the restart another one follows at 10.
    seen = Batches()
    landing = seen.fold.fold([], 9)
    ledger = make_ledger(kill)
    ledger.landed(TOPIC, 0)
    with pytest.raises(Killed):
        ledger.commit([seen.stretch(landing)])
    later = Batches()
    resumed = make_ledger()
    assert resumed.landed(TOPIC, 0) == -1
    resumed.commit([later.stretch(later.fold.fold([], 10))])
    assert sorted((row["first_offset"], row["offset"]) for row in read(lake.uri, "gaps")) == [(0, 9), (10, 10)]


@pytest.mark.parametrize("table", ["gaps", "quarantine", "rewards", "steps", "runs", "events"])
def test_L4_a_lost_reply_of_any_table_doubles_nothing(
    lake: Lake, make_ledger: MakeLedger, store_faults: FaultyStore, tmp_path: Path, table: str
) -> None:
    ledger = make_ledger()
    ledger.landed(TOPIC, 0)

    def lose(path: str) -> None:
        if path.startswith(lake.table_path(table)) and "_delta_log" in path:
            store_faults.heal()
            raise OSError("the reply was lost")

    store_faults.after = lose
    assert ledger.commit(with_hole(stretches((120,))))
    whole = Lake(str(tmp_path / "whole"))
    land_all(whole, with_hole(stretches((120,))))
    assert_same_rows(lake.uri, whole.uri)


def test_L6_a_writer_that_was_overtaken_lands_nothing_more_and_offsets_never_go_back(
    lake: Lake, make_ledger: MakeLedger, tmp_path: Path
) -> None:
    log = LOG

    def owner_lands(step: str) -> None:
        if step == "4 events":
            other = make_ledger()
            assert other.landed(TOPIC, 0) == -1
            for stretch in stretches((60, 40), log):
                other.commit([stretch])

    stale = make_ledger(owner_lands)
    stale.landed(TOPIC, 0)
    with pytest.raises(StaleWriter):
        stale.commit(stretches((110,), log))
    assert make_ledger().landed(TOPIC, 0) == 99
    # The next owner comes behind both, and takes no row of the stale one for new.
    final = make_ledger()
    final.landed(TOPIC, 0)
    fold = Batches()
    fold.take(log[:100])
    final.commit([fold.take(log[100:120])])
    whole = Lake(str(tmp_path / "whole"))
    land_all(whole, stretches((120,), log))
    assert_same_rows(lake.uri, whole.uri)


def test_L6_what_a_stale_writer_got_into_side_tables_is_not_landed_again_by_the_owner(
    lake: Lake, make_ledger: MakeLedger, tmp_path: Path
) -> None:
    log = LOG
    owner = make_ledger()
    owner.landed(TOPIC, 0)

    def die(step: str) -> None:
        if step == "4 events":
            raise Killed

    stale = make_ledger(die)
    stale.landed(TOPIC, 0)
    with pytest.raises(Killed):
        stale.commit(stretches((110,), log))
    # What the stale one landed of the side tables are the same rows: they count.
    first, second = stretches((60, 60), log)
    assert owner.commit([first])
    with pytest.raises(StaleWriter):
        owner.commit([second])
    assert owner.landed(TOPIC, 0) == 59
    assert owner.commit([second])
    whole = Lake(str(tmp_path / "whole"))
    land_all(whole, stretches((120,), log))
    assert_same_rows(lake.uri, whole.uri)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("where", ["quarantine/", "restricted/steps/part", "restricted/events/_delta_log"])
def test_L13_L25_a_store_that_refuses_for_a_while_is_filled_once(
    lake: Lake, make_ledger: MakeLedger, store_faults: FaultyStore, tmp_path: Path, code: int, where: str
) -> None:
    ledger = make_ledger()
    ledger.landed(TOPIC, 0)

    def refuse(path: str) -> None:
        if path.startswith(where):
            raise OSError(code, "no")

    store_faults.before = refuse
    batch = stretches((120,))
    counts = []
    for _ in range(5):
        with pytest.raises(SinkUnavailable, match=f"table {'quarantine' if 'quarantine' in where else ''}"):
            ledger.commit(batch)
        counts.append(parquet_files(lake))
        assert make_ledger().landed(TOPIC, 0) == -1
    assert len(set(counts)) == 1, "every attempt stored its data files again"
    store_faults.heal()
    assert ledger.commit(batch)
    whole = Lake(str(tmp_path / "whole"))
    land_all(whole, stretches((120,)))
    assert_same_rows(lake.uri, whole.uri)


def test_L15_batches_with_only_nulls_or_empty_lists_land_with_the_tables_types(
    lake: Lake, make_ledger: MakeLedger
) -> None:
    bare = [
        event("run.started", "bare", 1, time=None),
        event("model.responded", "bare", 2, {"tool_calls": [], "prompt_token_ids": []}, time=None),
        event("run.ended", "bare", 3, {"end_state": "failed"}, time=None),
    ]
    full = run_events("full")
    ledger = make_ledger()
    ledger.landed(TOPIC, 0)
    batches = Batches()
    for sent in (bare, [poison(0)], full):
        ledger.commit([batches.take(sent)])
    for name in ("events", "steps", "runs", "rewards", "quarantine"):
        stored = lake.open(name)
        assert stored.to_pyarrow_table().schema.equals(TABLES[name].schema), name
    by_run = {row["run_id"]: row for row in read(lake.uri, "steps")}
    assert by_run["bare"]["tool_calls"] in ([], None)
    assert by_run["bare"]["prompt_token_ids"] == []
    assert by_run["bare"]["logprobs"] is None
    assert [row["started_at"] for row in read(lake.uri, "runs") if row["run_id"] == "bare"] == [None]


def test_rows_of_several_partitions_share_a_commit_and_keep_their_own_offsets(
    lake: Lake, make_ledger: MakeLedger
) -> None:
    ledger = make_ledger()
    folds = [Batches(partition=partition) for partition in range(3)]
    for partition in range(3):
        ledger.landed(TOPIC, partition)
    for round_ in range(2):
        ledger.commit([fold.take(run_events(f"r{round_}-{p}")) for p, fold in enumerate(folds)])
    assert [make_ledger().landed(TOPIC, partition) for partition in range(3)] == [17, 17, 17]
    assert lake.open("events").version() == 2


def test_L20_hundreds_of_commits_cost_no_more_at_the_end_than_at_the_start(lake: Lake, make_ledger: MakeLedger) -> None:
    ledger = make_ledger()
    ledger.landed(TOPIC, 0)
    batches = Batches()
    took: list[float] = []
    for number in range(300):
        stretch = batches.take([event("custom", f"r{number}", 1)])
        started = time.perf_counter()
        ledger.commit([stretch])
        took.append(time.perf_counter() - started)
    early, late = sorted(took[20:90])[35], sorted(took[220:290])[35]
    assert late < 4 * early + 0.01, (early, late)


def steps_of(commit: Callable[[Ledger], object], ledger_of: MakeLedger) -> list[str]:
    seen: list[str] = []
    ledger = ledger_of(seen.append)
    ledger.landed(TOPIC, 0)
    commit(ledger)
    return seen


def test_the_steps_are_taken_in_the_documented_order(make_ledger: MakeLedger) -> None:
    seen = steps_of(lambda ledger: ledger.commit(with_hole(stretches((120,)))), make_ledger)
    assert seen == [*STEPS, "4 events"]
