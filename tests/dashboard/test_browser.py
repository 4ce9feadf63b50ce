"""The pages in a real Chromium, as people use them. Skipped where no Chromium is installed (`make browser`)."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import Eventually
from tests.dashboard.browser import PATHS, WITH_CHROMIUM, Serve, Watch
from tests.dashboard.conftest import NOW, stats_row
from tests.looking.conftest import append
from trajlake.sinks.lake import Lake

pytestmark = WITH_CHROMIUM


def test_every_page_asks_its_own_server_alone_and_breaks_no_rule_of_content(
    lake: Path, serve: Serve, watched: Watch
) -> None:
    served, tab = serve(lake), watched()
    for path in PATHS:
        tab.page.goto(served.url + path, wait_until="load")
    tab.assert_quiet(served.url)


def test_updates_change_numbers_and_move_nothing_until_asked(
    lake: Path, serve: Serve, watched: Watch, eventually: Eventually
) -> None:
    served, page = serve(lake), watched(viewport={"width": 1000, "height": 500}).page
    page.goto(served.url + "skills?sort=skill&state=ok")
    page.evaluate("scrollTo(0, 300)")
    keys = "[...document.querySelectorAll('tbody tr')].map(r => r.dataset.key)"
    before, scroll = page.evaluate(keys), page.evaluate("scrollY")
    row = page.locator("tr[data-key='acme/skill-0010']")
    page.evaluate("getSelection().selectAllChildren(document.querySelector(\"tr[data-key='acme/skill-0020'] .names\"))")
    chosen = page.evaluate("getSelection().toString()")
    for number in range(10):
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
    lake: Path, serve: Serve, watched: Watch, eventually: Eventually
) -> None:
    served, page = serve(lake), watched().page
    page.goto(served.url)
    eventually(lambda: "live" in page.locator("#live").inner_text(), 20)
    assert served.process is not None
    served.process.kill()
    served.process.wait()
    eventually(lambda: page.locator("#stale").is_visible(), 6)
    assert "data to" in page.locator("#fresh").inner_text()
    assert "trajlake dashboard --root" in page.locator("#stale").inner_text()
    served.start()
    eventually(lambda: not page.locator("#stale").is_visible(), 10)


def test_the_failing_step_is_reached_from_the_first_page_by_keyboard_alone(
    lake: Path, serve: Serve, watched: Watch
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


def test_the_address_alone_makes_the_view_and_back_goes_back(lake: Path, serve: Serve, watched: Watch) -> None:
    served, first, second = serve(lake), watched().page, watched().page
    first.goto(served.url + "skills")
    first.fill("input[name=q]", "nightly")
    first.click("form.filter button")
    first.wait_for_url("**q=nightly**")
    second.goto(first.url)
    assert second.locator("tbody").inner_text() == first.locator("tbody").inner_text()
    first.go_back()
    assert first.locator("tbody tr").count() == 60
    for path in PATHS:
        first.goto(f"{served.url}{path}?window=7d&sort=runs&q=refund&state=degraded")
        second.goto(first.url)
        assert second.locator("#main").inner_text() == first.locator("#main").inner_text(), path
        assert second.locator("select[name=window]").input_value() == "7d"


def test_tables_are_there_without_scripts(lake: Path, serve: Serve, watched: Watch) -> None:
    served, page = serve(lake), watched(java_script_enabled=False).page
    for path in PATHS:
        page.goto(served.url + path)
        assert page.locator("h1").count() == 1
    page.goto(served.url)
    assert page.locator("tr[data-key='acme/refund']").is_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_pages_pass_the_rules_of_accessibility_in_both_themes_and_on_a_phone(
    lake: Path, serve: Serve, watched: Watch, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    history = [stats_row(5000 + n, "refund", {"success": 90}, as_of=NOW - timedelta(hours=30 - n)) for n in range(30)]
    append(Lake(str(lake)), "skill_stats", history, {})
    # The checker is injected as a script: the policy of content is set aside for it alone.
    served, page = (
        serve(lake),
        watched(color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 800}).page,
    )
    for path in PATHS:
        page.goto(served.url + path)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_ten_open_tabs_load_and_do_not_hold_up_the_end(
    lake: Path, serve: Serve, watched: Watch, eventually: Eventually
) -> None:
    served, tab = serve(lake), watched()
    tabs = [tab.context.new_page() for _ in range(10)]
    for page in tabs:
        page.goto(served.url)
        assert page.locator("tr[data-key='acme/refund']").is_visible()
    assert served.process is not None
    served.process.send_signal(signal.SIGTERM)
    eventually(lambda: served.process is not None and served.process.poll() is not None, 2)
