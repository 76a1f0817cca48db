"""The chart of where the time of a stream or request goes: a stacked bar per treatment."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from vnetbench.estimate.evidence.time_accounting.time_uses import TIME_USE_BY_NAME
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.estimate.treatment_time import (
    TreatmentTimeShares,
    campaign_time_shares,
    request_or_stream_noun,
)
from vnetbench.report.charts.axes import panel_width_px, panels_per_row
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET, Y_AXIS_WIDTH_KEY, VegaSpec, to_spec
from vnetbench.report.charts.factor_layout import lay_out_factors
from vnetbench.report.charts.time_rows import (
    COLOUR_BY_TIME_USE,
    OTHER_USES_COLOUR,
    OTHER_USES_LABEL,
    TimeBarLayout,
    lay_out_time_bars,
    shown_time_uses,
    time_rows,
)
from vnetbench.wording.factor_text import (
    CHANGE_FACTOR,
    TREATMENT_FACTOR,
    capitalize_sentence,
    factor_noun,
    level_text,
)

TIME_CHART_NAME = "time"
_BAR_PITCH_PX = 24
_BAR_SHARE_OF_PITCH = 0.78
_MAX_BAR_LABEL_WIDTH_PX = 200
_LEGEND_COLUMNS = 3
_PANEL_SPACING_PX = {"row": 34, "column": 28}
_FINDING_BAR_WIDTH_PX = 360


def time_use_chart(summary: CampaignSummary) -> Chart | None:
    """Return the chart of all treatments; None without time evidence."""
    items = campaign_time_shares(summary)
    if not items:
        return None
    bars = lay_out_time_bars(lay_out_factors(summary))
    names = shown_time_uses(items)
    rows = time_rows(items, bars, names)
    spec = _panels_spec(items, bars, _time_use_colours(rows))
    return Chart(
        TIME_CHART_NAME, _time_chart_title(summary), _time_chart_caption(summary, items, bars), spec, rows
    )


def time_bars_of_finding(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], chart_name: str
) -> Chart | None:
    """Return a small chart of some treatments; None if none of them has time evidence.

    Each use of time has the colour that it has in the chart of all treatments.
    """
    indices = {treatment.index for treatment in treatments}
    items = [item for item in campaign_time_shares(summary) if item.treatment.index in indices]
    if not items:
        return None
    rows = time_rows(items, lay_out_time_bars(lay_out_factors(summary)), shown_time_uses(items))
    labels = list(dict.fromkeys(str(row["treatment"]) for row in rows))
    for row in rows:
        row["bar"] = row["treatment"]
    layers = _stacked_time_bars(labels, _time_use_colours(rows, columns=1), has_labels=len(labels) > 1)
    caption = f"{labels[0]}: the mean of the trials." if len(labels) == 1 else "Means of the trials."
    spec = to_spec(layers.properties(width=_FINDING_BAR_WIDTH_PX))
    return Chart(chart_name, _time_chart_title(summary), capitalize_sentence(caption), spec, rows)


def _time_chart_title(summary: CampaignSummary) -> str:
    return f"Where the time of a {request_or_stream_noun(summary)} goes"


def _time_chart_caption(
    summary: CampaignSummary, items: Sequence[TreatmentTimeShares], bars: TimeBarLayout
) -> str:
    noun = request_or_stream_noun(summary)
    sentences = [
        f"Each bar is the whole time of a {noun} in one treatment: the mean of its trials.",
        "Its longest segment takes most of the time. Blue is the sender, orange the receiver, green the "
        "network and dark grey the load.",
    ]
    if bars.bar_factor is not None and bars.bar_factor.name not in (CHANGE_FACTOR, TREATMENT_FACTOR):
        sentences.insert(1, f"A bar's name is its level of {factor_noun(bars.bar_factor.name)}.")
    if len(items) < len(summary.treatments):
        sentences.append("A treatment without these counters has no bar.")
    return " ".join(sentences)


def _panels_spec(items: Sequence[TreatmentTimeShares], bars: TimeBarLayout, colour: alt.Color) -> VegaSpec:
    factor = bars.bar_factor
    labels = [""] if factor is None else [level_text(factor.name, level) for level in factor.levels]
    layers = _stacked_time_bars(labels, colour, has_labels=any(labels))
    panels = _panel_labels(items, bars)
    axis_width = 26 + min(_MAX_BAR_LABEL_WIDTH_PX, 7 * max(map(len, labels)))
    layers = layers.properties(width=panel_width_px(len(panels)))
    chart: alt.LayerChart | alt.FacetChart = layers
    if len(panels) > 1:
        chart = layers.facet(
            facet=alt.Facet("panel:N", sort=panels, title=None).header(labelLimit=300),
            columns=panels_per_row(len(panels)),
            spacing=_PANEL_SPACING_PX,
            bounds="flush",
        )
    return to_spec(chart.properties(usermeta={Y_AXIS_WIDTH_KEY: axis_width}))


def _panel_labels(items: Sequence[TreatmentTimeShares], bars: TimeBarLayout) -> list[str]:
    """Return the titles of the panels in the order of the factors' levels."""
    ranked = {
        tuple(factor.levels.index(item.treatment.factors[factor.name]) for factor in bars.panel_factors): (
            bars.panel_label(item)
        )
        for item in items
    }
    return [ranked[rank] for rank in sorted(ranked)]


def _stacked_time_bars(
    labels: Sequence[str], colour: alt.Color, *, has_labels: bool
) -> alt.LayerChart | alt.FacetChart:
    """Return a bar per label, with a percentage in each segment that has room for it."""
    y = alt.Y(
        "bar:N",
        sort=list(labels),
        title=None,
        scale=alt.Scale(domain=list(labels), paddingInner=1 - _BAR_SHARE_OF_PITCH, paddingOuter=0.1),
        axis=alt.Axis(grid=False, labels=has_labels, labelLimit=_MAX_BAR_LABEL_WIDTH_PX, minExtent=0),
    )
    x = alt.X(
        "start:Q",
        title="% of the time",
        scale=alt.Scale(domain=[0, 100], nice=False),
        axis=alt.Axis(grid=True, values=[0, 25, 50, 75, 100]),
    )
    tooltip = [
        alt.Tooltip("treatment:N", title="Treatment"),
        alt.Tooltip("use:N", title="Time"),
        alt.Tooltip("percent:Q", title="%", format=".1f"),
    ]
    base = alt.Chart(DATASET).encode(y=y)
    segments = base.mark_bar(style="segment").encode(x=x, x2="end:Q", color=colour, tooltip=tooltip)
    middle = base.transform_calculate(middle="(datum.start + datum.end) / 2").encode(x=alt.X("middle:Q"))
    layers = [segments]
    for name, fill in (("light", "#FFFFFF"), ("dark", "#0B1B2B")):
        texts = middle.transform_filter(f"datum.text_colour === '{name}'")
        layers.append(texts.mark_text(fontSize=11, color=fill).encode(text="text:N"))
    return alt.layer(*layers).properties(height=max(30, _BAR_PITCH_PX * len(labels)))


def _time_use_colours(rows: Sequence[ChartRow], columns: int = _LEGEND_COLUMNS) -> alt.Color:
    """Return the colour encoding of the uses of time in these rows, in the order of the bars."""
    colour_by_label = {TIME_USE_BY_NAME[name].label: colour for name, colour in COLOUR_BY_TIME_USE.items()}
    colour_by_label[OTHER_USES_LABEL] = OTHER_USES_COLOUR
    used = {str(row["use"]) for row in rows}
    domain = [label for label in colour_by_label if label in used]
    return alt.Color(
        "use:N",
        sort=domain,
        title=None,
        scale=alt.Scale(domain=domain, range=[colour_by_label[label] for label in domain]),
        legend=alt.Legend(columns=columns, labelLimit=330, symbolType="square"),
    )
