"""The charts of a campaign, as Vega-Lite: lines, dots, heat map, trials in time order; and as PNG files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.chart_rows import Row, combination_texts, metric_rows, series_texts, time_rows
from vnetbench.report.figures import heading, measured_metrics, metric_of, scale_of
from vnetbench.report.labels import factor_label, level_text
from vnetbench.report.layout import Layout, lay_out, positions
from vnetbench.report.theme import chart_config
from vnetbench.study.model import FactorLevels

Spec = dict[str, Any]

MAIN_METRIC = "goodput_bps"
ROWS = "rows"
"""The name of the dataset in every specification; whoever draws it supplies the rows."""
_PNG_METRICS = (MAIN_METRIC, "receiver_cpu_percent", "sender_cpu_percent", "cycles_per_byte", "packets_per_s",
                "mean_segment_bytes")  # fmt: skip
_LINE_HEIGHT = 280
_MARKS = {"trial": "circle", "of two modes": "diamond", "outlier": "cross"}
"""What a trial is marked as in the chart of time, and its shape."""


def metric_chart(summary: CampaignSummary, layout: Layout, metric: str) -> Spec:
    """Estimates with intervals and every trial: lines over the numeric factor, or a dot plot without one."""
    chart = _lines(summary, layout, metric) if layout.x else _dots(summary, layout, metric)
    return _as_spec(chart)


def heat_chart(summary: CampaignSummary, layout: Layout, metric: str) -> Spec:
    """Two numeric factors as a surface, the value and its interval in each cell; needs `layout.heat`."""
    if layout.x is None or layout.heat is None:
        raise ValueError("a heat map needs two numeric factors")
    x_texts, y_texts = _texts(layout.x), _texts(layout.heat)[::-1]
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
    base = alt.Chart(alt.NamedData(ROWS)).transform_filter("datum.kind == 'estimate'").encode(
        x=alt.X("xlevel:O", sort=x_texts, title=factor_label(layout.x.name), scale=alt.Scale(paddingInner=0.03), axis=alt.Axis(labelAngle=0, domain=False, ticks=False)),
        y=alt.Y("series:O", sort=y_texts, title=factor_label(layout.heat.name), scale=alt.Scale(paddingInner=0.05)),
    )  # fmt: skip
    cells = base.mark_rect().encode(
        color=alt.Color(
            "value:Q",
            title=heading(metric, scale_of(summary.treatments, metric)) + (", logarithmic" if wide else ""),
            scale=alt.Scale(type="log" if wide else "linear", zero=False, nice=False),
            legend=alt.Legend(gradientLength=240, gradientThickness=10, tickCount=4),
        ),
        tooltip=_tooltip(),
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
    return _as_spec(_in_panels(layers.properties(width=640, height=52 * len(y_texts)), summary, layout))


def time_chart(rows_in_time: Sequence[Row]) -> Spec:
    """Each trial against its treatment's median, in the order in which they ran: drift and modes show here."""
    rows = alt.Chart(alt.NamedData(ROWS))
    minutes = alt.X(
        "minutes:Q", title="Minutes since the campaign began", scale=alt.Scale(zero=True, nice=False)
    )
    marks = sorted({str(row["mark"]) for row in rows_in_time}, key=list(_MARKS).index)
    key = {
        "sort": marks,
        "scale": alt.Scale(domain=marks),
        "title": None,
        "legend": alt.Legend(symbolOpacity=1),
    }
    points = rows.mark_point(filled=True, size=26, opacity=0.55).encode(
        x=minutes,
        y=alt.Y(
            "deviation:Q",
            title=None,
            axis=alt.Axis(
                labelExpr="datum.value === 0 ? '0' : format(100 * datum.value, '+.3~g') + ' %'", tickCount=5
            ),
        ),
        color=alt.Color("mark:N", **key),
        shape=alt.Shape(
            "mark:N", **{**key, "scale": alt.Scale(domain=marks, range=[_MARKS[mark] for mark in marks])}
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
        .transform_aggregate(minutes="median(minutes)", deviation="median(deviation)", groupby=["block"])
        .mark_line(strokeWidth=1.5, opacity=0.9)
        .encode(x=minutes, y="deviation:Q", order=alt.Order("block:Q"))
    )
    zero = rows.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(y=alt.datum(0))
    return _as_spec((zero + blocks + points).properties(width=640, height=220))


def write_pngs(summary: CampaignSummary, directory: Path) -> list[Path]:
    """Write each chart as a PNG (two pixels a point, light) into `directory`, made if need be; the files written."""
    directory.mkdir(parents=True, exist_ok=True)
    layout = lay_out(summary)
    charts: list[tuple[str, str, Spec, list[Row]]] = []
    for name in measured_metrics(summary.treatments):
        if name in _PNG_METRICS:
            rows = metric_rows(summary, layout, name)
            charts.append(
                (
                    name,
                    heading(name, scale_of(summary.treatments, name)),
                    metric_chart(summary, layout, name),
                    rows,
                )
            )
            if name == MAIN_METRIC and layout.heat:
                charts.append(
                    (
                        f"{name}-heat",
                        heading(name, scale_of(summary.treatments, name)),
                        heat_chart(summary, layout, name),
                        rows,
                    )
                )
    time = time_rows(summary, layout, MAIN_METRIC)
    if time:
        charts.append(("trials-in-time", "Trials in the order they ran", time_chart(time), time))
    written = []
    for file_name, label, spec, rows in charts:
        path = directory / f"{file_name}.png"
        path.write_bytes(
            _png(spec, rows, title=f"{summary.title}", subtitle=_subtitle(summary, label, file_name))
        )
        written.append(path)
    return written


def _png(spec: Spec, rows: Sequence[Row], title: str, subtitle: str) -> bytes:
    whole = {
        **spec,
        "title": {"text": title, "subtitle": subtitle},
        "datasets": {ROWS: list(rows)},
        "config": {**chart_config(dark=False), "padding": 24},
    }
    return bytes(vl_convert.vegalite_to_png(json.dumps(whole), scale=2))


def _subtitle(summary: CampaignSummary, label: str, file_name: str) -> str:
    if file_name == "trials-in-time":
        return f"{label}, each against its treatment's median; the line joins the medians of the blocks"
    share = f"{summary.precision.confidence * 100:g} %"
    if file_name.endswith("-heat"):
        return f"{label}: median of the trials and its {share} interval"
    return f"{label}: median of the trials with its {share} interval; each trial is a faint point"


def _lines(summary: CampaignSummary, layout: Layout, metric: str) -> alt.TopLevelMixin:
    assert layout.x is not None
    places = positions(layout.x)
    values = list(places.values())
    margin = (max(values) - min(values)) * 0.06
    titles = json.dumps([level_text(layout.x.name, level) for level in places])
    x = alt.X(
        "x:Q",
        title=factor_label(layout.x.name),
        scale=alt.Scale(domain=[min(values) - margin, max(values) + margin], nice=False, zero=False),
        axis=alt.Axis(
            values=values,
            labelExpr=f"{titles}[indexof({json.dumps(values)}, datum.value)]",
            labelOverlap=True,
        ),
    )
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=True, domainMin=0),
        axis=alt.Axis(tickCount=6, minExtent=34),
    )
    rows = alt.Chart(alt.NamedData(ROWS)).encode(x=x, y=y, **_series(layout))
    estimates = rows.transform_filter("datum.kind == 'estimate'")
    layers = alt.layer(
        rows.transform_filter("datum.kind == 'trial'")
        .mark_point(filled=True, size=20, opacity=0.32)
        .encode(**_shape(layout), tooltip=_trial_tooltip(metric)),
        estimates.mark_line(strokeWidth=2),
        estimates.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
        *_interval_ends(estimates, "y"),
        estimates.mark_point(filled=True, size=64, opacity=1).encode(tooltip=_tooltip(), **_shape(layout)),
        *_modes_and_missing(rows),
    )
    layers = layers.properties(width=_panel_width(summary, layout), height=_LINE_HEIGHT)
    return _in_panels(layers, summary, layout)


def _dots(summary: CampaignSummary, layout: Layout, metric: str) -> alt.TopLevelMixin:
    names = combination_texts(summary, layout)
    count = max(1, len(series_texts(layout)))
    x = alt.X("value:Q", title=heading(metric, scale_of(summary.treatments, metric)), scale=alt.Scale(zero=True),
              axis=alt.Axis(grid=True, domain=False, ticks=False, tickCount=6))  # fmt: skip
    y = alt.Y("combination:N", sort=names, title=None, scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
              axis=alt.Axis(labelLimit=320, grid=False, labels=any(names)))  # fmt: skip
    offset: dict[str, Any] = {}
    if layout.colour:
        offset["yOffset"] = alt.YOffset("series:N", sort=series_texts(layout))
    rows = alt.Chart(alt.NamedData(ROWS)).encode(x=x, y=y, **_series(layout), **offset)
    estimates = rows.transform_filter("datum.kind == 'estimate'")
    layers = alt.layer(
        rows.transform_filter("datum.kind == 'trial'")
        .mark_point(filled=True, size=24, opacity=0.32)
        .encode(**_shape(layout), tooltip=_trial_tooltip(metric)),
        estimates.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q"),
        *_interval_ends(estimates, "x"),
        estimates.mark_point(filled=True, size=72, opacity=1).encode(tooltip=_tooltip(), **_shape(layout)),
        *_modes_and_missing(rows),
    )
    return layers.properties(width=560, height=max(60, len(names) * (14 + 22 * count)))


def _interval_ends(estimates: alt.Chart, along: str) -> list[alt.Chart]:
    """The short strokes at both ends of an interval."""
    orient: Any = "horizontal" if along == "x" else "vertical"
    turned = "vertical" if orient == "horizontal" else "horizontal"
    ends = []
    for end in ("low:Q", "high:Q"):
        channel = {along: alt.X(end) if along == "x" else alt.Y(end)}
        ends.append(estimates.mark_tick(orient=turned, size=9, thickness=1.6, opacity=1).encode(**channel))
    return ends


def _modes_and_missing(rows: alt.Chart) -> list[alt.Chart]:
    modes = rows.transform_filter("datum.kind == 'mode'")
    return [
        modes.mark_point(shape="diamond", size=150, strokeWidth=2, opacity=1).encode(tooltip=_tooltip()),
        modes.mark_text(align="left", dx=11).encode(text="share:N"),
        rows.transform_filter("datum.kind == 'missing'")
        .mark_point(shape="cross", angle=45, size=60, filled=True, opacity=0.9)
        .encode(tooltip=_tooltip()),
    ]


def _series(layout: Layout) -> dict[str, Any]:
    if layout.colour is None:
        return {}
    return {"color": alt.Color(f"series:{_kind(layout)}", **_series_key(layout))}


def _kind(layout: Layout) -> str:
    """Numbers of four levels and more get a ramp of colours (O), words and few levels colours of their own (N)."""
    numbers = [level for level in layout.colour.levels if not isinstance(level, str)] if layout.colour else []
    return "O" if len(numbers) > 3 else "N"


def _shape(layout: Layout) -> dict[str, Any]:
    if layout.colour is None:
        return {}
    return {"shape": alt.Shape(f"series:{_kind(layout)}", **_series_key(layout))}


def _series_key(layout: Layout) -> dict[str, Any]:
    """The same key for colour and shape: only with equal domains does Vega-Lite make one legend of both."""
    texts = series_texts(layout)
    title = factor_label(layout.colour.name) if layout.colour else None
    return {
        "sort": texts,
        "scale": alt.Scale(domain=texts),
        "title": title,
        "legend": alt.Legend(symbolOpacity=1),
    }


def _in_panels(layers: alt.LayerChart, summary: CampaignSummary, layout: Layout) -> alt.TopLevelMixin:
    others = [factor for factor in layout.others if factor is not layout.heat]
    if not others:
        return layers
    names = combination_texts(summary, layout)
    return layers.facet(
        facet=alt.Facet("combination:N", sort=names, title=None),
        columns=min(3, len(names)),
        spacing=28,
        bounds="flush",
    )


def _panel_width(summary: CampaignSummary, layout: Layout) -> int:
    count = len(combination_texts(summary, layout)) if layout.others else 1
    return {1: 640, 2: 330}.get(count, 240)


def _texts(factor: FactorLevels) -> list[str]:
    return [level_text(factor.name, level) for level in factor.levels]


def _tooltip() -> list[alt.Tooltip]:
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
        alt.Tooltip("value:Q", title=metric_of(metric).label, format=".4~g"),
    ]


def _as_spec(chart: alt.TopLevelMixin) -> Spec:
    spec: Spec = chart.to_dict(context={"pre_transform": False})
    spec.pop("config", None)  # Altair's own default; the theme supplies it
    return spec
