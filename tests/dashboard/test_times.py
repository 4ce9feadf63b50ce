"""Times in a page, its charts, its tooltips and the terminal, whatever zones the machines are in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.conftest import Eventually
from tests.dashboard.browser import WITH_CHROMIUM, Serve, Watch
from tests.dashboard.conftest import NOW, stats_row, write

pytestmark = WITH_CHROMIUM


def test_table_axis_tooltip_and_terminal_tell_the_same_times(
    tmp_path: Path, serve: Serve, watched: Watch, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is in New York, the reader in Seoul; all tell UTC, and the reader's own time where the pointer is."""
    monkeypatch.setenv("TZ", "America/New_York")
    day = NOW.replace(hour=10, minute=0, second=0) - timedelta(days=1)
    history = [
        stats_row(n, "refund", {"success": 90, "quota": 3}, as_of=day + timedelta(minutes=10 * n)) for n in range(13)
    ]
    write(tmp_path, history)
    newest = day + timedelta(hours=2)
    served, page = serve(tmp_path), watched(timezone_id="Asia/Seoul", locale="en-GB").page
    page.goto(served.url + "skills")
    shown = page.locator("tbody time").first
    assert shown.inner_text() == f"{newest:%Y-%m-%d %H:%MZ}"
    assert datetime.fromisoformat(shown.get_attribute("datetime")) == newest
    assert shown.get_attribute("title") == f"{newest + timedelta(hours=9):%d/%m/%Y, %H:%M:%S} (local)"
    # The script writes it anew every second.
    eventually(lambda: "live" in page.locator("#live").inner_text(), 20)
    assert page.locator("#fresh").inner_text().startswith(f"data to {newest:%H:%M:%SZ} (")
    for kind in ("rate", "causes"):
        svg = httpx.get(f"{served.url}skills/acme/refund/chart.svg?kind={kind}", timeout=60).text
        assert "time (UTC)" in svg
        ticks = re.findall(r">(\d\d-\d\d \d\d:\d\d)<", svg)
        assert len(ticks) > 2
        assert {tick[:9] for tick in ticks} <= {f"{day + timedelta(hours=h):%m-%d %H:}"[:9] for h in range(3)}, ticks
    words = [sys.executable, "-P", "-m", "trajlake", "attention", "--root", str(tmp_path)]
    told = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TZ": "Asia/Tokyo"}, check=False)
    assert f"data to {newest:%Y-%m-%d %H:%M:%SZ}" in told.stdout + told.stderr
