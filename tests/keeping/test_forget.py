"""Erasure: the subject is nowhere, everybody else is where they were, and every offset is still accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from tests.keeping.conftest import APP, Landed
from tests.keeping.people import of_tenant, run_of
from tests.landkit.checker import read
from tests.landkit.events import Sent, event, mixture, poison
from tests.landkit.killed import Killed, kill_at
from tests.landkit.stretches import TOPIC, records
from trajlake.expectations.events import ERASED_TYPE
from trajlake.reading.tables import open_lake
from trajlake.sinks.erasures import ErasureLedger
from trajlake.sinks.errors import Fenced
from trajlake.sinks.ledger import Ledger, Stretch
from trajlake.sinks.maintenance import UpkeepRules
from trajlake.sinks.snapshots import read_snapshot, write_snapshot
from trajlake.streams.keeping.forget import forget, request, resume, unfinished
from trajlake.streams.keeping.proof import prove_absence
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.streams.keeping.upkeep import finish_erasures, maintain_lake
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.transforms.assemble.state import decode_state, encode_state
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.verification.verify import verify

SUBJECT = "person-381"
LARGE = "a secret long enough to be stored by reference " * 40
SHARED = "what two runs of two people say, as it is a large text " * 40
RULES = LandRules(payload_inline_max_bytes=1024)


def log_with(subject: str = SUBJECT) -> list[Sent]:
    """A log in which a subject has a closed run, an open one, a child, a fork, a refused record, and large texts."""
    refused = event("tool.called", "p-closed", 3, {"function_name": 7}, tenant="acme")
    foreign = orjson.loads(run_of(subject, "p-refused")[0].value or b"")
    return [
        *mixture(4),
        *run_of(subject, "p-closed", text=LARGE),
        *run_of("person-9", "q-closed", text=SHARED),
        *run_of(None, "p-child", start={"parentrunid": "p-closed"}, text=SHARED),
        *run_of(None, "p-fork", start={"data": {"forked_from_id": "p-child"}}),
        *run_of(subject, "p-open", ended=False),
        refused,
        Sent(b"acme/wrong-key", orjson.dumps(foreign)),
        event("consent.changed", None, None, {"subject_id": subject, "purpose": "train", "state": "granted"}, id="c1"),
        # Somebody else of the same name, at another tenant.
        *[of_tenant(one, "other") for one in run_of(subject, "o-closed")],
        *mixture(2, name="after"),
    ]


NAMES = ("p-closed", "p-child", "p-fork", "p-open", "p-refused")
NEEDLES = [*NAMES, "a secret long enough"]


def fill(root: Path) -> Landed:
    """The log in many files, some of them compacted, with a snapshot."""
    landed = Landed(root, rules=RULES)
    sent = log_with()
    landed.land(sent[:60], per_batch=15)
    list(maintain_lake(landed.lake, UpkeepRules(least_files=2, checkpoint_every=5)))
    landed.land(sent[60:], per_batch=15)
    fold = landed.batches.fold
    write_snapshot(landed.lake, TOPIC, 0, fold.next_offset - 1, encode_state(fold.snapshot()))
    return landed


@pytest.fixture
def lake_of_people(tmp_path: Path) -> Landed:
    return fill(tmp_path / "lake")


def others(root: str) -> dict[str, list[str]]:
    """Rows of everybody else, told by their names alone."""
    found = {}
    for table in ("events", "steps", "runs", "rewards", "quarantine"):
        rows = [row for row in read(root, table) if not is_theirs(row)]
        found[table] = sorted(repr(sorted(row.items(), key=str)) for row in rows)
    return found


def is_theirs(row: dict[str, Any]) -> bool:
    if row.get("type") == ERASED_TYPE or row.get("reason_code") == "erased":
        return True
    text = f"{row.get('event')} {row.get('payload')}"
    return row["tenant_id"] == "acme" and (row["run_id"] in NAMES or SUBJECT in text)


def assert_forgotten(landed: Landed, before: dict[str, list[str]]) -> None:
    assert others(landed.root) == before
    proof = prove_absence(landed.lake, NEEDLES)
    assert proof.absent, (proof.mentions, proof.unreadable)
    # The other tenant's subject of the same name is still there, and nowhere else.
    tenants = {row["tenant_id"] for row in read(landed.root, "runs") if row["subject_id"] == SUBJECT}
    assert tenants == {"other"}
    assert not [row for row in read(landed.root, "events") if row["tenant_id"] == "acme" and SUBJECT in row["event"]]
    report = verify(open_lake(landed.root, storage_options={}), APP, deep=True)
    assert report.ok, report.problems
    assert not unfinished(landed.lake)


def test_G17_a_subject_leaves_every_table_file_snapshot_payload_and_old_version(lake_of_people: Landed) -> None:
    before = others(lake_of_people.root)
    assert prove_absence(lake_of_people.lake, NEEDLES).mention_count > 20
    done = forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT, note="case-17"))
    assert {name for _, name in done.names} == {"p-closed", "p-child", "p-fork", "p-open"}
    assert done.rows["quarantine"] == 2
    # The large text goes; the one that another person's run refers to as well stays.
    assert done.payloads == 1
    assert done.snapshots == 1
    assert_forgotten(lake_of_people, before)


def test_G17_old_versions_hold_nothing_of_the_erased(lake_of_people: Landed) -> None:
    last = lake_of_people.lake.open("events").version()
    forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT))
    readable = 0
    for version in range(last + 1):
        try:
            table = DeltaTable(lake_of_people.lake.table_uri("events"), version=version).to_pyarrow_table()
        except Exception:
            continue
        readable += 1
        assert not {"p-closed", "p-open"} & set(table.column("run_id").to_pylist())
    assert readable >= 1


STEPS = [
    "2 find", "3 fence events", "3 fence runs", "5 note", "6 rewrite events", "events: new file",
    "events: commit", "6 rewrite quarantine", "runs: commit", "7 payloads", "8 snapshots", "9 old files events",
    "9 old files runs", "10 done",
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_G17_an_erasure_killed_at_a_step_is_finished_by_the_next(lake_of_people: Landed, step: str) -> None:
    before = others(lake_of_people.root)
    entry = request(lake_of_people.lake, "acme", subject_id=SUBJECT)
    with pytest.raises(Killed):
        forget(lake_of_people.lake, entry, kill_at(step))
    assert [one.number for one in unfinished(lake_of_people.lake)] == [entry.number]
    (done,) = resume(lake_of_people.lake)
    assert done.erasure == entry.number
    assert_forgotten(lake_of_people, before)


def test_one_run_is_forgotten_with_the_runs_that_it_led_to(lake_of_people: Landed) -> None:
    done = forget(lake_of_people.lake, request(lake_of_people.lake, "acme", run_id="p-child"))
    assert {name for _, name in done.names} == {"p-child", "p-fork"}
    assert {row["run_id"] for row in read(lake_of_people.root, "runs")} >= {"p-closed", "q-closed", "o-closed"}
    assert prove_absence(lake_of_people.lake, ["p-fork"]).absent
    assert verify(open_lake(lake_of_people.root, storage_options={}), APP).ok


def test_the_erasure_ledger_names_nobody(lake_of_people: Landed) -> None:
    forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT, requested_by="dpo"))
    entries = ErasureLedger(lake_of_people.lake).entries()
    assert [entry.state for entry in entries] == ["requested", "found", "payloads", "erased"]
    assert [entry.number for entry in entries] == [1, 2, 3, 4]
    assert not [name for name in (*NAMES, SUBJECT) if name in repr(entries)]


def test_the_ledgers_fold_comes_to_the_same_state_as_one_that_never_saw_the_erased(lake_of_people: Landed) -> None:
    forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT))
    resumed = resumed_worker(lake_of_people)
    for path in Path(lake_of_people.root).glob("_state/land/**/*.zst"):
        path.unlink()
    refolded = resumed_worker(lake_of_people)
    one, other = resumed.fold.snapshot(), refolded.fold.snapshot()
    assert [run.key for run in one.open_runs] == [run.key for run in other.open_runs] == [b"acme/poison"] * 0
    assert {run.key for run in one.closed_runs} == {run.key for run in other.closed_runs}
    assert not {b"acme/p-closed", b"acme/p-open", b"acme/p-child"} & {run.key for run in one.closed_runs}


def resumed_worker(landed: Landed) -> AssignedPartition:
    ledger = Ledger(landed.lake, APP)
    ledger.open()
    owned = AssignedPartition.resume(landed.lake, ledger, TOPIC, 0, RULES)
    for _ in owned.rebuild(landed.lake):
        pass
    ledger.close()
    return owned


def test_G17_a_replay_from_offset_0_brings_nothing_back(lake_of_people: Landed, tmp_path: Path) -> None:
    forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT))
    fold = PartitionFold(TOPIC, 0, RULES, suppression=read_suppression(lake_of_people.lake))
    sent = log_with()
    landing = fold.fold(records(sent))
    tables = batches(landing, RULES.revision, RULES.payload_inline_max_bytes)
    text = repr({name: batch.to_pylist() for name, batch in tables.items() if name != "gaps"})
    assert not [name for name in NAMES if name in text]
    offsets = [row.offset for row in landing.events] + [row.offset for row in landing.quarantine]
    assert sorted(offsets) == list(range(len(sent)))
    assert not [payload for payload in landing.payloads if b"a secret long enough" in payload.content]


def test_what_comes_later_of_an_erased_subject_lands_as_empty_rows(lake_of_people: Landed) -> None:
    forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT))
    worker = resumed_worker(lake_of_people)
    late = [
        event("reward.assigned", "p-closed", None, {"name": "late", "score": 1.0, "annotator_kind": "code"}),
        event("model.responded", "p-open", 9, {"message": "still here"}),
        *run_of(SUBJECT, "p-new"),
        *run_of(None, "p-new-child", start={"parentrunid": "p-new"}),
        *run_of("person-9", "q-new"),
        event("consent.changed", None, None, {"subject_id": SUBJECT, "purpose": "train", "state": "granted"}, id="c2"),
    ]
    land_by(lake_of_people, worker, late)
    rows = read(lake_of_people.root, "events")[-len(late) :]
    assert len([row for row in read(lake_of_people.root, "events") if row["type"] == ERASED_TYPE]) > len(late) - 12
    assert prove_absence(lake_of_people.lake, [*NEEDLES, "p-new", "p-new-child", "still here"]).absent
    assert [row["run_id"] for row in read(lake_of_people.root, "runs")].count("q-new") == 1
    assert rows
    assert verify(open_lake(lake_of_people.root, storage_options={}), APP).ok


def land_by(landed: Landed, worker: AssignedPartition, sent: Iterable[Sent]) -> None:
    ledger = Ledger(landed.lake, APP)
    ledger.open()
    ledger.landed(TOPIC, 0)
    worker.take(records(list(sent), worker.next_offset))
    stretch = worker.stretch()
    assert stretch is not None
    ledger.commit([stretch])
    worker.committed()
    ledger.close()


def test_a_start_that_comes_behind_its_run_erases_it_and_the_next_round_takes_what_had_landed(landed: Landed) -> None:
    landed.land(run_of("person-9", "q-closed"))
    forget(landed.lake, request(landed.lake, "acme", subject_id=SUBJECT))
    worker = resumed_worker(landed)
    sent = run_of(SUBJECT, "p-late-start")
    land_by(landed, worker, sent[1:3])
    land_by(landed, worker, [*sent[3:4], sent[0], *sent[4:]])
    assert not worker.fold.assembler.open
    assert {row["run_id"] for row in read(landed.root, "runs")} == {"q-closed"}
    assert not prove_absence(landed.lake, ["p-late-start"]).absent
    # The next round of upkeep knows the run by the tombstone of its start.
    (done,) = finish_erasures(landed.lake)
    assert done.runs == 1
    proof = prove_absence(landed.lake, ["p-late-start"])
    assert proof.absent, proof.mentions
    assert verify(open_lake(landed.root, storage_options={}), APP).ok


def test_a_batch_that_an_erasure_came_upon_is_refused_and_leaves_nothing(lake_of_people: Landed) -> None:
    entry = request(lake_of_people.lake, "acme", subject_id=SUBJECT)

    def erase(step: str) -> None:
        # All side tables hold the batch by now, and `events` does not.
        if step == "4 events" and unfinished(lake_of_people.lake):
            forget(lake_of_people.lake, entry)

    more = [*run_of(SUBJECT, "p-between"), *[poison(1)], *mixture(2, name="between")]
    doubled = [*more, more[1], more[-1]]
    before = others(lake_of_people.root)
    stretch: Stretch = lake_of_people.batches.take(doubled)
    lake_of_people.ledger._on_step = erase
    with pytest.raises(Fenced, match="erasure"):
        lake_of_people.ledger.commit([stretch])
    worker = resumed_worker(lake_of_people)
    land_by(lake_of_people, worker, doubled)
    assert prove_absence(lake_of_people.lake, [*NEEDLES, "p-between"]).absent
    report = verify(open_lake(lake_of_people.root, storage_options={}), APP)
    assert report.ok, report.problems
    assert len(others(lake_of_people.root)["runs"]) == len(before["runs"]) + 2


def test_a_snapshot_written_before_an_erasure_is_read_without_the_erased(lake_of_people: Landed) -> None:
    fold = lake_of_people.batches.fold
    offset = fold.next_offset - 1
    old = encode_state(fold.snapshot())
    forget(lake_of_people.lake, request(lake_of_people.lake, "acme", subject_id=SUBJECT))
    write_snapshot(lake_of_people.lake, TOPIC, 0, offset, old)
    state = read_snapshot(lake_of_people.lake, TOPIC, 0, offset, decode_state)
    assert state is not None
    assert any(run.key == b"acme/p-open" for run in state.open_runs)
    resumed = PartitionFold(TOPIC, 0, RULES, state, read_suppression(lake_of_people.lake))
    assert b"acme/p-open" not in resumed.assembler.open
    assert b"acme/p-closed" not in resumed.assembler.closed


def test_the_command_erases_proves_and_says_so(lake_of_people: Landed, run_command: Any) -> None:
    done = run_command(
        "forget", "--tenant", "acme", "--run", "p-child", "--needle", "p-fork", "--json", "--root", lake_of_people.root
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["proof"]["absent"] is True
    assert said["erasures"][0]["runs"] == 2
    assert "p-child" not in done.stdout
    assert [entry.state for entry in ErasureLedger(lake_of_people.lake).entries()][-1] == "proved"
    again = run_command(
        "forget", "--tenant", "acme", "--run", "p-child", "--needle", "q-closed", "--root", lake_of_people.root
    )
    assert again.exit_code == 1
    assert "not proved" in again.stdout


def test_the_command_wants_somebody_to_forget(run_command: Any, tmp_path: Path) -> None:
    done = run_command("forget", "--root", str(tmp_path))
    assert done.exit_code == 2
    assert "--tenant" in done.stderr
