"""How the charts of frames are drawn, as Vega-Lite: over frame sizes, steps of searches, losses in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import Y_AXIS_WIDTH_KEY, DATASET, VegaSpec, to_spec, line_chart, facet_by_treatment, series_colour
from vnetbench.report.charts.factor_layout import FactorLayout

_MIN_LOSS_RATIO = 1e-6
"""The loss axis is logarithmic down to this share at most, and linear from there to 0."""
_LABEL_CHAR_WIDTH_PX = 7
"""Of a character of an axis's label, at most."""
_PERCENT_LABEL_EXPR = "datum.value === 0 ? '0' : format(100 * datum.value, '.6~g') + ' %'"
_LOSS_CATEGORIES = ["none", "some"]


def frame_size_spec(summary: CampaignSummary, layout: FactorLayout, metric: str, top: float) -> VegaSpec:
    """Rates over frame sizes, with the line rates and each line's highest rate, up to `top`."""
    rows = alt.Chart(DATASET).encode(x="x:Q", y="value:Q")
    rates = rows.transform_filter("datum.kind == 'line rate'")
    limits = rows.transform_filter("datum.kind == 'packet limit'").encode(**series_colour(layout))
    beneath = (
        rates.mark_line(strokeWidth=1.2, strokeDash=[2, 3], clip=True, style="soft").encode(detail="rate:N"),
        rates.mark_text(align="left", dx=6, style="soft", fontSize=11).encode(text="text:N"),
        limits.mark_rule(strokeWidth=1.2, strokeDash=[6, 4], opacity=0.7).encode(
            x=alt.value(0), x2=alt.value("width"), tooltip=alt.Tooltip("text:N", title="Most of any size")
        ),
    )
    return to_spec(line_chart(summary, layout, metric, beneath, top))


def step_loss_spec(rows_of_steps: Sequence[ChartRow], load: str, *, is_whole: bool = True) -> VegaSpec:
    """Loss against `load` (the x axis's title), a panel a treatment: steps, model, goals, answers.

    The whole of a search spans decades of loads, so its axis is logarithmic.
    """
    names = list(dict.fromkeys(str(row["treatment"]) for row in rows_of_steps))
    data = alt.Chart(DATASET)
    x = alt.X(
        "load:Q",
        title=load,
        scale=alt.Scale(type="log" if is_whole else "linear", nice=False, zero=False, padding=8),
        axis=alt.Axis(tickCount=5, format=".6~g", grid=False, labelOverlap=True),
    )
    y = _loss_axis([row["loss"] for row in rows_of_steps if row["kind"] in ("step", "goal")])
    lost = alt.Color(
        "lost:N",
        sort=_LOSS_CATEGORIES,
        scale=alt.Scale(domain=_LOSS_CATEGORIES),
        title="Frames lost",
        legend=alt.Legend(symbolOpacity=1),
    )
    lengths = sorted({row["duration"] for row in rows_of_steps if row["kind"] == "step"})
    length = alt.Size(
        "duration:Q",
        scale=alt.Scale(type="log", domain=[lengths[0], lengths[-1]], range=[20, 90]),
        title="Seconds",
        legend=alt.Legend(values=[lengths[0], lengths[-1]], format=".6~g") if len(lengths) > 1 else None,
    )
    at = data.encode(x=x, y=y)
    steps = at.transform_filter("datum.kind == 'step'")
    model = at.transform_filter("datum.kind == 'model'")
    goals = data.transform_filter("datum.kind == 'goal'").encode(y=y)
    answers = at.transform_filter("datum.kind == 'answer'")
    tooltip = [
        alt.Tooltip("trial:Q", title="Trial"),
        alt.Tooltip("load:Q", title=load),
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
        steps.mark_point(filled=True, opacity=0.6).encode(color=lost, size=length, tooltip=tooltip),
        answers.mark_rule(strokeWidth=2.4, style="ink").encode(x=alt.X("low:Q"), x2="high:Q"),
        answers.mark_point(style="ink", shape="diamond", size=90, strokeWidth=2, filled=False).encode(
            tooltip=tooltip[:3]
        ),
    ).properties(width=330, height=190)
    return to_spec(facet_by_treatment(layers, names, columns=2, row_gap_px=92).resolve_scale(x="independent"))


def loss_curve_spec(rows_of_curves: Sequence[ChartRow], load: str) -> VegaSpec:
    """The share lost at each load, a line a trial, a colour a treatment (RFC 2544, section 26.3)."""
    names = list(dict.fromkeys(str(row["treatment"]) for row in rows_of_curves))
    rows = alt.Chart(DATASET).encode(
        x=alt.X("load:Q", title=load, scale=alt.Scale(zero=True), axis=alt.Axis(format=".6~g", tickCount=8)),
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
            alt.Tooltip("load:Q", title=load),
            alt.Tooltip("loss:Q", title="Lost", format=".4~p"),
        ],
    )
    layers = rows.mark_line(strokeWidth=1.6, opacity=0.7) + rows.mark_point(filled=True, size=26)
    return to_spec(layers.properties(width=640, height=300))


def missing_frames_spec(rows_of_trials: Sequence[ChartRow]) -> VegaSpec:
    """Frames that were sent and had not come, in the course of each trial; a panel a treatment."""
    names = list(dict.fromkeys(str(row["treatment"]) for row in rows_of_trials))
    rows = alt.Chart(DATASET).encode(
        x=alt.X("t:Q", title="Seconds in the trial", axis=alt.Axis(tickCount=5)),
        y=alt.Y(
            "missing:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4, minExtent=34)
        ),
        detail="trial:N",
        tooltip=[
            alt.Tooltip("trial:Q", title="Trial"),
            alt.Tooltip("t:Q", title="Seconds"),
            alt.Tooltip("missing:Q", title="Frames"),
        ],
    )
    layers = alt.layer(rows.mark_line(strokeWidth=1.4, opacity=0.7)).properties(width=250, height=120)
    return to_spec(facet_by_treatment(layers, names, columns=3).resolve_scale(y="independent"))


def _loss_axis(losses: Sequence[float]) -> alt.Y:
    """From 0 to 1, a tick a decade of the losses above 0."""
    least = min((loss for loss in losses if loss > 0), default=0.01)
    first = max(_MIN_LOSS_RATIO, 10.0 ** math.floor(math.log10(least)))
    decades = [first * 10**step for step in range(round(-math.log10(first)) + 1)]
    return alt.Y(
        "loss:Q",
        title=None,
        scale=alt.Scale(type="symlog", constant=first, domain=[0, 1], nice=False),
        axis=alt.Axis(values=[0, *decades], labelExpr=_PERCENT_LABEL_EXPR),
    )


def published_comparison_spec(rows_beside: Sequence[ChartRow], title: str) -> VegaSpec:
    """Measured here and published, side by side: a row a treatment, a panel a direction."""
    names = list(dict.fromkeys(str(row["pair"]) for row in rows_beside))
    where = ["here", "published"]
    key: dict[str, Any] = {"sort": where, "scale": alt.Scale(domain=where), "title": None}
    rows = alt.Chart(DATASET).encode(
        y=alt.Y(
            "pair:N",
            sort=names,
            title=None,
            scale=alt.Scale(paddingInner=0.25),
            axis=alt.Axis(labelLimit=360),
        ),
        yOffset=alt.YOffset("where:N", sort=where),
        color=alt.Color("where:N", **key),
        detail="setting:N",
        tooltip=[
            alt.Tooltip("pair:N", title="Treatment"),
            alt.Tooltip("setting:N", title="Published with"),
            alt.Tooltip("mean:Q", title=title),
            alt.Tooltip("least:Q", title="Least"),
            alt.Tooltip("most:Q", title="Most"),
        ],
    )
    x = alt.X(
        "mean:Q",
        title=title,
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(grid=True, tickCount=5, format=".6~g"),
    )
    layers = alt.layer(
        rows.mark_rule(strokeWidth=2).encode(x=alt.X("least:Q", title=title), x2="most:Q"),
        rows.mark_point(filled=True, size=56, opacity=1).encode(x=x, shape=alt.Shape("where:N", **key)),
    ).properties(width=300, height=max(60, 44 * len(names)))
    panels = layers.facet(
        facet=alt.Facet("direction:N", sort=["one way", "both ways"], title=None), columns=2, bounds="flush"
    )
    room = _LABEL_CHAR_WIDTH_PX * max(map(len, names))
    return to_spec(panels.properties(usermeta={Y_AXIS_WIDTH_KEY: room}))
