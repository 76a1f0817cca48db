"""The Vega-Lite specifications of charts of trials: their order, time series and latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET, VegaSpec, facet_by_treatment, to_spec

_LATENCY_CURVE_FIELDS = ("colour", "dash")
"""The fields that distinguish latency curves."""
_SERIES_PER_PALETTE = 7
"""Number of distinct colours in the theme."""
_TRIAL_MARK_SHAPES = {"trial": "circle", "two modes": "diamond", "outlier": "cross"}
"""The shape of each mark in the chart of trials in order."""
_MINUTES_AXIS_THRESHOLD_S = 120
"""A longer campaign has an axis in minutes."""


def trial_deviation_spec(chart_rows: Sequence[ChartRow]) -> VegaSpec:
    """Return the deviation of each trial from its treatment's median over time: it shows drift and modes."""
    last_s = max(float(str(row["seconds"])) for row in chart_rows)
    unit, unit_s = ("Minutes", 60) if last_s > _MINUTES_AXIS_THRESHOLD_S else ("Seconds", 1)
    rows = alt.Chart(DATASET).transform_calculate(
        time=f"datum.seconds / {unit_s}", ratio="1 + datum.deviation"
    )
    time_axis = alt.X(
        "time:Q",
        title=f"{unit} since the campaign started",
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(tickCount=8, labelExpr="format(datum.value, '.3~f')"),
    )
    marks = sorted({str(row["mark"]) for row in chart_rows}, key=list(_TRIAL_MARK_SHAPES).index)
    mark_options: dict[str, Any] = {
        "sort": marks,
        "scale": alt.Scale(domain=marks),
        "title": None,
        "legend": alt.Legend(symbolOpacity=1),
    }
    points = rows.mark_point(filled=True, size=26, opacity=0.55).encode(
        x=time_axis,
        y=alt.Y(
            "deviation:Q",
            title=None,
            axis=alt.Axis(
                # More than twice the median is a factor: "×3" reads better than "+200 %".
                labelExpr="datum.value === 0 ? '0' : datum.value >= 1 ? '×' + format(1 + datum.value, '.3~g')"
                " : format(100 * datum.value, '+.3~g') + ' %'",
                tickCount=5,
            ),
        ),
        color=alt.Color("mark:N", **mark_options),
        shape=alt.Shape(
            "mark:N",
            **{
                **mark_options,
                "scale": alt.Scale(domain=marks, range=[_TRIAL_MARK_SHAPES[mark] for mark in marks]),
            },
        ),
        tooltip=[
            alt.Tooltip("treatment:N", title="Treatment"),
            alt.Tooltip("trial:Q", title="Trial"),
            alt.Tooltip("block:Q", title="Block"),
            alt.Tooltip("ratio:Q", title="Ratio to median", format=".4~g"),
        ],
    )
    blocks = (
        rows.transform_filter("datum.mark == 'trial'")
        .transform_aggregate(time="median(time)", deviation="median(deviation)", groupby=["block"])
        .mark_line(strokeWidth=1.5, opacity=0.9)
        .encode(x=time_axis, y="deviation:Q", order=alt.Order("block:Q"))
    )
    zero = rows.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(y=alt.datum(0))
    return to_spec((zero + blocks + points).properties(width=640, height=220))


def time_series_spec(chart_rows: Sequence[ChartRow]) -> VegaSpec:
    """Return the deciding metric within each trial, with a panel and a y axis per treatment.

    The warm-up is dashed and grey. An idle phase is before second 0; a line marks the start of the load.
    """
    has_idle = any(row["part"] == "idle" for row in chart_rows)
    names = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    data = alt.Chart(DATASET)
    rows = data.encode(
        x=alt.X(
            "time_s:Q",
            title="Seconds since the load started" if has_idle else "Seconds in the trial",
            axis=alt.Axis(tickCount=5),
        ),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4, minExtent=34)),
        detail=["trial:N", "part:N"],
        tooltip=[alt.Tooltip("trial:Q", title="Trial"), alt.Tooltip("part:N", title="Part")],
    )
    warmup = rows.transform_filter("datum.part == 'warm-up'")
    measured = rows.transform_filter("datum.part != 'warm-up'")
    load_start = data.mark_rule(strokeDash=[1, 3], opacity=0.7)
    layers = alt.layer(
        *([load_start.encode(x=alt.datum(0))] if has_idle else []),
        measured.mark_line(strokeWidth=1.2, opacity=0.55),
        warmup.mark_line(strokeWidth=1.4, strokeDash=[3, 2], style="soft"),
    ).properties(width=250, height=100)
    return to_spec(facet_by_treatment(layers, names, columns=3).resolve_scale(y="independent"))


def latency_by_percentile_spec(chart_rows: Sequence[ChartRow], noun: str) -> VegaSpec:
    """Return the latency by percentile with a line per treatment.

    At each grid line, a tenth as many values lie beyond as at the one to its left.
    """
    colours, dashes = (
        list(dict.fromkeys(str(row[key]) for row in chart_rows)) for key in _LATENCY_CURVE_FIELDS
    )
    least = min(float(row["beyond"]) for row in chart_rows)
    decades = [10.0**-step for step in range(round(-math.log10(least)) + 1)]
    rows = alt.Chart(DATASET).encode(
        x=alt.X(
            "beyond:Q",
            title="Percentile",
            scale=alt.Scale(type="log", reverse=True, nice=False),
            axis=alt.Axis(
                values=decades, grid=True, labelExpr="format(100 * (1 - datum.value), '.7~g') + ' %'"
            ),
        ),
        y=alt.Y("latency:Q", title=f"{noun} (µs), logarithmic", scale=alt.Scale(type="log", nice=True)),
        color=alt.Color(
            # More colours than the palette has need a colour ramp (O).
            f"colour:{'N' if len(colours) <= _SERIES_PER_PALETTE else 'O'}",
            sort=colours, scale=alt.Scale(domain=colours), title=None, legend=alt.Legend(columns=3),
        ),
        detail=["treatment:N", "dash:N"],
        order=alt.Order("beyond:Q", sort="descending"),
        tooltip=[
            alt.Tooltip("treatment:N", title="Treatment"),
            alt.Tooltip("percentile:N", title="Percentile"),
            alt.Tooltip("latency:Q", title=f"{noun} (µs)"),
        ],
    )  # fmt: skip
    if len(dashes) > 1:
        rows = rows.encode(
            strokeDash=alt.StrokeDash("dash:N", sort=dashes, scale=alt.Scale(domain=dashes), title=None)
        )
    return to_spec(rows.mark_line(strokeWidth=1.8).properties(width=640, height=320))
