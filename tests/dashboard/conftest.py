"""Lakes with a story: sixty skills, one of which got worse while a quota ran out for five others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser import CHROMIUM, FLAGS, Watch, Watched
from tests.dashboard.served import Served
from tests.looking.conftest import Command, Rows, append
from trajlake.expectations.taxonomy import SCORABLE, OutcomeClass
from trajlake.sinks.lake import Lake
from trajlake.transforms.stats.quality import measure_quality

NOW = datetime.now(UTC).replace(microsecond=0)
STATISTICS = "trajlake.skill-stats.v1"
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "[x](javascript:alert(1))![i](http://192.0.2.1/x.png)\u202eevil\u202c\x1b[31mred\x07"
)

Row = dict[str, Any]


def stats_row(offset: int, skill: str, counts: dict[str, int], *, window: str = "24h", **extra: Any) -> Row:
    """A row of `skill_stats` whose rate and bounds follow from its counts."""
    quality = measure_quality(counts)
    interval, wilson = quality.interval, quality.fixed_n
    return {
        "topic": STATISTICS, "partition": 0, "offset": offset, "tenant_id": "acme", "skill_name": skill,
        "window_name": window, "as_of": NOW, "window_start": NOW - timedelta(days=1), "window_end": NOW,
        "emitted_at": NOW, "runs": sum(counts.values()), **{member.value: 0 for member in OutcomeClass}, **counts,
        "scorable": sum(count for name, count in counts.items() if name in SCORABLE),
        "successes": counts.get("success", 0), "rate": quality.rate,
        "rate_low": interval and interval.low, "rate_high": interval and interval.high,
        "wilson_low": wilson and wilson.low, "wilson_high": wilson and wilson.high, "attempts": sum(counts.values()),
        "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "priced_runs": 0, "streak": 0, "restatement": 0,
        "code_revision": "test", "skill_version": "7", "model_tier": "cheap", "state": "ok", "state_code": "steady",
        "state_reason": f"steady, {sum(counts.values())} runs.", "baseline_rate": 0.9, "causes": [],
    } | extra  # fmt: skip


def incident(count: int = 60) -> list[Row]:
    """The regression is `refund`; the quota ran out for `nightly-1` to `nightly-5`; the others are well."""
    rows = [stats_row(n, f"skill-{n:04d}", {"success": 90, "quality_failure": 10}) for n in range(count - 6)]
    cause = {"outcome_class": "quota", "failure_kind": "quota_exhausted", "model_provider": "acme-ai", "count": 80}
    for n in range(1, 6):
        counts = {"success": 20, "quota": 80}
        rows.append(
            stats_row(1000 + n, f"nightly-{n}", counts, causes=[cause], state_reason="100% of 20 runs succeeded.")
        )
    reason = "success fell from 90% to 23% (95 of 412, mostly wrong arguments)"
    counts = {"success": 95, "agent_action": 300, "quality_failure": 17, "quota": 20}
    return [*rows, stats_row(2000, "refund", counts, state="degraded", state_code="dropped", state_reason=reason)]


def decision(offset: int, skill: str, lever: str, **extra: Any) -> Row:
    return {
        "topic": "trajlake.decisions.v1", "partition": 0, "offset": offset, "decision_id": f"d{offset}", "revision": 0,
        "tenant_id": "acme", "skill_name": skill, "lever": lever, "target_kind": "skill", "target": skill,
        "summary": f"pull {lever} on {skill}", "inputs": "{}", "policy_revision": "p", "code_revision": "c",
        "as_of": NOW, "made_at": NOW, "expires_at": NOW + timedelta(days=7),
        "evidence": [{"name": "rate", "value": "0.23", "detail": None}],
        "rejected": [{"lever": "wait", "reason": "not_quota", "detail": "20 of 432 runs"}],
    } | extra  # fmt: skip


def write(root: Path, stats: list[Row], decisions: list[Row] | None = None, rows: Rows | None = None) -> Lake:
    """A lake with these statistics, this advice, and the runs of `rows`."""
    made = rows or Rows()
    lake = made.write(root)
    append(lake, "skill_stats", stats, {})
    append(lake, "decisions", decisions or [], {})
    return lake


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The incident, with a failed run of `refund` whose second step is to blame."""
    made = Rows()
    made.whole_run(0, "run-ok")
    made.whole_run(0, "run-bad", steps=3)
    bad = made.first("runs", run_id="run-bad")
    bad.update(
        skill_name="refund", outcome_class="agent_action", failure_kind="malformed_arguments",
        failure_basis="step.arguments", attributed_step_id="s2", closed_at=NOW, output="no",
        gaps=[{"code": "missing_sequence", "detail": "4"}], redactions=[{"path": "", "rule": "email", "count": 2}],
    )  # fmt: skip
    made.first("steps", run_id="run-bad", step_index=2).update(
        outcome_class="agent_action", failure_kind="malformed_arguments"
    )
    write(tmp_path / "lake", incident(), [decision(1, "refund", "tool")], made)
    return tmp_path / "lake"


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts dashboards; stops them at the end."""
    started: list[Served] = []

    def start(root: Path, *words: str, port: int = 0) -> Served:
        served = Served(root, *words, port=port)
        started.append(served)
        served.start()
        return served

    yield start
    for served in started:
        if served.process is not None and served.process.poll() is None:
            served.process.kill()
            served.process.communicate(timeout=20)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watched(chromium: Any) -> Iterator[Watch]:
    """Opens pages; closes them at the end."""
    made: list[Watched] = []

    def watch(**options: Any) -> Watched:
        made.append(Watched(chromium, **options))
        return made[-1]

    yield watch
    for one in made:
        one.context.close()


@pytest.fixture
def trajlake(tmp_path: Path) -> Command:
    return Command(tmp_path)
