"""Snapshots save time and are never trusted further than that."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.landkit.events import mixture
from tests.landkit.faults import FaultyStore
from tests.landkit.stretches import TOPIC, Batches
from trajlake.expectations.suites.suite import load_suites
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.sinks.snapshots import KEPT, read_snapshot, write_snapshot
from trajlake.transforms.assemble.state import PartitionState, decode_state, encode_state
from trajlake.transforms.gate.rowgate import compile_gate
from trajlake.transforms.landing import fingerprint as fingerprint_module
from trajlake.transforms.landing.fingerprint import schema_hash, snapshot_fingerprint
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.policy.gate import Governance
from trajlake.transforms.policy.place import WritePlace
from trajlake.transforms.redact.denylist import DenyList
from trajlake.transforms.redact.redactor import Redactor
from trajlake.transforms.redact.rules import DEFAULT_RULES

CHANGES: dict[str, Any] = {
    "deny": DenyList(["other"]), "redactor": Redactor(DEFAULT_RULES[:1]), "payload_inline_max_bytes": 1,
    "event_inline_max_bytes": 2, "closed_runs_kept": 3, "state_max_bytes": 4,
    "governance": Governance(place=WritePlace(zone="eu")), "row_rules": compile_gate(load_suites()),
}  # fmt: skip


def snapshot_at(lake: Lake, offset: int) -> bytes:
    """A real snapshot after `offset`, stored."""
    batches = Batches()
    batches.take(mixture(20)[: offset + 1])
    content = encode_state(batches.fold.assembler.snapshot())
    write_snapshot(lake, TOPIC, 0, offset, content)
    return content


def files(lake: Lake) -> list[Path]:
    return sorted((Path(lake.uri) / lake.snapshot_folder(TOPIC, 0)).iterdir())


def resumed(lake: Lake, at_most: int) -> PartitionState | None:
    return read_snapshot(lake, TOPIC, 0, at_most, decode_state)


def test_the_newest_at_or_below_the_landed_offset_is_taken(lake: Lake) -> None:
    for offset in (10, 20, 30):
        snapshot_at(lake, offset)
    found = [resumed(lake, at_most) for at_most in (9, 10, 29, 30, 99)]
    assert [state and state.offset for state in found] == [None, 10, 20, 30, 30]


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 500])
def test_a_broken_one_is_passed_over_for_an_older_one(lake: Lake, damage: bytes) -> None:
    snapshot_at(lake, 10)
    snapshot_at(lake, 20)
    files(lake)[1].write_bytes(damage)
    assert (state := resumed(lake, 99)) is not None
    assert state.offset == 10


def test_one_that_lost_its_tail_or_a_bit_is_passed_over(lake: Lake) -> None:
    snapshot_at(lake, 10)
    for place in (-1, -9):
        snapshot_at(lake, 20)
        path = files(lake)[1]
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] if place == -1 else whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        assert (state := resumed(lake, 99)) is not None
        assert state.offset == 10


def test_one_of_another_format_is_passed_over(lake: Lake) -> None:
    write_snapshot(lake, TOPIC, 0, 10, encode_state(PartitionState(999, TOPIC, 0, 10, [], [])))
    write_snapshot(lake, TOPIC, 0, 20, b"\xc1 no MessagePack")
    assert resumed(lake, 99) is None


def test_one_made_under_another_fingerprint_is_passed_over(lake: Lake) -> None:
    snapshot_at(lake, 10)
    own = snapshot_fingerprint(LandRules().revision)
    for fingerprint, found in ((own, 10), (snapshot_fingerprint(LandRules(closed_runs_kept=7).revision), None)):
        state = read_snapshot(lake, TOPIC, 0, 99, partial(decode_state, fingerprint=fingerprint))
        assert (state and state.offset) == found


def test_the_fingerprint_changes_with_all_that_a_snapshot_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {each.name for each in fields(LandRules)} == CHANGES.keys(), "every rule is in the list below"
    found = [snapshot_fingerprint(LandRules(**{name: value}).revision) for name, value in CHANGES.items()]
    found.append(snapshot_fingerprint(LandRules().revision))
    monkeypatch.setattr(fingerprint_module, "SNAPSHOT_FORMAT", 999)
    found.append(snapshot_fingerprint(LandRules().revision))
    monkeypatch.setattr(fingerprint_module, "CLASSIFIER_REVISION", "other")
    found.append(snapshot_fingerprint(LandRules().revision))
    monkeypatch.setattr(fingerprint_module, "schema_hash", lambda root: "other")
    found.append(snapshot_fingerprint(LandRules().revision))
    assert len(set(found)) == len(found)


def test_the_schema_hash_sees_fields_defaults_types_and_nested_structs() -> None:
    def nested(**inner: Any) -> str:
        held = msgspec.defstruct("Held", [(name, *of) for name, of in inner.items()])
        return schema_hash(msgspec.defstruct("State", [("first", int), ("held", list[held])]))  # type: ignore[valid-type]

    variants = [
        nested(a=(int,)), nested(b=(int,)), nested(a=(str,)), nested(a=(int, 1)), nested(a=(int, 2)),
        nested(a=(int,), b=(int,)), nested(b=(int,), a=(int,)), nested(a=(int | None,)),
    ]  # fmt: skip
    assert len(set(variants)) == len(variants)
    assert nested(a=(int | str,)) == nested(a=(str | int,))
    assert nested(a=(int,)) == variants[0]


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    code = (
        "from trajlake.transforms.landing.fingerprint import snapshot_fingerprint as f\n"
        "from trajlake.transforms.landing.rules import LandRules\n"
        "print(f(LandRules().revision))"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == snapshot_fingerprint(LandRules().revision)


def test_only_the_newest_few_are_kept_and_those_of_another_flow_are_left_alone(lake: Lake) -> None:
    for offset in (50, 51, 52):
        snapshot_at(lake, offset)
    # A new application id lands the topic again from its start: its snapshots stand below the others'.
    for offset in range(10, 16):
        snapshot_at(lake, offset)
    kept = [int(path.name[:20]) for path in files(lake)]
    assert kept == [*range(16 - KEPT, 16), 50, 51, 52]
    assert (state := resumed(lake, 40)) is not None
    assert state.offset == 15


def test_a_store_that_refuses_is_reported_and_leaves_the_older_ones(lake: Lake, store_faults: FaultyStore) -> None:
    snapshot_at(lake, 10)

    def full(path: str) -> None:
        raise OSError(28, "No space left on device")

    store_faults.before = full
    with pytest.raises(SinkUnavailable, match="snapshot of"):
        snapshot_at(lake, 20)
    assert (state := resumed(lake, 99)) is not None
    assert state.offset == 10
