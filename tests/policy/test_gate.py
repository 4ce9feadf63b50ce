"""G13, G15, isolation: what may not be stored where a worker writes is refused, with a decision that says why."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fold.story import START_US, TOPIC, Landed, Log, fold_in_batches, restarted, same_state
from trajlake.expectations.policies import policy_set, read_policies
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.refold import LedgerEvent, LedgerRefusal, refold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.landing.suppression import Suppression
from trajlake.transforms.policy.gate import Governance
from trajlake.transforms.policy.place import WritePlace
from trajlake.transforms.records import Redaction

ZONES = """\
version: 1
policies:
  - {id: acme, tenant: acme, zone: eu}
  - {id: refunds, tenant: acme, skill: refund, zone: kr}
  - {id: globex, tenant: globex, isolation: dedicated}
"""


def rules(text: str = "version: 1", **place: Any) -> LandRules:
    policies = policy_set([read_policies("p.yaml", text)])
    return LandRules(governance=Governance(policies, WritePlace(**place), "9.9"))


def land(log: Log, rules: LandRules, topic: str = TOPIC) -> Landed:
    return Landed.of([PartitionFold(topic, 0, rules).fold(log.records)])


def whole_run(log: Log, run_id: str = "r1", tenant: str = "acme", **start: Any) -> None:
    run = log.run(run_id, tenant)
    run.starts(**start)
    run.responds("private words")
    run.rewarded(1.0)
    run.ends()


def refused(landed: Landed) -> list[tuple[int, str]]:
    return [(row["offset"], row["reason_code"]) for row in landed.rows("quarantine")]


def decided(landed: Landed) -> list[tuple[int, list[str], list[str]]]:
    rows = landed.rows("policy_decisions")
    assert all(row["verdict"] == "deny" and row["purpose"] == "store" for row in rows)
    return [(row["offset"], row["rules"], [reason["code"] for reason in row["reasons"]]) for row in rows]


# G13: one tenant in envelope, key, topic and payload


@pytest.mark.parametrize("tenant", [None, "", " ", "0", "null", "None", "undefined"])
def test_g13_a_tenant_that_is_none_is_refused_with_a_decision(tenant: str | None) -> None:
    log = Log()
    log.append_event(log.run("r1").event("run.started", {}, tenantid=tenant), b"acme/r1")
    landed = land(log, rules())
    assert refused(landed) == [(0, "tenant_missing")]
    assert decided(landed) == [(0, ["identity.tenantid"], ["tenant_disagrees"])]
    assert landed.rows("events") == []


def test_g13_a_tenant_of_another_json_type_is_refused_with_a_decision() -> None:
    for tenant in (0, 7, ["acme"], {"id": "acme"}, True):
        log = Log()
        log.append_event({**log.run("r1").event("run.started", {}), "tenantid": tenant}, b"acme/r1")
        assert decided(land(log, rules())) == [(0, ["identity.tenantid"], ["tenant_disagrees"])], tenant


@pytest.mark.parametrize("key", [None, b"", b"globex/r1", b"acme", b"acme/r2"])
def test_g13_a_key_that_disagrees_with_the_envelope_is_refused_with_a_decision(key: bytes | None) -> None:
    log = Log()
    log.append(orjson.dumps(log.run("r1").event("run.started", {})), key)
    landed = land(log, rules())
    assert refused(landed) == [(0, "key_mismatch")]
    assert decided(landed) == [(0, ["identity.key"], ["tenant_disagrees"])]


def test_g13_a_tenants_own_topic_takes_its_events_alone() -> None:
    log = Log()
    whole_run(log, "r1", "acme")
    whole_run(log, "r1", "globex")
    log.tick(idle_s=1)
    landed = land(log, rules(), f"{TOPIC}.acme")
    assert {row["tenant_id"] for row in landed.rows("events")} == {"acme", ""}
    assert refused(landed) == [(offset, "tenant_mismatch") for offset in range(4, 8)]
    assert decided(landed) == [(offset, ["identity.topic"], ["tenant_disagrees"]) for offset in range(4, 8)]


@pytest.mark.parametrize("tenant", ["acme ", " acme", "ac\u200bme", "acme\u00ad", "\u202eacme", "acme\n", "ac\u0000me"])
def test_g13_a_tenant_that_looks_like_another_one_is_refused(tenant: str) -> None:
    log = Log()
    log.append_event(log.run("r1").event("run.started", {}, tenantid=tenant), f"{tenant}/r1".encode())
    landed = land(log, rules())
    assert refused(landed) == [(0, "out_of_range")]
    assert landed.rows("events") == []


@pytest.mark.parametrize(
    "key", ["tenantid", "tenant_id", "tenantId", "tenant.id", "tenant", "Tenant", "TENANT_ID", "x-tenant-id"]
)
@pytest.mark.parametrize("value", ["globex", None, 0, "", {"id": "globex"}])
def test_g13_a_payload_that_names_another_tenant_is_refused_with_a_decision(key: str, value: Any) -> None:
    log = Log()
    run = log.run("r1")
    run.starts()
    run.responds(**{key: value})
    landed = land(log, rules())
    assert refused(landed) == [(1, "tenant_mismatch")]
    assert decided(landed) == [(1, ["identity.payload"], ["tenant_disagrees"])]
    assert landed.one("quarantine")["field_path"] == f"data.{key}"


def test_g13_a_payload_may_repeat_its_tenant_and_speak_of_others_in_its_content() -> None:
    log = Log()
    run = log.run("r1")
    run.starts(tenant_id="acme", tenant={"id": "acme"}, input={"tenant_id": "globex"})
    run.responds(calls=["c"])
    run.returns("c", {"tenantid": "globex"}, pretty=True)
    assert land(log, rules()).rows("quarantine") == []


# G15: residency


def test_g15_a_run_that_declares_another_zone_is_blocked_whole_and_each_record_has_a_decision() -> None:
    log = Log()
    whole_run(log, residency="EU")
    landed = land(log, rules(zone="kr"))
    assert refused(landed) == [(offset, "other_zone") for offset in range(4)]
    assert [offset for offset, _, _ in decided(landed)] == [0, 1, 2, 3]
    assert landed.rows("events") == landed.rows("runs") == landed.rows("steps") == landed.rows("rewards") == []
    decision = landed.rows("policy_decisions")[0]
    assert decision["zone"] == "kr"
    assert decision["code_version"] == "9.9"
    assert decision["policy_revision"] == rules().governance.policies.revision
    assert decision["detector_revision"] == rules(zone="kr").revision
    assert decision["at"].timestamp() == START_US / 1e6
    assert decision["input_digest"] == landed.rows("quarantine")[0]["payload_sha256"]


def test_g15_nothing_of_a_blocked_record_is_stored_in_the_wrong_zone_but_its_hash() -> None:
    log = Log()
    whole_run(log, residency="eu", input="private words" * 50_000)
    landed = land(log, rules(zone="kr"))
    assert landed.holds("private words") == []
    assert landed.payloads == []
    assert {row["payload"] for row in landed.rows("quarantine")} == {None}


def test_g15_the_tenants_zone_holds_whatever_the_run_declares() -> None:
    log = Log()
    whole_run(log, residency="kr")
    assert decided(land(log, rules(ZONES, zone="kr")))[0][1] == ["acme:zone"]
    assert decided(land(log, rules(ZONES, zone="eu")))[0][1] == ["worker"]
    assert decided(land(log, rules(ZONES)))[0][1] == ["acme:zone"]


def test_g15_in_its_own_zone_a_run_lands() -> None:
    log = Log()
    whole_run(log, residency="EU ")
    whole_run(log, "r2")
    landed = land(log, rules(ZONES, zone="eu"))
    assert len(landed.rows("runs")) == 2
    assert landed.rows("policy_decisions") == []


def test_g15_the_tenants_zone_blocks_what_comes_before_the_start_too() -> None:
    log = Log()
    run = log.run()
    run.responds(sequence=2)
    run.starts(sequence=1)
    assert [code for _, code in refused(land(log, rules(ZONES, zone="us")))] == ["other_zone"] * 2


def test_g15_the_zone_of_a_skill_counts_before_that_of_its_tenant() -> None:
    log = Log()
    whole_run(log, skill={"name": "refund"})
    whole_run(log, "r2")
    landed = land(log, rules(ZONES, zone="kr"))
    assert [row["run_id"] for row in landed.rows("runs")] == ["r1"]
    assert {row["run_id"] for row in landed.rows("policy_decisions")} == {"r2"}
    assert [row["run_id"] for row in land(log, rules(ZONES, zone="eu")).rows("runs")] == ["r2"]


def test_g15_a_start_that_comes_late_stops_its_run_there() -> None:
    log = Log()
    run = log.run()
    run.responds(sequence=2)
    run.starts(sequence=1, residency="eu")
    run.sequence = 2
    run.responds()
    run.ends()
    log.tick(idle_s=0, held_s=0)
    landed = land(log, rules(zone="kr"))
    assert [row["offset"] for row in landed.rows("events")] == [0, 4]
    assert refused(landed) == [(1, "other_zone"), (2, "other_zone"), (3, "other_zone")]
    assert landed.rows("runs") == landed.rows("steps") == []


def test_g15_a_second_start_with_another_zone_stops_its_run_there() -> None:
    log = Log()
    run = log.run()
    run.starts(residency="kr")
    run.starts(residency="eu")
    run.responds()
    assert refused(land(log, rules(zone="kr"))) == [(1, "other_zone"), (2, "other_zone")]


def test_g15_a_reward_that_comes_after_the_end_goes_where_its_run_went() -> None:
    log = Log()
    whole_run(log, "r1", residency="eu")
    whole_run(log, "r2", residency="kr")
    for run in ("r1", "r2"):
        log.run(run).rewarded(0.0)
    landed = land(log, rules(zone="kr"))
    assert [row["run_id"] for row in landed.rows("rewards")] == ["r2", "r2"]
    assert refused(landed)[-1] == (8, "other_zone")


def test_a_worker_without_a_zone_lands_runs_that_declare_one_unless_a_policy_names_it() -> None:
    log = Log()
    whole_run(log, "r1", "initech", residency="eu")
    assert len(land(log, rules()).rows("runs")) == 1
    assert len(land(log, rules(ZONES)).rows("runs")) == 1


# Isolation


def test_a_dedicated_tenant_lands_only_in_a_root_of_its_own() -> None:
    log = Log()
    whole_run(log, "r1", "globex")
    whole_run(log, "r1", "initech")
    shared = land(log, rules(ZONES))
    assert [row["tenant_id"] for row in shared.rows("runs")] == ["initech"]
    assert refused(shared) == [(offset, "not_isolated") for offset in range(4)]
    assert decided(shared)[0][1:] == (["globex:isolation"], ["not_isolated"])
    own = land(log, rules(ZONES, tenant_id="globex"))
    assert [row["tenant_id"] for row in own.rows("runs")] == ["globex"]
    assert decided(own)[0][1:] == (["worker"], ["not_isolated"])


def test_a_tenants_consent_event_is_gated_as_all_its_events_are() -> None:
    log = Log()
    consent = {"subject_id": "s1", "purpose": "train", "state": "granted"}
    for tenant in ("globex", "initech"):
        event = log.run("r", tenant).event("consent.changed", consent, runid=None, sequence=None)
        log.append_event(event, f"{tenant}/".encode())
    landed = land(log, rules(ZONES))
    assert [row["tenant_id"] for row in landed.rows("consents")] == ["initech"]
    assert refused(landed) == [(0, "not_isolated")]


# The memory of refused runs


def mixed_log() -> Log:
    log = Log()
    for number in range(6):
        whole_run(log, f"r{number}", residency=("eu", "kr", None)[number % 3])
    log.run("r0").rewarded(0.5)
    log.tick(idle_s=1, held_s=1)
    log.run("r3").rewarded(0.5)
    log.run("r4").rewarded(0.5)
    return log


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 30), max_size=5))
def test_g15_restarts_and_batch_boundaries_play_no_part(cuts: set[int]) -> None:
    log, zoned = mixed_log(), rules(zone="kr")
    fold = PartitionFold(TOPIC, 0, zoned)
    landings = []
    for cut in (*sorted(cuts), log.next_offset):
        landings.append(fold.fold([r for r in log.records if fold.next_offset <= r.offset < cut]))
        fold = restarted(fold)
    whole = PartitionFold(TOPIC, 0, zoned)
    expected = Landed.of(fold_in_batches(whole, log.records))
    assert Landed.of(landings).differs(expected) is None
    assert same_state(fold, whole)


def test_g15_refused_runs_are_known_again_from_the_ledger() -> None:
    log, zoned = mixed_log(), rules(zone="kr")
    whole = PartitionFold(TOPIC, 0, zoned)
    landing = whole.fold(log.records)
    rows: list[LedgerEvent | LedgerRefusal] = [
        LedgerEvent(row.offset, row.append_us, row.text, row.redactions and [Redaction(*r) for r in row.redactions])
        for row in landing.events
    ]
    for row in landing.quarantine:
        found = row.rejected
        rows.append(
            LedgerRefusal(
                row.offset, row.append_us, found.stage, found.reason, found.tenant_id, found.run_id, found.sequence
            )
        )
    again = PartitionFold(TOPIC, 0, zoned)
    refold(again, sorted(rows, key=lambda row: row.offset), log.next_offset - 1)
    assert same_state(again, whole)
    assert [key for key, _ in again.gate.blocked.items()] == [b"acme/r0", b"acme/r3"]


def test_g15_refused_runs_are_forgotten_with_the_closed_ones() -> None:
    log = Log()
    whole_run(log, "r1", residency="eu")
    log.waits(100)
    whole_run(log, "r2", residency="eu")
    log.tick(forget_s=50)
    fold = PartitionFold(TOPIC, 0, rules(zone="kr"))
    fold.fold(log.records)
    assert list(fold.gate.blocked) == [b"acme/r2"]


def test_g18_a_policy_that_became_stricter_stops_runs_that_were_open() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds()
    before = PartitionFold(TOPIC, 0, rules())
    before.fold(log.records)
    run.responds()
    run.ends()
    fold = PartitionFold(TOPIC, 0, rules(ZONES, zone="us"), before.snapshot())
    landed = Landed.of([fold.fold(log.records)])
    assert refused(landed) == [(2, "other_zone"), (3, "other_zone")]
    assert landed.rows("runs") == []


# Revisions


def test_every_row_says_which_policies_it_was_judged_under() -> None:
    log = Log()
    whole_run(log)
    whole_run(log, "r2", "null")
    log.run().act("consent.changed", {"subject_id": "s", "purpose": "train", "state": "granted"}, sequence=None)
    landed = land(log, rules(ZONES, zone="eu"))
    revision = rules(ZONES).governance.policies.revision
    for table in ("events", "steps", "runs", "rewards", "quarantine", "consents", "policy_decisions"):
        assert {row["policy_revision"] for row in landed.rows(table)} == {revision}, table


def test_the_rules_revision_follows_policies_and_place() -> None:
    found = [rules(), rules(ZONES), rules(ZONES, zone="eu"), rules(ZONES, zone="eu", tenant_id="acme")]
    assert len({each.revision for each in found}) == len(found)
    other = Governance(policy_set([read_policies("other.yaml", ZONES)]), WritePlace(), "1.0")
    assert LandRules(governance=other).revision == rules(ZONES).revision


# Consents


def test_g14_every_statement_lands_with_its_place_in_the_log() -> None:
    log = Log()
    consent: dict[str, Any] = {"subject_id": "s1", "purpose": "train", "state": "granted", "consent_revision": "7"}
    log.append_event(log.run().event("consent.changed", consent, runid=None, sequence=None, id="a"), b"acme")
    run = log.run()
    run.starts()
    late = {**consent, "state": "withdrawn", "effective_at": "2026-02-01T00:00:00+09:00"}
    run.act("consent.changed", late, sequence=None, time=None, id="b")
    run.act("consent.changed", {**consent, "expires_at": "2027-01-01T00:00:00Z"}, time="2099-01-01T00:00:00Z", id="c")
    run.act("consent.changed", consent, sequence=2, id="c")
    rows = land(log, rules()).rows("consents")
    assert [(row["offset"], row["event_id"], row["state"]) for row in rows] == [
        (0, "a", "granted"), (2, "b", "withdrawn"), (3, "c", "granted"),
    ]  # fmt: skip
    first, second, third = ({name: str(value) for name, value in row.items()} for row in rows)
    assert first["made_at"] == first["effective_at"] == "2026-01-01 00:00:00+00:00"
    assert second["made_at"] == "2026-01-01 00:00:02+00:00"
    assert second["effective_at"] == "2026-01-31 15:00:00+00:00"
    assert third["made_at"] == "2026-01-01 00:00:03+00:00", "at most the broker's time"
    assert third["expires_at"] == "2027-01-01 00:00:00+00:00"


def test_g17_a_statement_of_an_erased_person_does_not_come_back_within_a_run() -> None:
    key = b"0" * 32
    known = Suppression(1, key)
    erased = Suppression(1, key, frozenset({known.of_subject("acme", "s1")}))
    log = Log()
    run = log.run()
    run.starts()
    for subject in ("s1", "s2"):
        run.act("consent.changed", {"subject_id": subject, "purpose": "train", "state": "granted"})
    run.responds()
    run.ends()
    fold = PartitionFold(TOPIC, 0, rules(), suppression=erased)
    landed = Landed.of([fold.fold(log.records)])
    assert [row["subject_id"] for row in landed.rows("consents")] == ["s2"]
    assert landed.holds("s1") == []
    assert [row["type"] for row in landed.rows("events")][1] == "trajlake.erased"
    log.tick(idle_s=0, held_s=0)
    assert len(Landed.of([fold.fold(log.records)]).rows("runs")) == 1
