"""A quota storm and one real regression, as the program itself counts and judges them: what people are shown of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.dashboard.browser import WITH_CHROMIUM, Serve, Watch
from tests.landkit.incident import NIGHTLY, REGRESSED, Incident

pytestmark = WITH_CHROMIUM


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    """Three weeks of events with a quota storm and one real regression at their end."""
    root = tmp_path_factory.mktemp("incident") / "lake"
    return Incident(root)


def test_of_a_quota_storm_and_a_regression_only_the_regression_is_a_skill_to_look_at(
    seeded: Incident, serve: Serve, watched: Watch, trajlake: Callable[..., Any]
) -> None:
    served, page = serve(seeded.root), watched().page
    page.goto(served.url)
    rows = page.locator("#attention tbody tr")
    first = rows.first.inner_text()
    assert rows.first.get_attribute("data-key") == f"acme/{REGRESSED}"
    assert f"{REGRESSED}@33" in first
    assert "degraded" in first
    assert re.search(r"success fell from \d+(\.\d)?% .* to \d+%", first)
    assert "mostly malformed arguments (find_order)" in first
    assert "Go back to the former skill version 32" in first
    assert page.locator(".s-degraded, .s-watch").count() == 1
    strip = page.locator("#strip").inner_text()
    assert re.search(
        r"\d+% of failures within 24h are quota \(north\): \d+ runs of 5 skills; capacity, not skills", strip
    )
    for name in NIGHTLY:
        row = page.locator(f"tr[data-key='acme/{name}']").inner_text()
        assert "not enough data" in row
        assert "capacity" in row
    told = trajlake("attention", "--root", str(seeded.root), "--json")
    assert told.returncode == 10
    found = json.loads(told.stdout)
    keys = [f"{skill['tenant']}/{skill['skill']}" for skill in found["skills"]]
    assert keys == [row.get_attribute("data-key") for row in rows.all()]
    assert [skill["skill"] for skill in found["skills"] if skill["state"] in ("degraded", "watch")] == [REGRESSED]
    assert found["skills"][0]["reason"] in first
    assert found["causes"][0]["sentence"] in strip


def test_the_skill_of_the_incident_shows_when_it_broke_and_with_which_version(
    seeded: Incident, serve: Serve, watched: Watch
) -> None:
    served, page = serve(seeded.root), watched().page
    page.goto(f"{served.url}skills/acme/{REGRESSED}")
    assert "mostly malformed arguments" in page.locator("#verdict").inner_text()
    svg = httpx.get(f"{served.url}skills/acme/{REGRESSED}/chart.svg", timeout=60).text
    words = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    assert "33" in words
    assert "change" in words
    assert "scorable" in words
    assert page.locator("#runs tbody tr").first.inner_text().count("malformed arguments") == 1


def test_a_lever_that_was_pulled_stands_with_who_and_what_came_of_it(
    seeded: Incident, serve: Serve, watched: Watch, eventually: Any
) -> None:
    served, page = serve(seeded.root), watched().page

    def row() -> str:
        page.goto(served.url + "levers")
        found = page.locator("table.pulled tbody tr")
        return str(found.first.inner_text()) if found.count() else ""

    told = eventually(row, 60, "the ledger is read in the background")
    assert "triage" in told
    assert "prompt" in told
    assert "mail-4 → mail-5" in told
    assert "kim" in told
    before, now = map(int, re.findall(r"(\d+)(?:\.\d)?%", told)[:2])
    assert before < 85 < now


def test_the_trend_of_a_week_is_a_line_that_falls_where_the_skill_broke(
    seeded: Incident, serve: Serve, watched: Watch
) -> None:
    served, page = serve(seeded.root), watched().page
    page.goto(served.url + "skills")
    told = page.locator(f"tr[data-key='acme/{REGRESSED}'] svg.trend").get_attribute("aria-label")
    found = re.fullmatch(r"over 7 days from ([\d.]+)% to ([\d.]+)%, least ([\d.]+)%", told)
    assert found
    first, last, least = map(float, found.groups())
    assert first >= 75 > 60 > last >= least
    assert datetime.now(UTC) - seeded.now < timedelta(hours=1)
