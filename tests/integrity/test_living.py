"""What a lake lives through without a false alarm: restarts, several writers, compaction, erasure, log clean-up."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from threading import Thread

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.integrity import auditor
from tests.integrity.conftest import Landed
from tests.integrity.test_tampering import one_byte, problem, with_value
from tests.landkit.checker import read
from tests.landkit.events import Sent, mixture
from tests.landkit.stretches import TOPIC, records
from trajlake.sinks.errors import StaleWriter
from trajlake.sinks.integrity import read_blocks, read_heads
from trajlake.sinks.lake import Lake
from trajlake.streams.land.chaining import mark_erasure, seal
from trajlake.streams.settings import load_settings


def blocks_of_events(landed: Landed, count: int = 3) -> list[Sent]:
    """A log of more than `count` blocks, landed; every event small."""
    log = mixture(400 * count, poisoned=9, text="x", width=60)
    landed.land(log, (3000, 977))
    return log


def offsets(landed: Landed) -> list[int]:
    return sorted(row["offset"] for row in read(landed.lake.uri, "events"))


def test_whoever_takes_a_partition_up_goes_on_with_its_chain(landed: Landed, sent: Sequence[Sent]) -> None:
    for end in (40, 41, 160, len(sent)):
        landed.land(sent[:end], (17,), sealed=end != 160)
    report = landed.verify()
    assert report.ok, report.problems
    rows = read(landed.lake.uri, "events")
    assert [part.head for part in report.integrity or ()] == [auditor.head(TOPIC, 0, rows, len(sent) - 1)]


def test_killed_before_its_blocks_were_sealed_a_worker_finds_them_again(landed: Landed) -> None:
    log = mixture(1000, text="x", width=60)
    landed.land(log[:6000], (1500,), sealed=False)
    assert read_blocks(landed.lake, TOPIC, 0) == []
    landed.land(log, (1500,))
    assert [block.last for block in read_blocks(landed.lake, TOPIC, 0)] == [4095, 8191][: len(log) // 4096]
    report = landed.verify()
    assert report.ok, report.problems


def test_two_workers_that_commit_in_turn_and_at_once_keep_two_chains(
    landed: Landed, sent: Sequence[Sent], other: Sequence[Sent]
) -> None:
    logs = {0: sent, 1: other}
    failed: list[BaseException] = []

    def work(partition: int) -> None:
        try:
            landed.land(logs[partition], (9,), partition)
        except BaseException as error:
            failed.append(error)

    landed.ledger()
    threads = [Thread(target=work, args=(partition,)) for partition in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    report = landed.verify()
    assert report.ok, report.problems
    assert [part.proven_offset for part in report.integrity or ()] == [len(sent) - 1, len(other) - 1]


def test_a_stale_worker_leaves_no_trace_in_the_chain(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent[:50])
    stale, its_ledger = landed.take_up()
    stale.take(records(sent)[50:80])
    landed.land(sent[:90], (13,))
    stretch = stale.stretch()
    assert stretch is not None
    with pytest.raises(StaleWriter):
        its_ledger.commit([stretch])
    landed.land(sent)
    report = landed.verify()
    assert report.ok, report.problems


def test_blocks_say_where_a_change_is_and_what_follows_is_still_proven(landed: Landed) -> None:
    log = blocks_of_events(landed)
    assert len(read_blocks(landed.lake, TOPIC, 0)) == len(log) // 4096 == 3
    assert landed.verify().ok
    offset = next(offset for offset in offsets(landed) if offset > 5000)
    landed.rewrite(with_value("event", offset, one_byte), offset)
    # As after a year: the commits that carried heads are no longer kept.
    DeltaTable(str(landed.events)).create_checkpoint()
    for commit in sorted(landed.log.glob("*.json"))[:-1]:
        commit.unlink()
    place = problem(landed.verify(), "changed_rows")
    assert (place["offset"], place["last_offset"]) == (4096, 8191)


def test_files_may_be_compacted_and_the_log_cleaned(landed: Landed, other: Sequence[Sent]) -> None:
    blocks_of_events(landed, 2)
    landed.land(other, (20,), partition=1)
    heads = landed.heads()
    table = DeltaTable(str(landed.events))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    for commit in sorted(landed.log.glob("*.json"))[:-1]:
        commit.unlink()
    report = landed.verify(heads)
    assert report.ok, report.problems
    assert all(part.anchored_offset == part.offset for part in report.integrity or ())
    landed.land([*other, *mixture(3, name="more")], (20,), partition=1)
    report = landed.verify(heads)
    assert report.ok, report.problems


def test_a_lake_from_before_there_were_chains_is_read_once_and_then_proven(
    landed: Landed, sent: Sequence[Sent]
) -> None:
    owned, ledger = landed.take_up()
    owned.take(records(sent)[:100])
    stretch = owned.stretch()
    assert stretch is not None
    stretch.__dict__["head"] = None
    ledger.commit([stretch])
    assert problem(landed.verify(), "unchained_rows")["offset"] == 0
    landed.land(sent)
    report = landed.verify()
    assert report.ok, report.problems


def erase(landed: Landed, offsets: list[int]) -> None:
    listed = ", ".join(map(str, offsets))
    DeltaTable(str(landed.events)).delete(f"partition = 0 and offset in ({listed})")


def test_erased_rows_are_accepted_and_their_neighbours_still_proven(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (30,))
    heads = landed.heads()
    there = offsets(landed)
    gone = [there[3], there[4], there[-1], *there[60:100]]
    assert mark_erasure(landed.lake, TOPIC, 0, gone, "erasure-1") == len(gone)
    assert mark_erasure(landed.lake, TOPIC, 0, gone, "erasure-1") == 0
    # Marked and not erased yet, as after a crash between the two.
    assert landed.codes(heads) == {}
    erase(landed, gone)
    report = landed.verify(heads)
    assert "changed_rows" not in report.problem_counts
    assert "missing_offsets" not in report.problem_counts
    assert [(part.erased, part.anchored_offset) for part in report.integrity or ()] == [(len(gone), len(sent) - 1)]
    assert [part.erased for part in report.partitions] == [len(gone)]
    survivor = there[5]
    landed.rewrite(with_value("event", survivor, one_byte), survivor)
    assert problem(landed.verify(heads), "changed_rows")["offset"] == 0


def test_rows_that_no_mark_names_do_not_pass_as_erased(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (30,))
    there = offsets(landed)
    mark_erasure(landed.lake, TOPIC, 0, [there[3]], "erasure-1")
    erase(landed, [there[3], there[4]])
    codes = landed.codes()
    assert codes["missing_offsets"] == 1
    assert codes["changed_rows"] == 1


def test_a_worker_goes_on_behind_erased_rows(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent[:100], (30,))
    there = offsets(landed)
    mark_erasure(landed.lake, TOPIC, 0, there[70:], "erasure-1")
    erase(landed, there[70:])
    landed.land(sent, (30,))
    codes = landed.codes()
    assert "changed_rows" not in codes
    assert "unchained_rows" not in codes


def test_heads_are_kept_outside_too_and_never_go_back(landed: Landed, sent: Sequence[Sent]) -> None:
    outside = Lake(landed.lake.uri + "-heads")
    landed.settings = load_settings(root=landed.lake.uri, integrity_heads=outside.uri)
    landed.land(sent, (50,))
    kept = read_heads(outside)
    assert [(head.offset, head.partition) for head in kept] == [(len(sent) - 1, 0)]
    assert landed.verify(kept).ok
    shutil.rmtree(landed.lake.uri)
    owned, ledger = landed.take_up()
    owned.take(records(sent)[:50])
    stretch = owned.stretch()
    assert stretch is not None
    ledger.commit([stretch])
    owned.committed()
    assert not seal(landed.lake, ledger, landed.settings, owned.chain, owned.blocks)
    assert read_heads(outside) == kept
    assert landed.codes(kept) == {"truncated_rows": 1}


def test_times_that_went_through_another_writer_are_the_same(landed: Landed, sent: Sequence[Sent]) -> None:
    landed.land(sent, (50,))

    def nanoseconds(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index("append_time")
        return rows.set_column(place, "append_time", rows["append_time"].cast(pa.timestamp("ns", "UTC")))

    for offset in offsets(landed)[::70]:
        landed.rewrite(nanoseconds, offset)
    report = landed.verify()
    assert report.ok, report.problems
