"""Governance on the real path: Kafka to Delta, with policies from files."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import MakeTopic
from tests.landkit.checker import assert_exactly_once, read
from tests.landkit.events import Sent, event, run_events
from tests.landkit.kafka import produce
from tests.landkit.running import land_all
from trajlake.reading.tables import open_lake
from trajlake.streams.topics import ensure_topics
from trajlake.transforms.policy.consents import ConsentRecord, Consents
from trajlake.verification.verify import verify

pytestmark = pytest.mark.integration

POLICIES = """\
version: 1
policies:
  - {id: acme, tenant: acme, zone: eu}
  - {id: globex, tenant: globex, isolation: dedicated}
"""


@pytest.fixture
def policies(tmp_path: Path) -> str:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "all.yaml").write_text(POLICIES)
    return str(folder)


def run_of(tenant: str, run: str, **start: Any) -> list[Sent]:
    return [
        event("run.started", run, 1, start, tenant=tenant),
        event("model.responded", run, 2, {"message": f"words of {tenant}"}, tenant=tenant),
        event("run.ended", run, 3, {"end_state": "completed"}, tenant=tenant),
    ]


def files_with(root: Path, text: str) -> list[Path]:
    """Files of a lake whose columns hold a text; Parquet is read, all else is searched as it is."""
    found = [path for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    for table in ("events", "steps", "runs", "rewards", "quarantine", "consents", "policy_decisions"):
        found += [root / table for row in read(root, table) if text in str(row)]
    return found


def test_g15_two_zones_share_a_topic_and_each_root_holds_its_own(
    broker: str, make_topic: MakeTopic, tmp_path: Path, policies: str
) -> None:
    topic = make_topic()
    produce(broker, topic, [*run_of("acme", "r1"), *run_of("initech", "r2", residency="kr"), *run_events("r3")])
    roots = {zone: tmp_path / zone for zone in ("eu", "kr")}
    for zone, root in roots.items():
        land_all(broker, topic, root, zone=zone, policies=policies)
        land_all(broker, topic, root, zone=zone, policies=policies)
        assert_exactly_once(root, broker, topic)
        assert verify(open_lake(str(root)), "trajlake-land").ok
    assert {row["run_id"] for row in read(roots["eu"], "runs")} == {"r1", "r3"}
    assert {row["run_id"] for row in read(roots["kr"], "runs")} == {"r2"}
    blocked = read(roots["kr"], "policy_decisions")
    assert {row["run_id"] for row in blocked} == {"r1", "r3"}
    assert {(row["verdict"], row["zone"], row["rules"][0]) for row in blocked} == {("deny", "kr", "acme:zone")}
    refused = {row["offset"]: row["payload_sha256"] for row in read(roots["kr"], "quarantine")}
    assert {row["offset"]: row["input_digest"] for row in blocked} == refused
    assert files_with(roots["eu"], "words of acme")
    assert {row["tenant_id"] for row in read(roots["kr"], "events")} == {"initech"}
    assert files_with(roots["kr"], "words of initech")
    assert files_with(roots["kr"], "words of acme") == []
    assert {row["payload"] for row in read(roots["kr"], "quarantine")} == {None}


def test_g13_a_tenants_own_topic_and_root_take_its_events_alone(broker: str, tmp_path: Path) -> None:
    tenant = f"t{uuid.uuid4().hex[:8]}"
    topic = f"agent.audit.v1.{tenant}"
    ensure_topics(broker, {topic: 1})
    other = [event("model.responded", "r1", 2, {"tenant_id": "globex"}, tenant=tenant)]
    produce(broker, topic, [*run_of(tenant, "r0"), *run_of("globex", "r1"), *other])
    file = tmp_path / "own.yaml"
    file.write_text(f"version: 1\npolicies:\n  - {{id: own, tenant: {tenant}, isolation: dedicated}}\n")
    land_all(broker, topic, tmp_path / "lake", policies=str(file), dedicated_to=tenant)
    assert {row["tenant_id"] for row in read(tmp_path / "lake", "events")} == {tenant}
    decided = [(row["offset"], row["rules"]) for row in read(tmp_path / "lake", "policy_decisions")]
    assert sorted(decided) == [
        (3, ["identity.topic"]), (4, ["identity.topic"]), (5, ["identity.topic"]), (6, ["identity.payload"]),
    ]  # fmt: skip
    land_all(broker, topic, tmp_path / "shared", policies=str(file))
    assert read(tmp_path / "shared", "events") == []


def test_g14_statements_land_once_and_can_be_looked_up_as_of_a_time(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()

    def says(state: str, hour: int, purpose: str = "train") -> Sent:
        body = event(
            "consent.changed", None, None, {"subject_id": "s1", "purpose": purpose, "state": state},
            time=f"2026-03-01T{hour:02}:00:00Z", id=f"{state}-{hour}",
        )  # fmt: skip
        return Sent(b"acme", body.value)

    produce(broker, topic, [says("granted", 1), *run_events("r1"), says("withdrawn", 5)])
    land_all(broker, topic, tmp_path)
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)
    rows = open_lake(str(tmp_path)).frame("consents").collect().to_dicts()
    assert [row["state"] for row in sorted(rows, key=lambda row: row["offset"])] == ["granted", "withdrawn"]
    consents = Consents(map(ConsentRecord.from_row, rows))
    hour_us = 3_600_000_000
    day_us = 1_772_323_200_000_000
    found = [consents.find("acme", "s1", "train", day_us + hour * hour_us).status for hour in (0, 1, 4, 5)]
    assert found == ["absent", "granted", "granted", "withdrawn"]
    # The statement is in the ledger too, word for word, at the offset that the row names.
    (withdrawn,) = (row for row in rows if row["state"] == "withdrawn")
    (kept,) = (row for row in read(tmp_path, "events") if row["offset"] == withdrawn["offset"])
    assert orjson.loads(kept["event"])["data"]["state"] == "withdrawn"


def test_a_wrong_policy_file_stops_the_program_with_file_line_and_field(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("version: 1\npolicies:\n  - id: a\n    zone: [eu]\n")
    environment = {**os.environ, "TRAJLAKE_POLICIES": str(file), "TRAJLAKE_EVENTS_TOPIC": f"test-{uuid.uuid4().hex}"}
    done = subprocess.run(
        [sys.executable, "-m", "trajlake", "land", "--until-end", "--health-port", "0", "--root", str(tmp_path / "l"),
         "--bootstrap-servers", broker],
        capture_output=True, text=True, env=environment, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "setting policies (TRAJLAKE_POLICIES)" in done.stderr
    assert f"{file}:4: policies[0].zone" in done.stderr
    assert not (tmp_path / "l").exists()
