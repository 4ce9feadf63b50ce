"""Charts as SVG made here: no script, no outside address, axes in UTC and labelled."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

import polars as pl

from trajlake.dashboard.display import CLASS_ORDER

WIDTH: Final = 760
HEIGHT: Final = 200
COLOURS: Final = {
    "quality_failure": "#c4342b", "agent_action": "#d9663a", "success": "#2f8f57", "tool_fault": "#8a6d1f",
    "infra_fault": "#7a5fb0", "quota": "#b0509a", "config": "#5f6f8f", "policy_denied": "#3f7f8f",
    "verifier_fault": "#96783c", "timeout": "#6b7280", "abandoned": "#878d99", "cancelled": "#8b919c",
    "unknown": "#6b7484",
}  # fmt: skip
"""Colour of each outcome class, the same as in the style sheet; each is also named wherever it is used."""
_TIME_FORMAT: Final = "%m-%d %H:%M"
_BLUE: Final = "#3b76c4"
_GREY: Final = "#7f8794"
_FEW: Final = 12


def skill_chart(
    history: pl.DataFrame, kind: Literal["rate", "causes"], *, changed_at: datetime | None = None, dark: bool = False
) -> str:
    """SVG of `read_history`'s rows: the rate with its band over the runs that it is of, or the runs that did not
    succeed by class.

    Marks: where the skill's version became another one, and `changed_at`, the likely beginning of a change.
    """
    import altair as alt

    ink = "#e6e6e6" if dark else "#222222"
    marks = _marks(history, changed_at, alt, ink)
    chart = _rate(history, marks, alt) if kind == "rate" else _causes(history, alt)
    themed = (
        chart.properties(background="transparent")
        .configure_axis(labelColor=ink, titleColor=ink, domainColor=ink, tickColor=ink, gridOpacity=0.15)
        .configure_legend(labelColor=ink, titleColor=ink)
        .configure_view(stroke=None)
    )
    return _to_svg(themed.to_json(validate=False))


def _to_svg(spec: str) -> str:
    import vl_convert as vlc

    # Nothing may be fetched for a chart: its data is in it.
    return str(vlc.vegalite_to_svg(spec, allowed_base_urls=[]))


def _time_axis(alt: Any, *, labelled: bool = True) -> Any:
    axis = alt.Axis(format=_TIME_FORMAT) if labelled else alt.Axis(labels=False, ticks=False)
    return alt.X("as_of:T", title="time (UTC)" if labelled else None, scale=alt.Scale(type="utc"), axis=axis)


def _marks(history: pl.DataFrame, changed_at: datetime | None, alt: Any, ink: str) -> Any:
    """Upright lines: each new version with its name above, and a change with the word within."""
    versions = history.filter(pl.col("skill_version").ne_missing(pl.col("skill_version").shift())).slice(1)
    named = versions.select("as_of", "skill_version").drop_nulls().rows()
    marks = [{"as_of": at, "word": version, "kind": "version"} for at, version in named]
    first = history["as_of"].min() if history.height else None
    if changed_at is not None and isinstance(first, datetime):
        # What began before the picture stands at its edge.
        marks.append({"as_of": max(changed_at, first), "word": "change", "kind": "change"})
    schema: dict[str, pl.DataType] = {"as_of": pl.Datetime("us", "UTC"), "word": pl.String(), "kind": pl.String()}
    base = alt.Chart(alt.Data(values=_rows(pl.DataFrame(marks, schema=schema)))).encode(
        x=_time_axis(alt, labelled=False)
    )

    def words(kind: str, y: int, align: str, dx: int) -> Any:
        text = base.transform_filter(f"datum.kind == '{kind}'")
        return text.mark_text(align=align, dx=dx, baseline="bottom", color=ink).encode(y=alt.value(y), text="word:N")

    rule = base.mark_rule(strokeDash=[4, 3], color=ink)
    return alt.layer(rule, words("version", -3, "center", 0), words("change", HEIGHT - 6, "right", -4))


def _rate(history: pl.DataFrame, marks: Any, alt: Any) -> Any:
    rows = _rows(history.select("as_of", "rate", "rate_low", "rate_high", "scorable"))
    scale = alt.Scale(domain=[0, 1])
    axis = alt.Axis(format="%")
    data = alt.Chart(alt.Data(values=rows))
    base = data.transform_filter("datum.rate != null").encode(x=_time_axis(alt, labelled=False))
    band = base.mark_area(opacity=0.25, color=_BLUE).encode(
        y=alt.Y("rate_low:Q", scale=scale, title="quality (24 h)", axis=axis), y2="rate_high:Q"
    )
    line = base.mark_line(color=_BLUE, point=_points(history, _BLUE)).encode(y=alt.Y("rate:Q", scale=scale, axis=axis))
    runs = data.encode(x=_time_axis(alt)).mark_area(color=_GREY, line={"color": _GREY}, point=_points(history, _GREY))
    under = runs.encode(y=alt.Y("scorable:Q", title="scorable", axis=alt.Axis(tickCount=2, tickMinStep=1)))
    return alt.vconcat(
        alt.layer(band, line, marks).properties(width=WIDTH, height=HEIGHT),
        under.properties(width=WIDTH, height=60),
        spacing=8,
    ).resolve_scale(x="shared")


def _causes(history: pl.DataFrame, alt: Any) -> Any:
    names = [member.value for member in CLASS_ORDER if member.value != "success"]
    long = history.select("as_of", *names).unpivot(names, index="as_of", variable_name="cause", value_name="runs")
    used = [name for name in names if history[name].sum()]
    rows = _rows(long.filter(pl.col("cause").is_in(used)))
    colour = alt.Color(
        "cause:N", sort=used, scale=alt.Scale(domain=used, range=[COLOURS[n] for n in used]),
        legend=alt.Legend(orient="top", title=None),
    )  # fmt: skip
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_area(point=_points(history, None))
        .encode(x=_time_axis(alt), y=alt.Y("runs:Q", title="runs in 24 h that did not succeed"), color=colour)
        .properties(width=WIDTH, height=HEIGHT)
    )


def _points(history: pl.DataFrame, colour: str | None) -> Any:
    """A line or area of a few times is hard to see, and one of a single time has no width."""
    return {"size": 40, **({"color": colour} if colour else {})} if history.height <= _FEW else False


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them; times as milliseconds since the epoch, so that no zone is guessed."""
    return frame.with_columns(pl.col("as_of").dt.epoch("ms")).to_dicts()
