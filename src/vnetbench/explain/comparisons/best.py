"""Find the treatments that may be the best, and those that are not worse by a relevant margin.

Hsu's comparisons with the best take into account that the best median was selected
(`estimate/best_treatments.py`). A treatment that may be the best is not necessarily as good: with few trials
no difference is significant. It counts as not worse only if the bound of its ratio to the best lies within
the study's precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vnetbench.estimate.effects import find_best_treatment
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import BestTreatment
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import EvidenceChart, Finding
from vnetbench.explain.phrases import list_treatment_names, ratio_interval_fields
from vnetbench.quantity import format_count_with_noun, format_exact_share, format_interval
from vnetbench.wording.estimate_text import find_metric, finite_or_none, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence
from vnetbench.wording.treatment_names import treatment_name

_LOAD_COST_METRIC_NAMES = (
    "cycles_per_byte",
    "cycles_per_transaction",
    "cycles_per_datagram",
    "host_cpu_percent",
)
"""Metrics of the load's cost, most specific first."""
_MAX_CHART_ROWS = 12
_MAX_NAMED_CANDIDATES = 3


@dataclass(frozen=True)
class BestComparison:
    """The best treatment, and the others by their relation to it: indices, best median first."""

    best: BestTreatment
    irrelevant_difference_share: float
    """Share of the best value below which a difference is irrelevant."""
    treatments_within_margin: tuple[int, ...]
    """Treatments that are at most the margin worse than the best of the others."""
    worse_treatments: tuple[int, ...]
    """Treatments that are significantly worse, and not within the margin."""
    inconclusive_treatments: tuple[int, ...]
    """Treatments that may be the best, and might also be worse by more than the margin."""


def compare_with_best(summary: CampaignSummary) -> BestComparison | None:
    """Compare all treatments with the best one by the deciding metric; None with fewer than two treatments.

    The margin is the half-width of the study's precision.
    """
    best = find_best_treatment(summary, summary.deciding_metric)
    if best is None or not best.ratios:
        return None
    margin = summary.required_precision.half_width
    not_worse = tuple(
        i for i in best.ratios if _is_within_margin_of_best(summary, best.worst_ratio_to_best[i], margin)
    )
    worse = tuple(i for i in best.ratios if i not in best.tied_with and i not in not_worse)
    inconclusive = tuple(i for i in best.tied_with if i not in not_worse)
    return BestComparison(best, margin, not_worse, worse, inconclusive)


def best_treatment_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding about the best treatment; none if no ratio has a p value."""
    comparison = compare_with_best(summary)
    if comparison is None or all(ratio.p_value is None for ratio in comparison.best.ratios.values()):
        return ()
    by_index = {each.index: each for each in summary.treatments}
    best = by_index[comparison.best.index]
    good = [best, *(by_index[index] for index in comparison.treatments_within_margin)]
    text = _possibly_best_treatments_sentence(summary, comparison) + _other_treatments_sentence(
        summary, comparison, good[1:]
    )
    text += _cheapest_treatment_sentence(summary, good)
    return (
        Finding(
            kind="best",
            text=text,
            treatment_indices=tuple(each.index for each in good),
            chart=_ratios_to_best_chart(summary, comparison),
            details=_finding_details(summary, comparison),
        ),
    )


def _possibly_best_treatments_sentence(summary: CampaignSummary, comparison: BestComparison) -> str:
    """Return which treatments may be the best."""
    by_index = {each.index: each for each in summary.treatments}
    noun = metric_noun(summary.deciding_metric)
    candidates = [by_index[index] for index in (comparison.best.index, *comparison.best.tied_with)]
    if len(candidates) == 1:
        best = candidates[0]
        return (
            f"The best {noun} is {_metric_value_text(summary, best)}, with {treatment_name(summary, best)}."
        )
    confidence = format_exact_share(summary.required_precision.confidence)
    names = "; ".join(treatment_name(summary, each) for each in candidates[:_MAX_NAMED_CANDIDATES])
    more = "; …" if len(candidates) > _MAX_NAMED_CANDIDATES else ""
    return (
        f"{len(candidates)} treatments may have the best {noun} ({confidence} confidence), "
        f"best median first: {names}{more}."
    )


def _other_treatments_sentence(
    summary: CampaignSummary, comparison: BestComparison, good: list[TreatmentSummary]
) -> str:
    """Return which treatments are within the margin, and how much worse the others may be."""
    margin = format_exact_share(comparison.irrelevant_difference_share)
    clauses = []
    if good:
        verb = "is" if len(good) == 1 else "are"
        clauses.append(f"{list_treatment_names(summary, good)} {verb} within {margin} of the best")
    elif comparison.best.tied_with:
        clauses.append(f"none of the others is confirmed to be within {margin} of the best")
    if worse := comparison.worse_treatments:
        verb = "is" if len(worse) == 1 else "are"
        ratios = [comparison.best.worst_ratio_to_best[index] for index in worse]
        ratio = max(ratios) if is_lower_better(summary.deciding_metric) else min(ratios)
        at_worst = f", ×{ratio:.2g} at worst" if 0 < ratio < math.inf else ""
        clauses.append(f"{format_count_with_noun(len(worse), 'treatment')} {verb} worse{at_worst}")
    return f" {capitalize_sentence('; '.join(clauses))}." if clauses else ""


def _is_within_margin_of_best(summary: CampaignSummary, worst_ratio: float, margin: float) -> bool:
    if is_lower_better(summary.deciding_metric):
        return worst_ratio < 1 / (1 - margin)
    return worst_ratio > 1 - margin


def _metric_value_text(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    estimate = treatment.metrics[summary.deciding_metric]
    unit = find_metric(summary.deciding_metric).unit
    return format_interval(estimate.value, estimate.low, estimate.high, unit).text


def _cheapest_treatment_sentence(summary: CampaignSummary, treatments: list[TreatmentSummary]) -> str:
    """Name the treatment with the lowest cost; empty for a single treatment or without a common metric."""
    if len(treatments) < 2:
        return ""
    cost = next(
        (name for name in _LOAD_COST_METRIC_NAMES if all(name in each.metrics for each in treatments)), None
    )
    if cost is None:
        return ""
    cheapest = min(treatments, key=lambda each: each.metrics[cost].value)
    if cheapest is treatments[0]:
        return (
            f" The best treatment also has the lowest {find_metric(cost).label.lower()} of these treatments."
        )
    ratio = cheapest.metrics[cost].value / treatments[0].metrics[cost].value
    return (
        f" Of these treatments, {treatment_name(summary, cheapest)} has the lowest {metric_noun(cost)}, "
        f"{ratio:.2f} times that of the best treatment."
    )


def _ratios_to_best_chart(summary: CampaignSummary, comparison: BestComparison) -> EvidenceChart:
    by_index = {each.index: each for each in summary.treatments}
    best_name = treatment_name(summary, by_index[comparison.best.index])
    series = {
        **dict.fromkeys(comparison.treatments_within_margin, "not worse"),
        **dict.fromkeys(comparison.worse_treatments, "worse"),
        **dict.fromkeys(comparison.inconclusive_treatments, "inconclusive"),
    }
    return EvidenceChart(
        chart_type="effects",
        title="Treatments compared with the best",
        x_label="",
        y_label=f"ratio of {metric_noun(summary.deciding_metric)} to that of {best_name}",
        rows=tuple(
            {
                "x": treatment_name(summary, by_index[index]),
                "y": ratio.value,
                "series": series[index],
                **ratio_interval_fields(ratio),
            }
            for index, ratio in list(comparison.best.ratios.items())[:_MAX_CHART_ROWS]
            if index in series and finite_or_none(ratio.value) is not None
        ),
    )


def _finding_details(summary: CampaignSummary, comparison: BestComparison) -> dict[str, object]:
    return {
        "metric": summary.deciding_metric,
        "best": comparison.best.index,
        "margin": comparison.irrelevant_difference_share,
        "not_worse": list(comparison.treatments_within_margin),
        "worse": list(comparison.worse_treatments),
        "inconclusive": list(comparison.inconclusive_treatments),
        "may_be_best": [comparison.best.index, *comparison.best.tied_with],
        "worst_ratios": {
            str(index): finite_or_none(ratio) for index, ratio in comparison.best.worst_ratio_to_best.items()
        },
        "ratios": {
            str(index): {"ratio": finite_or_none(ratio.value), "low": ratio.low, "high": ratio.high}
            for index, ratio in comparison.best.ratios.items()
        },
    }
