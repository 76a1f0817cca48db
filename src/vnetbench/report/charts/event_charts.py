"""The timeline of a trial with an event: the arrivals around the event, with the gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET, VegaSpec, facet_by_treatment, to_spec
from vnetbench.report.charts.factor_layout import FactorLayout
from vnetbench.study.workloads import OUTAGE_METRIC, STALL_METRIC
from vnetbench.wording.treatment_names import treatment_name

_GAP_METRICS = (OUTAGE_METRIC, STALL_METRIC)
"""A trial has one of them."""
_DIGITS = 6
_ROW_GAP_PX = 76
"""Space for the time axis, which each panel has."""


def event_timeline_charts(summary: CampaignSummary, layout: FactorLayout) -> Iterator[Chart]:
    """Yield the arrivals around the event of one trial of each treatment."""
    rows = event_timeline_rows(summary)
    if rows:
        caption = (
            "Arrivals per second around the event of the trial with the median outage of each treatment. The "
            "lines mark when the event began and ended; the gap between the arrivals is the outage. A TCP "
            "stream then delivers at once what it held back, which may exceed the axis: it ends at twice the "
            "highest rate before the events."
        )
        yield Chart("event-timeline", "Arrivals around the event", caption, event_timeline_spec(rows), rows)


def event_timeline_rows(summary: CampaignSummary) -> list[ChartRow]:
    """Return the arrivals, kind `arrivals`, and the begin and the end of the event, kind `event`."""
    rows: list[ChartRow] = []
    for treatment in summary.treatments:
        point = _find_median_trial(treatment)
        if point is None:
            continue
        name = treatment_name(summary, treatment)
        rows += [
            {"treatment": name, "kind": "arrivals", "time_s": round(at_s, _DIGITS), "rate": round(rate, 1)}
            for at_s, rate in point.arrivals_around_event
        ]
        rows += [
            {"treatment": name, "kind": "event", "time_s": round(at_s, _DIGITS), "rate": 0.0}
            for at_s in (0.0, point.event_s)
        ]
    return rows


def _find_median_trial(treatment: TreatmentSummary) -> TrialPoint | None:
    gaps = [
        (each.values[metric], each.trial_id, each)
        for each in treatment.points
        for metric in _GAP_METRICS
        if each.arrivals_around_event and metric in each.values
    ]
    ordered = sorted(gaps, key=lambda gap: gap[:2])
    return ordered[(len(ordered) - 1) // 2][-1] if ordered else None


def _highest_shown_rate(chart_rows: Sequence[ChartRow]) -> float:
    """Return the end of the axis: the highest rate, but not more than twice that before the events."""
    arrivals = [row for row in chart_rows if row["kind"] == "arrivals"]
    before = [float(row["rate"] or 0) for row in arrivals if float(row["time_s"] or 0) < 0]
    highest = max(float(row["rate"] or 0) for row in arrivals)
    return min(highest, 2 * max(before, default=highest)) or highest


def event_timeline_spec(chart_rows: Sequence[ChartRow]) -> VegaSpec:
    """Return the arrivals over time with a panel per treatment, each with its own time axis."""
    names = list(dict.fromkeys(str(row["treatment"]) for row in chart_rows))
    x = alt.X("time_s:Q", title="Seconds since the event began", axis=alt.Axis(tickCount=5))
    data = alt.Chart(DATASET).encode(x=x)
    arrivals = (
        data.transform_filter("datum.kind == 'arrivals'")
        .mark_line(interpolate="step-after", strokeWidth=1.4, clip=True)
        .encode(
            y=alt.Y(
                "rate:Q",
                title=None,
                scale=alt.Scale(zero=True, domainMax=_highest_shown_rate(chart_rows)),
                axis=alt.Axis(tickCount=4, minExtent=34),
            ),
            tooltip=[
                alt.Tooltip("time_s:Q", title="Seconds"),
                alt.Tooltip("rate:Q", title="Arrivals/s"),
            ],
        )
    )
    event = data.transform_filter("datum.kind == 'event'").mark_rule(strokeDash=[4, 3], opacity=0.8)
    layers = alt.layer(arrivals, event).properties(width=250, height=120)
    return to_spec(
        facet_by_treatment(layers, names, columns=2, row_gap_px=_ROW_GAP_PX).resolve_scale(x="independent")
    )
