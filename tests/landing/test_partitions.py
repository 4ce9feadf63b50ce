"""One assigned partition: what is folded again, what waits for the commit, and what the log's ends and holes mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.landing.conftest import APP
from tests.landkit.events import event, mixture, run_events
from tests.landkit.stretches import TOPIC, Batches, records
from trajlake.expectations.reasons import LogGap
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.sinks.snapshots import write_snapshot
from trajlake.streams.errors import LogTooShort, OffsetBelowRetention
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.transforms.assemble.state import encode_state
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record
from trajlake.transforms.redact.denylist import DenyList

LOG = records(mixture(14))[:120]


THEN = LandRules(payload_inline_max_bytes=1_200, state_max_bytes=24_000, closed_runs_kept=2)
CHANGED: dict[str, dict[str, Any]] = {
    "deny": {"deny": DenyList(["hidden"])},
    "inline": {"payload_inline_max_bytes": 500},
    "event": {"event_inline_max_bytes": 1_500},
    "less memory": {"state_max_bytes": 8_000},
    "more memory": {"state_max_bytes": 1 << 20},
    "fewer closed": {"closed_runs_kept": 1},
    "more closed": {"closed_runs_kept": 10},
}


def telling() -> list[Record]:
    """A log of which every setting decides something."""
    parts = ["L" * 600] * 3
    last = [
        event("run.started", "answers", 1, {"input": {"hidden": "s"}}),
        event("model.responded", "answers", 2, {"message": "m"}),
        event("tool.returned", "answers", 3, {"tool_call_id": "c", "content": parts}),
    ]
    first = [sent for number in range(4) for sent in run_events(f"closed-{number}", 1)]
    between = range(60 - len(first) - len(last))
    opened = [event("run.started", f"open-{number}", 1, {"input": "i" * 400}) for number in between]
    return records([*first, *opened, *last])


TELLING = telling()


def assigned(landed: int) -> AssignedPartition:
    """A partition whose state is at its landed offset, the last one of the log that has landed."""
    rules = LandRules()
    fold = PartitionFold(TOPIC, 0, rules)
    fold.fold(LOG[: landed + 1], landed if landed >= 0 else None)
    return AssignedPartition(TOPIC, 0, rules, landed, fold)


def land(
    lake: Lake, log: list[Record], rules: LandRules | None = None, snapshot_at: int | None = None
) -> PartitionFold:
    """Land a log; its fold."""
    batches = Batches(rules=rules)
    ledger = Ledger(lake, APP)
    ledger.open()
    ledger.landed(TOPIC, 0)
    for part in (log,) if snapshot_at is None else (log[: snapshot_at + 1], log[snapshot_at + 1 :]):
        if part:
            ledger.commit([batches.stretch(batches.fold.fold(part))])
        if batches.fold.next_offset - 1 == snapshot_at:
            write_snapshot(lake, TOPIC, 0, snapshot_at, encode_state(batches.fold.assembler.snapshot()))
    ledger.close()
    return batches.fold


def runs_of(fold: PartitionFold) -> Any:
    """Open and closed runs as plain values, each in its order."""
    state = fold.assembler.snapshot()
    return msgspec.to_builtins((state.offset, state.open_runs, state.closed_runs), str_keys=True)


def test_what_has_landed_comes_from_the_ledger_and_does_not_wait_again(lake: Lake) -> None:
    whole = land(lake, LOG[:60])
    owned = AssignedPartition(TOPIC, 0, LandRules(), 59, PartitionFold(TOPIC, 0, LandRules()))
    behind = [owned.is_behind]
    assert sum(owned.rebuild(lake)) == owned.progress.replayed == 60
    behind.append(owned.is_behind)
    assert behind == [True, False]
    assert owned.fold.assembler.snapshot() == whole.assembler.snapshot()
    assert owned.take(LOG[:80]) == 20
    assert owned.pending is not None
    assert (owned.pending.first, owned.pending.last) == (60, 79)
    assert min(row.offset for row in owned.pending.events) >= 60
    owned.committed()
    assert owned.stretch() is None
    assert (owned.landed, owned.pending_bytes) == (79, 0)


def test_an_end_that_lies_below_what_was_folded_means_nothing() -> None:
    owned = assigned(-1)
    assert owned.take(LOG[:10], 4) == 10
    assert owned.pending is not None
    assert not owned.pending.holes


def test_records_that_come_again_are_dropped() -> None:
    owned = assigned(-1)
    assert owned.take(LOG[:10]) == 10
    assert owned.take(LOG[5:12]) == 2
    assert owned.pending is not None
    assert [row.offset for row in owned.pending.events + owned.pending.quarantine].count(7) == 1


@pytest.mark.parametrize("setting", [*CHANGED, "none"])
@pytest.mark.parametrize("snapshot_at", [None, 20, 59])
def test_L10_a_setting_that_changed_after_a_crash_leaves_what_had_landed_as_it_was_judged(
    lake: Lake, setting: str, snapshot_at: int | None
) -> None:
    whole = PartitionFold(TOPIC, 0, THEN)
    land(lake, TELLING, THEN, snapshot_at)
    whole.fold(TELLING)
    now = replace(THEN, **CHANGED.get(setting, {}))
    ledger = Ledger(lake, APP)
    ledger.open()
    owned = AssignedPartition.resume(lake, ledger, TOPIC, 0, now)
    # A snapshot of other rules is not used.
    used = snapshot_at if setting == "none" else None
    assert owned.next_offset == (0 if used is None else used + 1)
    assert owned.is_behind == (used != 59)
    for _ in owned.rebuild(lake):
        pass
    ledger.close()
    assert runs_of(owned.fold) == runs_of(whole)


def test_L10_the_changed_settings_do_change_how_the_log_is_judged() -> None:
    """Else the property above would hold for nothing."""
    for setting, change in CHANGED.items():
        then, now = PartitionFold(TOPIC, 0, THEN), PartitionFold(TOPIC, 0, replace(THEN, **change))
        then.fold(TELLING)
        now.fold(TELLING)
        assert runs_of(then) != runs_of(now), setting


def test_a_stretch_is_built_once_for_each_content() -> None:
    owned = assigned(-1)
    owned.take(LOG[:10])
    first = owned.stretch()
    assert owned.stretch() is first
    owned.take(LOG[10:20])
    second = owned.stretch()
    assert second is not None
    assert second is not first
    assert (second.first, second.last) == (0, 19)


def test_L9_a_loss_is_declared_or_stops_and_what_was_never_ours_is_only_noted() -> None:
    lost = assigned(9)
    with pytest.raises(OffsetBelowRetention, match=r"offsets 10\.\.29 were deleted"):
        lost.meet_log_start(30, declare=False)
    lost.meet_log_start(30, declare=True)
    assert lost.take([]) == 20
    assert lost.pending is not None
    assert [(h.first, h.last, h.code) for h in lost.pending.holes] == [(10, 29, LogGap.BELOW_RETENTION)]
    new = assigned(-1)
    new.meet_log_start(30, declare=False)
    assert new.take(LOG[30:32]) == 32
    assert new.pending is not None
    assert [(h.first, h.last, h.code) for h in new.pending.holes] == [(0, 29, LogGap.HOLE)]
    fits = assigned(9)
    fits.meet_log_start(0, declare=False)


def test_a_log_that_ends_below_what_has_landed_is_refused() -> None:
    assigned(9).check_log_end(10)
    assigned(-1).check_log_end(0)
    with pytest.raises(LogTooShort, match="offset 9 has landed, but the log ends at 9"):
        assigned(9).check_log_end(9)


def test_a_snapshot_is_due_only_where_more_has_landed_than_the_newest_holds() -> None:
    owned = assigned(-1)
    assert not owned.awaits_snapshot(1.0)
    owned.take(LOG[:10])
    assert not owned.awaits_snapshot(1.0)
    owned.committed()
    assert owned.awaits_snapshot(1.0)
    owned.snapshot_due = 2.0
    assert not owned.awaits_snapshot(1.0)
    assert owned.awaits_snapshot(2.0)
    owned.snapshot_offset = owned.landed
    assert not owned.awaits_snapshot(2.0)
    owned.take(LOG[10:12])
    owned.committed()
    assert owned.awaits_snapshot(2.0)


@settings(max_examples=60, deadline=None)
@given(
    landed=st.integers(-1, 119),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    missing=st.sets(st.integers(0, 119), max_size=12),
    ends=st.sets(st.integers(0, 119), max_size=4),
)
def test_any_deliveries_give_the_same_rows_as_one(
    landed: int, cuts: list[int], missing: set[int], ends: set[int]
) -> None:
    log = [record for record in LOG if record.offset not in missing]
    whole = assigned(-1)
    whole.take(log, 119)
    fold = PartitionFold(TOPIC, 0, LandRules())
    fold.fold([record for record in log if record.offset <= landed], landed if landed >= 0 else None)
    owned = AssignedPartition(TOPIC, 0, LandRules(), landed, fold)
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 120], strict=True):
        part: list[Record] = [record for record in log if first <= record.offset < last]
        owned.take(part, last - 1 if last - 1 in ends else None)
    owned.take([], 119)
    assert owned.next_offset == 120
    assert whole.pending is not None
    for name in ("events", "quarantine"):
        expected = [row.offset for row in getattr(whole.pending, name) if row.offset > landed]
        got = [] if owned.pending is None else [row.offset for row in getattr(owned.pending, name)]
        assert got == expected
    holes = [] if owned.pending is None else owned.pending.holes
    accounted = {offset for hole in holes for offset in range(hole.first, hole.last + 1)}
    assert accounted == {offset for offset in missing if offset > landed}
    state = owned.fold.assembler.snapshot()
    assert state == whole.fold.assembler.snapshot()
