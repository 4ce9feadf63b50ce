"""Makes one site of the pages in docs/ and those beside it: README.md becomes its first page.

Links are written so that they work in the repository. Here those between pages are turned to the site's places, and
those to files that the site does not have (code, examples) become plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
BESIDE = {"README.md": "index.md"} | {
    name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
}
"""Page beside docs/ -> its name on the site."""
LINK = re.compile(r"(?P<fence>^ *```.*?^ *```)|(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)", re.M | re.S)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages beside docs/."""
    for name, place in BESIDE.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links to the site's places."""
    place = page.file.src_uri
    source = next((name for name, other in BESIDE.items() if other == place), f"docs/{place}")

    def turn(found: re.Match[str]) -> str:
        if found["fence"]:
            return found[0]
        target, hash_mark, anchor = found["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = BESIDE.get(meant, meant.removeprefix("docs/") if meant.startswith("docs/") else "")
        if not there or (ROOT / meant).is_dir():
            return found["text"]
        relative = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"{found['mark']}[{found['text']}]({relative}{hash_mark}{anchor})"

    return LINK.sub(turn, markdown)
