"""`trajlake policy`: check, explain and diff, on a lake that the program landed itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from tests.landkit.events import Sent, event
from tests.landkit.stretches import Batches, records
from trajlake.cli import build
from trajlake.expectations.policies import default_policies
from trajlake.reading.tables import open_lake
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.policy.gate import Governance
from trajlake.transforms.policy.place import WritePlace
from trajlake.transforms.reconcile.consents import PLACE, check_consents
from trajlake.verification.verify import verify

ALLOWED = """\
version: 1
policies:
  - id: acme
    tenant: acme
    purposes:
      train: {allow: true, licences: [MIT], annotators: any, fields: {runs.input: drop}}
"""
AT = "2026-03-02T00:00:00Z"


def run_of(run: str, tenant: str = "acme", **start: Any) -> list[Sent]:
    start = {"purpose": ["train"], "license": "MIT", "skill": {"name": "refund"}, "subject_id": "s1", **start}
    return [
        event("run.started", run, 1, start, tenant=tenant),
        event(
            "reward.assigned", run, None, {"score": 1, "annotator_kind": "code", "reward_id": f"w-{run}"}, tenant=tenant
        ),
        event("run.ended", run, 2, {"end_state": "completed"}, tenant=tenant),
    ]


def consent(state: str, subject: str, hour: int, number: int) -> Sent:
    data = {"subject_id": subject, "purpose": "train", "state": state}
    made = event("consent.changed", None, None, data, time=f"2026-03-01T{hour:02}:00:00Z", id=f"c{number}")
    return Sent(b"acme", made.value)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    rules = LandRules(governance=Governance(default_policies(), WritePlace(zone="kr"), "9.9"))
    sent = [
        consent("granted", "s1", 1, 1),
        consent("granted", "s2", 1, 2),
        *run_of("r1"), *run_of("r2"), *run_of("r3", subject_id="s2"), *run_of("r4", license="GPL-3.0"),
        *run_of("r1", "globex"), *run_of("blocked", residency="eu"),
        consent("withdrawn", "s2", 20, 3),
    ]  # fmt: skip
    ledger = Ledger(Lake(str(root)), "trajlake-land")
    ledger.open()
    # Behind all times that the events give: none of them is cut to the broker's.
    made = Batches(rules=rules)
    ledger.commit([made.stretch(made.fold.fold(records(sent, append_us=1_772_600_000_000_000)))])
    ledger.close()
    return root


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("policies") / "allowed.yaml"
    file.write_text(ALLOWED)
    return str(file)


def policy(*args: str, code: int = 0) -> Result:
    """Run the command in this process."""
    done = CliRunner().invoke(build(), ["policy", *args])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def test_check_says_every_problem_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("version: 1\npolicies:\n  - {id: a, zone: EU}\n  - {id: b, skil: x}\n")
    done = policy("check", str(tmp_path), code=1)
    assert done.stdout == ""
    assert [line.split("a.yaml:")[1].split(": ")[:2] for line in done.stderr.splitlines()] == [
        ["3", "policies[0].zone"], ["4", "policies[1].skil"],
    ]  # fmt: skip
    problems = json.loads(policy("check", str(tmp_path), "--json", code=1).stdout)["problems"]
    assert [problem["line"] for problem in problems] == [3, 4]


def test_check_says_the_revision_and_what_is_easily_not_meant(allowed: str, tmp_path: Path) -> None:
    said = json.loads(policy("check", allowed, "--json").stdout)
    assert said["ok"]
    assert len(said["revision"]) == 16
    (tmp_path / "p.yaml").write_text(
        ALLOWED.replace("licences: [MIT]", "consent: not_needed") + "deny: [{id: d, reason: x}]\n"
    )
    notes = policy("check", str(tmp_path / "p.yaml")).stderr
    assert "deny rule d has no condition" in notes
    assert "training needs no consent (acme:train.consent)" in notes
    assert "no licence" in notes


def test_explain_names_rule_place_and_evidence(lake: Path, allowed: str) -> None:
    def explained(run: str, *more: str) -> Any:
        return json.loads(
            policy("explain", run, "--root", str(lake), "--policies", allowed, "--at", AT, "--json", *more).stdout
        )

    (one, other) = explained("r1", "--purpose", "train")
    assert one["run"]["tenant_id"] == "acme"
    assert one["landed_under"] == default_policies().revision
    (verdict,) = one["verdicts"]
    assert verdict["verdict"] == "allow"
    assert verdict["places"]["acme:train.allow"] == f"{allowed}:3"
    assert verdict["consent"]["offset"] == 0
    assert verdict["field_actions"] == [["runs.input", "drop"]]
    assert other["verdicts"][0]["reasons"][0]["rule_id"] == "default:train.allow"
    (withdrawn,) = explained("r3", "--purpose", "train")
    (finding,) = withdrawn["verdicts"][0]["reasons"]
    assert (finding["code"], finding["rule_id"]) == ("consent_withdrawn", "default:train.consent")
    assert finding["detail"].startswith("withdrawn by agent.audit.v1/0 offset ")


def test_explain_for_people_and_as_of_a_time(lake: Path, allowed: str) -> None:
    args = ("explain", "r3", "--root", str(lake), "--policies", allowed, "--purpose", "train")
    denied = policy(*args, "--at", AT).stdout
    assert "run acme/r3, skill refund, closed at agent.audit.v1/0 offset" in denied
    assert "consent_withdrawn" in denied
    assert "\tallow\tacme:train.allow\t" in policy(*args, "--at", "2026-03-01T19:00:00Z").stdout


def test_explain_shows_the_decision_about_a_run_that_was_blocked(lake: Path) -> None:
    (blocked,) = json.loads(policy("explain", "blocked", "--root", str(lake), "--json").stdout)
    assert blocked["run"] is None
    assert [row["verdict"] for row in blocked["decisions"]] == ["deny"] * 3
    assert blocked["decisions"][0]["reasons"][0]["code"] == "other_zone"
    assert "stage\tpurpose" in policy("explain", "blocked", "--root", str(lake)).stdout


def test_explain_of_an_unknown_run_fails_in_one_line(lake: Path) -> None:
    said = policy("explain", "nobody", "--root", str(lake), code=1).stderr
    assert said.startswith("trajlake: no run nobody in ")
    assert len(said.splitlines()) == 1


def test_g18_diff_counts_what_other_policies_would_change(lake: Path, allowed: str) -> None:
    said = json.loads(policy("diff", "defaults", allowed, "--root", str(lake), "--at", AT, "--json").stdout)
    assert said["judged"] == 5
    assert said["allowed"]["train"] == {"a": 0, "b": 2}
    assert said["allowed"]["audit"] == {"a": 5, "b": 5}
    (change,) = said["changes"]
    assert (change["tenant_id"], change["skill_name"], change["purpose"]) == ("acme", "refund", "train")
    assert (change["newly_allowed"], change["newly_denied"]) == (2, 0)
    assert {example["run_id"] for example in change["examples"]} == {"r1", "r2"}
    back = json.loads(policy("diff", allowed, "defaults", "--root", str(lake), "--at", AT, "--json").stdout)
    assert back["changes"][0]["newly_denied"] == 2
    assert "purpose_not_allowed" in back["changes"][0]["examples"][0]["codes"]


def test_diff_shows_other_terms_and_no_change(lake: Path, allowed: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(ALLOWED.replace("drop", "mask"))
    said = policy("diff", allowed, str(other), "--root", str(lake), "--at", AT, "--purpose", "train").stdout
    assert "acme\trefund\ttrain\t0\t0\t2\t" in said
    same = policy("diff", allowed, allowed, "--root", str(lake), "--at", AT)
    assert same.stderr == "no run is judged otherwise\n"


def test_g14_verify_misses_a_statement_that_was_taken_away_or_doubled(lake: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    assert verify(open_lake(str(copy)), "trajlake-land").ok
    table = DeltaTable(str(copy / "restricted" / "consents"))
    rows = table.to_pyarrow_table()
    table.delete("state = 'withdrawn'")
    found = verify(open_lake(str(copy)), "trajlake-land")
    assert found.problem_counts == {"missing_consent": 1}
    write_deltalake(str(copy / "restricted" / "consents"), pa.concat_tables([rows, rows.slice(2)]), mode="overwrite")
    assert verify(open_lake(str(copy)), "trajlake-land").problem_counts == {"duplicate_consent": 1}


def test_decisions_and_consents_can_be_asked_in_sql_as_the_page_says(lake: Path, repo: Path) -> None:
    (sql,) = re.findall(r'trajlake query "([^"]+)"', (repo / "docs" / "governance.md").read_text())
    done = CliRunner().invoke(build(), ["query", sql, "--root", str(lake), "--format", "json"])
    assert done.exit_code == 0, done.stderr
    found = {(row["code"], row["rule"]): row["n"] for row in json.loads(done.stdout)}
    assert found == {("other_zone", "run"): 2, ("other_zone", "worker"): 1}


def test_a_statement_outlives_the_erasure_of_the_run_that_it_came_in() -> None:
    places = pl.DataFrame({"topic": ["t"], "partition": [0], "offset": [5]}, PLACE)
    nothing = pl.DataFrame(schema=PLACE)
    assert [faults.count for faults in check_consents(places, nothing, places)] == [0, 0, 0]
    assert [faults.count for faults in check_consents(places, nothing, nothing)] == [0, 1, 0]


def test_a_deep_scan_is_explained_by_its_rule_and_its_change_is_told(lake: Path, allowed: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(ALLOWED.replace("allow: true", "allow: true, deep_scan: hold"))
    said = policy("diff", allowed, str(other), "--root", str(lake), "--at", AT, "--purpose", "train").stdout
    assert "acme\trefund\ttrain\t0\t0\t2\t" in said
    args = ("r2", "--root", str(lake), "--at", AT, "--purpose", "train")
    assert "acme:train.deep_scan" in policy("explain", *args, "--policies", str(other)).stdout
    assert "deep_scan" not in policy("explain", *args, "--policies", allowed).stdout
    other.write_text(ALLOWED.replace("allow: true", "allow: true, deep_scan: always"))
    assert "deep_scan" in policy("check", str(other), code=1).stderr


def test_explain_and_diff_know_where_the_training_zone_lies(
    lake: Path, allowed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kr.yaml").write_text(ALLOWED.replace("tenant: acme\n", "tenant: acme\n    zone: kr\n"))
    args = ("r2", "--root", str(lake), "--policies", str(tmp_path / "kr.yaml"), "--at", AT)
    compared = ("diff", allowed, str(tmp_path / "kr.yaml"), "--root", str(lake), "--at", AT, "--json")
    monkeypatch.setenv("TRAJLAKE_ZONE", "kr")
    assert "\tallow\t" in policy("explain", *args, "--purpose", "train").stdout
    assert json.loads(policy(*compared).stdout)["changes"] == []
    monkeypatch.setenv("TRAJLAKE_ZONE", "eu")
    assert "other_zone" in policy("explain", *args, "--purpose", "train").stdout
    assert "\tallow\t" in policy("explain", *args, "--purpose", "audit").stdout
    [change] = json.loads(policy(*compared).stdout)["changes"]
    assert (change["purpose"], change["newly_denied"]) == ("train", 2)
