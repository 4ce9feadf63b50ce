"""`trajlake decisions`, `levers` and `retro` as a person or a program runs them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from tests.levers.lakes import MONDAY, TENANT, decision, hours, lever_applied, run, write
from trajlake.cli import build
from trajlake.expectations.decisions import PulledLever, Snapshot, Standing, TierCounts, TierEntry
from trajlake.expectations.levers import shipped_levers
from trajlake.expectations.outcomes import Decision
from trajlake.reading.skills import standing_advice
from trajlake.reading.tables import LakeTables
from trajlake.reading.weeks import read_week
from trajlake.sinks.lake import Lake
from trajlake.transforms.levers.advice import decide
from trajlake.transforms.levers.rows import decision_of_row, decision_row

NOW_US = 4_102_444_800_000_000
TEAM = b"""{"skills": {
 "mail": {"tier": "cheap", "pinned": false, "consecutive_failures": 2, "date": "2026-11-01", "x": 1.50},
 "bill": {"tier": "upper", "pinned": true, "reason": "audit"}}}
"""


def trajlake(*args: object, ok: int = 0) -> Result:
    done = CliRunner().invoke(build(), [str(arg) for arg in args])
    assert done.exit_code == ok, done.output
    return done


def advice(skill: str = "mail", as_of_us: int = NOW_US, **more: object) -> Decision:
    before, after = (TierCounts(model_tier="cheap", failures=2),), (TierCounts(model_tier="upper", failures=21),)
    given: dict[str, object] = {
        "skill_name": skill,
        "standing": Standing(state="degraded", code="below_target", reason="0 of 23 runs succeeded.", e_value=500.0),
        "tiers": before + after,
        "current_tier": "upper",
        "recent": ("quality_failure",) * 23,
        "pulled": (PulledLever(lever="promote", at_us=as_of_us - 10**9, before=before, after=after),),
        "table_versions": {"runs": 7},
    }
    return decide(
        Snapshot(tenant_id=TENANT, as_of_us=as_of_us, window="30d", table=shipped_levers(), **{**given, **more})  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A week of two skills, one lever pulled, and decisions: one that stands, one superseded, one tampered with."""
    root = tmp_path_factory.mktemp("lake")
    start = MONDAY - timedelta(days=30)
    rows = [run(n, "mail", "success" if n % 12 else "quality_failure", at) for n, at in enumerate(hours(720, start))]
    rows += [
        run(1000 + n, "mail", "quality_failure" if n % 2 else "success", at) for n, at in enumerate(hours(60, MONDAY))
    ]
    rows += [run(2000 + n, "tidy", "success", at, cost_usd=0.25) for n, at in enumerate(hours(30, MONDAY))]
    quota = MONDAY + timedelta(days=3)
    rows += [
        run(3000 + n, f"job-{n % 9}", "quota", quota, model_provider="north", failure_kind="quota_exhausted")
        for n in range(18)
    ]
    write(root, "runs", rows)
    write(root, "events", [lever_applied(5000, MONDAY + timedelta(hours=20), "mail", "tier", change_from="cheap",
                                         change_to="upper", applied_by="<b>kim</b>", decision_id="0123")])  # fmt: skip
    first = advice(as_of_us=NOW_US - 10**12)
    second = advice(supersedes=first.decision_id)
    week = advice("other", as_of_us=round(MONDAY.timestamp() * 1e6) + 10**9)
    write(root, "decisions", [decision(n, each) for n, each in enumerate((first, second, week))])
    return root


def test_a_decision_goes_to_its_row_and_back() -> None:
    made = advice()
    again = decision_of_row(decision_row(made))
    assert msgspec.json.encode(again) == msgspec.json.encode(made)


def test_decisions_list_shows_what_stands_beside_the_old_rule(lake: Path) -> None:
    shown = json.loads(trajlake("decisions", "list", "--root", lake, "--all", "--json").stdout)
    assert [each["state"] for each in shown] == ["standing", "superseded", "expired"]
    line = trajlake("decisions", "list", "--root", lake).stdout.splitlines()
    assert len(line) == 2
    assert line[1].split("\t")[3:5] == ["mail", "prompt"]
    assert "old_rule" in line[0]
    assert trajlake("decisions", "list", "--root", lake, "--skill", "nobody").stderr.startswith("no advice stands")


def test_advice_on_a_common_cause_is_seen_beside_a_skill_that_gets_none_of_its_own(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    mine = replace(advice(), lever="none", old_rule="promote")
    cause = replace(
        mine, decision_id="c" * 64, lever="capacity", old_rule=None, skill_name=None, skills=["mail", "tidy"],
        as_of_us=mine.as_of_us - 1,
    )  # fmt: skip
    write(tmp_path, "decisions", [decision(0, mine), decision(1, cause)])
    found = standing_advice(LakeTables(Lake(str(tmp_path))), now)
    assert [(found[TENANT, skill]["lever"], found[TENANT, skill]["old_rule"]) for skill in ("mail", "tidy")] == [
        ("capacity", "promote"), ("capacity", None),
    ]  # fmt: skip


def test_decisions_show_has_the_evidence_and_what_was_rejected(lake: Path) -> None:
    wanted = advice(supersedes=advice(as_of_us=NOW_US - 10**12).decision_id)
    shown = trajlake("decisions", "show", wanted.decision_id[:10], "--root", lake).stdout
    assert shown.startswith(wanted.summary)
    assert "model_up\tspent\t0% of 21 runs since, against 0% of 2 before" in shown
    assert "runs=7" in shown
    whole = json.loads(trajlake("decisions", "show", wanted.decision_id, "--root", lake, "--json").stdout)
    assert whole["inputs"]["skill_name"] == "mail"
    assert "no decision has an id" in trajlake("decisions", "show", "ffff", "--root", lake, ok=1).stderr


def test_replay_agrees_and_finds_a_decision_that_was_changed(lake: Path, tmp_path: Path) -> None:
    assert trajlake("decisions", "replay", "--all", "--root", lake).stdout == "3 of 3 decisions come out the same\n"
    forged = decision(0, advice())
    forged["lever"] = "retrain"
    write(tmp_path, "decisions", [forged])
    done = trajlake("decisions", "replay", "--all", "--root", tmp_path, ok=1)
    assert "comes out otherwise in lever" in done.stdout
    assert trajlake("decisions", "replay", "--root", lake, ok=2).stderr


def test_a_tier_file_is_taken_in_and_given_back(lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "skill_model_policy.json"
    file.write_bytes(TEAM)
    assert "no tier file" in trajlake("levers", "export", "--tenant", TENANT, "--root", lake, ok=1).stderr
    done = trajlake("levers", "import", file, "--tenant", TENANT, "--root", lake, "--json")
    rows = {each["skill"]: each for each in json.loads(done.stdout)["skills"]}
    assert (rows["mail"]["advice"], rows["mail"]["old_rule"], rows["bill"]["pinned"]) == ("prompt", "keep", True)
    out = tmp_path / "back.json"
    trajlake("levers", "export", out, "--tenant", TENANT, "--root", lake)
    back = json.loads(out.read_bytes())
    assert back["skills"]["mail"] == {
        "tier": "upper", "pinned": False, "consecutive_failures": 0, "date": "2026-11-23", "x": 1.5,
        "reason": "lever applied by <b>kim</b> after decision 0123",
    }  # fmt: skip
    assert b"1.50" in out.read_bytes()
    assert back["skills"]["bill"] == json.loads(TEAM)["skills"]["bill"]
    file.write_text("[]")
    assert (
        "skill_model_policy.json: no skill"
        in trajlake("levers", "import", file, "--tenant", TENANT, "--root", lake, ok=1).stderr
    )


def test_a_tier_event_that_does_not_say_what_was_before_is_given_back_too(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    write(root, "events", [lever_applied(1, MONDAY, "mail", "model_tier", change_to="upper", applied_by="kim")])
    file = tmp_path / "skill_model_policy.json"
    file.write_bytes(TEAM)
    trajlake("levers", "import", file, "--tenant", TENANT, "--root", root)
    back = json.loads(trajlake("levers", "export", "--tenant", TENANT, "--root", root).stdout)
    assert back["skills"]["mail"]["tier"] == "upper"


def test_levers_show_lists_the_table_and_checks_another(tmp_path: Path) -> None:
    assert "model_up" in trajlake("levers", "show").stdout
    wrong = tmp_path / "levers.yaml"
    wrong.write_text("levers:\n  - {lever: prompt, for: skill, title: t, chance: [2, 1], cost: {}, spent: {}}\n")
    assert "levers.yaml: line 2: levers[0].spent" in trajlake("levers", "show", wrong, ok=1).stderr


def test_the_weekly_review_tells_the_week(lake: Path, tmp_path: Path) -> None:
    trajlake("retro", "--week", "2026-W48", "--root", lake, "--out", tmp_path)
    text = (tmp_path / "retro-2026-W48.md").read_text()
    assert "1 degraded" in text
    assert "mail (acme), degraded: success fell from 91.6%" in text.replace("\\", "")
    assert "18 of 18 runs of 9 skills" in text
    assert "worse" in text
    page = (tmp_path / "retro-2026-W48.html").read_text()
    assert "&lt;b&gt;kim&lt;/b&gt;" in page
    assert not any(word in page for word in ("http", "<script", "url(", "<b>kim"))
    assert "no ISO week" in trajlake("retro", "--week", "2026-W99", "--root", lake, ok=2).stderr


def test_the_review_is_recounted_from_the_tables_alone(lake: Path) -> None:
    week = read_week(LakeTables(Lake(str(lake))), "2026-W48")
    skills = {each.skill: each for each in week.skills}
    assert skills["mail"].quality.scorable == 60
    assert skills["mail"].before.scorable == 168
    assert skills["tidy"].cost_usd == pytest.approx(7.5)
    assert skills["job-0"].not_counted == {"quota": 2}
    assert skills["job-0"].quality.rate is None
    assert [(cause.value, len(cause.skills)) for _, cause in week.causes] == [("north", 9)]
    assert len(week.decisions) == 1


def test_a_pinned_skill_gets_no_tier_advice() -> None:
    made = advice(
        tiers=(TierCounts(model_tier="cheap", failures=23),), current_tier="cheap", pulled=(),
        tier_entry=TierEntry(tier="cheap", pinned=True, reason="audit"),
    )  # fmt: skip
    rejected = {each.lever: each for each in made.rejected}
    assert rejected["model_up"].detail == "pinned is true, not false"
    assert made.lever == "prompt"
    assert made.old_rule == "keep"
