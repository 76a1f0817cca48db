"""The small picture beside a finding: figures against their thresholds, or what the finding brings along."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from vnetbench.explain.model import MEASURED_SERIES, EvidenceItem, Finding, EvidenceChart
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET, VegaSpec, to_spec, interval_caps
from vnetbench.report.text.evidence_text import format_evidence, evidence_scale

_WIDTH_PX, _HEIGHT_PX = 360, 150
_LABEL_WIDTH_PX = 420
_ROW_HEIGHT_PX = 22
_BAR_HEIGHT_PX = 14
_MAX_X_TITLE_CHARS, _MAX_Y_TITLE_CHARS = 50, 24
"""So many characters of an axis's title have room beside the picture; more on a line are cut off."""
_MAX_PANELS = 5
"""So many figures of the first suspect are drawn; the table has all of them."""
_MAX_COLOURED_SERIES = 7
"""Series that have colours of their own; of more every line is alike."""


def evidence_chart(finding: Finding, number: int) -> Chart | None:
    """The finding's own picture, else the figures of its first suspect; None without either."""
    name = f"finding-{number}"
    if finding.chart is not None and finding.chart.rows:
        picture = finding.chart
        rows: list[ChartRow] = [dict(row) for row in picture.rows]
        return Chart(name, picture.title, _caption(picture), _SPEC_BUILDERS[picture.chart_type](picture), rows)
    if finding.candidates and finding.candidates[0].evidence:
        first = finding.candidates[0]
        rows = [_bullet_row(exhibit) for exhibit in first.evidence[:_MAX_PANELS]]
        title = f"Evidence: {first.cause.description}"
        words = "Median of the trials, with their range."
        if any(row["threshold"] is not None for row in rows):
            words += " The broken line is where a figure begins to speak."
        return Chart(name, title, words, _bullet_spec(rows), rows)
    return None


def _caption(picture: EvidenceChart) -> str:
    words = {
        "time_series": "Each point is a block of the campaign: the median of its trials.",
        "bars": "",
        "modes": "Each point is a trial, its colour the mode that it is in.",
        "effects": "Times the metric, with the interval. At 1 nothing changes.",
        "curve": "Points were measured, with their intervals; the line is the law that was fitted.",
    }[picture.chart_type]
    return f"{words} The broken line is the threshold.".lstrip() if picture.threshold is not None else words


def _bullet_row(exhibit: EvidenceItem) -> ChartRow:
    text, divisor = format_evidence(exhibit), evidence_scale(exhibit).divisor
    row: dict[str, Any] = {
        "panel": f"{text.label}: {text.figure}",
        "value": exhibit.value / divisor,
        "low": exhibit.low / divisor,
        "high": exhibit.high / divisor,
        "threshold": None if exhibit.threshold is None else exhibit.threshold / divisor,
    }
    # Shares are read against the whole.
    shown = max(exhibit.high, exhibit.threshold or 0.0)
    row["end"] = 100.0 if text.unit.startswith("%") and shown <= 100 else 1.05 * shown / divisor
    return row


def _bullet_spec(rows: Sequence[ChartRow]) -> VegaSpec:
    """A panel a figure, each with a scale of its own."""
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
            labelLimit=_LABEL_WIDTH_PX, labelFontSize=11, labelFontWeight="normal", labelPadding=4
        ),
        columns=1,
        spacing={"row": 46, "column": 0},
        bounds="flush",
    )
    return to_spec(panels.resolve_scale(x="independent"))


def _time_series_spec(picture: EvidenceChart) -> VegaSpec:
    """A line a series over the blocks of a campaign."""
    x = alt.X("x:Q", title=_wrap_x_title(picture.x_label), axis=alt.Axis(tickCount=5))
    lines = alt.Chart(DATASET).encode(x=x, y=_y_axis(picture), **_series_colour(picture), detail="series:N")
    return _to_sized_spec(alt.layer(lines.mark_line(strokeWidth=1.4, opacity=0.8), *_threshold_rule(picture)))


def _bar_spec(picture: EvidenceChart) -> VegaSpec:
    """Figures below each other, with their names on the left."""
    names = _row_names(picture)
    y = alt.Y("x:N", sort=names, title=None, axis=alt.Axis(labelLimit=170, grid=False))
    x = alt.X("y:Q", title=_value_axis_title(picture), scale=alt.Scale(zero=True), axis=alt.Axis(grid=True, tickCount=5))
    rows = alt.Chart(DATASET).encode(y=y, x=x, **_series_colour(picture))
    offset = {"yOffset": alt.YOffset("series:N")} if len(_series_names(picture)) > 1 else {}
    return _to_sized_spec(
        alt.layer(
            rows.mark_bar(opacity=0.7).encode(**offset),
            rows.mark_rule(strokeWidth=1.6, style="ink").encode(x=alt.X("low:Q"), x2="high:Q", **offset),
            *_threshold_rule(picture, along="x"),
        ),
        len(names) * max(1, len(_series_names(picture))),
    )


def _mode_spec(picture: EvidenceChart) -> VegaSpec:
    """A trial a point: where a figure tells the modes apart they stand beside each other, not above."""
    x = alt.X(
        "x:Q",
        title=_wrap_x_title(picture.x_label),
        scale=alt.Scale(zero=False, padding=12),
        axis=alt.Axis(tickCount=5),
    )
    points = alt.Chart(DATASET).encode(x=x, y=_y_axis(picture), **_series_colour(picture))
    return _to_sized_spec(alt.layer(points.mark_point(filled=True, size=40, opacity=0.75), *_threshold_rule(picture)))


def _effect_spec(picture: EvidenceChart) -> VegaSpec:
    """Ratios with their intervals on a logarithmic scale, so that twice and half are as far from 1."""
    names = _row_names(picture)
    y = alt.Y("x:N", sort=names, title=None, axis=alt.Axis(labelLimit=190, grid=False))
    x = alt.X(
        "y:Q",
        title=_value_axis_title(picture),
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(grid=True, tickCount=5, format=".5~g", labelOverlap=True),
    )
    rows = alt.Chart(DATASET).encode(y=y, x=x, **_series_colour(picture))
    unchanged = alt.Chart(DATASET).mark_rule(strokeWidth=1.5, strokeDash=[4, 2], style="ink")
    return _to_sized_spec(
        alt.layer(
            unchanged.encode(x=alt.datum(1)),
            rows.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q"),
            *interval_caps(rows, "x"),
            rows.mark_point(filled=True, size=56, opacity=1),
        ),
        len(names),
    )


def _curve_spec(picture: EvidenceChart) -> VegaSpec:
    """What was measured as points with intervals, and the laws that were fitted as lines."""
    numeric = all(not isinstance(row["x"], str) for row in picture.rows)
    axis = alt.Axis(tickCount=6, labelAngle=0)
    x = alt.X(f"x:{'Q' if numeric else 'O'}", title=_wrap_x_title(picture.x_label), axis=axis)
    rows = alt.Chart(DATASET).encode(x=x, y=_y_axis(picture), **_series_colour(picture))
    measured = rows.transform_filter(f"datum.series === '{MEASURED_SERIES}'")
    return _to_sized_spec(
        alt.layer(
            rows.transform_filter(f"datum.series !== '{MEASURED_SERIES}'").mark_line(strokeWidth=1.8),
            measured.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
            measured.mark_point(filled=True, size=46, opacity=1),
            *_threshold_rule(picture),
        )
    )


_SPEC_BUILDERS: Mapping[str, Callable[[EvidenceChart], VegaSpec]] = {
    "time_series": _time_series_spec,
    "bars": _bar_spec,
    "modes": _mode_spec,
    "effects": _effect_spec,
    "curve": _curve_spec,
}


def _value_axis_title(picture: EvidenceChart) -> list[str]:
    """Of the one axis that a picture with names on its left has."""
    return _wrap_x_title(picture.y_label or picture.x_label)


def _wrap_x_title(title: str) -> list[str]:
    """The title of an axis below a picture, in as many lines as it needs."""
    return textwrap.wrap(title, _MAX_X_TITLE_CHARS) or [""]


def _y_axis(picture: EvidenceChart) -> alt.Y:
    title = textwrap.wrap(picture.y_label, _MAX_Y_TITLE_CHARS) or [""]
    return alt.Y("y:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5))


def _series_colour(picture: EvidenceChart) -> dict[str, Any]:
    names = _series_names(picture)
    if not 1 < len(names) <= _MAX_COLOURED_SERIES:
        return {}
    scale = alt.Scale(domain=names)
    return {"color": alt.Color("series:N", sort=names, scale=scale, title=None, legend=alt.Legend(columns=2))}


def _threshold_rule(picture: EvidenceChart, along: str = "y") -> list[alt.Chart]:
    if picture.threshold is None:
        return []
    line = alt.Chart(DATASET).mark_rule(strokeWidth=1.5, strokeDash=[4, 2], style="ink")
    at = alt.datum(picture.threshold)
    return [line.encode(x=at) if along == "x" else line.encode(y=at)]


def _series_names(picture: EvidenceChart) -> list[str]:
    return list(dict.fromkeys(str(row["series"]) for row in picture.rows if "series" in row))


def _row_names(picture: EvidenceChart) -> list[str]:
    return list(dict.fromkeys(str(row["x"]) for row in picture.rows))


def _to_sized_spec(layers: alt.LayerChart | alt.FacetChart, lines: int = 0) -> VegaSpec:
    """`lines`: of a picture that grows with them, how many there are."""
    height = max(60, lines * _ROW_HEIGHT_PX) if lines else _HEIGHT_PX
    return to_spec(layers.properties(width=_WIDTH_PX, height=height))
