"""Bar chart of the metric that best supports a limit, by treatment or by trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import EvidenceChart, EvidenceItem
from vnetbench.explain.phrases import is_plain_count, metric_label
from vnetbench.quantity import choose_scale, format_count_with_noun
from vnetbench.wording.factor_text import capitalize_sentence
from vnetbench.wording.treatment_names import treatment_name

_MAX_BARS_PER_CHART = 12


def evidence_bar_chart(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], evidence: Sequence[EvidenceItem]
) -> EvidenceChart | None:
    """Return a bar chart of the first suitable metric; None if there is none.

    The metric must support the cause and must not be a yes-or-no metric. Counts of items such as queues come
    last, because they mostly reflect settings.

    For several treatments each bar is a treatment: the median of its trials with their range. For one
    treatment each bar is a trial.
    """
    suitable = [
        item
        for item in evidence
        if item.role == "supports" and EVIDENCE_METRICS[item.metric].unit != YES_OR_NO_UNIT
    ]
    if not suitable:
        return None
    item = min(suitable, key=_has_plain_count_values)
    name = item.metric
    noun = "trial" if len(treatments) == 1 else "treatment"
    rows = list(
        _labelled_trial_bars(treatments[0], name)
        if len(treatments) == 1
        else _labelled_treatment_bars(summary, treatments, name)
    )
    largest = max((value for _, row in rows for value in row.values()), default=0.0)
    scale = choose_scale(EVIDENCE_METRICS[name].unit, largest)
    selection = (
        f" (first {_MAX_BARS_PER_CHART} of {format_count_with_noun(len(rows), noun)})"
        if len(rows) > _MAX_BARS_PER_CHART
        else ""
    )
    return EvidenceChart(
        chart_type="bars",
        title=f"{capitalize_sentence(metric_label(name))}{selection}",
        x_label=noun,
        y_label=f"{metric_label(name)} ({scale.unit})" if scale.unit else metric_label(name),
        rows=tuple(
            {"x": label, **{key: value / scale.divisor for key, value in row.items()}}
            for label, row in rows[:_MAX_BARS_PER_CHART]
        ),
        threshold=None if item.threshold is None else item.threshold / scale.divisor,
    )


def _has_plain_count_values(item: EvidenceItem) -> bool:
    return is_plain_count(EVIDENCE_METRICS[item.metric].unit, item.value, item.low, item.high)


def _labelled_treatment_bars(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], evidence_metric: str
) -> Iterator[tuple[str, dict[str, float]]]:
    for treatment in treatments:
        values = treatment.evidence_values(evidence_metric)
        if values:
            row = {"y": median(values), "low": min(values), "high": max(values)}
            yield treatment_name(summary, treatment), row


def _labelled_trial_bars(
    treatment: TreatmentSummary, evidence_metric: str
) -> Iterator[tuple[str, dict[str, float]]]:
    for number, point in enumerate(treatment.points, 1):
        if evidence_metric in point.evidence:
            yield f"trial {number}", {"y": point.evidence[evidence_metric]}
