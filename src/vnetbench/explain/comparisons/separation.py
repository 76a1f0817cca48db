"""Which figure tells two groups of trials apart: by the chance that it is larger in one than in the other.

That chance is the area under the ROC curve, Mann & Whitney's U over the number of pairs (Hanley & McNeil
1982, "The meaning and use of the area under a receiver operating characteristic (ROC) curve", Radiology
143(1)). Names, such as the number of a CPU, are put into the order of the share of trials that are in the
upper group. The p value is the share of random groups of the same sizes that a figure tells apart as well
(the order of names found anew in each of them), and many figures are judged together after Benjamini &
Hochberg.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import stats

from vnetbench.estimate.ratios import adjust_p_values
from vnetbench.estimate.model import Ratio

_GROUPS = 4999
"""Random groups; with the one that was found, p is a multiple of 1/5000."""
_ALL_UP_TO = 5000
"""Where there are no more ways to divide the trials, all of them are looked at."""

Numbers = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Separation:
    """How well one figure tells the groups apart."""

    figure: str
    auc: float
    """The chance that a trial of the upper group has more of it than one of the lower; ties count half."""
    p: float
    """Adjusted over all figures that were looked at."""
    lower: float
    """Of the lower group: the median; of names the most frequent one."""
    upper: float

    @property
    def distance(self) -> float:
        """0: it says nothing of the groups; 1: it tells every trial's."""
        return abs(2 * self.auc - 1)


def separations(
    figures: Mapping[str, Sequence[float]],
    is_upper: Sequence[bool],
    names: frozenset[str] = frozenset(),
) -> list[Separation]:
    """Every figure that is not the same in all trials, those first that tell the groups apart best.

    `figures` have a value a trial, `names` are those whose values are no sizes.
    """
    upper = np.asarray(is_upper, dtype=bool)
    # As numbers, since products of truths take numpy many times as long.
    groups = _groups(upper).astype(float)
    found = [
        _separation(figure, np.asarray(values, dtype=float), upper, groups, figure in names)
        for figure, values in figures.items()
        if len(set(values)) > 1
    ]
    adjusted = adjust_p_values([Ratio(1.0, None, None, 0.95, each.p) for each in found])
    found = [replace(each, p=ratio.p_value or 0.0) for each, ratio in zip(found, adjusted, strict=True)]
    return sorted(found, key=lambda each: (-each.distance, each.p))


def _groups(upper: Truths) -> Truths:
    """Ways to divide the trials, a row each: all there are, or as many at random."""
    count, size = len(upper), int(upper.sum())
    if math.comb(count, size) <= _ALL_UP_TO:
        chosen = np.array(list(combinations(range(count), size)))
        groups = np.zeros((len(chosen), count), dtype=bool)
        np.put_along_axis(groups, chosen, True, axis=1)
        return groups
    random = np.random.default_rng(0)
    orders = np.argsort(random.random((_GROUPS, count)), axis=1)
    return np.vstack([upper, upper[orders]])


def _separation(figure: str, values: Numbers, upper: Truths, groups: Numbers, is_name: bool) -> Separation:
    areas, what = (_aucs_of_names, values) if is_name else (_aucs, stats.rankdata(values))
    auc = float(areas(what, upper[None].astype(float))[0])
    p = float(np.mean(np.abs(areas(what, groups) - 0.5) >= abs(auc - 0.5) - 1e-12))
    usual = _most_frequent if is_name else np.median
    return Separation(figure, auc, p, float(usual(values[~upper])), float(usual(values[upper])))


def _aucs(ranks: Numbers, groups: Numbers) -> Numbers:
    sizes = groups.sum(axis=1)
    u = groups @ ranks - sizes * (sizes + 1) / 2
    aucs: Numbers = u / (sizes * (groups.shape[1] - sizes))
    return aucs


def _aucs_of_names(values: Numbers, groups: Numbers) -> Numbers:
    """Of each group, with the names in the order of their share in it."""
    known, which = np.unique(values, return_inverse=True)
    belongs = (which[:, None] == np.arange(len(known))).astype(float)
    inside = groups @ belongs
    outside = belongs.sum(axis=0) - inside
    order = np.argsort(inside / (inside + outside), axis=1)
    inside, outside = (np.take_along_axis(each, order, axis=1) for each in (inside, outside))
    below = np.cumsum(outside, axis=1) - outside / 2
    aucs: Numbers = (inside * below).sum(axis=1) / (inside.sum(axis=1) * outside.sum(axis=1))
    return aucs


def _most_frequent(values: Numbers) -> float:
    known, counts = np.unique(values, return_counts=True)
    return float(known[np.argmax(counts)])
