"""Charts as SVG made here: no script, no outside address, axes in UTC and labelled."""

from __future__ import annotations

from typing import Any, Final, Literal

import polars as pl

from trajlake.dashboard.display import CLASS_ORDER

WIDTH: Final = 760
HEIGHT: Final = 200
COLOURS: Final = {
    "quality_failure": "#c4342b", "agent_action": "#d9663a", "success": "#2f8f57", "tool_fault": "#8a6d1f",
    "infra_fault": "#7a5fb0", "quota": "#b0509a", "config": "#5f6f8f", "policy_denied": "#3f7f8f",
    "verifier_fault": "#96783c", "timeout": "#6b7280", "abandoned": "#878d99", "cancelled": "#9aa0aa",
    "unknown": "#4b5563",
}  # fmt: skip
"""Colour of each outcome class, the same as in the style sheet; each is also named wherever it is used."""
_TIME_FORMAT: Final = "%m-%d %H:%M"


def skill_chart(history: pl.DataFrame, kind: Literal["rate", "causes"], *, dark: bool = False) -> str:
    """SVG of `read_history`'s rows: the rate with its band, or the runs that did not succeed by class."""
    import altair as alt

    chart = _rate(history, alt) if kind == "rate" else _causes(history, alt)
    ink = "#e6e6e6" if dark else "#222222"
    themed = (
        chart.properties(width=WIDTH, height=HEIGHT, background="transparent")
        .configure_axis(labelColor=ink, titleColor=ink, domainColor=ink, tickColor=ink, gridOpacity=0.15)
        .configure_legend(labelColor=ink, titleColor=ink)
        .configure_view(stroke=None)
    )
    return _to_svg(themed.to_json(validate=False))


def _to_svg(spec: str) -> str:
    import vl_convert as vlc

    # Nothing may be fetched for a chart: its data is in it.
    return str(vlc.vegalite_to_svg(spec, allowed_base_urls=[]))


def _time_axis(alt: Any) -> Any:
    return alt.X("as_of:T", title="time (UTC)", scale=alt.Scale(type="utc"), axis=alt.Axis(format=_TIME_FORMAT))


def _rate(history: pl.DataFrame, alt: Any) -> Any:
    rows = _rows(history.select("as_of", "rate", "rate_low", "rate_high").drop_nulls("rate"))
    scale = alt.Scale(domain=[0, 1])
    base = alt.Chart(alt.Data(values=rows)).encode(x=_time_axis(alt))
    axis = alt.Axis(format="%")
    band = base.mark_area(opacity=0.25, color="#3b76c4").encode(
        y=alt.Y("rate_low:Q", scale=scale, title="quality (24 h)", axis=axis), y2="rate_high:Q"
    )
    line = base.mark_line(color="#3b76c4", point={"color": "#3b76c4", "size": 40}).encode(
        y=alt.Y("rate:Q", scale=scale, axis=axis)
    )
    return alt.layer(band, line)


def _causes(history: pl.DataFrame, alt: Any) -> Any:
    names = [member.value for member in CLASS_ORDER if member.value != "success"]
    long = history.select("as_of", *names).unpivot(names, index="as_of", variable_name="cause", value_name="runs")
    used = [name for name in names if history[name].sum()]
    rows = _rows(long.filter(pl.col("cause").is_in(used)))
    return (
        alt.Chart(alt.Data(values=rows))
        # A point too: an area of a single time has no width.
        .mark_area(point={"size": 40})
        .encode(
            x=_time_axis(alt),
            y=alt.Y("runs:Q", title="runs in 24 h that did not succeed"),
            color=alt.Color(
                "cause:N", title="cause", sort=used, scale=alt.Scale(domain=used, range=[COLOURS[n] for n in used])
            ),
        )
    )


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them; times as milliseconds since the epoch, so that no zone is guessed."""
    return frame.with_columns(pl.col("as_of").dt.epoch("ms")).to_dicts()
