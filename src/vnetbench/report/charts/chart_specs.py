"""How each form of chart is drawn, as Vega-Lite: lines, dots, heat map, time, latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.axes import panels_per_row, panel_width_px, numeric_x_axis
from vnetbench.report.charts.chart_rows import ChartRow, panel_labels, metric_rows, series_labels
from vnetbench.report.charts.factor_layout import FactorLayout
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import metric_heading, find_metric, metric_scale
from vnetbench.wording.factor_text import factor_label, level_text

VegaSpec = dict[str, Any]

DATASET_NAME = "rows"
"""The name of the dataset in every specification; whoever draws it supplies the rows."""
DATASET = alt.NamedData(DATASET_NAME)
"""The dataset itself: layers that are put into panels must share one."""
Y_AXIS_WIDTH_KEY = "axisRoom"
"""Where a specification says how many pixels the y axis of its panels takes, if it is more than numbers."""
PANEL_HEIGHT_PX = 280
PANEL_SPACING_PX = {"row": 44, "column": 28}
_TRIAL_OFFSET_PX = 9
"""Pixels that the trials stand beside their estimate, whose mark would hide them."""
_LATENCY_CURVE_FIELDS = ("colour", "dash")
"""What tells the curves of latency apart."""
_PALETTE_SIZE = 7
"""Colours of their own that the theme has."""
_TRIAL_MARK_SHAPES = {"trial": "circle", "of two modes": "diamond", "outlier": "cross"}
"""What a trial is marked as in the chart of time, and its shape."""


def metric_spec(summary: CampaignSummary, layout: FactorLayout, metric: str) -> VegaSpec:
    """Estimates with intervals and every trial: lines over the numeric factor, or a dot plot without one."""
    chart = line_chart(summary, layout, metric) if layout.x_factor else _dot_plot(summary, layout, metric)
    return to_spec(chart)


def heat_map_spec(summary: CampaignSummary, layout: FactorLayout, metric: str) -> VegaSpec:
    """Two numeric factors as a surface, the value and its interval in each cell; needs `layout.heat`."""
    if layout.x_factor is None or layout.heat_factor is None:
        raise ValueError("a heat map needs two numeric factors")
    x_texts, y_texts = _level_texts(layout.x_factor), _level_texts(layout.heat_factor)[::-1]
    values = [row["value"] for row in metric_rows(summary, layout, metric) if row["kind"] == "estimate"]
    measured = [value for value in values if value is not None and value > 0]
    wide = bool(measured) and max(measured) / min(measured) > 30
    middle = (
        (min(measured) * max(measured)) ** 0.5
        if wide
        else sum((min(measured), max(measured))) / 2
        if measured
        else 0
    )
    x = alt.X(
        "xlevel:O",
        sort=x_texts,
        title=factor_label(layout.x_factor.name),
        scale=alt.Scale(paddingInner=0.03),
        axis=alt.Axis(labelAngle=0, domain=False, ticks=False),
    )
    y = alt.Y(
        "series:O", sort=y_texts, title=factor_label(layout.heat_factor.name), scale=alt.Scale(paddingInner=0.05)
    )
    rows = alt.Chart(DATASET).transform_filter("datum.kind == 'estimate'")
    base = rows.encode(x=x, y=y)
    cells = base.mark_rect().encode(
        color=alt.Color(
            "value:Q",
            title=metric_heading(metric, metric_scale(summary.treatments, metric)) + (", logarithmic" if wide else ""),
            scale=alt.Scale(type="log" if wide else "linear", zero=False, nice=False),
            legend=alt.Legend(gradientLength=240, gradientThickness=10, tickCount=4),
        ),
        tooltip=_estimate_tooltip(),
    )
    ink = alt.condition(
        f"datum.value === null || datum.value < {middle!r}", alt.value("#FFFFFF"), alt.value("#0B1B2B")
    )
    value = base.transform_calculate(first="split(datum.figure, ' [')[0]").mark_text(
        dy=-6, fontSize=13, fontWeight=600
    )
    spread = base.transform_calculate(
        second="datum.low === null ? '' : '[' + split(datum.figure, ' [')[1]"
    ).mark_text(dy=9, fontSize=10)
    layers = cells + value.encode(text="first:N", color=ink) + spread.encode(text="second:N", color=ink)
    return to_spec(_facet_by_panel(layers.properties(width=640, height=52 * len(y_texts)), summary, layout))


_MAX_SECONDS_ON_AXIS = 120
"""A longer campaign is drawn over minutes."""


def trial_order_spec(rows_in_time: Sequence[ChartRow]) -> VegaSpec:
    """Each trial against its treatment's median, in the order they ran: drift and modes show here."""
    lasted_s = max(float(str(row["seconds"])) for row in rows_in_time)
    unit, unit_s = ("Minutes", 60) if lasted_s > _MAX_SECONDS_ON_AXIS else ("Seconds", 1)
    rows = alt.Chart(DATASET).transform_calculate(at=f"datum.seconds / {unit_s}")
    since = alt.X(
        "at:Q",
        title=f"{unit} since the campaign began",
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(tickCount=8, labelExpr="format(datum.value, '.3~f')"),
    )
    marks = sorted({str(row["mark"]) for row in rows_in_time}, key=list(_TRIAL_MARK_SHAPES).index)
    key: dict[str, Any] = {
        "sort": marks,
        "scale": alt.Scale(domain=marks),
        "title": None,
        "legend": alt.Legend(symbolOpacity=1),
    }
    points = rows.mark_point(filled=True, size=26, opacity=0.55).encode(
        x=since,
        y=alt.Y(
            "deviation:Q",
            title=None,
            axis=alt.Axis(
                labelExpr="datum.value === 0 ? '0' : format(100 * datum.value, '+.3~g') + ' %'", tickCount=5
            ),
        ),
        color=alt.Color("mark:N", **key),
        shape=alt.Shape(
            "mark:N", **{**key, "scale": alt.Scale(domain=marks, range=[_TRIAL_MARK_SHAPES[mark] for mark in marks])}
        ),
        tooltip=[
            alt.Tooltip("treatment:N", title="Treatment"),
            alt.Tooltip("trial:Q", title="Trial"),
            alt.Tooltip("block:Q", title="Block"),
            alt.Tooltip("deviation:Q", title="Against its median", format="+.1%"),
        ],
    )
    blocks = (
        rows.transform_filter("datum.mark == 'trial'")
        .transform_aggregate(at="median(at)", deviation="median(deviation)", groupby=["block"])
        .mark_line(strokeWidth=1.5, opacity=0.9)
        .encode(x=since, y="deviation:Q", order=alt.Order("block:Q"))
    )
    zero = rows.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(y=alt.datum(0))
    return to_spec((zero + blocks + points).properties(width=640, height=220))


def time_series_spec(rows_of_trials: Sequence[ChartRow]) -> VegaSpec:
    """The main metric within each trial, a panel (and scale) a treatment: the warm-up is dashed and grey.

    Where there is an idle phase it is before second 0, and a line stands where the load begins.
    """
    has_idle = any(row["part"] == "idle" for row in rows_of_trials)
    names = list(dict.fromkeys(str(row["treatment"]) for row in rows_of_trials))
    data = alt.Chart(DATASET)
    rows = data.encode(
        x=alt.X(
            "t:Q",
            title="Seconds since the load began" if has_idle else "Seconds in the trial",
            axis=alt.Axis(tickCount=5),
        ),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4, minExtent=34)),
        detail=["trial:N", "part:N"],
        tooltip=[alt.Tooltip("trial:Q", title="Trial"), alt.Tooltip("part:N", title="Part")],
    )
    cut = rows.transform_filter("datum.part == 'warm-up'")
    counted = rows.transform_filter("datum.part != 'warm-up'")
    begin = data.mark_rule(strokeDash=[1, 3], opacity=0.7)
    layers = alt.layer(
        *([begin.encode(x=alt.datum(0))] if has_idle else []),
        counted.mark_line(strokeWidth=1.2, opacity=0.55),
        cut.mark_line(strokeWidth=1.4, strokeDash=[3, 2], style="soft"),
    ).properties(width=250, height=100)
    return to_spec(facet_by_treatment(layers, names, columns=3).resolve_scale(y="independent"))


def latency_spec(rows_of_curves: Sequence[ChartRow], noun: str) -> VegaSpec:
    """`noun` by percentile, a line a treatment; each grid line to the right has a tenth as many beyond."""
    colours, dashes = (list(dict.fromkeys(str(row[key]) for row in rows_of_curves)) for key in _LATENCY_CURVE_FIELDS)
    least = min(float(row["beyond"]) for row in rows_of_curves)
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
            # Where there are more than the palette has, a ramp of colours (O).
            f"colour:{'N' if len(colours) <= _PALETTE_SIZE else 'O'}",
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


def line_chart(
    summary: CampaignSummary,
    layout: FactorLayout,
    metric: str,
    background_layers: Sequence[alt.Chart] = (),
    y_max: float | None = None,
) -> alt.TopLevelMixin:
    """Lines over the numeric factor on x, with layers `beneath` them; `top` is where the y axis ends."""
    assert layout.x_factor is not None
    shown = metric_rows(summary, layout, metric)
    has_negative = any((row.get("low") or row["value"] or 0) < 0 for row in shown)
    ends: dict[str, Any] = {} if has_negative else {"domainMin": 0}
    if y_max is not None:
        ends |= {"domainMax": y_max, "nice": False}
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=True, **ends),
        axis=alt.Axis(tickCount=6, minExtent=34),
    )
    rows = alt.Chart(DATASET).encode(x=numeric_x_axis(layout.x_factor), y=y, **series_colour(layout))
    estimates = rows.transform_filter("datum.kind == 'estimate'")
    layers = alt.layer(
        *background_layers,
        rows.transform_filter("datum.kind == 'trial'")
        .mark_point(filled=True, size=16, opacity=0.45, xOffset=_TRIAL_OFFSET_PX)
        .encode(**_series_shape(layout), tooltip=_trial_tooltip(metric)),
        estimates.mark_line(strokeWidth=2),
        estimates.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
        *interval_caps(estimates, "y"),
        estimates.mark_point(filled=True, size=46, opacity=1).encode(tooltip=_estimate_tooltip(), **_series_shape(layout)),
        *_mode_and_missing_marks(rows),
    )
    count = len(panel_labels(summary, layout)) if layout.panel_factors else 1
    layers = layers.properties(width=panel_width_px(count), height=PANEL_HEIGHT_PX)
    return _facet_by_panel(layers, summary, layout)


def _dot_plot(summary: CampaignSummary, layout: FactorLayout, metric: str) -> alt.TopLevelMixin:
    names = panel_labels(summary, layout)
    count = max(1, len(series_labels(layout)))
    x = alt.X(
        "value:Q",
        title=metric_heading(metric, metric_scale(summary.treatments, metric)),
        scale=alt.Scale(zero=True),
        axis=alt.Axis(grid=True, domain=False, ticks=False, tickCount=6),
    )
    y = alt.Y(
        "combination:N",
        sort=names,
        title=None,
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
        axis=alt.Axis(labelLimit=440, grid=False, labels=any(names)),
    )
    offset: dict[str, Any] = {}
    if layout.colour_factor:
        offset["yOffset"] = alt.YOffset("series:N", sort=series_labels(layout))
    rows = alt.Chart(DATASET).encode(x=x, y=y, **series_colour(layout), **offset)
    estimates = rows.transform_filter("datum.kind == 'estimate'")
    layers = alt.layer(
        rows.transform_filter("datum.kind == 'trial'")
        .mark_point(filled=True, size=20, opacity=0.45, yOffset=_TRIAL_OFFSET_PX)
        .encode(**_series_shape(layout), tooltip=_trial_tooltip(metric)),
        estimates.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q"),
        *interval_caps(estimates, "x"),
        estimates.mark_point(filled=True, size=56, opacity=1).encode(tooltip=_estimate_tooltip(), **_series_shape(layout)),
        *_mode_and_missing_marks(rows),
    )
    return layers.properties(width=560, height=max(60, len(names) * (14 + 22 * count)))


def interval_caps(estimates: alt.Chart, axis: str) -> list[alt.Chart]:
    """The short strokes at both ends of an interval."""
    turned: Any = "vertical" if axis == "x" else "horizontal"
    ends = []
    for end in ("low:Q", "high:Q"):
        channel = {axis: alt.X(end) if axis == "x" else alt.Y(end)}
        ends.append(estimates.mark_tick(orient=turned, size=9, thickness=1.6, opacity=1).encode(**channel))
    return ends


def _mode_and_missing_marks(rows: alt.Chart) -> list[alt.Chart]:
    modes = rows.transform_filter("datum.kind == 'mode'")
    return [
        modes.mark_point(shape="diamond", size=150, strokeWidth=2, opacity=1).encode(tooltip=_estimate_tooltip()),
        modes.mark_text(align="left", dx=2 * _TRIAL_OFFSET_PX + 2).encode(text="share:N"),
        rows.transform_filter("datum.kind == 'missing'")
        .mark_point(shape="cross", angle=45, size=60, filled=True, opacity=0.9)
        .encode(tooltip=_estimate_tooltip()),
    ]


def series_colour(layout: FactorLayout) -> dict[str, Any]:
    """The encoding of colour that tells the lines apart; nothing where there is one."""
    if layout.colour_factor is None:
        return {}
    return {"color": alt.Color(f"series:{_series_scale_type(layout)}", **_series_channel_options(layout))}


def _series_scale_type(layout: FactorLayout) -> str:
    """Four numbers and more get a ramp of colours (O), words and few levels colours of their own (N)."""
    numbers = [level for level in layout.colour_factor.levels if not isinstance(level, str)] if layout.colour_factor else []
    return "O" if len(numbers) > 3 else "N"


def _series_shape(layout: FactorLayout) -> dict[str, Any]:
    if layout.colour_factor is None:
        return {}
    return {"shape": alt.Shape(f"series:{_series_scale_type(layout)}", **_series_channel_options(layout))}


def _series_channel_options(layout: FactorLayout) -> dict[str, Any]:
    """The same key for colour and shape: only with equal domains does Vega-Lite make one legend of both."""
    texts = series_labels(layout)
    title = factor_label(layout.colour_factor.name) if layout.colour_factor else None
    return {
        "sort": texts,
        "scale": alt.Scale(domain=texts),
        "title": title,
        "legend": alt.Legend(symbolOpacity=1),
    }


def _facet_by_panel(
    layers: alt.LayerChart | alt.FacetChart, summary: CampaignSummary, layout: FactorLayout
) -> alt.TopLevelMixin:
    others = [factor for factor in layout.panel_factors if factor is not layout.heat_factor]
    if not others:
        return layers
    names = panel_labels(summary, layout)
    return layers.facet(
        facet=alt.Facet("combination:N", sort=names, title=None),
        columns=panels_per_row(len(names)),
        spacing=PANEL_SPACING_PX,
        bounds="flush",
    )


def _level_texts(factor: FactorLevels) -> list[str]:
    return [level_text(factor.name, level) for level in factor.levels]


def _estimate_tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("treatment:N", title="Treatment"),
        alt.Tooltip("figure:N", title="Estimate"),
        alt.Tooltip("trials:Q", title="Trials"),
        alt.Tooltip("stopped:N", title="Stopped"),
    ]


def _trial_tooltip(metric: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("treatment:N", title="Treatment"),
        alt.Tooltip("trial:Q", title="Trial"),
        alt.Tooltip("value:Q", title=find_metric(metric).label, format=".4~g"),
    ]


def facet_by_treatment(
    layers: alt.LayerChart | alt.FacetChart, treatments: Sequence[str], columns: int, row_gap_px: int = 44
) -> alt.FacetChart:
    """A panel for each treatment, in this order; `row_gap` is what stands between rows, in pixels."""
    return layers.facet(
        facet=alt.Facet("treatment:N", sort=list(treatments), title=None).header(labelLimit=300),
        columns=columns,
        spacing={"row": row_gap_px, "column": 64},
        bounds="flush",
    )


def to_spec(chart: alt.TopLevelMixin) -> VegaSpec:
    """The chart as Vega-Lite, without data and without looks."""
    spec: VegaSpec = chart.to_dict(validate=False, context={"pre_transform": False})
    spec.pop("config", None)  # Altair's own default; the theme supplies it
    return spec
