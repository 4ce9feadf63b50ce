"""Quarantine for operators: what is listed, shown, sealed, released, judged again, and purged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.conftest import MakeTopic
from tests.curate.lab import never
from tests.keeping.conftest import APP, Landed, RunCommand
from tests.keeping.people import run_of
from tests.landkit.checker import read
from tests.landkit.events import Sent, event, poison, run_events
from tests.landkit.kafka import produce
from tests.landkit.killed import Killed, kill_at
from tests.landkit.running import land_all, plan, settings
from tests.landkit.stretches import TOPIC, records
from trajlake.expectations.policies import default_policies, policy_set, read_policies
from trajlake.reading.tables import open_lake
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.sinks.sealing import Opener, Sealer, SealError
from trajlake.streams.keeping.forget import forget, request
from trajlake.streams.keeping.proof import prove_absence
from trajlake.streams.keeping.quarantine import Place, Wanted, acts, listed, purge, seal_of, whole_rows
from trajlake.streams.keeping.release import release
from trajlake.streams.keeping.seals import sealer_for, unseal
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.settings import SettingError, load_settings
from trajlake.transforms.gate.rowgate import compile_gate
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.policy.gate import Governance
from trajlake.verification.verify import verify

WRONG_KEY = "acme/another-run"


class Keys:
    """A pair of keys made for the test."""

    def __init__(self) -> None:
        key = X25519PrivateKey.generate()
        self.private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


@pytest.fixture
def keys() -> Keys:
    return Keys()


def misdirected(run: str) -> list[Sent]:
    """A run whose second event came under the key of another run."""
    sent = run_events(run)
    return [sent[0], Sent(WRONG_KEY.encode(), sent[1].value), *sent[2:]]


def test_listed_rows_are_filtered_and_say_what_became_of_them(filled: Landed) -> None:
    rows = listed(filled.lake, Wanted())
    assert len(rows) == len(read(filled.root, "quarantine"))
    assert {row["state"] for row in rows} == {"held"}
    assert [row["append_time"] for row in rows] == sorted((row["append_time"] for row in rows), reverse=True)
    assert "payload" not in rows[0]
    reason = rows[0]["reason_code"]
    one = listed(filled.lake, Wanted(reason=reason), limit=1)
    assert [row["reason_code"] for row in one] == [reason]
    since = rows[3]["append_time"]
    assert len(listed(filled.lake, Wanted(since=since))) + len(listed(filled.lake, Wanted(until=since))) == len(rows)
    place = Place(rows[2]["topic"], rows[2]["partition"], rows[2]["offset"])
    assert [row["offset"] for row in listed(filled.lake, Wanted(places=frozenset((place,))))] == [place.offset]
    assert not listed(filled.lake, Wanted(tenant="nobody"))


def test_a_seal_opens_with_the_operators_key_for_its_own_place_alone(keys: Keys) -> None:
    sealed = Sealer(keys.public).seal(b"content", "t/0/1")
    assert b"content" not in sealed.encode()
    assert sealed != Sealer(keys.public).seal(b"content", "t/0/1")
    assert Opener(keys.private).open(sealed, "t/0/1") == b"content"
    with pytest.raises(SealError, match="of another row"):
        Opener(keys.private).open(sealed, "t/0/2")
    with pytest.raises(SealError, match="the given one is"):
        Opener(Keys().private).open(sealed, "t/0/1")
    with pytest.raises(SealError, match="no public key"):
        Sealer(keys.private)


@pytest.mark.parametrize("inline_max_bytes", [1024, 1 << 18])
def test_originals_are_sealed_where_operators_want_them_and_nothing_else_shows_them(
    landed: Landed, keys: Keys, inline_max_bytes: int
) -> None:
    rules = LandRules(payload_inline_max_bytes=inline_max_bytes)
    owned = AssignedPartition(TOPIC, 0, rules, -1, PartitionFold(TOPIC, 0, rules))
    owned.sealer = Sealer(keys.public)
    secret = "hunter" + "2" * 3
    refused = event("tool.called", "r", 2, {"function_name": 7, "password": secret, "note": "x" * 2000})
    owned.take(records([run_events("r")[0], refused, poison(0)]))
    stretch = owned.stretch()
    assert stretch is not None
    ledger = Ledger(landed.lake, APP)
    ledger.open()
    ledger.landed(TOPIC, 0)
    ledger.commit([stretch])
    ledger.close()
    assert prove_absence(landed.lake, [secret]).absent
    place = Place(TOPIC, 0, 1)
    row = whole_rows(landed.lake, [place])[place]
    assert (row["sealed_ref"] is not None) == (inline_max_bytes == 1024)
    sealed = seal_of(landed.lake, row)
    assert sealed is not None
    original = unseal(Opener(keys.private), sealed, str(place))
    assert (original.key, original.value) == (refused.key, refused.value)


NO_SEALS = "version: 1\npolicies:\n  - {id: none, tenant: acme, seal_refused: false}\n"


def test_originals_are_sealed_where_policy_wants_them_kept_whatever_refused_them(keys: Keys) -> None:
    """Row rules, redaction and the gate refuse alike; of a duplicate, and of a tenant that wants none, nothing is."""
    suite = never("looking", "events", "event")
    sent = run_events("r", start=True)
    looking = event("model.responded", "r", 2, {"message": "looking"})
    other = event("model.responded", "r", 2, {"message": "looking"}, tenant="other")
    log = [sent[0], sent[0], looking, other, poison(0)]
    for policy, sealed_offsets in ((None, {2, 3, 4}), (NO_SEALS, {3, 4})):
        policies = default_policies() if policy is None else policy_set([read_policies("p.yaml", policy)])
        rules = LandRules(row_rules=compile_gate({"events": suite}), governance=Governance(policies))
        owned = AssignedPartition(TOPIC, 0, rules, -1, PartitionFold(TOPIC, 0, rules))
        owned.sealer = Sealer(keys.public)
        owned.take(records(log))
        stretch = owned.stretch()
        assert stretch is not None
        rows = {row["offset"]: row for row in stretch.batches["quarantine"].to_pylist()}
        assert {offset: row["reason_code"] for offset, row in rows.items()} == {
            1: "duplicate", 2: "row_rule", 3: "row_rule", 4: "malformed_json",
        }  # fmt: skip
        assert {offset for offset, row in rows.items() if row["sealed"] is not None} == sealed_offsets
        original = unseal(Opener(keys.private), rows[3]["sealed"], f"{TOPIC}/0/3")
        assert (original.key, original.value) == (other.key, other.value)


def test_a_policy_that_wants_originals_kept_wants_a_key() -> None:
    wants = policy_set([read_policies("p.yaml", NO_SEALS.replace("false", "true"))])
    with pytest.raises(SettingError, match=r"policy none says seal_refused: true"):
        sealer_for(load_settings(), wants)
    assert sealer_for(load_settings(), default_policies()) is None


STEPS = ["1 acts", "2 content", "3 rows", "quarantine: new file", "quarantine: commit", "4 old files"]


@pytest.mark.parametrize("step", [None, *STEPS])
def test_purged_rows_keep_place_and_verdict_and_a_killed_purge_goes_on(filled: Landed, step: str | None) -> None:
    before = {row["offset"]: (row["reason_code"], row["rule_revision"]) for row in read(filled.root, "quarantine")}
    wanted = Wanted(reason="malformed_json")
    due = len(listed(filled.lake, wanted))
    assert due
    if step is not None:
        with pytest.raises(Killed):
            purge(filled.lake, wanted, on_step=kill_at(step))
    changed = purge(filled.lake, wanted, by="ops", note="old")
    assert step is not None or changed == due
    rows = read(filled.root, "quarantine")
    assert {row["offset"]: (row["reason_code"], row["rule_revision"]) for row in rows} == before
    assert not [row for row in rows if row["reason_code"] == "malformed_json" and row["payload"] is not None]
    assert {row["state"] for row in listed(filled.lake, wanted)} == {"purged"}
    assert len(acts(filled.lake)) == due
    assert verify(open_lake(filled.root, storage_options={}), APP).ok


def test_the_commands_list_show_and_purge(filled: Landed, run_command: RunCommand) -> None:
    said = run_command("quarantine", "list", "--reason", "malformed_json", "--json", "--root", filled.root)
    rows = json.loads(said.stdout)
    assert said.exit_code == 0
    assert rows
    place = f"{rows[0]['topic']}/{rows[0]['partition']}/{rows[0]['offset']}"
    shown = json.loads(run_command("quarantine", "show", place, "--json", "--root", filled.root).stdout)
    assert shown["content"].startswith("{")
    assert shown["state"] == "held"
    without = run_command("quarantine", "purge", "--root", filled.root)
    assert (without.exit_code, "--reason" in without.stderr) == (2, True)
    asked = run_command("quarantine", "purge", place, "--root", filled.root)
    assert "--yes" in asked.stdout
    assert run_command("quarantine", "purge", place, "--yes", "--root", filled.root).stdout.startswith("1 purged")
    assert "nothing is kept" in run_command("quarantine", "show", place, "--root", filled.root).stdout
    assert run_command("quarantine", "show", "nowhere/0/1", "--root", filled.root).exit_code == 1
    unsealed = run_command("quarantine", "show", place, "--unseal", "--root", filled.root)
    assert (unsealed.exit_code, "no sealed original" in unsealed.stderr) == (1, True)
    released = run_command("quarantine", "release", place, "--original", "--root", filled.root)
    assert (released.exit_code, "--key-file" in released.stderr) == (2, True)


@pytest.mark.integration
def test_G18_a_released_record_is_judged_again_and_both_verdicts_stay(
    broker: str, make_topic: MakeTopic, tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    produce(broker, topic, [*misdirected("r"), poison(0)])
    land_all(broker, topic, tmp_path)
    lake, options = Lake(str(tmp_path)), settings(broker, topic, tmp_path)
    first = {row["reason_code"]: row for row in listed(lake, Wanted())}
    assert {"key_mismatch", "malformed_json"} <= set(first)
    for name, value in plan(broker, topic, tmp_path).items():
        if name in ("bootstrap_servers", "events_topic", "root"):
            monkeypatch.setenv(f"TRAJLAKE_{name.upper()}", str(value))
    said = run_command("quarantine", "release", "--since", "2020-01-01T00:00:00Z", "--by", "ops", "--json")
    assert said.exit_code == 0, said.output
    assert {row["verdict"] for row in listed(lake, Wanted(state="released"))} == {"waiting"}
    land_all(broker, topic, tmp_path)
    now = {row["offset"]: row for row in listed(lake, Wanted())}
    accepted = now[first["key_mismatch"]["offset"]]
    assert (accepted["state"], accepted["verdict"], accepted["reason_code"]) == ("released", "landed", "key_mismatch")
    again = now[first["malformed_json"]["offset"]]
    assert (again["state"], again["verdict"]) == ("released", "quarantined")
    (second,) = [row for row in now.values() if row["released_from"] is not None]
    assert second["released_from"] == f"{topic}/0/{again['offset']}"
    assert second["reason_code"] == "malformed_json"
    landed_ids = {row["id"] for row in read(tmp_path, "events")}
    assert orjson.loads(misdirected("r")[1].value or b"")["id"] in landed_ids
    assert not release(lake, options, Wanted(state="released")).released
    assert verify(open_lake(str(tmp_path), storage_options={}), options.app_id).ok


@pytest.mark.integration
@pytest.mark.parametrize("step", ["1 intent", "2 publish", "3 outcome"])
def test_a_release_that_is_killed_and_run_again_lands_the_record_once(
    broker: str, make_topic: MakeTopic, tmp_path: Path, step: str
) -> None:
    topic = make_topic()
    produce(broker, topic, misdirected("r"))
    land_all(broker, topic, tmp_path)
    lake, options = Lake(str(tmp_path)), settings(broker, topic, tmp_path)
    with pytest.raises(Killed):
        release(lake, options, Wanted(reason="key_mismatch"), on_step=kill_at(step))
    if step == "3 outcome":
        # It was published before the end came, and lands before the next try.
        land_all(broker, topic, tmp_path)
    assert len(release(lake, options, Wanted(reason="key_mismatch")).released) == 1
    land_all(broker, topic, tmp_path)
    (row,) = listed(lake, Wanted(reason="key_mismatch"))
    assert (row["state"], row["verdict"]) == ("released", "landed")
    ids = [row["id"] for row in read(tmp_path, "events")]
    assert len(ids) == len(set(ids)) == len(run_events("r"))
    assert verify(open_lake(str(tmp_path), storage_options={}), options.app_id).ok


@pytest.mark.integration
def test_a_sealed_original_is_released_as_it_was_received_and_goes_with_its_subject(
    broker: str, make_topic: MakeTopic, tmp_path: Path, keys: Keys
) -> None:
    topic = make_topic()
    sent = run_of("person-381", "p-1")
    produce(broker, topic, [Sent(b"acme/wrong", sent[0].value), *sent[1:]])
    land_all(broker, topic, tmp_path, seal_public_key=keys.public.decode())
    lake, options = Lake(str(tmp_path)), settings(broker, topic, tmp_path)
    (row,) = listed(lake, Wanted())
    place = Place(topic, 0, row["offset"])
    whole: dict[str, Any] = whole_rows(lake, [place])[place]
    assert whole["sealed"].startswith("hpke1:")
    done = release(lake, options, Wanted(reason="key_mismatch"), opener=Opener(Keys().private))
    assert "sealed for key" in done.kept[place]
    forget(lake, request(lake, "acme", subject_id="person-381"))
    assert whole_rows(lake, [place])[place]["sealed"] is None
    assert {row["state"] for row in listed(lake, Wanted())} == {"erased"}
