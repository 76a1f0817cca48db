"""The small picture of a limit: the figure that speaks for it, of each treatment or each trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import EvidenceItem, EvidenceChart
from vnetbench.explain.phrases import is_count, label_of
from vnetbench.quantity import scale_for
from vnetbench.wording.factor_text import capitalised, counted
from vnetbench.wording.treatment_names import name_of

_MOST_BARS = 12
"""More are no small picture."""


def picture_of(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], exhibits: Sequence[EvidenceItem]
) -> EvidenceChart | None:
    """The first figure that speaks for a cause and is more than yes or no; None where there is none.

    A number of things, such as queues, is mostly how something was set: what happened stands before it.

    Of several treatments a bar each, their medians with the least and the most of their trials; of one a bar
    a trial.
    """
    amounts = [each for each in exhibits if each.role == "supports" and _is_amount(each)]
    if not amounts:
        return None
    exhibit = min(amounts, key=_is_number_of_things)
    name = exhibit.metric
    what = "trial" if len(treatments) == 1 else "treatment"
    rows = list(_of_trials(treatments[0], name) if len(treatments) == 1 else _of(summary, treatments, name))
    scale = scale_for(EVIDENCE_METRICS[name].unit, max((row[end] for _, row in rows for end in row), default=0.0))
    some = f", the first {_MOST_BARS} of {counted(len(rows), what)}" if len(rows) > _MOST_BARS else ""
    return EvidenceChart(
        chart_type="bars",
        title=f"{capitalised(label_of(name))}{some}",
        x_label=what,
        y_label=f"{label_of(name)} ({scale.unit})" if scale.unit else label_of(name),
        rows=tuple(
            {"x": x, **{end: value / scale.divisor for end, value in row.items()}}
            for x, row in rows[:_MOST_BARS]
        ),
        threshold=None if exhibit.threshold is None else exhibit.threshold / scale.divisor,
    )


def _is_amount(exhibit: EvidenceItem) -> bool:
    return EVIDENCE_METRICS[exhibit.metric].unit != YES_OR_NO


def _is_number_of_things(exhibit: EvidenceItem) -> bool:
    return is_count(EVIDENCE_METRICS[exhibit.metric].unit, exhibit.value, exhibit.low, exhibit.high)


def _of(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], name: str
) -> Iterator[tuple[str, dict[str, float]]]:
    for treatment in treatments:
        values = treatment.evidence_values(name)
        if values:
            yield name_of(summary, treatment), {"y": median(values), "low": min(values), "high": max(values)}


def _of_trials(treatment: TreatmentSummary, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    for number, point in enumerate(treatment.points, 1):
        if name in point.evidence:
            yield f"trial {number}", {"y": point.evidence[name]}
