"""Find treatments whose trials form two groups, and the metric that separates these groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.modes import (
    MIN_MODE_SHARE_OF_TRIALS,
    MIN_TRIALS_FOR_MODES,
    find_modes,
    mark_upper_mode,
)
from vnetbench.estimate.ratios import adjust_p_values, estimate_rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.comparisons.mode_metrics import (
    CONCENTRATION_METRIC_NAMES,
    DROP_SHARE_METRIC_NAMES,
    LABEL_BY_TRIAL_ORDER_METRIC,
    NOMINAL_METRIC_NAMES,
    OTHER_LOAD_METRIC_NAMES,
    PLACEMENT_METRIC_NAMES,
    SHARED_CPU_METRIC_NAMES,
    is_consequence_of,
)
from vnetbench.explain.comparisons.separation import MetricSeparation, rank_separations
from vnetbench.explain.experiment_command import build_experiment_command
from vnetbench.explain.model import CandidateCause, EvidenceChart, EvidenceItem, Finding
from vnetbench.explain.phrases import format_metric, metric_label
from vnetbench.explain.rules import get_cause
from vnetbench.quantity import choose_scale, format_interval
from vnetbench.wording.estimate_text import find_metric, metric_noun
from vnetbench.wording.factor_text import capitalize_sentence, format_count_with_noun
from vnetbench.wording.treatment_names import treatment_name

_MIN_TRIALS_FOR_SPLIT = 12
"""Minimum number of trials for a split.

Below MIN_TRIALS_FOR_MODES, a split also needs a metric that separates its groups.
"""
_SEPARATION_SIGNIFICANCE_LEVEL = 0.05
_MIN_SEPARATION_DEGREE = 0.6
"""Minimum separation of a metric that explains modes: four of five trials, by ranks."""
_SEPARATION_TIE_MARGIN = 0.1
"""Among metrics with separations within this margin, placement metrics come first."""
_PLACEMENT_SIGNIFICANCE_LEVEL = 0.01
"""Level for splits by placement, where the deciding metric alone shows no modes."""
_MIN_TRIALS_PER_GROUP = 4
_MAX_EVIDENCE_ITEMS = 4
_CONFIDENCE_BY_SEPARATION = ((0.95, "very likely"), (0.8, "likely"), (0.0, "possible"))
"""Minimum separation of the groups for each word."""

SEPARATION_TEXT_KEY = "separation"
"""Key in a finding's details: a clause about the metric that separates the two groups."""


@dataclass(frozen=True)
class ModeSplit:
    """A treatment whose trials form two groups: modes of the deciding metric, or groups by placement."""

    treatment: TreatmentSummary
    points: tuple[TrialPoint, ...]
    is_upper: tuple[bool, ...]
    """For each point, whether it is in the group of larger values."""
    lower_median: float
    upper_median: float
    separating_metrics: tuple[MetricSeparation, ...]
    """Metrics that separate the groups significantly, placement metrics first."""
    separation_degree: float
    """Of the groups by the first separating metric; of a split by placement by the deciding metric."""
    p_value: float
    is_by_placement: bool = False
    """True if placement defines the groups and the deciding metric itself shows no modes."""


def find_mode_splits(summary: CampaignSummary) -> tuple[ModeSplit, ...]:
    """Return the treatments with two modes, or with two groups by placement, in the campaign's order."""
    previous = _previous_treatment_by_trial(summary)
    splits = (
        _split_by_modes(each, summary.deciding_metric, previous)
        or _split_by_placement(summary, each, previous)
        for each in summary.treatments
    )
    return tuple(each for each in splits if each is not None)


def mode_findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """Return one finding per treatment with two groups of trials."""
    return tuple(_mode_finding(summary, split) for split in find_mode_splits(summary))


def _split_by_modes(
    treatment: TreatmentSummary, metric: str, previous: Mapping[int, int]
) -> ModeSplit | None:
    points = tuple(point for point in treatment.points if metric in point.values)
    values = [point.values[metric] for point in points]
    estimate = find_modes(values, _MIN_TRIALS_FOR_SPLIT)
    if estimate.modality != "two":
        return None
    is_upper = mark_upper_mode(values, estimate.modes)
    separations = rank_separations(
        _values_that_may_explain_modes(points, metric, previous), is_upper, NOMINAL_METRIC_NAMES
    )
    separating = _significant_separations(separations)
    if len(points) < MIN_TRIALS_FOR_MODES and not separating:
        return None
    low, high = (mode.value for mode in estimate.modes)
    degree, p_value = (separating[0].separation_degree, separating[0].p_value) if separating else (0.0, 1.0)
    return ModeSplit(treatment, points, tuple(is_upper), low, high, tuple(separating), degree, p_value)


def _split_by_placement(
    summary: CampaignSummary, treatment: TreatmentSummary, previous: Mapping[int, int]
) -> ModeSplit | None:
    """Split trials by placement if the deciding metric differs between the groups.

    A metric with a large spread may show no modes although trials ran with two placements: both threads on
    one CPU or not, or packets on one CPU or on several. The groups are compared by ranks.
    """
    metric = summary.deciding_metric
    points = tuple(point for point in treatment.points if point.values.get(metric, 0.0) > 0)
    if len(points) < _MIN_TRIALS_FOR_SPLIT:
        return None
    known = _values_that_may_explain_modes(points, metric, previous)
    candidates = {
        name: known[name] for name in (*SHARED_CPU_METRIC_NAMES, *CONCENTRATION_METRIC_NAMES) if name in known
    }
    groupings = [
        grouping
        for name, values in candidates.items()
        if _has_two_large_enough_groups(grouping := _is_upper_by_metric(name, values))
    ]
    ratios = [
        _upper_over_lower_ratio(points, each, metric, summary.required_precision.confidence)
        for each in groupings
    ]
    for grouping, ratio in zip(groupings, adjust_p_values(ratios), strict=True):
        is_relevant = abs(math.log(ratio.value)) >= summary.required_precision.half_width
        if ratio.p_value is not None and ratio.p_value <= _PLACEMENT_SIGNIFICANCE_LEVEL and is_relevant:
            is_upper = tuple(is_member == (ratio.value > 1) for is_member in grouping)
            return _build_placement_split(treatment, points, is_upper, candidates, metric, ratio.p_value)
    return None


def _build_placement_split(
    treatment: TreatmentSummary,
    points: tuple[TrialPoint, ...],
    is_upper: tuple[bool, ...],
    candidates: Mapping[str, Sequence[float]],
    metric: str,
    p_value: float,
) -> ModeSplit:
    values = [point.values[metric] for point in points]
    separating = tuple(_significant_separations(rank_separations(candidates, is_upper, NOMINAL_METRIC_NAMES)))
    (separation,) = rank_separations({metric: values}, is_upper)
    return ModeSplit(
        treatment,
        points,
        is_upper,
        separation.lower_group_value,
        separation.upper_group_value,
        separating,
        separation.separation_degree,
        p_value,
        is_by_placement=True,
    )


def _is_upper_by_metric(name: str, values: Sequence[float]) -> list[bool]:
    """Return for each trial whether it is in the group of larger values; all False without two groups."""
    if name in SHARED_CPU_METRIC_NAMES:
        return [percent > 50 for percent in values]
    estimate = find_modes(values, _MIN_TRIALS_FOR_SPLIT)
    return mark_upper_mode(values, estimate.modes) if estimate.modes else [False] * len(values)


def _has_two_large_enough_groups(grouping: Sequence[bool]) -> bool:
    """Return whether both groups are large enough not to be outliers."""
    smaller = min(grouping.count(True), grouping.count(False))
    return smaller >= max(_MIN_TRIALS_PER_GROUP, MIN_MODE_SHARE_OF_TRIALS * len(grouping))


def _upper_over_lower_ratio(
    points: Sequence[TrialPoint], grouping: Sequence[bool], metric: str, confidence: float
) -> Ratio:
    """Return the metric of the True group over that of the False group."""
    base, other = (_group_values(points, grouping, group, metric) for group in (False, True))
    return estimate_rank_ratio(base, other, confidence)


def _group_values(
    points: Sequence[TrialPoint], grouping: Sequence[bool], group: bool, metric: str
) -> list[float]:
    return [
        point.values[metric] for point, is_member in zip(points, grouping, strict=True) if is_member == group
    ]


def _values_that_may_explain_modes(
    points: Sequence[TrialPoint], metric: str, previous: Mapping[int, int]
) -> dict[str, list[float]]:
    """Return the values of all metrics that may explain modes and that every trial has, by metric.

    The block and the previous treatment are included as metrics.
    """
    trials = [_metrics_and_evidence_of_trial(point) for point in points]
    names = [name for name in trials[0] if not is_consequence_of(name, metric)]
    values = {
        name: [trial[name] for trial in trials] for name in names if all(name in trial for trial in trials)
    }
    values["block"] = [float(point.block) for point in points]
    values["after_treatment"] = [float(previous.get(point.trial_id, -1)) for point in points]
    return values


def _metrics_and_evidence_of_trial(point: TrialPoint) -> dict[str, float]:
    """Return metrics and evidence of a trial. With too few lost frames, each drop location gets 0."""
    no_drops = dict.fromkeys(DROP_SHARE_METRIC_NAMES, 0.0) if "frames_lost_percent" in point.evidence else {}
    return {**no_drops, **point.values, **point.evidence}


def _previous_treatment_by_trial(summary: CampaignSummary) -> dict[int, int]:
    """Return, by trial id, the treatment index of the previous trial."""
    order = sorted((point.trial_id, each.index) for each in summary.treatments for point in each.points)
    return {trial: index for (_, index), (trial, _) in pairwise(order)}


def _significant_separations(separations: Sequence[MetricSeparation]) -> list[MetricSeparation]:
    """Return significant separations; placement metrics come first if they are nearly as good as the best."""
    significant = [
        each
        for each in separations
        if each.p_value <= _SEPARATION_SIGNIFICANCE_LEVEL and each.separation_degree >= _MIN_SEPARATION_DEGREE
    ]
    best = max((each.separation_degree for each in significant), default=0.0)
    placement = [
        each
        for each in significant
        if each.metric in PLACEMENT_METRIC_NAMES and each.separation_degree >= best - _SEPARATION_TIE_MARGIN
    ]
    placement.sort(key=lambda each: PLACEMENT_METRIC_NAMES.index(each.metric))
    return [*placement, *(each for each in significant if each not in placement)]


def _mode_finding(summary: CampaignSummary, split: ModeSplit) -> Finding:
    low, high = (_group_value_clause(summary, split, is_upper) for is_upper in (False, True))
    groups = "two groups by placement" if split.is_by_placement else "two modes"
    prefix = f"{treatment_name(summary, split.treatment)}: " if len(summary.treatments) > 1 else ""
    noun = capitalize_sentence(metric_noun(summary.deciding_metric))
    separation_text = _separation_text(summary, split)
    return Finding(
        kind="unstable",
        text=(
            f"{prefix}the trials fall into {groups}. {noun} is {low} in {split.is_upper.count(False)} of "
            f"{format_count_with_noun(len(split.points), 'trial')} and {high} in the others. "
            f"{capitalize_sentence(separation_text)}."
        ),
        treatment_indices=(split.treatment.index,),
        candidates=(_candidate_cause(summary, split),),
        chart=_evidence_chart(summary, split),
        details={
            "cause": _busy_or_modes_cause(split),
            "metric": summary.deciding_metric,
            "values": [split.lower_median, split.upper_median],
            "is_by_placement": split.is_by_placement,
            SEPARATION_TEXT_KEY: separation_text,
            "distance": split.separation_degree,
            "p": split.p_value,
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


def _group_value_clause(summary: CampaignSummary, split: ModeSplit, is_upper: bool) -> str:
    """Format the median of one group with its interval."""
    metric = summary.deciding_metric
    values = _group_values(split.points, split.is_upper, is_upper, metric)
    low, high = median_interval(values, summary.required_precision.confidence) or (None, None)
    return format_interval(
        split.upper_median if is_upper else split.lower_median, low, high, find_metric(metric).unit
    ).text


def _separation_text(summary: CampaignSummary, split: ModeSplit) -> str:
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
    cause = get_cause(_busy_or_modes_cause(split))
    return CandidateCause(
        cause=cause,
        score=split.separation_degree if split.separating_metrics else 0.5,
        confidence=next(
            word for least, word in _CONFIDENCE_BY_SEPARATION if split.separation_degree >= least
        ),
        evidence=tuple(
            _evidence_item_of_lower_group(split, each)
            for each in split.separating_metrics[:_MAX_EVIDENCE_ITEMS]
            if each.metric not in LABEL_BY_TRIAL_ORDER_METRIC
        ),
        command=build_experiment_command(summary, split.treatment, cause)[1],
    )


def _busy_or_modes_cause(split: ModeSplit) -> str:
    is_busy = split.separating_metrics and split.separating_metrics[0].metric in OTHER_LOAD_METRIC_NAMES
    return "machine_busy" if is_busy else "two_modes"


def _evidence_item_of_lower_group(split: ModeSplit, separation: MetricSeparation) -> EvidenceItem:
    """Return the metric in the lower group. The threshold is midway between both groups."""
    lower = [
        _metrics_and_evidence_of_trial(point)[separation.metric]
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
        supports_when_low=separation.lower_group_value < separation.upper_group_value,
    )


def _evidence_chart(summary: CampaignSummary, split: ModeSplit) -> EvidenceChart:
    deciding = find_metric(summary.deciding_metric)
    scale = choose_scale(deciding.unit, split.upper_median)
    metric = split.separating_metrics[0].metric if split.separating_metrics else "block"
    values = _values_that_may_explain_modes(
        split.points, summary.deciding_metric, _previous_treatment_by_trial(summary)
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
