"""The pages of the project as data: links, headings, and fenced blocks with the mark that stands above them.

A page is Markdown for people, and its blocks are tests. What a block's language says is what is done with it:

    shell, sh   each `trajlake` command in it is given to the real command line, which has to take its words and options
    python   is run in a folder that holds a lake; a comment behind a `print` is what it has to print
    sql      is run on that lake, and has to find rows
    yaml, json, toml   have to be readable as such
    text     output and pictures; nothing is done with it

A comment above a block changes that: `<!-- runs -->` also runs the commands of a shell block, one after the other, and
each has to succeed; `<!-- may be empty -->` lets a query find nothing; `<!-- shown only: why -->` takes a block out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.landkit.tree import REPO, tracked

LANGUAGES = frozenset({"shell", "sh", "python", "sql", "yaml", "json", "toml", "text"})
MARKS = re.compile(r"<!-- (runs|may be empty|shown only: \S.*?) -->")

HTML_TARGETS = re.compile(r'(?:src|srcset|href)="(.+?)"')


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is that of its fence, from 1; `mark` is "" where no comment stands above it."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(REPO)}:{self.line}"


@dataclass(frozen=True)
class Link:
    """A link or picture: where it stands and what it points to, as written."""

    page: Path
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPO)}:{self.line}: {self.target}"


@dataclass
class Page:
    """What one Markdown file holds. `wrong`: places of comments above blocks that are no mark."""

    path: Path
    wrong: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


def read_page(path: Path) -> Page:
    """Parse a page."""
    page = Page(path)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(path.read_text(encoding="utf-8"))
    mark, line = "", 0
    for place, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else line
        if token.type == "html_block":
            found = MARKS.fullmatch(token.content.strip())
            mark = found.group(1) if found else ""
            above_block = place + 1 < len(tokens) and tokens[place + 1].type == "fence"
            if not found and above_block and token.content.startswith("<!--"):
                page.wrong.append(f"{path.name}:{line}: {token.content.strip()}")
            page.links += [Link(path, line, target) for target in HTML_TARGETS.findall(token.content)]
            page.anchors.update(re.findall(r'(?:id|name)="(.+?)"', token.content))
            continue
        if token.type == "fence":
            page.blocks.append(Block(path, line, token.info.strip(), token.content, mark))
        elif token.type == "inline":
            page.links += [Link(path, line, target) for target in _targets(token)]
            if tokens[place - 1].type == "heading_open":
                page.anchors.add(_unused(anchor_of(_text(token)), page.anchors))
        mark = ""
    return page


def anchor_of(heading: str) -> str:
    """The anchor that forges give a heading: small letters, spaces as hyphens, other punctuation gone."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def resolve(link: Link) -> tuple[Path, str]:
    """File and anchor that a relative link means."""
    name, _, anchor = link.target.partition("#")
    return ((link.page.parent / unquote(name)).resolve() if name else link.page), unquote(anchor)


def is_outside(target: str) -> bool:
    """Whether a link leaves the repository."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", target) is not None


def _unused(anchor: str, taken: set[str]) -> str:
    number, candidate = 0, anchor
    while candidate in taken:
        number += 1
        candidate = f"{anchor}-{number}"
    return candidate


def _text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


def _targets(inline: Token) -> Iterator[str]:
    for child in inline.children or ():
        if child.type == "link_open":
            yield str(child.attrs["href"])
        elif child.type == "image":
            yield str(child.attrs["src"])
        elif child.type == "html_inline":
            yield from HTML_TARGETS.findall(child.content)


PAGES = [read_page(path) for path in tracked("*.md")]
