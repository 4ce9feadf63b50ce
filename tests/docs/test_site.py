"""The site builds without a warning, and its pages load nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.landkit.tree import REPO

if find_spec("mkdocs") is None or find_spec("material") is None:
    pytest.skip("the site needs the extra `docs`: `make docs` installs it", allow_module_level=True)

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "srcset", "video": "src", "object": "data"}
OUTSIDE = re.compile(r"(?:https?:)?//")


class Loads(HTMLParser):
    """What a page makes a browser fetch, and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.classes.update(given.get("class", "").split())
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag in LOADING and LOADING[tag] in given:
            self.fetched.append(given[LOADING[tag]])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(given.get("href", ""))
        elif tag == "a" and "href" in given:
            self.linked.append(given["href"])
        self.fetched += re.findall(r"url\((.+?)\)", given.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=REPO, capture_output=True, text=True, timeout=250, check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


def read(path: Path) -> Loads:
    page = Loads()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def test_every_page_loads_from_its_own_site_alone(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    wrong = []
    for path in pages:
        page = read(path)
        wrong += [f"{path.name}: {target}" for target in page.fetched if OUTSIDE.match(target)]
        # The theme's script would fetch the program that draws these.
        wrong += [f"{path.name}: class mermaid"] if "mermaid" in page.classes else []
    wrong += [
        f"{path.name}: {found}"
        for path in site.rglob("*.css")
        for found in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    pages = {path: read(path) for path in site.rglob("*.html") if path.name != "404.html"}
    wrong = []
    for path, page in pages.items():
        for target in page.linked + page.fetched:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                wrong.append(f"{path.name}: {target}")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                wrong.append(f"{path.name}: {target}: no such heading")
    assert wrong == []


def test_the_first_page_is_the_readme_with_its_pictures(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert "Two commands" in text
    assert 'src="images/flow.svg"' in text
    assert 'href="concepts.html"' in text
