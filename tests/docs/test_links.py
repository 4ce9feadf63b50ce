"""Every link of every page leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import PAGES, Link, Page, anchor_of, is_outside, read_page, resolve
from tests.landkit.tree import REPO, tracked

BY_PATH = {page.path: page for page in PAGES}


def fault(link: Link) -> str | None:
    """What is wrong with a link; None where nothing is."""
    if is_outside(link.target):
        parts = urlsplit(link.target)
        sound = parts.scheme in ("https", "mailto") and (parts.scheme == "mailto" or "." in parts.netloc)
        return None if sound else f"{link}: is no https address"
    path, anchor = resolve(link)
    if not path.exists():
        return f"{link}: there is no such file"
    if not path.is_relative_to(REPO):
        return f"{link}: leaves the repository"
    if anchor and anchor not in (BY_PATH[path].anchors if path in BY_PATH else ()):
        return f"{link}: there is no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path.relative_to(REPO)))
def test_every_link_and_anchor_of_a_page_exists(page: Page) -> None:
    assert [wrong for link in page.links if (wrong := fault(link))] == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text("# A `b` head, ing\n[x](#a-b-head-ing) [y](#no) [z](gone.md) ![p](no.png) [h](http://a.b/)\n")
    page = read_page(written)
    assert page.anchors == {"a-b-head-ing"}
    assert [link.target for link in page.links] == ["#a-b-head-ing", "#no", "gone.md", "no.png", "http://a.b/"]
    assert all(fault(Link(REPO / "README.md", 1, target)) for target in ("gone.md", "no.png", "http://a.b/", "#no"))
    assert fault(Link(REPO / "README.md", 1, "../other/README.md"))
    assert anchor_of("What `trajlake` does, and why") == "what-trajlake-does-and-why"


def test_every_page_and_picture_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [REPO / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path in BY_PATH:
            waiting += [resolve(link)[0] for link in BY_PATH[path].links if not is_outside(link.target)]
        elif path.is_dir():
            waiting += [page for page in BY_PATH if page.is_relative_to(path)]
    lost = [path for path in tracked("docs/*.md", "docs/images/*", "*.md") if path not in seen]
    assert [str(path.relative_to(REPO)) for path in lost] == []


def test_files_that_pages_name_in_code_exist() -> None:
    """`sinks/ledger.py` in a sentence is as good as a link."""
    folders = "trajlake|streams|transforms|sinks|expectations|tests|bench|deploy|examples|docs"
    named = re.compile(rf"(?<![\w/.$-])((?:{folders})/[\w./-]*\.\w+)")
    wrong = []
    for page in PAGES:
        for number, line in enumerate(page.path.read_text(encoding="utf-8").splitlines(), start=1):
            for code in re.findall(r"`([^`]+)`", line):
                found = named.fullmatch(code.rstrip("/"))
                if found and not (REPO / found.group(1)).exists():
                    wrong.append(f"{page.path.relative_to(REPO)}:{number}: {code}")
    assert wrong == []
