"""The Vega-Lite specifications of the frame charts: frame sizes, search steps, loss and bursts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import (
    DATASET,
    Y_AXIS_WIDTH_KEY,
    VegaSpec,
    facet_by_treatment,
    line_chart,
    series_colour_encoding,
    to_spec,
)
from vnetbench.report.charts.factor_layout import FactorLayout

_MIN_LOSS_RATIO = 1e-6
"""The loss axis is logarithmic down to this ratio or a larger one, and linear below."""
_LABEL_CHARACTER_WIDTH_PX = 7
"""Maximum width of a character of an axis label."""
_PERCENT_LABEL_EXPR = "datum.value === 0 ? '0' : format(100 * datum.value, '.6~g') + ' %'"
_FRAME_LOSS_CATEGORIES = ["none", "some"]


def frame_size_spec(summary: CampaignSummary, layout: FactorLayout, metric: str, y_max: float) -> VegaSpec:
    """Return rates by frame size with line rates and packet limits, up to `y_max`."""
    rows = alt.Chart(DATASET).encode(x="x:Q", y="value:Q")
    line_rates = rows.transform_filter("datum.kind == 'line rate'")
    packet_limits = rows.transform_filter("datum.kind == 'packet limit'").encode(
        **series_colour_encoding(layout)
    )
    background_layers = (
        line_rates.mark_line(strokeWidth=1.2, strokeDash=[2, 3], clip=True, style="soft").encode(
            detail="rate:N"
        ),
        line_rates.mark_text(align="left", dx=6, style="soft", fontSize=11).encode(text="text:N"),
        packet_limits.mark_rule(strokeWidth=1.2, strokeDash=[6, 4], opacity=0.7).encode(
            x=alt.value(0), x2=alt.value("width"), tooltip=alt.Tooltip("text:N", title="Maximum of any size")
        ),
    )
    return to_spec(line_chart(summary, layout, metric, background_layers, y_max))


def step_loss_spec(chart_rows: Sequence[ChartRow], load_title: str, *, has_log_load: bool = True) -> VegaSpec:
    """Return the loss by load with a panel per treatment: steps, model, goals and throughputs.

    A whole search spans decades of loads and needs a logarithmic load axis.
    """
    names = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    data = alt.Chart(DATASET)
    x = alt.X(
        "load:Q",
        title=load_title,
        scale=alt.Scale(type="log" if has_log_load else "linear", nice=False, zero=False, padding=8),
        axis=alt.Axis(tickCount=5, format=".6~g", grid=False, labelOverlap=True),
    )
    y = _log_loss_axis([row["loss"] for row in chart_rows if row["kind"] in ("step", "goal")])
    lost = alt.Color(
        "lost:N",
        sort=_FRAME_LOSS_CATEGORIES,
        scale=alt.Scale(domain=_FRAME_LOSS_CATEGORIES),
        title="Frames lost",
        legend=alt.Legend(symbolOpacity=1),
    )
    durations = sorted({row["duration"] for row in chart_rows if row["kind"] == "step"})
    size = alt.Size(
        "duration:Q",
        scale=alt.Scale(type="log", domain=[durations[0], durations[-1]], range=[20, 90]),
        title="Seconds",
        legend=alt.Legend(values=[durations[0], durations[-1]], format=".6~g")
        if len(durations) > 1
        else None,
    )
    points = data.encode(x=x, y=y)
    steps = points.transform_filter("datum.kind == 'step'")
    model = points.transform_filter("datum.kind == 'model'")
    goals = data.transform_filter("datum.kind == 'goal'").encode(y=y)
    throughputs = points.transform_filter("datum.kind == 'throughput'")
    tooltip = [
        alt.Tooltip("trial:Q", title="Trial"),
        alt.Tooltip("load:Q", title=load_title),
        alt.Tooltip("text:N", title="Lost"),
        alt.Tooltip("duration:Q", title="Seconds"),
    ]
    layers = alt.layer(
        model.mark_area(opacity=0.18, style="soft").encode(y=alt.Y("low:Q"), y2="high:Q"),
        model.mark_line(strokeWidth=1.2, style="soft"),
        goals.mark_rule(strokeDash=[6, 4], strokeWidth=1, opacity=0.8, style="soft"),
        goals.mark_text(align="left", baseline="bottom", dx=3, dy=-2, style="soft", fontSize=11).encode(
            x=alt.value(0), text="text:N"
        ),
        steps.mark_point(filled=True, opacity=0.6).encode(color=lost, size=size, tooltip=tooltip),
        throughputs.mark_rule(strokeWidth=2.4, style="ink").encode(x=alt.X("low:Q"), x2="high:Q"),
        throughputs.mark_point(style="ink", shape="diamond", size=90, strokeWidth=2, filled=False).encode(
            tooltip=tooltip[:3]
        ),
    ).properties(width=330, height=190)
    return to_spec(facet_by_treatment(layers, names, columns=2, row_gap_px=92).resolve_scale(x="independent"))


def loss_curve_spec(chart_rows: Sequence[ChartRow], load_title: str) -> VegaSpec:
    """Return the loss at each load, with a line per trial and a colour per treatment (RFC 2544, 26.3)."""
    names = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    rows = alt.Chart(DATASET).encode(
        x=alt.X(
            "load:Q", title=load_title, scale=alt.Scale(zero=True), axis=alt.Axis(format=".6~g", tickCount=8)
        ),
        y=alt.Y(
            "loss:Q",
            title=None,
            scale=alt.Scale(zero=True, domainMin=0),
            axis=alt.Axis(labelExpr=_PERCENT_LABEL_EXPR, tickCount=5),
        ),
        color=alt.Color(
            "treatment:N", sort=names, scale=alt.Scale(domain=names), title=None, legend=alt.Legend(columns=3)
        ),
        detail="trial:N",
        tooltip=[
            alt.Tooltip("treatment:N", title="Treatment"),
            alt.Tooltip("trial:Q", title="Trial"),
            alt.Tooltip("load:Q", title=load_title),
            alt.Tooltip("loss:Q", title="Lost", format=".4~p"),
        ],
    )
    layers = rows.mark_line(strokeWidth=1.6, opacity=0.7) + rows.mark_point(filled=True, size=26)
    return to_spec(layers.properties(width=640, height=300))


def outstanding_frames_spec(chart_rows: Sequence[ChartRow]) -> VegaSpec:
    """Return the outstanding frames over each trial, with a panel per treatment."""
    names = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    rows = alt.Chart(DATASET).encode(
        x=alt.X("time_s:Q", title="Seconds in the trial", axis=alt.Axis(tickCount=5)),
        y=alt.Y(
            "outstanding:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4, minExtent=34)
        ),
        detail="trial:N",
        tooltip=[
            alt.Tooltip("trial:Q", title="Trial"),
            alt.Tooltip("time_s:Q", title="Seconds"),
            alt.Tooltip("outstanding:Q", title="Frames"),
        ],
    )
    layers = alt.layer(rows.mark_line(strokeWidth=1.4, opacity=0.7)).properties(width=250, height=120)
    return to_spec(facet_by_treatment(layers, names, columns=3).resolve_scale(y="independent"))


def _log_loss_axis(losses: Sequence[float]) -> alt.Y:
    """Return an axis from 0 to 1 with a tick per decade."""
    least = min((loss for loss in losses if loss > 0), default=0.01)
    first_decade = max(_MIN_LOSS_RATIO, 10.0 ** math.floor(math.log10(least)))
    decades = [first_decade * 10**power for power in range(round(-math.log10(first_decade)) + 1)]
    return alt.Y(
        "loss:Q",
        title=None,
        scale=alt.Scale(type="symlog", constant=first_decade, domain=[0, 1], nice=False),
        axis=alt.Axis(values=[0, *decades], labelExpr=_PERCENT_LABEL_EXPR),
    )


def published_comparison_spec(chart_rows: Sequence[ChartRow], title: str) -> VegaSpec:
    """Return measured and published values, with a row per treatment and a panel per direction."""
    names = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    origins = ["measured", "published"]
    origin_options: dict[str, Any] = {"sort": origins, "scale": alt.Scale(domain=origins), "title": None}
    rows = alt.Chart(DATASET).encode(
        y=alt.Y(
            "treatment:N",
            sort=names,
            title=None,
            scale=alt.Scale(paddingInner=0.25),
            axis=alt.Axis(labelLimit=360),
        ),
        yOffset=alt.YOffset("origin:N", sort=origins),
        color=alt.Color("origin:N", **origin_options),
        detail="setting:N",
        tooltip=[
            alt.Tooltip("treatment:N", title="Treatment"),
            alt.Tooltip("setting:N", title="Published with"),
            alt.Tooltip("mean:Q", title=title),
            alt.Tooltip("minimum:Q", title="Minimum"),
            alt.Tooltip("maximum:Q", title="Maximum"),
        ],
    )
    x = alt.X(
        "mean:Q",
        title=title,
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(grid=True, tickCount=5, format=".6~g"),
    )
    layers = alt.layer(
        rows.mark_rule(strokeWidth=2).encode(x=alt.X("minimum:Q", title=title), x2="maximum:Q"),
        rows.mark_point(filled=True, size=56, opacity=1).encode(
            x=x, shape=alt.Shape("origin:N", **origin_options)
        ),
    ).properties(width=300, height=max(60, 44 * len(names)))
    panels = layers.facet(
        facet=alt.Facet("direction:N", sort=["unidirectional", "bidirectional"], title=None),
        columns=2,
        bounds="flush",
    )
    y_axis_width_px = _LABEL_CHARACTER_WIDTH_PX * max(map(len, names))
    return to_spec(panels.properties(usermeta={Y_AXIS_WIDTH_KEY: y_axis_width_px}))
