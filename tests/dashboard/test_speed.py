"""How soon pages are there. Times are the best of some loads: what else this machine does is not what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.dashboard.browser import WITH_CHROMIUM, Serve, Watch
from tests.dashboard.conftest import incident, write
from tests.looking.conftest import Rows

pytestmark = WITH_CHROMIUM
LOADS = 6


def shown_after_ms(page: Any, url: str) -> float:
    """Milliseconds from the start of a navigation until the first row is seen."""
    page.goto(url, wait_until="commit")
    page.locator("tbody tr").first.wait_for()
    took: float = page.evaluate("performance.now()")
    return took


def test_five_thousand_skills_show_their_first_row_and_sort_at_once(
    tmp_path: Path, serve: Serve, watched: Watch
) -> None:
    write(tmp_path, incident(5_000))
    served, page = serve(tmp_path), watched().page
    assert min(shown_after_ms(page, served.url + "skills") for _ in range(LOADS)) < 500
    assert page.locator("tbody tr").count() == 100
    took = []
    for _ in range(LOADS):
        page.goto(served.url + "skills")
        page.get_by_role("link", name="runs", exact=True).click()
        page.wait_for_url("**sort=runs**", wait_until="commit")
        page.locator("th[aria-sort]", has_text="runs").wait_for()
        page.locator("tbody tr").first.wait_for()
        took.append(page.evaluate("performance.now()"))
    assert min(took) < 300, took


def test_a_run_of_thirty_thousand_steps_is_painted_at_once_and_opens_at_its_step(
    tmp_path: Path, serve: Serve, watched: Watch
) -> None:
    made = Rows()
    made.whole_run(0, "run-long", steps=1)
    step = made.first("steps", run_id="run-long")
    made["steps"].extend(
        {**step, "step_index": n, "step_id": f"s{n}", "first_offset": step["first_offset"]} for n in range(2, 30_001)
    )
    made.first("runs", run_id="run-long").update(step_count=30_000)
    write(tmp_path, incident(), None, made)
    served, page = serve(tmp_path), watched().page
    painted = []
    for _ in range(LOADS):
        page.goto(f"{served.url}runs/acme/run-long#step-29000", wait_until="load")
        painted.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        place = page.evaluate("document.getElementById('step-29000').getBoundingClientRect().top")
        assert 0 <= place < page.evaluate("innerHeight")
        page.keyboard.press("j")
        assert page.evaluate("location.hash") == "#step-29001"
        page.goto("about:blank")
    assert min(painted) < 500, painted
