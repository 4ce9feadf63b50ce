"""Two nights of a team with eighteen skills and one lever, told by real events: land, roll, decisions, tables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from tests.conftest import Eventually
from tests.landkit.events import Sent, event
from tests.landkit.running import Running
from tests.roll.harness import RollProcess, publish, roll_plan, run_events
from trajlake.streams.land.told import ToldLander
from trajlake.streams.settings import load_settings

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SKILLS = [*(f"job-{n:02d}" for n in range(16)), "orchestrate-a", "orchestrate-b"]
# Lately, since advice on what is long past has expired.
START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=40)
NIGHT = START + timedelta(hours=31)


def quota_night() -> list[Sent]:
    """Eighteen scheduled skills that do well, until the week's quota is spent and each fails twice."""
    sent: list[Sent] = []
    for hour in range(30):
        for place, skill in enumerate(SKILLS):
            ended = START + timedelta(hours=hour, minutes=place)
            outcome = "quality_failure" if (hour * 7 + place) % 23 == 0 and hour < 28 else "success"
            sent += run_events(skill, f"{skill}-{hour}", ended, outcome)
    for again in range(2):
        for place, skill in enumerate(SKILLS):
            ended = NIGHT + timedelta(hours=2 * again, minutes=place)
            sent += run_events(skill, f"{skill}-night-{again}", ended, "quota")
    return sent


def twenty_one_in_a_row() -> list[Sent]:
    """A skill that is promoted after two failures, and goes on to fail on the upper tier."""
    sent: list[Sent] = []
    for number in range(2):
        ended = START + timedelta(hours=number)
        sent += run_events("mail", f"mail-{number}", ended, "quality_failure", tenant="beta")
    pulled = {"lever": "model_tier", "skill": {"name": "mail"}, "change_from": "cheap", "change_to": "upper"}
    at = (START + timedelta(hours=2)).isoformat()
    sent.append(event("lever.applied", None, None, {**pulled, "applied_by": "cron"}, tenant="beta", time=at))
    for number in range(21):
        ended = START + timedelta(hours=2 + number, minutes=5)
        sent += run_events("mail", f"mail-up-{number}", ended, "quality_failure", tenant="beta", tier="upper")
    for number in range(25):
        ended = START + timedelta(hours=number)
        sent += run_events("fine", f"fine-{number}", ended, tenant="beta")
    return sent


class Told:
    """What a worker and the tables say when all is told."""

    def __init__(self, root: Path, decisions: pl.DataFrame, worker: RollProcess) -> None:
        self.root = root
        self.decisions = decisions
        self.worker = worker

    def of(self, tenant: str) -> list[dict[str, Any]]:
        return self.decisions.filter(pl.col("tenant_id") == tenant).to_dicts()


@pytest.fixture(scope="module")
def told(broker: str, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Told]:
    root = tmp_path_factory.mktemp("stories")
    options = roll_plan(broker, root)
    settings = load_settings(**options)
    with RollProcess(options) as worker, Running(settings):
        publish(broker, options["events_topic"], [*quota_night(), *twenty_one_in_a_row()])
        lander = ToldLander(settings, settings.lake(), lambda problem: None)

        def landed() -> bool:
            lander.land_all()
            if not settings.lake().exists("decisions"):
                return False
            rows = pl.from_arrow(settings.lake().open("decisions").to_pyarrow_table())
            assert isinstance(rows, pl.DataFrame)
            newest = rows.sort("as_of", "made_at").unique(["tenant_id", "target", "skill_name"], keep="last")
            tenants = newest.filter(pl.col("lever") != "none")["tenant_id"].to_list()
            stats = pl.from_arrow(settings.lake().open("skill_stats").to_pyarrow_table())
            assert isinstance(stats, pl.DataFrame)
            seen = (
                stats.filter(pl.col("window_name") == "30d")
                .sort("emitted_at")
                .unique(["tenant_id", "skill_name"], keep="last")
            )
            all_counted = seen.filter(pl.col("skill_name") != "")["runs"].sum() == 18 * 32 + 23 + 25
            return {"acme", "beta"} <= set(tenants) and bool(all_counted)

        eventually(landed, 90, "decisions of both tenants")
        lander.land_all()
        rows = pl.from_arrow(settings.lake().open("decisions").to_pyarrow_table())
        assert isinstance(rows, pl.DataFrame)
        yield Told(root, rows.sort("offset"), worker)


def test_S5_the_night_the_quota_ran_out_names_one_cause_and_accuses_no_skill(told: Told) -> None:
    found = told.of("acme")
    assert {row["lever"] for row in found if row["skill_name"] is not None} <= {"none"}
    causes = [row for row in found if row["skill_name"] is None]
    assert {(row["lever"], row["target_kind"], row["target"]) for row in causes} == {("capacity", "provider", "north")}
    assert causes[-1]["skills"] == sorted(SKILLS)
    assert "36 of" in causes[-1]["summary"]
    assert (
        len({row["decision_id"] for row in causes if row["decision_id"] not in {r["supersedes"] for r in causes}}) == 1
    )
    for skill in ("orchestrate-a", "orchestrate-b"):
        stats = told.worker.get(f"/skills/acme/{skill}")
        assert stats["standing"]["state"] == "ok", stats["standing"]
        assert stats.get("streak", 0) == 0
        window = next(each for each in stats["windows"] if each["window"] == "30d")
        assert window["counts"]["quota"] == 2
        assert window["rate"] > 0.9


def test_the_old_rule_would_have_promoted_the_orchestrators_and_that_is_shown(told: Told) -> None:
    rows = {row["skill_name"]: row for row in told.of("acme") if row["skill_name"] is not None}
    for skill in ("orchestrate-a", "orchestrate-b"):
        assert (rows[skill]["lever"], rows[skill]["old_rule"]) == ("none", "promote")


def test_S6_after_twenty_one_failures_on_the_upper_tier_another_lever_is_named(told: Told) -> None:
    rows = [row for row in told.of("beta") if row["skill_name"] == "mail"]
    last = rows[-1]
    assert last["lever"] not in ("none", "model_up"), last["summary"]
    rejected = {each["lever"]: each for each in last["rejected"]}
    assert rejected["model_up"]["reason"] == "spent", rejected
    assert not [row for row in told.of("beta") if row["skill_name"] == "fine" and row["lever"] != "none"]
    stats = told.worker.get("/skills/beta/mail")
    assert stats["streak"] == 23
    assert stats["pulled"][0]["pull"]["lever"] == "model_tier"


def test_decisions_replay_from_the_table(told: Told) -> None:
    from trajlake.transforms.levers.advice import replay
    from trajlake.transforms.levers.rows import decision_of_row

    assert told.decisions.height
    for row in told.decisions.to_dicts():
        agreement = replay(decision_of_row(row))
        assert agreement.agrees, agreement.differences


def test_statistics_landed_once_and_the_terminal_shows_them(told: Told) -> None:
    settings = load_settings(root=str(told.root))
    stored = pl.from_arrow(settings.lake().open("skill_stats").to_pyarrow_table())
    assert isinstance(stored, pl.DataFrame)
    assert stored.select("topic", "partition", "offset", "window_name").is_duplicated().sum() == 0
    command = ["skills", "--root", str(told.root), "--json", "--window", "30d", "--tenant", "beta"]
    result = subprocess.run([sys.executable, "-m", "trajlake", *command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found = {each["skill"]: each for each in json.loads(result.stdout)}
    assert found["mail"]["counts"] == {"quality_failure": 23}
    assert found["mail"]["streak"] == 23
    assert found["mail"]["rate"] == 0.0
    assert found["mail"]["interval"]["low"] == 0.0
    assert found["mail"]["advice"]["lever"] not in ("none", "model_up")
    assert found["fine"]["counts"] == {"success": 25}
    assert msgspec.json.encode(found)
