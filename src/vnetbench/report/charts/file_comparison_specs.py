"""The Vega-Lite specification that compares files: a colour per file, triangles for published values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from vnetbench.report.charts.axes import numeric_x_axis, panel_width_px, panels_per_row
from vnetbench.report.charts.chart_specs import (
    DATASET,
    PANEL_HEIGHT_PX,
    PANEL_SPACING_PX,
    VegaSpec,
    interval_caps,
    to_spec,
)
from vnetbench.study.model import FactorLevels

_MEASURED, _PUBLISHED = "circle", "triangle-up"


@dataclass(frozen=True)
class ComparisonLayout:
    """The axes, panels and files of a comparison chart."""

    x_factor: FactorLevels | None
    """The factor on the x axis; None for a dot plot with the value on the x axis."""
    panels: tuple[str, ...]
    """The names of the panels, or of the rows of a dot plot."""
    files: tuple[str, ...]
    is_published: tuple[bool, ...]
    """For each of `files`, whether it is a published table."""


def file_comparison_spec(layout: ComparisonLayout, title: str) -> VegaSpec:
    """Return the chart of kinds `measured`, `published` and `mode`; `title` is the metric's heading."""
    return to_spec(_line_chart(layout) if layout.x_factor else _dot_plot(layout, title))


def _line_chart(layout: ComparisonLayout) -> alt.TopLevelMixin:
    assert layout.x_factor is not None
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=6, minExtent=34))
    rows = alt.Chart(DATASET).encode(
        x=numeric_x_axis(layout.x_factor), y=y, color=alt.Color("file:N", **_file_channel_options(layout))
    )
    measured = rows.transform_filter("datum.kind == 'measured'")
    layers = alt.layer(
        measured.mark_line(strokeWidth=2).encode(detail="unplotted_levels:N"),
        rows.mark_rule(strokeWidth=1.4).encode(y=alt.Y("low:Q"), y2="high:Q"),
        *interval_caps(measured, "y"),
        *_point_marks(rows, layout),
    ).properties(width=panel_width_px(len(layout.panels)), height=PANEL_HEIGHT_PX)
    if len(layout.panels) < 2:
        return layers
    return layers.facet(
        facet=alt.Facet("panel:N", sort=list(layout.panels), title=None),
        columns=panels_per_row(len(layout.panels)),
        spacing=PANEL_SPACING_PX,
        bounds="flush",
    )


def _dot_plot(layout: ComparisonLayout, title: str) -> alt.TopLevelMixin:
    x = alt.X(
        "value:Q",
        title=title,
        scale=alt.Scale(zero=True),
        axis=alt.Axis(grid=True, domain=False, ticks=False, tickCount=6),
    )
    y = alt.Y(
        "panel:N",
        sort=list(layout.panels),
        title=None,
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
        axis=alt.Axis(labelLimit=440, grid=False),
    )
    rows = alt.Chart(DATASET).encode(
        x=x,
        y=y,
        yOffset=alt.YOffset("file:N", sort=list(layout.files)),
        color=alt.Color("file:N", **_file_channel_options(layout)),
    )
    measured = rows.transform_filter("datum.kind == 'measured'")
    height = max(60, len(layout.panels) * (14 + 22 * len(layout.files)))
    return alt.layer(
        rows.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q"), x2="high:Q"),
        *interval_caps(measured, "x"),
        *_point_marks(rows, layout),
    ).properties(width=560, height=height)


def _point_marks(rows: alt.Chart, layout: ComparisonLayout) -> Sequence[alt.Chart]:
    shape = alt.Shape("file:N", **_file_channel_options(layout, shapes=True))
    tooltip = [
        alt.Tooltip("file:N", title="File"),
        alt.Tooltip("treatment:N", title="Treatment"),
        alt.Tooltip("estimate_text:N", title="Estimate"),
    ]
    single_values = rows.transform_filter("datum.kind != 'mode'")
    modes = rows.transform_filter("datum.kind == 'mode'")
    return (
        single_values.mark_point(filled=True, size=58, opacity=0.9).encode(shape=shape, tooltip=tooltip),
        modes.mark_point(shape="diamond", size=150, strokeWidth=2, opacity=1).encode(tooltip=tooltip),
        modes.mark_text(align="left", dx=14).encode(text="share:N"),
    )


def _file_channel_options(layout: ComparisonLayout, *, shapes: bool = False) -> dict[str, Any]:
    """Return options for colour and shape with equal domains, so that Vega-Lite merges their legends."""
    shape_range: dict[str, Any] = {
        "range": [_PUBLISHED if each else _MEASURED for each in layout.is_published]
    }
    return {
        "sort": list(layout.files),
        "scale": alt.Scale(domain=list(layout.files), **(shape_range if shapes else {})),
        "title": None,
        "legend": alt.Legend(symbolOpacity=1, columns=3),
    }
