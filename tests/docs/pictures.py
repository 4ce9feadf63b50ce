"""Takes the pictures of docs/images anew: `python -m tests.docs.pictures`. Look at them before they are committed.

They show a seeded incident (`tests/landkit/incident.py`) as the program itself counts and judges it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.dashboard.browser import CHROMIUM, FLAGS
from tests.dashboard.served import Served
from tests.docs.commands import run
from tests.landkit.incident import REGRESSED, Incident

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SIZE = {"width": 1280, "height": 820}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="trajlake-pictures-") as folder:
        os.chdir(folder)
        root = Path("lake")
        Incident(root)
        run(["curate", "--once", "--root", str(root), "--policies", "policies"])
        served = Served(root)
        served.start()
        try:
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                take(browser, served.url)
                browser.close()
        finally:
            served.stop()


def take(browser: Any, url: str) -> None:
    light, dark = (browser.new_page(viewport=SIZE, color_scheme=scheme) for scheme in ("light", "dark"))
    light.goto(url, wait_until="load")
    light.screenshot(path=IMAGES / "attention.png")
    dark.goto(f"{url}skills/acme/{REGRESSED}", wait_until="load")
    dark.screenshot(path=IMAGES / "skill.png")
    failed = dark.locator("#runs tbody a[href*='/runs/']").first.get_attribute("href")
    light.goto(url.rstrip("/") + failed, wait_until="load")
    light.screenshot(path=IMAGES / "run.png")


if __name__ == "__main__":
    main()
