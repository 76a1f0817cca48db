"""How one metric of several files is drawn, as Vega-Lite: a colour a file, published figures as triangles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from vnetbench.report.charts.axes import panels_per_row, panel_width_px, numeric_x_axis
from vnetbench.report.charts.chart_specs import DATASET, PANEL_HEIGHT_PX, PANEL_SPACING_PX, VegaSpec, to_spec, interval_caps
from vnetbench.study.model import FactorLevels

_MEASURED, _PUBLISHED = "circle", "triangle-up"


@dataclass(frozen=True)
class ComparisonLayout:
    """What the marks of a chart stand in."""

    x: FactorLevels | None
    """The numeric factor on x; None: a row for each place, and the value on x."""
    places: tuple[str, ...]
    """The names of the panels, or without x of the rows."""
    files: tuple[str, ...]
    published: tuple[bool, ...]
    """Of each of `files`, whether it is a published table."""


def file_comparison_spec(frame: ComparisonLayout, title: str) -> VegaSpec:
    """The chart of rows of kind `measured`, `published` and `mode`; `title` is that of the metric."""
    return to_spec(_line_chart(frame) if frame.x else _dot_plot(frame, title))


def _line_chart(frame: ComparisonLayout) -> alt.TopLevelMixin:
    assert frame.x is not None
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=6, minExtent=34))
    rows = alt.Chart(DATASET).encode(x=numeric_x_axis(frame.x), y=y, color=alt.Color("file:N", **_file_channel_options(frame)))
    measured = rows.transform_filter("datum.kind == 'measured'")
    layers = alt.layer(
        measured.mark_line(strokeWidth=2).encode(detail="rest:N"),
        rows.mark_rule(strokeWidth=1.4).encode(y=alt.Y("low:Q"), y2="high:Q"),
        *interval_caps(measured, "y"),
        *_point_marks(rows, frame),
    ).properties(width=panel_width_px(len(frame.places)), height=PANEL_HEIGHT_PX)
    if len(frame.places) < 2:
        return layers
    return layers.facet(
        facet=alt.Facet("place:N", sort=list(frame.places), title=None),
        columns=panels_per_row(len(frame.places)),
        spacing=PANEL_SPACING_PX,
        bounds="flush",
    )


def _dot_plot(frame: ComparisonLayout, title: str) -> alt.TopLevelMixin:
    x = alt.X(
        "value:Q",
        title=title,
        scale=alt.Scale(zero=True),
        axis=alt.Axis(grid=True, domain=False, ticks=False, tickCount=6),
    )
    y = alt.Y(
        "place:N",
        sort=list(frame.places),
        title=None,
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
        axis=alt.Axis(labelLimit=440, grid=False),
    )
    rows = alt.Chart(DATASET).encode(
        x=x,
        y=y,
        yOffset=alt.YOffset("file:N", sort=list(frame.files)),
        color=alt.Color("file:N", **_file_channel_options(frame)),
    )
    measured = rows.transform_filter("datum.kind == 'measured'")
    height = max(60, len(frame.places) * (14 + 22 * len(frame.files)))
    return alt.layer(
        rows.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q"), x2="high:Q"),
        *interval_caps(measured, "x"),
        *_point_marks(rows, frame),
    ).properties(width=560, height=height)


def _point_marks(rows: alt.Chart, frame: ComparisonLayout) -> Sequence[alt.Chart]:
    shape = alt.Shape("file:N", **_file_channel_options(frame, shapes=True))
    tooltip = [
        alt.Tooltip("file:N", title="File"),
        alt.Tooltip("treatment:N", title="Treatment"),
        alt.Tooltip("figure:N", title="Figure"),
    ]
    one = rows.transform_filter("datum.kind != 'mode'")
    modes = rows.transform_filter("datum.kind == 'mode'")
    return (
        one.mark_point(filled=True, size=58, opacity=0.9).encode(shape=shape, tooltip=tooltip),
        modes.mark_point(shape="diamond", size=150, strokeWidth=2, opacity=1).encode(tooltip=tooltip),
        modes.mark_text(align="left", dx=14).encode(text="share:N"),
    )


def _file_channel_options(frame: ComparisonLayout, *, shapes: bool = False) -> dict[str, Any]:
    """The same key for colour and shape: only with equal domains does Vega-Lite make one legend of both."""
    marks: dict[str, Any] = {"range": [_PUBLISHED if each else _MEASURED for each in frame.published]}
    return {
        "sort": list(frame.files),
        "scale": alt.Scale(domain=list(frame.files), **(marks if shapes else {})),
        "title": None,
        "legend": alt.Legend(symbolOpacity=1, columns=3),
    }
