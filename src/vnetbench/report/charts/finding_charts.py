"""The chart beside a finding: its evidence, or else the time or the values of its treatments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import REPRESENTATIVE_INDEX_KEY, EvidenceChart, Finding
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.charts.time_charts import time_bars_of_finding
from vnetbench.wording.estimate_text import choose_metric_scale, metric_heading
from vnetbench.wording.treatment_names import treatment_name

_MAX_BARS = 12


def finding_chart(summary: CampaignSummary, finding: Finding, number: int) -> Chart | None:
    """Return the chart beside a finding; None only for a campaign without treatments.

    Without evidence, a finding about a limit shows where the time of its treatment goes. Other findings show
    the values of their treatments, or without values how many of their trials finished.
    """
    chart = evidence_chart(finding, number)
    if chart is not None:
        return chart
    representative = finding.details.get(REPRESENTATIVE_INDEX_KEY)
    limited = [each for each in summary.treatments if each.index == representative]
    indices = finding.treatment_indices
    treatments = [each for each in summary.treatments if not indices or each.index in indices]
    return time_bars_of_finding(summary, limited, f"finding-{number}") or _deciding_metric_chart(
        summary, treatments[:_MAX_BARS], number
    )


def _deciding_metric_chart(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], number: int
) -> Chart | None:
    """Return bars of the deciding metric, or of the finished trials if no treatment has a value."""
    scale = choose_metric_scale(summary.treatments, summary.deciding_metric)
    title = metric_heading(summary.deciding_metric, scale)
    rows = list(_deciding_metric_rows(summary, treatments, scale.divisor))
    if not rows:
        title = "Finished trials"
        rows = [{"x": treatment_name(summary, each), "y": float(each.trial_count)} for each in treatments]
    bars = EvidenceChart("bars", title, "treatment", title, tuple(rows))
    return evidence_chart(Finding(kind="values", text="", chart=bars), number)


def _deciding_metric_rows(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], divisor: float
) -> Iterator[dict[str, str | float]]:
    """Yield the value of each treatment with the range of its trials, or each trial of a single treatment."""
    metric = summary.deciding_metric
    for treatment in treatments:
        values = [point.values[metric] / divisor for point in treatment.points if metric in point.values]
        if not values:
            continue
        if len(treatments) == 1:
            for number, value in enumerate(values[:_MAX_BARS], 1):
                yield {"x": f"trial {number}", "y": value}
        else:
            ends = {"low": min(values), "high": max(values)}
            yield {"x": treatment_name(summary, treatment), "y": median(values), **ends}
