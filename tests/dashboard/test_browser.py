"""The pages in a real Chromium, as people use them. Skipped where no Chromium is installed (`make browser`)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.conftest import Eventually
from tests.dashboard.conftest import HOSTILE, NOW, Served, decision, incident, stats_row, write
from tests.looking.conftest import Rows, append
from trajlake.sinks.lake import Lake

CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: `make browser` installs Debian's"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip

Serve = Callable[..., Served]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page that remembers what it asked of whom, and what the browser complained of."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture
def watched(chromium: Any) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def watch(**options: Any) -> Watched:
        made.append(Watched(chromium, **options))
        return made[-1]

    yield watch
    for one in made:
        one.context.close()


PATHS = (
    "", "skills", "skills/acme/refund", "runs", "runs/acme/run-bad", "runs/acme/run-bad/steps/2", "levers", "causes",
    "pipeline", "governance",
)  # fmt: skip


def test_every_page_asks_its_own_server_alone_and_breaks_no_rule_of_content(
    lake: Path, serve: Serve, watched: Callable[..., Watched]
) -> None:
    served, tab = serve(lake), watched()
    for path in PATHS:
        tab.page.goto(served.url + path, wait_until="load")
    assert [url for url in tab.requests if not url.startswith(served.url)] == []
    assert tab.complaints == []


def test_hostile_text_neither_runs_nor_loads_nor_breaks_the_layout(
    tmp_path: Path, serve: Serve, watched: Callable[..., Watched]
) -> None:
    made = Rows()
    made.whole_run(0, "run-h")
    made.first("runs", run_id="run-h").update(skill_name=HOSTILE, output="x" * 1_000_000, error_type=HOSTILE)
    for step in made["steps"]:
        step.update(message=HOSTILE + "y" * 1_000_000)
    write(tmp_path, [stats_row(1, HOSTILE, {"success": 5}, state_reason=HOSTILE)], [decision(1, HOSTILE, "tool")], made)
    served, tab = serve(tmp_path), watched(viewport={"width": 390, "height": 800})
    for path in ("", "skills", "runs", "levers", "runs/acme/run-h", "runs/acme/run-h/steps/1"):
        tab.page.goto(served.url + path)
        assert "owned" not in tab.page.title()
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert [url for url in tab.requests if not url.startswith(served.url)] == []
    assert tab.complaints == []


def test_updates_change_numbers_and_move_nothing_until_asked(
    lake: Path, serve: Serve, watched: Callable[..., Watched], eventually: Eventually
) -> None:
    served, page = serve(lake), watched(viewport={"width": 1000, "height": 500}).page
    page.goto(served.url + "skills?sort=skill&state=ok")
    page.evaluate("scrollTo(0, 300)")
    keys = "[...document.querySelectorAll('tbody tr')].map(r => r.dataset.key)"
    before, scroll = page.evaluate(keys), page.evaluate("scrollY")
    row = page.locator("tr[data-key='acme/skill-0010']")
    page.evaluate("getSelection().selectAllChildren(document.querySelector(\"tr[data-key='acme/skill-0020'] .names\"))")
    chosen = page.evaluate("getSelection().toString()")
    for number in range(3):
        fresh = stats_row(8000 + number, "skill-0010", {"success": 500 + number})
        append(Lake(str(lake)), "skill_stats", [fresh], {})
        eventually(lambda number=number: row.locator("td.num").first.inner_text() == str(500 + number), 20)  # type: ignore[misc]
    assert page.evaluate(keys) == before
    assert page.evaluate("scrollY") == scroll
    assert page.evaluate("getSelection().toString()") == chosen
    append(Lake(str(lake)), "skill_stats", [stats_row(8100, "skill-0005a", {"success": 5})], {})
    eventually(lambda: page.locator("#order").is_visible(), 20)
    assert page.evaluate(keys) == before
    page.locator("#apply").click()
    assert "acme/skill-0005a" in page.evaluate(keys)


def test_a_page_says_stale_when_the_server_dies_and_live_when_it_is_back(
    lake: Path, serve: Serve, watched: Callable[..., Watched], eventually: Eventually
) -> None:
    served, page = serve(lake), watched().page
    page.goto(served.url)
    eventually(lambda: "live" in page.locator("#live").inner_text(), 20)
    assert served.process is not None
    served.process.kill()
    served.process.wait()
    eventually(lambda: page.locator("#stale").is_visible(), 20)
    assert "data to" in page.locator("#fresh").inner_text()
    served.start()
    eventually(lambda: not page.locator("#stale").is_visible(), 30)


def test_a_run_of_thirty_thousand_steps_opens_at_the_step_that_the_address_names(
    tmp_path: Path, serve: Serve, watched: Callable[..., Watched]
) -> None:
    made = Rows()
    made.whole_run(0, "run-long", steps=1)
    step = made.first("steps", run_id="run-long")
    made["steps"].extend(
        {**step, "step_index": n, "step_id": f"s{n}", "first_offset": step["first_offset"]} for n in range(2, 30_001)
    )
    run = made.first("runs", run_id="run-long")
    run.update(step_count=30_000)
    write(tmp_path, incident(), None, made)
    served, page = serve(tmp_path), watched().page
    page.goto(served.url + "runs/acme/run-long#step-29000")
    place = page.evaluate("document.getElementById('step-29000').getBoundingClientRect().top")
    assert 0 <= place < page.evaluate("innerHeight")
    page.keyboard.press("j")
    assert page.evaluate("location.hash") == "#step-29001"


def test_the_failing_step_is_reached_from_the_first_page_by_keyboard_alone(
    lake: Path, serve: Serve, watched: Callable[..., Watched]
) -> None:
    served, page = serve(lake), watched().page
    page.goto(served.url)

    def press_until(target: str) -> None:
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({target!r})"):
                with page.expect_navigation():
                    page.keyboard.press("Enter")
                return
        raise AssertionError(f"{target} cannot be reached")

    press_until("tr[data-key='acme/refund'] .names a")
    press_until("tr[data-key='acme/run-bad'] a[href*='/runs/']")
    page.keyboard.press("f")
    assert page.evaluate("location.hash") == "#step-2"


def test_the_address_alone_makes_the_view_and_back_goes_back(
    lake: Path, serve: Serve, watched: Callable[..., Watched]
) -> None:
    served, first, second = serve(lake), watched().page, watched().page
    first.goto(served.url + "skills")
    first.fill("input[name=q]", "nightly")
    first.click("form.filter button")
    first.wait_for_url("**q=nightly**")
    second.goto(first.url)
    assert second.locator("tbody").inner_text() == first.locator("tbody").inner_text()
    first.go_back()
    assert first.locator("tbody tr").count() == 60


def test_tables_are_there_without_scripts(lake: Path, serve: Serve, watched: Callable[..., Watched]) -> None:
    served, page = serve(lake), watched(java_script_enabled=False).page
    for path in PATHS:
        page.goto(served.url + path)
        assert page.locator("h1").count() == 1
    page.goto(served.url)
    assert page.locator("tr[data-key='acme/refund']").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_pass_the_rules_of_accessibility_in_both_themes(
    lake: Path, serve: Serve, watched: Callable[..., Watched], scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    history = [stats_row(5000 + n, "refund", {"success": 90}, as_of=NOW - timedelta(hours=30 - n)) for n in range(30)]
    append(Lake(str(lake)), "skill_stats", history, {})
    # The checker is injected as a script: the policy of content is set aside for it alone.
    served, page = serve(lake), watched(color_scheme=scheme, bypass_csp=True).page
    for path in PATHS:
        page.goto(served.url + path)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_ten_open_tabs_load_and_do_not_hold_up_the_end(
    lake: Path, serve: Serve, watched: Callable[..., Watched], eventually: Eventually
) -> None:
    served, tab = serve(lake), watched()
    tabs = [tab.context.new_page() for _ in range(10)]
    for page in tabs:
        page.goto(served.url)
        assert page.locator("tr[data-key='acme/refund']").is_visible()
    assert served.process is not None
    served.process.send_signal(signal.SIGTERM)
    eventually(lambda: served.process is not None and served.process.poll() is not None, 10)
