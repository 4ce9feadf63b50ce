"""The report of a publication that people read, as HTML and as Markdown: what is in it and what is not, in counts, and
what the batch rules said, from their scrubbed results alone.

The page asks nobody for anything: no script, no font, no picture. Its style stands in it, and its own policy allows
that by its hash and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trajlake.expectations.suites.suite import Severity
from trajlake.streams.checkpoints.results import CheckpointReport, ExpectationResult, Number
from trajlake.transforms.curate.bias import DIMENSIONS, bias_markdown
from trajlake.transforms.text import markdown_plain

if TYPE_CHECKING:
    from jinja2 import Environment

_PAGES: Final = Path(__file__).resolve().parent / "pages"
NOT_JUDGED: Final = "No batch rule was judged: nothing in it was about to be published for the first time."
_ORDER: Final = {"bad": 0, "warn": 1, "good": 2}


@dataclass(frozen=True)
class _Verdict:
    kind: str
    word: str
    sentence: str


@dataclass(frozen=True)
class _Line:
    kind: str
    word: str
    rule_id: str
    sentence: str
    found: str
    severity: str


def pages_of(
    title: str, reports: Sequence[CheckpointReport], bias: Mapping[str, Any] | None = None
) -> Mapping[str, str]:
    """The files of a publication's report by name: `report.html`, which stands alone, and `report.md`.

    `reports`: of the batch, and of the parts of it that were judged by themselves; none where no batch rule was judged.
    `bias`: what was left out (`transforms.curate.bias.bias_report`); None for a batch that nobody publishes.
    """
    return {"report.html": html_page(title, reports, bias), "report.md": markdown_page(title, reports, bias)}


def html_page(title: str, reports: Sequence[CheckpointReport], bias: Mapping[str, Any] | None = None) -> str:
    """One HTML page with its style inside, under a policy that allows nothing else."""
    from markupsafe import Markup

    template = _environment().get_template("report.html")
    return template.render(
        title=title,
        style=Markup(style_text()),
        style_hash=style_hash(),
        bias=bias,
        dimensions=DIMENSIONS,
        not_judged=NOT_JUDGED,
        sections=[(report, _verdict(report), _lines(report)) for report in reports],
    )


def markdown_page(title: str, reports: Sequence[CheckpointReport], bias: Mapping[str, Any] | None = None) -> str:
    """The same as Markdown, for terminals, reviews and pull requests."""
    parts = [f"# {markdown_plain(title)}"]
    parts += [bias_markdown(bias)] if bias is not None else []
    parts += [_markdown_section(report) for report in reports]
    if not reports:
        parts.append(NOT_JUDGED)
    return "\n\n".join(parts) + "\n"


def _markdown_section(report: CheckpointReport) -> str:
    verdict = _verdict(report)
    rows = [
        f"| {line.word} | {markdown_plain(line.sentence)} ({markdown_plain(line.rule_id)}) "
        f"| {markdown_plain(line.found)} | {line.severity} |"
        for line in _lines(report)
    ]
    parts = [
        f"## {verdict.word}: batch {markdown_plain(report.batch)}",
        verdict.sentence,
        f"{report.row_count:,} runs; suite {markdown_plain(report.suite)}, revision "
        f"{markdown_plain(report.suite_revision)}; judged by {markdown_plain(report.engine)}.",
        "\n".join(["| Result | Rule | Found | Severity |", "|---|---|---|---|", *rows]),
    ]
    return "\n\n".join(parts)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_PAGES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def style_text() -> str:
    """The style of the page."""
    return (_PAGES / "report.css").read_text(encoding="utf-8")


def style_hash() -> str:
    """Source expression by which a Content-Security-Policy allows the style that stands in a page."""
    digest = hashlib.sha256(style_text().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _verdict(report: CheckpointReport) -> _Verdict:
    held, failed = len(report.blocking), len(report.failed)
    if held:
        rules = "one critical rule" if held == 1 else f"{held} critical rules"
        more = f" {failed - held} more failed." if failed > held else ""
        return _Verdict("bad", "Held", f"The batch fails {rules} and is held until somebody decides.{more}")
    if failed:
        rules = "one rule" if failed == 1 else f"{failed} rules"
        return _Verdict("warn", "May be published", f"No critical rule failed; {rules} of lesser weight did.")
    return _Verdict("good", "May be published", "Every rule holds.")


def _lines(report: CheckpointReport) -> list[_Line]:
    """What failed first, the gravest at the top; else the suite's order."""
    lines = [_line(result) for result in report.results]
    return sorted(lines, key=lambda line: _ORDER[line.kind])


def _line(result: ExpectationResult) -> _Line:
    if result.success:
        kind, word = "good", "✓ holds"
    elif result.severity is Severity.CRITICAL:
        kind, word = "bad", "✗ failed"
    else:
        kind, word = "warn", "! failed"
    sentence = result.description or f"{result.type} on {', '.join(result.columns) or 'the batch'}"
    return _Line(kind, word, result.rule_id, sentence, _found(result), result.severity.value)


def _found(result: ExpectationResult) -> str:
    if result.error:
        return f"could not be judged ({result.error})"
    parts = []
    if result.observed_value is not None:
        parts.append(f"measured {_number(result.observed_value)}")
    if result.unexpected_count is not None and result.element_count:
        share = result.unexpected_count / result.element_count
        parts.append(f"{result.unexpected_count:,} of {result.element_count:,} unexpected ({share:.1%})")
    elif result.element_count == 0:
        parts.append("nothing to judge")
    parts += [
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else _number(value)}"
        for name, value in result.details.items()
        if value is not None
    ]
    return "; ".join(parts) or "–"


def _number(value: Number) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
