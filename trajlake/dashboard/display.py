"""Values as pages show them: text that cannot harm, rates that are never rounded to a certainty, times in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

from trajlake.expectations.taxonomy import OutcomeClass
from trajlake.reading.text import clean
from trajlake.transforms.stats.assessment import percent, percent_range

CELL_CHARS: Final = 120
CLASS_ORDER: Final = (
    OutcomeClass.QUALITY_FAILURE, OutcomeClass.AGENT_ACTION, OutcomeClass.SUCCESS, OutcomeClass.TOOL_FAULT,
    OutcomeClass.INFRA_FAULT, OutcomeClass.QUOTA, OutcomeClass.CONFIG, OutcomeClass.POLICY_DENIED,
    OutcomeClass.VERIFIER_FAULT, OutcomeClass.TIMEOUT, OutcomeClass.ABANDONED, OutcomeClass.CANCELLED,
    OutcomeClass.UNKNOWN,
)  # fmt: skip
"""Fixed order of outcome classes in bars, legends and tables: quality first."""
STATE_WORDS: Final[Mapping[str, str]] = {
    "degraded": "degraded",
    "watch": "watch",
    "not_enough_data": "not enough data",
    "ok": "ok",
}
STATE_MARKS: Final[Mapping[str, str]] = {"degraded": "▼", "watch": "◆", "not_enough_data": "○", "ok": "●"}


def name(value: object, empty: str = "—") -> Markup:
    """A name of someone else's making: isolated, so that it cannot turn the text around it."""
    if value is None or value == "":
        return Markup("<span class=muted>{}</span>").format(empty)
    return Markup("<bdi>{}</bdi>").format(clean(value, CELL_CHARS))


def rate(value: float | None) -> str:
    """A rate in percent; a dash where nothing is scorable."""
    return "—" if value is None else percent(value)


def interval(low: float | None, high: float | None) -> str:
    """Bounds of a rate in percent."""
    return "" if low is None or high is None else f"[{percent_range(low, high)}]"


def number(value: float | None, digits: int = 0) -> str:
    return "—" if value is None else f"{value:,.{digits}f}"


def counted(count: int, word: str) -> str:
    """A number with its word, in the singular for one."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def size(count: float | None) -> str:
    """Bytes or characters with a unit that fits."""
    if count is None:
        return "—"
    for unit in ("", "k", "M", "G"):
        if count < 1000 or unit == "G":
            return f"{count:.0f}{unit}" if unit == "" or count >= 100 else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.0f}"


def duration(ms: float | None) -> str:
    """Milliseconds as people read them."""
    if ms is None:
        return "—"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def moment(value: datetime | None, *, seconds: bool = True) -> Markup:
    """A time in UTC, labelled; a script adds the reader's local time on hover."""
    aware = utc(value)
    if aware is None:
        return Markup("—")
    shown = aware.strftime("%Y-%m-%d %H:%M:%SZ" if seconds else "%Y-%m-%d %H:%MZ")
    return Markup('<time datetime="{}">{}</time>').format(aware.isoformat(), shown)


def clock(value: datetime | None) -> str:
    aware = utc(value)
    return "—" if aware is None else aware.strftime("%H:%M:%SZ")


def age(value: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit that says it."""
    aware = utc(value)
    if aware is None:
        return "no data"
    seconds = max(0, int((now - aware).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def class_words(value: str | None) -> str:
    return "" if value is None else clean(value.replace("_", " "), CELL_CHARS)


def mix_bar(counts: Mapping[str, int], width: int = 160) -> Markup:
    """A bar of outcome classes in fixed order, with the numbers in its title and as its label."""
    total = sum(counts.values())
    if not total:
        return Markup("<span class=muted>—</span>")
    parts, left = [], 0.0
    told = ", ".join(f"{counts[c]:,} {c.value.replace('_', ' ')}" for c in CLASS_ORDER if counts.get(c))
    for outcome in CLASS_ORDER:
        count = counts.get(outcome, 0)
        if count:
            part = width * count / total
            parts.append(
                Markup('<rect class="c-{}" x="{:.2f}" width="{:.2f}" height="14"/>').format(outcome.value, left, part)
            )
            left += part
    return Markup('<svg class=mix role=img aria-label="{0}" width={1} height=14><title>{0}</title>{2}</svg>').format(
        told, width, Markup("").join(parts)
    )


def rate_bar(low: float | None, high: float | None, value: float | None, baseline: float | None) -> Markup:
    """A rate with its band on a scale from 0 to 100 %, and a mark at the baseline."""
    if low is None or high is None or value is None:
        return Markup("<span class=muted>—</span>")
    told = f"{percent(value)}, between {percent(low)} and {percent(high)}"
    if baseline is not None:
        told += f"; was {percent(baseline)}"
    mark = "" if baseline is None else Markup('<rect class=base x="{:.1f}" width=2 height=14 />').format(100 * baseline)
    return Markup(
        '<svg class=band role=img aria-label="{0}" width=104 height=14><title>{0}</title>'
        '<rect class=scale x=0 y=6 width=102 height=2 /><rect class=span x="{1:.1f}" y=3 width="{2:.1f}" height=8 />'
        '<rect class=now x="{3:.1f}" y=1 width=3 height=12 />{4}</svg>'
    ).format(told, 100 * low, max(1.0, 100 * (high - low)), 100 * value, mark)


def trend_line(points: Sequence[float | None] | None) -> Markup:
    """A rate over the last seven days as a line from 0 to 100 %, broken where nothing was scorable."""
    known = [rate for rate in points or () if rate is not None]
    if points is None or len(known) < 2:
        return Markup("<span class=muted>—</span>")
    drawn, pen = [], "M"
    for place, rate in enumerate(points):
        if rate is None:
            pen = "M"
            continue
        # A point that stands alone is a short line.
        drawn.append(f"{pen}{80 * place / (len(points) - 1):.1f},{15 - 14 * rate:.1f}{'h1' if pen == 'M' else ''}")
        pen = "L"
    told = f"over 7 days from {percent(known[0])} to {percent(known[-1])}, least {percent(min(known))}"
    return Markup(
        '<svg class=trend role=img aria-label="{0}" width=82 height=16><title>{0}</title><path d="{1}"/></svg>'
    ).format(told, "".join(drawn))


FILTERS: Final = {
    "clean": clean,
    "name": name,
    "rate": rate,
    "number": number,
    "counted": counted,
    "size": size,
    "duration": duration,
    "moment": moment,
    "clock": clock,
    "class_words": class_words,
    "mix_bar": mix_bar,
    "e": escape,
}
