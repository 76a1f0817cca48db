"""The Vega-Lite specifications of the charts: lines, dot plot and heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.axes import numeric_x_axis, panel_width_px, panels_per_row
from vnetbench.report.charts.chart_rows import metric_rows, panel_labels, series_labels
from vnetbench.report.charts.factor_layout import FactorLayout
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import choose_metric_scale, find_metric, metric_heading
from vnetbench.wording.factor_text import factor_title, level_text

VegaSpec = dict[str, Any]

DATASET_NAME = "rows"
"""The name of the dataset in every specification. The renderer supplies its rows."""
DATASET = alt.NamedData(DATASET_NAME)
"""The dataset. Layers in panels have to share one."""
Y_AXIS_WIDTH_KEY = "yAxisWidth"
"""The key in `usermeta` for the width of a y axis with long labels, in pixels."""
PANEL_HEIGHT_PX = 280
PANEL_SPACING_PX = {"row": 44, "column": 28}
_TRIAL_MARK_OFFSET_PX = 9
"""Offset of the trials from their estimate, whose mark would hide them."""
_MAX_LINEAR_COLOUR_RATIO = 30
"""A heat map whose values span a larger factor has a logarithmic colour scale."""


def metric_spec(summary: CampaignSummary, layout: FactorLayout, metric: str) -> VegaSpec:
    """Return lines over the numeric factor, or a dot plot without one, with intervals and trials."""
    chart = line_chart(summary, layout, metric) if layout.x_factor else _dot_plot(summary, layout, metric)
    return to_spec(chart)


def heat_map_spec(summary: CampaignSummary, layout: FactorLayout, metric: str) -> VegaSpec:
    """Return a heat map of two numeric factors, with the value and its interval in each cell.

    Raises:
        ValueError: The layout has no two numeric factors.
    """
    if layout.x_factor is None or layout.heat_map_y_factor is None:
        raise ValueError("a heat map needs two numeric factors")
    x_texts, y_texts = _level_texts(layout.x_factor), _level_texts(layout.heat_map_y_factor)[::-1]
    values = [row["value"] for row in metric_rows(summary, layout, metric) if row["kind"] == "estimate"]
    measured = [value for value in values if value is not None and value > 0]
    is_logarithmic = bool(measured) and max(measured) / min(measured) > _MAX_LINEAR_COLOUR_RATIO
    low, high = (min(measured), max(measured)) if measured else (0.0, 0.0)
    colour_midpoint = (low * high) ** 0.5 if is_logarithmic else (low + high) / 2
    x = alt.X(
        "x_level:O",
        sort=x_texts,
        title=factor_title(layout.x_factor.name),
        scale=alt.Scale(paddingInner=0.03),
        axis=alt.Axis(labelAngle=0, domain=False, ticks=False),
    )
    y = alt.Y(
        "series:O",
        sort=y_texts,
        title=factor_title(layout.heat_map_y_factor.name),
        scale=alt.Scale(paddingInner=0.05),
    )
    rows = alt.Chart(DATASET).transform_filter("datum.kind == 'estimate'")
    base = rows.encode(x=x, y=y)
    cells = base.mark_rect().encode(
        color=alt.Color(
            "value:Q",
            title=metric_heading(metric, choose_metric_scale(summary.treatments, metric))
            + (", logarithmic" if is_logarithmic else ""),
            scale=alt.Scale(type="log" if is_logarithmic else "linear", zero=False, nice=False),
            legend=alt.Legend(gradientLength=240, gradientThickness=10, tickCount=4),
        ),
        tooltip=_estimate_tooltip(),
    )
    text_colour = alt.condition(
        f"datum.value === null || datum.value < {colour_midpoint!r}",
        alt.value("#FFFFFF"),
        alt.value("#0B1B2B"),
    )
    value = base.transform_calculate(value_text="split(datum.estimate_text, ' [')[0]").mark_text(
        dy=-6, fontSize=13, fontWeight=600
    )
    interval = base.transform_calculate(
        interval_text="datum.low === null ? '' : '[' + split(datum.estimate_text, ' [')[1]"
    ).mark_text(dy=9, fontSize=10)
    layers = (
        cells
        + value.encode(text="value_text:N", color=text_colour)
        + interval.encode(text="interval_text:N", color=text_colour)
    )
    return to_spec(_facet_by_panel(layers.properties(width=640, height=52 * len(y_texts)), summary, layout))


def line_chart(
    summary: CampaignSummary,
    layout: FactorLayout,
    metric: str,
    background_layers: Sequence[alt.Chart] = (),
    y_max: float | None = None,
) -> alt.TopLevelMixin:
    """Return lines over the numeric factor, above the background layers; `y_max` ends the y axis."""
    assert layout.x_factor is not None
    chart_rows = metric_rows(summary, layout, metric)
    has_negative = any((row.get("low") or row["value"] or 0) < 0 for row in chart_rows)
    ends: dict[str, Any] = {} if has_negative else {"domainMin": 0}
    if y_max is not None:
        ends |= {"domainMax": y_max, "nice": False}
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=True, **ends),
        axis=alt.Axis(tickCount=6, minExtent=34),
    )
    rows = alt.Chart(DATASET).encode(x=numeric_x_axis(layout.x_factor), y=y, **series_colour_encoding(layout))
    estimates = rows.transform_filter("datum.kind == 'estimate'")
    layers = alt.layer(
        *background_layers,
        rows.transform_filter("datum.kind == 'trial'")
        .mark_point(filled=True, size=16, opacity=0.45, xOffset=_TRIAL_MARK_OFFSET_PX)
        .encode(**_series_shape_encoding(layout), tooltip=_trial_tooltip(metric)),
        estimates.mark_line(strokeWidth=2),
        estimates.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
        *interval_caps(estimates, "y"),
        estimates.mark_point(filled=True, size=46, opacity=1).encode(
            tooltip=_estimate_tooltip(), **_series_shape_encoding(layout)
        ),
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
        title=metric_heading(metric, choose_metric_scale(summary.treatments, metric)),
        scale=alt.Scale(zero=True),
        axis=alt.Axis(grid=True, domain=False, ticks=False, tickCount=6),
    )
    y = alt.Y(
        "panel:N",
        sort=names,
        title=None,
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
        axis=alt.Axis(labelLimit=440, grid=False, labels=any(names)),
    )
    offset: dict[str, Any] = {}
    if layout.colour_factor:
        offset["yOffset"] = alt.YOffset("series:N", sort=series_labels(layout))
    rows = alt.Chart(DATASET).encode(x=x, y=y, **series_colour_encoding(layout), **offset)
    estimates = rows.transform_filter("datum.kind == 'estimate'")
    layers = alt.layer(
        rows.transform_filter("datum.kind == 'trial'")
        .mark_point(filled=True, size=20, opacity=0.45, yOffset=_TRIAL_MARK_OFFSET_PX)
        .encode(**_series_shape_encoding(layout), tooltip=_trial_tooltip(metric)),
        estimates.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q"),
        *interval_caps(estimates, "x"),
        estimates.mark_point(filled=True, size=56, opacity=1).encode(
            tooltip=_estimate_tooltip(), **_series_shape_encoding(layout)
        ),
        *_mode_and_missing_marks(rows),
    )
    return layers.properties(width=560, height=max(60, len(names) * (14 + 22 * count)))


def interval_caps(estimates: alt.Chart, axis: str) -> list[alt.Chart]:
    """Return the caps at both ends of an interval."""
    orientation: Any = "vertical" if axis == "x" else "horizontal"
    ends = []
    for end in ("low:Q", "high:Q"):
        channel = {axis: alt.X(end) if axis == "x" else alt.Y(end)}
        ends.append(
            estimates.mark_tick(orient=orientation, size=9, thickness=1.6, opacity=1).encode(**channel)
        )
    return ends


def _mode_and_missing_marks(rows: alt.Chart) -> list[alt.Chart]:
    modes = rows.transform_filter("datum.kind == 'mode'")
    return [
        modes.mark_point(shape="diamond", size=150, strokeWidth=2, opacity=1).encode(
            tooltip=_estimate_tooltip()
        ),
        modes.mark_text(align="left", dx=2 * _TRIAL_MARK_OFFSET_PX + 2).encode(text="share:N"),
        rows.transform_filter("datum.kind == 'missing'")
        .mark_point(shape="cross", angle=45, size=60, filled=True, opacity=0.9)
        .encode(tooltip=_estimate_tooltip()),
    ]


def series_colour_encoding(layout: FactorLayout) -> dict[str, Any]:
    """Return the colour encoding of the lines; empty for a single line."""
    if layout.colour_factor is None:
        return {}
    return {"color": alt.Color(f"series:{_series_encoding_type(layout)}", **_series_channel_options(layout))}


def _series_encoding_type(layout: FactorLayout) -> str:
    """Return `O`, a colour ramp, for four numbers or more, and `N`, distinct colours, for other levels."""
    numbers = (
        [level for level in layout.colour_factor.levels if not isinstance(level, str)]
        if layout.colour_factor
        else []
    )
    return "O" if len(numbers) > 3 else "N"


def _series_shape_encoding(layout: FactorLayout) -> dict[str, Any]:
    if layout.colour_factor is None:
        return {}
    return {"shape": alt.Shape(f"series:{_series_encoding_type(layout)}", **_series_channel_options(layout))}


def _series_channel_options(layout: FactorLayout) -> dict[str, Any]:
    """Return options for colour and shape with equal domains, so that Vega-Lite merges their legends."""
    texts = series_labels(layout)
    title = factor_title(layout.colour_factor.name) if layout.colour_factor else None
    return {
        "sort": texts,
        "scale": alt.Scale(domain=texts),
        "title": title,
        "legend": alt.Legend(symbolOpacity=1),
    }


def _facet_by_panel(
    layers: alt.LayerChart | alt.FacetChart, summary: CampaignSummary, layout: FactorLayout
) -> alt.TopLevelMixin:
    others = [factor for factor in layout.panel_factors if factor is not layout.heat_map_y_factor]
    if not others:
        return layers
    names = panel_labels(summary, layout)
    return layers.facet(
        facet=alt.Facet("panel:N", sort=names, title=None),
        columns=panels_per_row(len(names)),
        spacing=PANEL_SPACING_PX,
        bounds="flush",
    )


def _level_texts(factor: FactorLevels) -> list[str]:
    return [level_text(factor.name, level) for level in factor.levels]


def _estimate_tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("treatment:N", title="Treatment"),
        alt.Tooltip("estimate_text:N", title="Estimate"),
        alt.Tooltip("trials:Q", title="Trials"),
        alt.Tooltip("stop_reason:N", title="Stopped"),
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
    """Return a panel for each treatment in this order."""
    return layers.facet(
        facet=alt.Facet("treatment:N", sort=list(treatments), title=None).header(labelLimit=300),
        columns=columns,
        spacing={"row": row_gap_px, "column": 64},
        bounds="flush",
    )


def to_spec(chart: alt.TopLevelMixin) -> VegaSpec:
    """Return the chart as Vega-Lite without data and without a theme."""
    spec: VegaSpec = chart.to_dict(validate=False, context={"pre_transform": False})
    spec.pop("config", None)  # The theme replaces the default configuration of Altair.
    return spec
