"""The chart of a finding: its own chart, or its evidence against the thresholds."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from vnetbench.explain.model import MEASURED_SERIES_NAME, EvidenceChart, EvidenceItem, Finding
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET, VegaSpec, interval_caps, to_spec
from vnetbench.report.text.evidence_text import evidence_scale, format_evidence

_WIDTH_PX, _HEIGHT_PX = 360, 150
_ROW_LABEL_WIDTH_PX = 420
_ROW_HEIGHT_PX = 22
_BAR_HEIGHT_PX = 14
_MAX_X_TITLE_CHARS, _MAX_Y_TITLE_CHARS = 50, 24
"""Line lengths of axis titles; the chart cuts off longer lines."""
_MAX_ROW_NAME_CHARS, _MAX_ROW_NAME_WIDTH_PX, _LABEL_LINE_HEIGHT_PX = 27, 190, 13
"""Line length, width and line height of the names on the left of bars and ratios."""
_MAX_PANELS_PER_CHART = 5
"""The chart shows at most this many evidence items of the first candidate; the table shows all."""
_MAX_COLOURED_SERIES = 7
"""With more series than this, all lines have the same colour."""


def evidence_chart(finding: Finding, number: int) -> Chart | None:
    """Return the finding's own chart, or its first candidate's evidence; None without both."""
    name = f"finding-{number}"
    if finding.chart is not None and finding.chart.rows:
        chart = finding.chart
        rows: list[ChartRow] = [dict(row) for row in chart.rows]
        return Chart(
            name,
            chart.title,
            _chart_caption(chart),
            _SPEC_BUILDER_BY_CHART_TYPE[chart.chart_type](chart),
            rows,
        )
    if finding.candidates and finding.candidates[0].evidence:
        first = finding.candidates[0]
        rows = [_evidence_bar_row(item) for item in first.evidence[:_MAX_PANELS_PER_CHART]]
        title = f"Evidence: {first.cause.description}"
        caption = "Medians of the trials with their range."
        if any(row["threshold"] is not None for row in rows):
            caption += " The dashed line is the threshold."
        return Chart(name, title, caption, _evidence_bars_spec(rows), rows)
    return None


def _chart_caption(chart: EvidenceChart) -> str:
    sentence = {
        "time_series": "Each point is the median of one block (one trial of each treatment).",
        "bars": "",
        "modes": "Each point is a trial; its colour shows its mode.",
        "effects": "Ratios of the metric with their intervals; 1 means no change.",
        "curve": "Points are measurements with their intervals. The line is the fitted model.",
    }[chart.chart_type]
    return (
        f"{sentence} The dashed line is the threshold.".lstrip() if chart.threshold is not None else sentence
    )


def _evidence_bar_row(item: EvidenceItem) -> ChartRow:
    text, divisor = format_evidence(item), evidence_scale(item).divisor
    row: dict[str, Any] = {
        "panel": f"{text.label}: {text.value_with_unit}",
        "value": item.value / divisor,
        "low": item.low / divisor,
        "high": item.high / divisor,
        "threshold": None if item.threshold is None else item.threshold / divisor,
    }
    # A percentage is shown on a scale up to 100 %.
    axis_end = max(item.high, item.threshold or 0.0)
    row["end"] = 100.0 if text.unit.startswith("%") and axis_end <= 100 else 1.05 * axis_end / divisor
    return row


def _evidence_bars_spec(rows: Sequence[ChartRow]) -> VegaSpec:
    """Return a panel per evidence item, each with its own scale."""
    data = alt.Chart(DATASET)
    x = alt.X("value:Q", title=None, scale=alt.Scale(zero=True, nice=False), axis=alt.Axis(tickCount=4))
    end = data.mark_point(opacity=0).encode(x="end:Q")
    value = data.mark_bar(height=_BAR_HEIGHT_PX, opacity=0.7).encode(x=x)
    spread = data.mark_rule(strokeWidth=1.6, style="ink").encode(x="low:Q", x2="high:Q")
    threshold = data.transform_filter("datum.threshold !== null").mark_rule(
        strokeWidth=2, strokeDash=[4, 2], style="ink"
    )
    layers = alt.layer(end, value, spread, threshold.encode(x="threshold:Q"))
    panels = layers.properties(width=_WIDTH_PX, height=_ROW_HEIGHT_PX).facet(
        facet=alt.Facet("panel:N", sort=[str(row["panel"]) for row in rows], title=None).header(
            labelLimit=_ROW_LABEL_WIDTH_PX, labelFontSize=11, labelFontWeight="normal", labelPadding=4
        ),
        columns=1,
        spacing={"row": 46, "column": 0},
        bounds="flush",
    )
    return to_spec(panels.resolve_scale(x="independent"))


def _block_medians_spec(chart: EvidenceChart) -> VegaSpec:
    """Return a line per series over the blocks of a campaign."""
    x = alt.X("x:Q", title=_wrap_x_title(chart.x_label), axis=alt.Axis(tickCount=5))
    lines = alt.Chart(DATASET).encode(
        x=x, y=_y_axis(chart), **_series_colour_encoding(chart), detail="series:N"
    )
    return _to_sized_spec(alt.layer(lines.mark_line(strokeWidth=1.4, opacity=0.8), *_threshold_rule(chart)))


def _bar_spec(chart: EvidenceChart) -> VegaSpec:
    """Return horizontal bars with their names on the left."""
    names = _row_names(chart)
    y = _named_rows_axis(names)
    x = alt.X(
        "y:Q",
        title=_value_axis_title(chart),
        scale=alt.Scale(zero=True),
        axis=alt.Axis(grid=True, tickCount=5, titleAnchor="end"),
    )
    rows = alt.Chart(DATASET).encode(y=y, x=x, **_series_colour_encoding(chart))
    offset = {"yOffset": alt.YOffset("series:N")} if len(_series_names(chart)) > 1 else {}
    return _to_sized_spec(
        alt.layer(
            rows.mark_bar(opacity=0.7).encode(**offset),
            rows.mark_rule(strokeWidth=1.6, style="ink").encode(x=alt.X("low:Q"), x2="high:Q", **offset),
            *_threshold_rule(chart, axis="x"),
        ),
        names * max(1, len(_series_names(chart))),
    )


def _trials_by_mode_spec(chart: EvidenceChart) -> VegaSpec:
    """Return a point per trial; a metric that separates the modes puts them side by side."""
    x = alt.X(
        "x:Q",
        title=_wrap_x_title(chart.x_label),
        scale=alt.Scale(zero=False, padding=12, **_x_scale_end_for_percentages(chart)),
        axis=alt.Axis(tickCount=5),
    )
    points = alt.Chart(DATASET).encode(x=x, y=_y_axis(chart), **_series_colour_encoding(chart))
    return _to_sized_spec(
        alt.layer(points.mark_point(filled=True, size=40, opacity=0.75), *_threshold_rule(chart))
    )


def _effect_ratios_spec(chart: EvidenceChart) -> VegaSpec:
    """Return ratios with intervals on a logarithmic axis, where 2 and 0.5 are equally far from 1."""
    names = _row_names(chart)
    y = _named_rows_axis(names)
    x = alt.X(
        "y:Q",
        title=_value_axis_title(chart),
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(grid=True, tickCount=5, format=".5~g", labelOverlap=True, titleAnchor="end"),
    )
    rows = alt.Chart(DATASET).encode(y=y, x=x, **_series_colour_encoding(chart))
    unchanged = alt.Chart(DATASET).mark_rule(strokeWidth=1.5, strokeDash=[4, 2], style="ink")
    return _to_sized_spec(
        alt.layer(
            unchanged.encode(x=alt.datum(1)),
            rows.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q"),
            *interval_caps(rows, "x"),
            rows.mark_point(filled=True, size=56, opacity=1),
        ),
        names,
    )


def _curve_spec(chart: EvidenceChart) -> VegaSpec:
    """Return measured points with intervals, and fitted models as lines."""
    numeric = all(not isinstance(row["x"], str) for row in chart.rows)
    axis = alt.Axis(tickCount=6, labelAngle=0)
    x = alt.X(f"x:{'Q' if numeric else 'O'}", title=_wrap_x_title(chart.x_label), axis=axis)
    rows = alt.Chart(DATASET).encode(x=x, y=_y_axis(chart), **_series_colour_encoding(chart))
    measured = rows.transform_filter(f"datum.series === '{MEASURED_SERIES_NAME}'")
    return _to_sized_spec(
        alt.layer(
            rows.transform_filter(f"datum.series !== '{MEASURED_SERIES_NAME}'").mark_line(strokeWidth=1.8),
            measured.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
            measured.mark_point(filled=True, size=46, opacity=1),
            *_threshold_rule(chart),
        )
    )


_SPEC_BUILDER_BY_CHART_TYPE: Mapping[str, Callable[[EvidenceChart], VegaSpec]] = {
    "time_series": _block_medians_spec,
    "bars": _bar_spec,
    "modes": _trials_by_mode_spec,
    "effects": _effect_ratios_spec,
    "curve": _curve_spec,
}


def _x_scale_end_for_percentages(chart: EvidenceChart) -> dict[str, Any]:
    """Return the end of an x axis of percentages, which the padding of the axis must not exceed."""
    values = [float(row["x"]) for row in chart.rows]
    return {"domainMax": 100.0} if "(%" in chart.x_label and max(values, default=0.0) <= 100 else {}


def _value_axis_title(chart: EvidenceChart) -> list[str]:
    """Return the title of the value axis of a chart with names on its left."""
    return _wrap_x_title(chart.y_label or chart.x_label)


def _wrap_x_title(title: str) -> list[str]:
    """Return the lines of a title for the x axis."""
    return textwrap.wrap(title, _MAX_X_TITLE_CHARS) or [""]


def _y_axis(chart: EvidenceChart) -> alt.Y:
    title = textwrap.wrap(chart.y_label, _MAX_Y_TITLE_CHARS) or [""]
    return alt.Y("y:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5))


def _series_colour_encoding(chart: EvidenceChart) -> dict[str, Any]:
    names = _series_names(chart)
    if not 1 < len(names) <= _MAX_COLOURED_SERIES:
        return {}
    scale = alt.Scale(domain=names)
    return {"color": alt.Color("series:N", sort=names, scale=scale, title=None, legend=alt.Legend(columns=2))}


def _threshold_rule(chart: EvidenceChart, axis: str = "y") -> list[alt.Chart]:
    if chart.threshold is None:
        return []
    line = alt.Chart(DATASET).mark_rule(strokeWidth=1.5, strokeDash=[4, 2], style="ink")
    position = alt.datum(chart.threshold)
    return [line.encode(x=position) if axis == "x" else line.encode(y=position)]


def _series_names(chart: EvidenceChart) -> list[str]:
    return list(dict.fromkeys(str(row["series"]) for row in chart.rows if "series" in row))


def _row_names(chart: EvidenceChart) -> list[str]:
    return list(dict.fromkeys(str(row["x"]) for row in chart.rows))


def _named_rows_axis(names: Sequence[str]) -> alt.Y:
    """Return a y axis with a row per name; a long name takes several lines."""
    lines = json.dumps({name: _wrap_row_name(name) for name in names})
    axis = alt.Axis(labelLimit=_MAX_ROW_NAME_WIDTH_PX, labelExpr=f"({lines})[datum.label]", grid=False)
    return alt.Y("x:N", sort=list(names), title=None, axis=axis)


def _wrap_row_name(name: str) -> list[str]:
    return textwrap.wrap(name, _MAX_ROW_NAME_CHARS, break_long_words=False) or [""]


def _to_sized_spec(layers: alt.LayerChart | alt.FacetChart, row_names: Sequence[str] = ()) -> VegaSpec:
    """Return the specification; with named rows, its height grows with them and with their lines."""
    line_count = max((len(_wrap_row_name(name)) for name in row_names), default=1)
    row_height = _ROW_HEIGHT_PX + (line_count - 1) * _LABEL_LINE_HEIGHT_PX
    height = max(60, len(row_names) * row_height) if row_names else _HEIGHT_PX
    return to_spec(layers.properties(width=_WIDTH_PX, height=height))
