"""Find treatments whose trials form two groups, and the metric that separates these groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vnetbench.estimate.model import Ratio
from vnetbench.estimate.modes import (
    MIN_MODE_SHARE_OF_TRIALS,
    MIN_TRIALS_FOR_MODES,
    find_modes,
    mark_values_of_upper_mode,
)
from vnetbench.estimate.ratios import adjust_p_values, estimate_rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.comparisons.mode_metrics import (
    CAUSE_BY_TIME_METRIC,
    CONCENTRATION_METRIC_NAMES,
    DROP_SHARE_METRIC_NAMES,
    MIN_TIME_SHARE_DIFFERENCE_OF_CAUSE_POINTS,
    NOMINAL_METRIC_NAMES,
    PLACEMENT_METRIC_NAMES,
    SHARED_CPU_METRIC_NAMES,
    is_consequence_of,
)
from vnetbench.explain.comparisons.separation import MetricSeparation, rank_separations

_MIN_TRIALS_FOR_SPLIT = 12
"""Minimum number of trials for a split.

Below MIN_TRIALS_FOR_MODES, a split also needs a metric that separates its groups.
"""
_SEPARATION_SIGNIFICANCE_LEVEL = 0.05
"""A metric that separates the groups must do so with at most this adjusted p-value (permutations)."""
_MIN_SEPARATION_0_TO_1 = 0.6
"""Minimum separation of a metric that explains modes: four of five trials, by ranks."""
_SEPARATION_TIE_MARGIN = 0.1
"""Among metrics with separations within this margin, placement metrics come first."""
_PLACEMENT_SIGNIFICANCE_LEVEL = 0.01
"""Level for splits by placement, where the deciding metric alone shows no modes."""
_MIN_TRIALS_PER_GROUP = 4


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
    separation_0_to_1: float
    """Of the groups by the first separating metric; of a split by placement by the deciding metric."""
    separation_p_value: float
    is_by_placement: bool = False
    """True if placement defines the groups and the deciding metric itself shows no modes."""


def find_splits_by_mode_or_placement(summary: CampaignSummary) -> tuple[ModeSplit, ...]:
    """Return the treatments with two modes, or with two groups by placement, in the campaign's order."""
    previous = previous_treatment_by_trial(summary)
    splits = (
        _split_by_modes(each, summary.deciding_metric, previous)
        or _split_by_placement(summary, each, previous)
        for each in summary.treatments
    )
    return tuple(each for each in splits if each is not None)


def _split_by_modes(
    treatment: TreatmentSummary, metric: str, previous_treatment_index_by_trial: Mapping[int, int]
) -> ModeSplit | None:
    points = tuple(point for point in treatment.points if metric in point.values)
    values = [point.values[metric] for point in points]
    estimate = find_modes(values, _MIN_TRIALS_FOR_SPLIT)
    if estimate.modality != "two":
        return None
    is_upper = mark_values_of_upper_mode(values, estimate.modes)
    separations = rank_separations(
        values_that_may_explain_modes(points, metric, previous_treatment_index_by_trial),
        is_upper,
        NOMINAL_METRIC_NAMES,
    )
    separating = _significant_separations(separations)
    if len(points) < MIN_TRIALS_FOR_MODES and not separating:
        return None
    low, high = (mode.value for mode in estimate.modes)
    degree, p_value = (separating[0].separation_0_to_1, separating[0].p_value) if separating else (0.0, 1.0)
    return ModeSplit(treatment, points, tuple(is_upper), low, high, tuple(separating), degree, p_value)


def _split_by_placement(
    summary: CampaignSummary,
    treatment: TreatmentSummary,
    previous_treatment_index_by_trial: Mapping[int, int],
) -> ModeSplit | None:
    """Split trials by placement if the deciding metric differs between the groups.

    A metric with a large spread may show no modes although trials ran with two placements: both threads on
    one CPU or not, or packets on one CPU or on several. The groups are compared by ranks.
    """
    metric = summary.deciding_metric
    points = tuple(point for point in treatment.points if point.values.get(metric, 0.0) > 0)
    if len(points) < _MIN_TRIALS_FOR_SPLIT:
        return None
    known = values_that_may_explain_modes(points, metric, previous_treatment_index_by_trial)
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
        separation.separation_0_to_1,
        p_value,
        is_by_placement=True,
    )


def _is_upper_by_metric(name: str, values: Sequence[float]) -> list[bool]:
    """Return for each trial whether it is in the group of larger values; all False without two groups."""
    if name in SHARED_CPU_METRIC_NAMES:
        return [percent > 50 for percent in values]
    estimate = find_modes(values, _MIN_TRIALS_FOR_SPLIT)
    return mark_values_of_upper_mode(values, estimate.modes) if estimate.modes else [False] * len(values)


def _has_two_large_enough_groups(grouping: Sequence[bool]) -> bool:
    """Return whether both groups are large enough not to be outliers."""
    smaller = min(grouping.count(True), grouping.count(False))
    return smaller >= max(_MIN_TRIALS_PER_GROUP, MIN_MODE_SHARE_OF_TRIALS * len(grouping))


def _upper_over_lower_ratio(
    points: Sequence[TrialPoint], grouping: Sequence[bool], metric: str, confidence: float
) -> Ratio:
    """Return the metric of the True group over that of the False group."""
    base, other = (group_values(points, grouping, group, metric) for group in (False, True))
    return estimate_rank_ratio(base, other, confidence)


def group_values(
    points: Sequence[TrialPoint], grouping: Sequence[bool], group: bool, metric: str
) -> list[float]:
    """Return the metric's values in one of the two groups."""
    return [
        point.values[metric] for point, is_member in zip(points, grouping, strict=True) if is_member == group
    ]


def values_that_may_explain_modes(
    points: Sequence[TrialPoint], metric: str, previous_treatment_index_by_trial: Mapping[int, int]
) -> dict[str, list[float]]:
    """Return the values of all metrics that may explain modes, by metric.

    A metric without counters in some trials is 0 there: a shaper that comes and goes has no queue without
    it. The block and the previous treatment are included as metrics.
    """
    trials = [metrics_and_evidence_of_trial(point) for point in points]
    names = {name: None for trial in trials for name in trial if not is_consequence_of(name, metric)}
    values = {name: [trial.get(name, 0.0) for trial in trials] for name in names}
    values["block"] = [float(point.block) for point in points]
    values["after_treatment"] = [
        float(previous_treatment_index_by_trial.get(point.trial_id, -1)) for point in points
    ]
    return values


def metrics_and_evidence_of_trial(point: TrialPoint) -> dict[str, float]:
    """Return metrics and evidence of a trial. With too few lost frames, each drop location gets 0."""
    no_drops = dict.fromkeys(DROP_SHARE_METRIC_NAMES, 0.0) if "frames_lost_percent" in point.evidence else {}
    return {**no_drops, **point.values, **point.evidence}


def previous_treatment_by_trial(summary: CampaignSummary) -> dict[int, int]:
    """Return, by trial id, the treatment index of the previous trial."""
    order = sorted((point.trial_id, each.index) for each in summary.treatments for point in each.points)
    return {trial: index for (_, index), (trial, _) in pairwise(order)}


def _significant_separations(separations: Sequence[MetricSeparation]) -> list[MetricSeparation]:
    """Return significant separations.

    Shares of time that belong to a cause come first. Then come placement metrics that are nearly as good as
    the best.
    """
    significant = [
        each
        for each in separations
        if each.p_value <= _SEPARATION_SIGNIFICANCE_LEVEL and each.separation_0_to_1 >= _MIN_SEPARATION_0_TO_1
    ]
    best = max((each.separation_0_to_1 for each in significant), default=0.0)
    placement = [
        each
        for each in significant
        if each.metric in PLACEMENT_METRIC_NAMES and each.separation_0_to_1 >= best - _SEPARATION_TIE_MARGIN
    ]
    placement.sort(key=lambda each: PLACEMENT_METRIC_NAMES.index(each.metric))
    causes = [
        each
        for each in significant
        if each.metric in CAUSE_BY_TIME_METRIC
        and _group_difference(each) >= MIN_TIME_SHARE_DIFFERENCE_OF_CAUSE_POINTS
    ]
    causes.sort(key=_group_difference, reverse=True)
    first = [*causes, *placement]
    return [*first, *(each for each in significant if each not in first)]


def _group_difference(separation: MetricSeparation) -> float:
    return abs(separation.upper_group_value - separation.lower_group_value)
