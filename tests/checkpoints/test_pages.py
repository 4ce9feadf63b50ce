"""The report that people read: nothing from outside, nothing of any row, and hostile text is only text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from tests.checkpoints.batches import MARK, batch
from trajlake.expectations.suites.suite import Severity, load_suites
from trajlake.streams.checkpoints.checkpoint import run_checkpoint
from trajlake.streams.checkpoints.pages import html_page, markdown_page, pages_of, style_hash, style_text
from trajlake.streams.checkpoints.results import CheckpointReport, ExpectationResult
from trajlake.transforms.gate.batchframe import baseline_of

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=y> ![a](https://outside.example/p.png) | `x` \u202e {{ 7*7 }}\n\n# h"
)


class Parts(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


@pytest.fixture(scope="module")
def held() -> CheckpointReport:
    odd = batch(tool_error_count=10, skill_name=None)
    return run_checkpoint(odd, load_suites()["publication"], batch="b-7", baseline=baseline_of(batch()))


BIAS: dict[str, Any] = {
    "publication": 7, "runs": 3, "published": 1, "held": 0, "refused": 2, "withdrawn": 0,
    "reasons": [{"code": "consent_absent", "verdict": "refused", "runs": 2}],
    **{
        name: [{"name": "x", "runs": 3, "published": 1, "share_published": 0.3333, "reasons": {"consent_absent": 2}}]
        for name in ("outcome", "skill", "model")
    },
}  # fmt: skip


def hostile_bias() -> dict[str, Any]:
    return BIAS | {"skill": [BIAS["skill"][0] | {"name": HOSTILE}]}


def hostile() -> CheckpointReport:
    result = ExpectationResult(HOSTILE, HOSTILE, (HOSTILE,), Severity.WARNING, False, HOSTILE, error=HOSTILE)
    return CheckpointReport(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 3, (result, replace(result, description=None)))


def test_the_page_says_whether_the_batch_is_held_and_by_what(held: CheckpointReport) -> None:
    page, text = html_page("b", [held]), markdown_page("b", [held])
    for shown in (page, text):
        assert "Held" in shown
        assert "1,200 of 1,200 unexpected (100.0%)" in shown.replace("\\", "")
        assert held.suite_revision in shown
        first = min(shown.replace("\\", "").index(result.rule_id) for result in held.results)
        assert shown.replace("\\", "").index("batch.tool_error_share") == first
    healthy = replace(held, results=tuple(result for result in held.results if result.success))
    assert "Every rule holds." in html_page("b", [healthy])
    lesser = replace(held, results=tuple(result for result in held.results if result.severity is Severity.WARNING))
    assert "May be published" in markdown_page("b", [lesser])


def test_no_page_names_an_address_outside_or_a_value_of_a_row(held: CheckpointReport) -> None:
    for name, text in pages_of("b", [held], BIAS).items():
        assert not re.search(r"(?:https?:|ftp:|data:|javascript:|//)[^\s]", text), name
        assert not re.search(r"@import|url\(|@font-face", text), name
        assert MARK not in text, name


def test_the_page_stands_alone_under_a_policy_that_allows_nothing_but_its_style(held: CheckpointReport) -> None:
    page = html_page("b", [held], BIAS)
    parts = Parts(page)
    assert not {"script", "img", "iframe", "object", "embed", "base", "form", "svg", "link"} & set(parts.elements)
    assert not [name for _, name, _ in parts.attributes if name.startswith("on") or name in ("style", "src", "href")]
    (policy,) = [value for _, name, value in parts.attributes if name == "content" and "default-src" in (value or "")]
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"
    assert style_hash() == f"sha256-{digest}"


def test_what_was_left_out_stands_before_what_the_rules_said(held: CheckpointReport) -> None:
    for text in pages_of("Publication 7", [held], BIAS).values():
        shown = text.replace("\\", "")
        assert "3 runs judged: 1 published, 0 held, 2 refused, 0 withdrawn." in shown
        assert "33.3%" in shown
        assert shown.index("consent_absent") < shown.index(held.results[0].rule_id)
    for text in pages_of("Publication 7", [], BIAS).values():
        assert "No batch rule was judged" in text


def test_hostile_text_is_shown_and_does_nothing() -> None:
    page = html_page(HOSTILE, [hostile()], hostile_bias())
    parts = Parts(page)
    assert not {"script", "img"} & set(parts.elements)
    assert "{{ 7*7 }}" in page
    text = markdown_page(HOSTILE, [hostile()], hostile_bias())
    assert not re.search(r"(?<!\\)[<>`]", text)
    assert "\n# h" not in text
    bars = [len(re.findall(r"(?<!\\)\|", line)) if line.startswith("| ") else 0 for line in text.splitlines()]
    assert {5} < set(bars) - {0}, "tables of several widths"
    for above, below in pairwise(bars):
        assert above == below or 0 in (above, below), "a row has the cells of its table's head"
    assert "\u202e" not in text


def test_colours_are_never_the_only_sign_and_contrast_is_enough() -> None:
    def light(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue  # WCAG 2.2, relative luminance

    for theme in re.findall(r":root \{(.*?)\}", style_text(), re.DOTALL):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", theme))
        for name in ("text", "soft", "good", "warn", "bad"):
            bright, dark = sorted((light(colours[name]), light(colours["ground"])), reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (name, colours)
