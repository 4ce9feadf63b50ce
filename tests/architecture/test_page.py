"""ARCHITECTURE.md names what there is: no module that is gone, no folder left out."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.architecture.test_layers import ALLOWED
from tests.landkit.tree import REPO, tracked

TEXT = (REPO / "ARCHITECTURE.md").read_text(encoding="utf-8")
FOLDER = re.compile(rf"(?:{'|'.join(ALLOWED)}|tests|bench|deploy|docs|examples)/")


def expanded(name: str) -> list[str]:
    """`a/{b,c}.py` as a/b.py and a/c.py."""
    parts = re.split(r"\{(.+?)\}", name)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


def named() -> list[str]:
    """Files and folders that the page names in code; a bare file name lies in the folder that was named before it."""
    found: list[str] = []
    folder = ""
    for line in TEXT.splitlines():
        for code in re.findall(r"`([^`\s]+)`", line):
            if FOLDER.match(code):
                found += expanded(code)
                folder = code if code.endswith("/") else code.rsplit("/", 1)[0] + "/"
            elif re.fullmatch(r"[a-z_]+\.(?:py|toml|yaml|json)", code) and folder:
                found.append(folder + code)
    return found


def test_everything_that_the_page_names_exists() -> None:
    names = named()
    assert len(names) > 80
    assert [name for name in names if not any(REPO.glob(name.rstrip("/")))] == []


def packages() -> list[str]:
    """Folders of the top level, and the packages directly in the layers."""
    names = [str(path.relative_to(REPO)) for path in tracked()] or pytest.skip("not a git work tree")
    files = [name.split("/") for name in names if not name.startswith(".")]
    top = {parts[0] for parts in files if len(parts) > 1}
    inner = {
        "/".join(parts[:2]) for parts in files if parts[0] in ALLOWED and len(parts) > 2 and parts[-1] == "__init__.py"
    }
    return sorted(top | inner)


def test_every_folder_has_its_place_on_the_page() -> None:
    names = set(named())
    missing = [
        folder
        for folder in packages()
        if not any(name.rstrip("/") == folder or name.startswith(f"{folder}/") for name in names)
    ]
    assert missing == []
