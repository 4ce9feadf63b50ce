"""The health endpoint's view over the workers' reports."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from trajlake.streams.health import HealthServer
from trajlake.streams.land.health import SILENT_AFTER_S, summarise

NOW = 1_000_000.0


def report(problem: str | None = None, at: float = NOW, **partitions: dict[str, Any]) -> dict[str, Any]:
    figures = {int(name.removeprefix("p")): lag for name, lag in partitions.items()}
    return {"problem": problem, "at": at, "pid": 7, "rows": 1, "commits": 1, "partitions": figures}


def lag(records: int, seconds: float) -> dict[str, Any]:
    return {"lag_records": records, "lag_seconds": seconds, "landed_offset": 1}


def test_ready_only_when_every_worker_runs_speaks_and_is_well() -> None:
    assert summarise({0: report(), 1: report()}, 2, NOW)["ready"]
    assert not summarise({0: report()}, 2, NOW)["ready"]
    silent = summarise({0: report(at=NOW - SILENT_AFTER_S - 1)}, 1, NOW)
    assert silent["problems"] == ["worker 0 is silent for 31 s"]
    assert summarise({0: report("disk full")}, 1, NOW)["problems"] == ["worker 0: disk full"]


def test_lag_is_the_sum_of_records_and_the_worst_of_seconds() -> None:
    seen = summarise({0: report(p0=lag(5, 1.5)), 1: report(p10=lag(2, 9.0), p2=lag(0, 0.0))}, 2, NOW)
    assert (seen["lag_records"], seen["lag_seconds"]) == (7, 9.0)
    assert list(seen["partitions"]) == ["0", "2", "10"]


@pytest.mark.parametrize(
    ("ready", "path", "code"), [(True, "/ready", 200), (False, "/ready", 503), (False, "/live", 200)]
)
def test_answers_say_by_their_code_what_an_orchestrator_asks(ready: bool, path: str, code: int) -> None:
    view = {"ready": ready, "problems": [], "lag_records": 0, "lag_seconds": 0.0}
    server = HealthServer("127.0.0.1", 0, lambda: view, lambda: b"")
    server.start()
    try:
        assert _get(server.address + path)[0] == code
        assert _get(server.address + "/secrets")[0] == 404
    finally:
        server.stop()


def _get(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
