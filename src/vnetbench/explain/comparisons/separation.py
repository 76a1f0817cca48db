"""Find metrics that separate two groups of trials, by the area under the ROC curve.

The area is the probability that a metric is larger in one group than in the other: Mann & Whitney's U over
the number of pairs (Hanley & McNeil 1982, "The meaning and use of the area under a receiver operating
characteristic (ROC) curve", Radiology 143(1)). Nominal values, such as a CPU number, are ordered by the share
of their trials that are in the upper group. The p value is the share of random groups of the same sizes with
at least the same separation, where each random group orders nominal values anew. P values are adjusted after
Benjamini & Hochberg.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.ratios import adjust_p_values

stats = DeferredModule("scipy.stats")

_RANDOM_DIVISION_COUNT = 4999
"""Number of random groups. With the real groups, p is a multiple of 1/5000."""
_MAX_ENUMERATED_DIVISIONS = 5000
"""Up to this number of divisions, all of them are used instead of random ones."""

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MetricSeparation:
    """How well one metric separates two groups of trials."""

    metric: str
    area_under_roc_curve: float
    """Probability that the metric is larger in a trial of the upper group; ties count half."""
    p_value: float
    """Adjusted over all metrics."""
    lower_group_value: float
    """Median of the lower group; the most frequent value of a nominal metric."""
    upper_group_value: float
    """The same for the upper group."""

    @property
    def separation_0_to_1(self) -> float:
        """Separation from 0 (none) to 1 (complete)."""
        return abs(2 * self.area_under_roc_curve - 1)


def rank_separations(
    metrics: Mapping[str, Sequence[float]],
    is_upper: Sequence[bool],
    nominal: frozenset[str] = frozenset(),
) -> list[MetricSeparation]:
    """Return the separation by each metric that varies, best first.

    Args:
        metrics: metric to one value per trial.
        is_upper: for each trial, whether it is in the upper group.
        nominal: metrics whose values are labels, not quantities.
    """
    upper = np.asarray(is_upper, dtype=bool)
    # As floats, because matrix products of booleans are many times slower in numpy.
    groups = _make_group_divisions(upper).astype(float)
    separations = [
        _measure_separation(name, np.asarray(values, dtype=float), upper, groups, name in nominal)
        for name, values in metrics.items()
        if len(set(values)) > 1
    ]
    adjusted = adjust_p_values([Ratio(1.0, None, None, 0.95, each.p_value) for each in separations])
    separations = [
        replace(each, p_value=ratio.p_value or 0.0) for each, ratio in zip(separations, adjusted, strict=True)
    ]
    return sorted(separations, key=lambda each: (-each.separation_0_to_1, each.p_value))


def _make_group_divisions(upper: BoolArray) -> BoolArray:
    """Return divisions of the trials into two groups, one per row: all of them, or random ones."""
    count, size = len(upper), int(upper.sum())
    if math.comb(count, size) <= _MAX_ENUMERATED_DIVISIONS:
        chosen = np.array(list(combinations(range(count), size)))
        groups = np.zeros((len(chosen), count), dtype=bool)
        np.put_along_axis(groups, chosen, True, axis=1)
        return groups
    random = np.random.default_rng(0)
    orders = np.argsort(random.random((_RANDOM_DIVISION_COUNT, count)), axis=1)
    return np.vstack([upper, upper[orders]])


def _measure_separation(
    metric: str, values: FloatArray, upper: BoolArray, groups: FloatArray, is_nominal: bool
) -> MetricSeparation:
    areas, scores = (_aucs_of_labels, values) if is_nominal else (_aucs_of_quantities, stats.rankdata(values))
    auc = float(areas(scores, upper[None].astype(float))[0])
    p_value = float(np.mean(np.abs(areas(scores, groups) - 0.5) >= abs(auc - 0.5) - 1e-12))
    center = _most_frequent_value if is_nominal else np.median
    return MetricSeparation(metric, auc, p_value, float(center(values[~upper])), float(center(values[upper])))


def _aucs_of_quantities(ranks: FloatArray, groups: FloatArray) -> FloatArray:
    sizes = groups.sum(axis=1)
    u = groups @ ranks - sizes * (sizes + 1) / 2
    aucs: FloatArray = u / (sizes * (groups.shape[1] - sizes))
    return aucs


def _aucs_of_labels(values: FloatArray, groups: FloatArray) -> FloatArray:
    """Return the area for each group, with values in the order of their share in the group."""
    known, which = np.unique(values, return_inverse=True)
    belongs = (which[:, None] == np.arange(len(known))).astype(float)
    inside = groups @ belongs
    outside = belongs.sum(axis=0) - inside
    order = np.argsort(inside / (inside + outside), axis=1)
    inside, outside = (np.take_along_axis(each, order, axis=1) for each in (inside, outside))
    below = np.cumsum(outside, axis=1) - outside / 2
    aucs: FloatArray = (inside * below).sum(axis=1) / (inside.sum(axis=1) * outside.sum(axis=1))
    return aucs


def _most_frequent_value(values: FloatArray) -> float:
    known, counts = np.unique(values, return_counts=True)
    return float(known[np.argmax(counts)])
