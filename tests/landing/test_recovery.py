"""State from the ledger equals state from the log, whatever the log held and wherever the snapshot stands."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.landing.conftest import APP
from tests.landkit.events import Sent, event, mixture, poison, run_events
from tests.landkit.stretches import TOPIC, Batches
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.streams.land.recovery import refold_ledger
from trajlake.transforms.assemble.state import decode_state, encode_state
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules


def land(lake: Lake, batches: Batches, parts: list[list[Sent]]) -> None:
    """Land the next records of the log, a commit for each part."""
    ledger = Ledger(lake, APP)
    ledger.open()
    ledger.landed(TOPIC, 0)
    for part in parts:
        ledger.commit([batches.take(part)])
    ledger.close()


def state_of(fold: PartitionFold) -> Any:
    """The state as plain values: what a snapshot would hold."""
    return msgspec.to_builtins(fold.assembler.snapshot(), str_keys=True)


def rebuilt(lake: Lake, rules: LandRules, snapshot: bytes | None, last: int, **options: Any) -> PartitionFold:
    """A fold brought to `last` from a snapshot (or from nothing) and the ledger."""
    fold = PartitionFold(TOPIC, 0, rules, None if snapshot is None else decode_state(snapshot))
    for _ in refold_ledger(lake, fold, last, **options):
        pass
    return fold


NEVER = 1 << 50


def tick(idle: int = NEVER, held: int = NEVER) -> Sent:
    limits = {"close_idle_after_us": idle, "release_held_after_us": held, "forget_closed_after_us": NEVER}
    body = {
        "specversion": "1.0", "id": "tick-1", "source": "trajlake/land", "type": "trajlake.tick",
        "time": "2026-03-01T10:00:00.000000Z", "data": limits,
    }  # fmt: skip
    return Sent(b"trajlake/tick", orjson.dumps(body))


def eventful() -> list[Sent]:
    """A log with all that changes state: order, gaps, doubles, conflicts, late parts, ticks, cuts, references."""
    early = run_events("early", ended=False)
    early[2], early[3] = early[3], early[2]
    lost = run_events("lost", 2)
    del lost[3]
    twice = run_events("twice", 1)
    twice.insert(2, twice[1])
    secret = event("tool.returned", "secret", 3, {"tool_call_id": "c", "content": {"password": "xyzzy"}})
    conflict = event("model.responded", "twice", 2, {"message": "another"}, id="other-id")
    in_wrong_partition = event("run.started", "elsewhere", 1)._replace(key=b"acme/other")
    refused_in_turn = event("model.responded", "early", 9, time="yesterday")
    refused_of_another = event("model.responded", "early", 10, time="yesterday")._replace(key=b"acme/x")
    large = event("tool.returned", "large", 2, {"tool_call_id": "c", "content": "L" * 5_000}, time="2026-03-01T10:00")
    return [
        *early,
        event("run.started", "secret", 1, {"input": {"api_key": "k1"}}),
        secret,
        secret,
        event("run.started", "large", 1),
        large,
        *lost,
        *twice,
        conflict,
        poison(0),
        in_wrong_partition,
        refused_in_turn,
        refused_of_another,
        event("run.started", "naive", 1, time="2026-03-01T10:00:00"),
        event("run.started", "epoch", 1, time=1_700_000_000_123),
        event("something.else", "naive", 2),
        event("something.else", None, None, tenant="acme")._replace(key=b"acme/"),
        tick(34_000, 22_000),
        event("reward.assigned", "twice", None, {"name": "r", "annotator_kind": "human", "score": 0.1}),
        event("reward.assigned", "twice", None, {"name": "r", "annotator_kind": "human", "score": 0.1}),
        event("model.responded", "twice", 7, {"message": "goes on"}),
        *run_events("last", ended=False),
        tick(held=0),
    ]


RULES = LandRules(payload_inline_max_bytes=2_048)


@pytest.mark.parametrize("snapshot_at", [None, 0, 9, 17, 30, 44])
def test_L9_state_from_the_ledger_equals_state_from_the_log(lake: Lake, snapshot_at: int | None) -> None:
    log = eventful()
    batches = Batches(rules=RULES)
    snapshot = None
    if snapshot_at is not None:
        land(lake, batches, [log[: snapshot_at + 1]])
        snapshot = encode_state(batches.fold.assembler.snapshot())
    land(lake, batches, [log[batches.fold.next_offset :]])
    last = len(log) - 1
    assert state_of(rebuilt(lake, RULES, snapshot, last)) == state_of(batches.fold)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    order=st.permutations(range(len(eventful()))),
    window_bytes=st.sampled_from([1, 2_000, 1 << 20]),
)
def test_L9_any_order_of_the_log_any_batches_and_any_window_give_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], order: list[int], window_bytes: int
) -> None:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    log = [eventful()[place] for place in order]
    batches = Batches(rules=RULES)
    parts = []
    rest = log
    for cut in cuts:
        parts.append(rest[:cut])
        rest = rest[cut:]
    land(lake, batches, [part for part in [*parts, rest] if part])
    assert state_of(rebuilt(lake, RULES, None, len(log) - 1, window_bytes=window_bytes)) == state_of(batches.fold)


def test_L9_a_table_that_was_compacted_gives_the_same_state(lake: Lake) -> None:
    log = mixture(30)
    batches = Batches()
    land(lake, batches, [log[at : at + 37] for at in range(0, len(log), 37)])
    for name in ("events", "quarantine"):
        lake.open(name).optimize.z_order(["tenant_id", "run_id"] if name == "events" else ["reason_code"])
    assert state_of(rebuilt(lake, batches.rules, None, len(log) - 1)) == state_of(batches.fold)


def test_L9_what_follows_the_rebuild_folds_to_the_same_rows(lake: Lake) -> None:
    log = mixture(12)
    whole = Batches()
    whole.take(log[:60])
    expected = whole.take(log[60:])
    batches = Batches()
    land(lake, batches, [log[:25], log[25:60]])
    continued = Batches()
    continued.fold = rebuilt(lake, batches.rules, None, 59)
    got = continued.take(log[60:])
    assert got.batches.keys() == expected.batches.keys()
    for name, rows in expected.batches.items():
        assert got.batches[name].equals(rows), name


def test_L9_only_rows_of_the_own_partition_up_to_the_landed_offset_are_folded(lake: Lake) -> None:
    ledger = Ledger(lake, APP)
    ledger.open()
    folds = [Batches(partition=partition) for partition in range(2)]
    for partition in range(2):
        ledger.landed(TOPIC, partition)
    ledger.commit([fold.take(run_events(f"p{number}", ended=False)) for number, fold in enumerate(folds)])
    expected = state_of(folds[1].fold)
    ledger.commit([folds[1].take(run_events("later"))])
    ledger.close()
    fold = PartitionFold(TOPIC, 1, LandRules())
    for _ in refold_ledger(lake, fold, 7):
        pass
    assert state_of(fold) == expected


def test_L9_windows_keep_to_their_bytes(lake: Lake) -> None:
    log = [event("model.responded", "wide", n + 1, {"message": "w" * 20_000}) for n in range(200)]
    batches = Batches()
    land(lake, batches, [log[:100], log[100:]])
    fold = PartitionFold(TOPIC, 0, batches.rules)
    pieces = list(refold_ledger(lake, fold, 199, window_bytes=1 << 20))
    assert sum(pieces) == 200
    assert max(pieces) * 20_000 <= 1 << 20
    assert state_of(fold) == state_of(batches.fold)
