"""A real Chromium (Debian's), and the pages to look at in it."""

from __future__ import annotations

from collections.abc import Callable
from shutil import which
from typing import Any, TypeAlias

import pytest

from tests.dashboard.served import Served

CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
WITH_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: `make browser` installs Debian's"),
]
"""What tests that want it are marked with."""
PATHS = (
    "", "skills", "skills/acme/refund", "runs", "runs/acme/run-bad", "runs/acme/run-bad/steps/2", "levers", "causes",
    "pipeline", "governance",
)  # fmt: skip


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

    def assert_quiet(self, url: str) -> None:
        """Nobody but the server at `url` was asked, and the browser had nothing to complain of."""
        assert [asked for asked in self.requests if not asked.startswith(url)] == []
        assert self.complaints == []


Serve: TypeAlias = Callable[..., Served]
"""`serve(root, *words)`: a dashboard process that runs."""
Watch: TypeAlias = Callable[..., Watched]
"""`watched(**options)`: a page in a context of its own."""
