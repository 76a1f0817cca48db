"""Findings about treatments whose trials form two groups."""

from __future__ import annotations

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.mode_metrics import (
    CAUSE_BY_TIME_METRIC,
    LABEL_BY_TRIAL_ORDER_METRIC,
    NOMINAL_METRIC_NAMES,
    OTHER_LOAD_METRIC_NAMES,
)
from vnetbench.explain.comparisons.mode_splits import (
    ModeSplit,
    find_splits_by_mode_or_placement,
    group_values,
    metrics_and_evidence_of_trial,
    previous_treatment_by_trial,
    values_that_may_explain_modes,
)
from vnetbench.explain.comparisons.separation import MetricSeparation
from vnetbench.explain.experiment_command import build_experiment_command
from vnetbench.explain.model import CandidateCause, EvidenceChart, EvidenceItem, Finding
from vnetbench.explain.phrases import format_metric, metric_label
from vnetbench.explain.rules import get_cause
from vnetbench.quantity import choose_scale, format_count_with_noun, format_interval
from vnetbench.wording.estimate_text import find_metric, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence
from vnetbench.wording.treatment_names import treatment_name

_MAX_EVIDENCE_ITEMS = 4
_CONFIDENCE_BY_SEPARATION = ((0.95, "very likely"), (0.8, "likely"), (0.0, "possible"))
"""Minimum separation of the groups for each word."""

SEPARATION_TEXT_KEY = "separation"
"""Key in a finding's details: a clause about the metric that separates the two groups."""


def mode_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding per treatment with two groups of trials."""
    return tuple(_mode_finding(summary, split) for split in find_splits_by_mode_or_placement(summary))


def _mode_finding(summary: CampaignSummary, split: ModeSplit) -> Finding:
    low, high = (_group_median_clause(summary, split, is_upper) for is_upper in (False, True))
    groups = "two groups by placement" if split.is_by_placement else "two modes"
    prefix = f"{treatment_name(summary, split.treatment)}: " if len(summary.treatments) > 1 else ""
    noun = capitalize_sentence(metric_noun(summary.deciding_metric))
    separation_text = _first_separation_clause(summary, split)
    return Finding(
        kind="unstable",
        text=(
            f"{prefix}the trials fall into {groups}. {noun} is {low} in {split.is_upper.count(False)} of "
            f"{format_count_with_noun(len(split.points), 'trial')} and {high} in the others. "
            f"{capitalize_sentence(separation_text)}."
        ),
        treatment_indices=(split.treatment.index,),
        candidates=(_candidate_cause(summary, split),),
        chart=_trials_by_group_chart(summary, split),
        details={
            "cause": _cause_name_of_modes(split),
            "metric": summary.deciding_metric,
            "values": [split.lower_median, split.upper_median],
            "is_by_placement": split.is_by_placement,
            SEPARATION_TEXT_KEY: separation_text,
            "distance": split.separation_0_to_1,
            "p": split.separation_p_value,
            "upper": [
                point.trial_id
                for point, is_upper in zip(split.points, split.is_upper, strict=True)
                if is_upper
            ],
            "separating_metrics": [
                {
                    "metric": e.metric,
                    "auc": e.area_under_roc_curve,
                    "p": e.p_value,
                    "lower": e.lower_group_value,
                    "upper": e.upper_group_value,
                }
                for e in split.separating_metrics
            ],
        },
    )


def _group_median_clause(summary: CampaignSummary, split: ModeSplit, is_upper: bool) -> str:
    """Format the median of one group with its interval."""
    metric = summary.deciding_metric
    values = group_values(split.points, split.is_upper, is_upper, metric)
    low, high = median_interval(values, summary.required_precision.confidence) or (None, None)
    return format_interval(
        split.upper_median if is_upper else split.lower_median, low, high, find_metric(metric).unit
    ).text


def _first_separation_clause(summary: CampaignSummary, split: ModeSplit) -> str:
    """Return a clause about the first separating metric that does not refer to another sentence."""
    if not split.separating_metrics:
        return "no counter separates the two groups of trials"
    first, noun = split.separating_metrics[0], metric_noun(summary.deciding_metric)
    lower, upper = (
        _format_metric_value(first.metric, each)
        for each in (first.lower_group_value, first.upper_group_value)
    )
    return (
        f"the groups differ in {_metric_or_order_label(first.metric)}: {lower} where {noun} is low and "
        f"{upper} where {noun} "
        "is high"
    )


def _metric_or_order_label(metric: str) -> str:
    return LABEL_BY_TRIAL_ORDER_METRIC.get(metric) or metric_label(metric)


def _metric_axis_unit(metric: str) -> str:
    """Return the unit of an axis; empty for numbered CPUs and blocks, and for yes-or-no metrics."""
    if metric in NOMINAL_METRIC_NAMES or metric in LABEL_BY_TRIAL_ORDER_METRIC:
        return ""
    unit = EVIDENCE_METRICS[metric].unit if metric in EVIDENCE_METRICS else find_metric(metric).unit
    return "" if unit == YES_OR_NO_UNIT else unit


def _format_metric_value(metric: str, value: float) -> str:
    if metric in NOMINAL_METRIC_NAMES or metric in LABEL_BY_TRIAL_ORDER_METRIC:
        return f"{value:.0f}"
    return format_metric(metric, value)


def _candidate_cause(summary: CampaignSummary, split: ModeSplit) -> CandidateCause:
    cause = get_cause(_cause_name_of_modes(split))
    return CandidateCause(
        cause=cause,
        score=split.separation_0_to_1 if split.separating_metrics else 0.5,
        confidence=next(
            word for least, word in _CONFIDENCE_BY_SEPARATION if split.separation_0_to_1 >= least
        ),
        evidence=tuple(
            _evidence_item_of_lower_group(split, each)
            for each in split.separating_metrics[:_MAX_EVIDENCE_ITEMS]
            if each.metric not in LABEL_BY_TRIAL_ORDER_METRIC
        ),
        command=build_experiment_command(summary, split.treatment, cause).command,
    )


def _cause_name_of_modes(split: ModeSplit) -> str:
    """Return the cause that comes and goes with the modes, or `two_modes` if none does."""
    first = split.separating_metrics[0].metric if split.separating_metrics else ""
    busy_or_modes = "machine_busy" if first in OTHER_LOAD_METRIC_NAMES else "two_modes"
    return CAUSE_BY_TIME_METRIC.get(first, busy_or_modes)


def _evidence_item_of_lower_group(split: ModeSplit, separation: MetricSeparation) -> EvidenceItem:
    """Return the metric in the lower group. The threshold is midway between both groups."""
    lower = [
        metrics_and_evidence_of_trial(point).get(separation.metric, 0.0)
        for point, is_upper in zip(split.points, split.is_upper, strict=True)
        if not is_upper
    ]
    is_nominal = separation.metric in NOMINAL_METRIC_NAMES
    return EvidenceItem(
        metric=separation.metric,
        value=separation.lower_group_value,
        low=min(lower),
        high=max(lower),
        threshold=None if is_nominal else (separation.lower_group_value + separation.upper_group_value) / 2,
        applies_below_threshold=separation.lower_group_value < separation.upper_group_value,
    )


def _trials_by_group_chart(summary: CampaignSummary, split: ModeSplit) -> EvidenceChart:
    deciding = find_metric(summary.deciding_metric)
    scale = choose_scale(deciding.unit, split.upper_median)
    metric = split.separating_metrics[0].metric if split.separating_metrics else "block"
    values = values_that_may_explain_modes(
        split.points, summary.deciding_metric, previous_treatment_by_trial(summary)
    )[metric]
    x_name = _metric_or_order_label(metric)
    x_scale = choose_scale(_metric_axis_unit(metric), max(map(abs, values)))
    return EvidenceChart(
        chart_type="modes",
        title=f"{deciding.label} over {x_name}",
        x_label=f"{x_name} ({x_scale.unit})" if x_scale.unit else x_name,
        y_label=f"{deciding.label} ({scale.unit})" if scale.unit else deciding.label,
        rows=tuple(
            {
                "x": value / x_scale.divisor,
                "y": point.values[summary.deciding_metric] / scale.divisor,
                "series": "upper" if is_upper else "lower",
            }
            for value, point, is_upper in zip(values, split.points, split.is_upper, strict=True)
        ),
    )
