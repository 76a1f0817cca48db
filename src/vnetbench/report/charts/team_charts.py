"""The picture of a team: each link with what it carried and the flows that were predicted on it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.estimate.team_traffic import DIRECTIONS, DirectionTraffic, LinkTraffic, TeamTraffic
from vnetbench.quantity import format_bit_rate, format_count_with_noun
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET, VegaSpec, facet_by_treatment, to_spec
from vnetbench.report.tables.team_table import find_typical_trial
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_MAX_PANELS = 12
"""The table has all treatments."""
_BAR_STEP_PX, _WIDTH_PX, _ROW_GAP_PX = 17, 210, 76
_ARROWS = {"forward": "→", "reverse": "←"}
_TITLE = "Links of the team: measured and predicted"
_CAPTION = (
    "Bars: measured share of the team's bytes on each link, in the typical trial of each treatment. "
    "Diamonds: share of the flows that the policy and the team's state just before the load put there. "
    "→ from the first VMs to the second, ← back."
)


def team_chart(summary: CampaignSummary) -> Chart | None:
    """Return the picture of the first team in each treatment that differs; None without a team."""
    rows = team_rows(summary)
    return Chart("team-links", _TITLE, _CAPTION, team_spec(rows), rows) if rows else None


def team_rows(summary: CampaignSummary) -> list[ChartRow]:
    """Return a row for each link and direction; treatments with the same picture have one panel."""
    names = factor_names(varying_factors(summary.treatments, summary.factors))
    panels: list[tuple[str, TeamTraffic]] = []
    for treatment in summary.treatments:
        point = find_typical_trial(treatment, summary.deciding_metric)
        if point is not None:
            team = point.teams[0]
            panels.append((treatment_phrase(treatment.factors, names) or team.policy, team))
    return [row for name, team in panels[:_MAX_PANELS] for row in _panel_rows(name, team)]


def _panel_rows(name: str, team: TeamTraffic) -> list[ChartRow]:
    rows: list[ChartRow] = []
    has_equal_speeds = len({link.speed_bps for link in team.links}) == 1
    for link in team.links:
        label = link.name if has_equal_speeds else _name_and_speed(link)
        for direction in DIRECTIONS:
            traffic: DirectionTraffic = getattr(link, direction)
            flows = traffic.predicted_flows
            known = (team.flows or 0) - team.open_flows.get(direction, 0)
            measured = 100 * (traffic.share or 0.0)
            predicted = None if flows is None or known <= 0 else 100 * flows / known
            rows.append(
                {
                    "treatment": name,
                    "link": f"{label} {_ARROWS[direction]}",
                    "direction": direction,
                    "measured": round(measured, 1),
                    "predicted": None if predicted is None else round(predicted, 1),
                    "end": round(max(measured, predicted or 0.0), 1),
                    "label": _bar_label(measured, flows),
                }
            )
    return rows


def _name_and_speed(link: LinkTraffic) -> str:
    return link.name if link.speed_bps is None else f"{link.name}, {format_bit_rate(link.speed_bps)}"


def _bar_label(measured_percent: float, flows: int | None) -> str:
    text = f"{measured_percent:.0f} %"
    return text if flows is None else f"{text}, {format_count_with_noun(flows, 'flow')}"


def team_spec(chart_rows: Sequence[ChartRow]) -> VegaSpec:
    """Return a panel for each treatment with a bar for each link and direction."""
    treatments = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    links = list(dict.fromkeys(str(row["link"]) for row in chart_rows))
    y = alt.Y("link:N", sort=links, title=None, axis=alt.Axis(labelLimit=150, ticks=False))
    scale = alt.Scale(domain=[0, 160], nice=False)
    axis = alt.Axis(values=[0, 50, 100], grid=True)
    data = alt.Chart(DATASET).encode(y=y)
    bars = data.mark_bar(height=_BAR_STEP_PX - 6, opacity=0.7).encode(
        x=alt.X("measured:Q", title="Share of the team, percent", scale=scale, axis=axis),
        color=alt.Color("direction:N", legend=None, sort=list(DIRECTIONS)),
        tooltip=[
            alt.Tooltip("link:N", title="Link"),
            alt.Tooltip("measured:Q", title="Measured, % of bytes"),
            alt.Tooltip("predicted:Q", title="Predicted, % of flows"),
        ],
    )
    predicted = (
        data.transform_filter("datum.predicted !== null")
        .mark_point(shape="diamond", size=45, filled=True, style="ink")
        .encode(x="predicted:Q")
    )
    labels = data.mark_text(align="left", dx=8, fontSize=10).encode(x="end:Q", text="label:N")
    layers = alt.layer(bars, predicted, labels).properties(width=_WIDTH_PX, height=alt.Step(_BAR_STEP_PX))
    faceted = facet_by_treatment(layers, treatments, columns=2, row_gap_px=_ROW_GAP_PX)
    return to_spec(faceted.resolve_scale(y="independent").resolve_axis(x="independent"))
