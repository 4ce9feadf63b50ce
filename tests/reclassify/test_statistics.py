"""Statistics follow, and decisions that were taken before replay as they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Eventually
from tests.landkit.checker import read
from tests.landkit.running import Running
from tests.reclassify.rules import classified_by, without_quota
from tests.roll.harness import RollProcess, exact, publish, recount, roll_plan, run_events
from trajlake.expectations.outcomes import CLASSES
from trajlake.streams.keeping.reclassify import reclassify
from trajlake.streams.keeping.rejudging import Wanted
from trajlake.streams.land.told import ToldLander
from trajlake.streams.roll.rebuild import RollError, rebuild
from trajlake.streams.settings import Settings, load_settings
from trajlake.transforms.levers.advice import replay
from trajlake.transforms.levers.rows import decision_of_row
from trajlake.transforms.rolling.state import SkillState

pytestmark = [pytest.mark.integration, pytest.mark.slow]
START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)


def test_rolling_numbers_equal_a_recount_and_earlier_decisions_replay(
    broker: str, tmp_path: Path, eventually: Eventually
) -> None:
    options = roll_plan(broker, tmp_path)
    settings = load_settings(**options)
    lake = settings.lake()
    sent = []
    for hour in range(24):
        for skill in ("mail", "sort"):
            # One skill's runs were refused by quota for a day, which older rules took for a fault of its settings.
            outcome = "quota" if skill == "mail" and hour >= 12 else ("quality_failure" if hour % 5 == 0 else "success")
            sent += run_events(skill, f"{skill}-{hour}", START + timedelta(hours=hour), outcome)
    with RollProcess(options) as worker:
        with classified_by(without_quota()), Running(settings):
            publish(broker, options["events_topic"], sent)
            eventually(lambda: len(read(tmp_path, "runs")) == 48, 60, "landed")
            exact([worker], tmp_path, 60, "by older rules")
        assert recount(tmp_path)["acme", "mail"]["counts"] == {"success": 9, "quality_failure": 3, "config": 12}
        lander = ToldLander(settings, lake, lambda problem: None)

        def decided() -> list[dict[str, Any]]:
            lander.land_all()
            rows = lake.open("decisions").to_pyarrow_table().to_pylist() if lake.exists("decisions") else []
            return [dict(row) for row in rows]

        before = eventually(decided, 60, "decisions")
        with Running(settings):
            done = reclassify(lake, settings, Wanted())
            assert (done.changed, done.done) == (12, 12)
            exact([worker], tmp_path, 60, "by newer rules")
        assert recount(tmp_path)["acme", "mail"]["counts"] == {"success": 9, "quality_failure": 3, "quota": 12}
        stats = worker.get("/skills/acme/mail")
        month = next(window for window in stats["windows"] if window["window"] == "30d")
        assert month["restatement"] >= 12
        after = decided()
        for row in before:
            assert row in after
            assert replay(decision_of_row(row)).agrees
    # A recount from the tables alone says the same.
    rebuilt = eventually(lambda: _rebuilt(settings), 60, "nobody works in the group any more")
    counts = {skill: state.windows["30d"].classes for skill, state in rebuilt.items()}
    assert counts["acme", "mail"][CLASSES.index("quota")] == 12
    assert counts["acme", "mail"][CLASSES.index("config")] == 0


def _rebuilt(settings: Settings) -> dict[tuple[str, str], SkillState]:
    try:
        return rebuild(settings)
    except RollError:
        return {}
