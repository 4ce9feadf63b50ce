"""The same log gives the same rows, however it is cut, repeated, interrupted or resumed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fold.logs import logs, rules
from tests.fold.story import TOPIC, Landed, Log, fold_in_batches, restarted, same_state
from trajlake.expectations.reasons import LogGap
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.transforms.landing.fingerprint import snapshot_fingerprint
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.refold import LedgerEvent, LedgerRefusal, refold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

offsets = st.lists(st.integers(0, 80), max_size=8)
many = settings(max_examples=80, deadline=None)


def fresh(landing_rules: LandRules) -> PartitionFold:
    return PartitionFold(TOPIC, 0, landing_rules)


@many
@given(logs(), rules, offsets)
def test_rows_do_not_depend_on_where_batches_end(records: list[Record], land: LandRules, cuts: list[int]) -> None:
    whole, cut = fresh(land), fresh(land)
    at_once = Landed.of(fold_in_batches(whole, records))
    in_parts = Landed.of(fold_in_batches(cut, records, cuts))
    assert in_parts.differs(at_once) is None
    assert same_state(whole, cut)


@many
@given(logs(), rules, offsets)
def test_a_worker_that_resumes_from_a_snapshot_goes_on_as_if_it_had_never_stopped(
    records: list[Record], land: LandRules, stops: list[int]
) -> None:
    whole = fresh(land)
    at_once = Landed.of(fold_in_batches(whole, records))
    fold, landings, rest = fresh(land), [], records
    for stop in sorted(set(stops)):
        landings.append(fold.fold([r for r in rest if r.offset < stop]))
        rest = [r for r in rest if r.offset >= stop]
        fold = restarted(fold)
    landings.append(fold.fold(rest))
    assert Landed.of(landings).differs(at_once) is None
    assert same_state(whole, fold)


@many
@given(logs(), rules, offsets, st.integers(0, 80))
def test_redelivery_changes_nothing(records: list[Record], land: LandRules, cuts: list[int], back: int) -> None:
    """Each batch begins anew with up to `back` records that have been folded already."""
    fold, landings, at = fresh(land), [], 0
    for cut in (*sorted(set(cuts)), 10**6):
        end = next((i for i, record in enumerate(records) if record.offset >= cut), len(records))
        landings.append(fold.fold(records[max(0, at - back) : end]))
        at = end
    assert Landed.of(landings).differs(Landed.of(fold_in_batches(fresh(land), records))) is None


def ledger_rows(landings: list[Landing], revision: str) -> list[LedgerEvent | LedgerRefusal]:
    """What the ledger holds of landings, in offset order."""
    rows: list[LedgerEvent | LedgerRefusal] = []
    for landing in landings:
        rows += [LedgerEvent(row.offset, row.append_us, row.text, row.redactions, revision) for row in landing.events]
        rows += [
            LedgerRefusal(
                row.offset, row.append_us, row.rejected.stage, row.rejected.reason, row.rejected.tenant_id,
                row.rejected.run_id, row.rejected.sequence, revision,
            )
            for row in landing.quarantine
        ]  # fmt: skip
    return sorted(rows, key=lambda row: row.offset)


@many
@given(logs(), rules, st.integers(0, 80), st.integers(0, 80), offsets, st.booleans())
def test_a_worker_whose_snapshot_is_behind_its_tables_lands_only_what_is_missing(
    records: list[Record], land: LandRules, snapshot_at: int, landed_at: int, cuts: list[int], told_end: bool
) -> None:
    """Snapshot at one offset, tables at a later one, killed; the next owner folds the ledger from the snapshot on."""
    snapshot_at, landed_at = sorted((snapshot_at, landed_at))
    end = records[-1].offset if records else -1
    landed_at = min(landed_at, end)
    whole = fresh(land)
    first = fold_in_batches(whole, [r for r in records if r.offset <= landed_at])
    before = Landed.of(first)
    snapshot = fresh(land)
    snapshot.fold([r for r in records if r.offset < min(snapshot_at, landed_at + 1)])
    landed = first[-1].last
    fold = restarted(snapshot)
    refold(fold, [row for row in ledger_rows(first, land.revision) if row.offset >= fold.next_offset], landed)
    owner = AssignedPartition(TOPIC, 0, land, landed, fold)
    assert not owner.is_behind
    landings = []
    at = 0
    for cut in (*sorted(set(cuts)), 10**6):
        stop = next((i for i, record in enumerate(records) if record.offset >= cut), len(records))
        batch = records[at:stop]
        owner.take(batch, batch[-1].offset if told_end and batch else None)
        if owner.pending is not None:
            assert owner.pending.first == owner.landed + 1, "what waits begins right behind what has landed"
            landings.append(owner.pending)
            owner.committed()
        at = stop
    landed_rows = before.tables
    after = Landed.of(landings)
    expected = Landed.of(fold_in_batches(fresh(land), records))
    for name, table in expected.tables.items():
        split = sum(offset <= landed for offset in table.column("offset").to_pylist())
        assert table.slice(0, split).to_pylist() == landed_rows[name].to_pylist(), name
        assert table.slice(split).to_pylist() == after.tables[name].to_pylist(), name


@many
@given(logs(), rules, rules, st.integers(0, 80))
def test_the_ledgers_rows_give_the_same_state_as_the_log_whatever_the_settings_are_by_now(
    records: list[Record], then: LandRules, now: LandRules, snapshot_at: int
) -> None:
    whole, before = fresh(then), fresh(then)
    landing = whole.fold(records)
    before.fold([r for r in records if r.offset < snapshot_at])
    fold = PartitionFold(TOPIC, 0, now, before.assembler.snapshot())
    rows = [row for row in ledger_rows([landing], then.revision) if row.offset >= fold.next_offset]
    refold(fold, rows, landing.last)
    state = fold.assembler.snapshot()
    assert state.fingerprint == snapshot_fingerprint(now.revision)
    state.fingerprint = snapshot_fingerprint(then.revision)
    assert state == whole.assembler.snapshot()


def test_the_declared_loss_of_offsets_is_one_row_and_the_rest_goes_on() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("one")
    log.hole(5)
    run.responds("two")
    run.ends()
    fold = fresh(LandRules())
    first = fold.fold(log.records[:2])
    fold.declare_gap(7, LogGap.BELOW_RETENTION, "deleted before it could land")
    second = fold.fold(log.records[2:])
    assert (second.first, second.last) == (2, 8)
    landed = Landed.of([first, second])
    assert [(row["first_offset"], row["offset"], row["code"]) for row in landed.rows("gaps")] == [
        (2, 6, "below_retention")
    ]
    assert landed.one("runs")["event_count"] == 4


def test_a_log_that_ends_in_a_hole_is_passed_to_its_end() -> None:
    """A transaction marker stands behind the last record."""
    log = Log()
    run = log.run()
    run.starts()
    owner = AssignedPartition(TOPIC, 0, LandRules(), -1, fresh(LandRules()))
    assert owner.take(log.records, 3) == 4
    assert owner.next_offset == 4
    assert owner.take([], 3) == 0
    assert owner.pending is not None
    assert [(hole.first, hole.last) for hole in owner.pending.holes] == [(1, 3)]
