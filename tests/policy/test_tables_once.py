"""Rows of consents and decisions land exactly once, wherever a worker stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.landkit.checker import read
from tests.landkit.events import Sent, event, run_events
from tests.landkit.stretches import Batches
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger

APP = "trajlake-land"


class Killed(Exception):
    """The worker ends here."""


def log() -> list[Sent]:
    consent = event("consent.changed", "r1", None, {"subject_id": "s", "purpose": "train", "state": "granted"}, id="c")
    nobody = event("run.started", "r2", 1, tenant="null")
    return [*run_events("r1"), consent, nobody]


STEPS = ("2 data files", "3 policy_decisions", "3 consents", "3 runs", "4 events")


@pytest.mark.parametrize("at", STEPS)
def test_a_worker_that_is_killed_at_any_step_leaves_each_row_once(at: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    stretch = Batches().take(log())
    seen: list[str] = []

    def on_step(step: str) -> None:
        seen.append(step)
        if step == at:
            raise Killed

    killed = Ledger(lake, APP, on_step)
    killed.open()
    with pytest.raises(Killed):
        killed.commit([stretch])
    killed.close()
    assert seen[-1] == at
    for _ in range(2):
        again = Ledger(lake, APP)
        again.open()
        assert again.landed(stretch.topic, 0) in (-1, stretch.last)
        again.commit([Batches().take(log())])
        again.close()
    assert [row["state"] for row in read(tmp_path, "consents")] == ["granted"]
    assert [row["rules"] for row in read(tmp_path, "policy_decisions")] == [["identity.tenantid"]]
    assert [row["reason_code"] for row in read(tmp_path, "quarantine")] == ["tenant_missing"]
