"""A small document that is written as Markdown and as HTML: headings, paragraphs, lists and tables of plain text.

Text comes from events and so from anybody: both forms escape it. The HTML stands alone: one file, no script, nothing
that is loaded from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Final, TypeAlias

from msgspec import Struct


class Heading(Struct, frozen=True):
    """A heading; level 1 is the title."""

    level: int
    text: str


class Paragraph(Struct, frozen=True):
    """A paragraph."""

    text: str


class Listing(Struct, frozen=True):
    """A bulleted list."""

    items: tuple[str, ...]


class Grid(Struct, frozen=True):
    """A table: names of columns, then rows of cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block: TypeAlias = Heading | Paragraph | Listing | Grid

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid #8886; }
"""
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|#~])")


def to_markdown(blocks: Sequence[Block]) -> str:
    """CommonMark with tables."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """One HTML page with its style inside."""
    body = "\n".join(_html(block) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_plain(block.text)}"
    if isinstance(block, Paragraph):
        return _plain(block.text)
    if isinstance(block, Listing):
        return "\n".join(f"- {_plain(item)}" for item in block.items)
    lines = [block.columns, tuple("---" for _ in block.columns)]
    head = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*head, *(f"| {' | '.join(_plain(cell) for cell in row)} |" for row in block.rows)])


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Listing):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block.items) + "</ul>"
    head = "".join(f"<th>{escape(name)}</th>" for name in block.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in block.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
