"""How many times faster or slower: two treatments' ratio, its interval, and many ratios judged together.

Ratios are differences of logarithms. Two sets of trials are compared by ranks (Wilcoxon; Hodges & Lehmann
1963, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34(2)): the value is
the middle of all ratios of one trial to another, the interval is made of the same ratios in order, with the
exact distribution of the rank sum (Bauer 1972, "Constructing confidence sets using rank statistics", JASA
67(339)). It holds for six trials on each side, and one odd trial moves it little. Its one assumption is that
both sides' logarithms are spread alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from vnetbench.estimate.model import Ratio

_EXACT_UP_TO = 60
"""Trials on a side up to which the rank distributions are counted out; beyond, they are normal."""


def rank_ratio(before: Sequence[float], after: Sequence[float], confidence: float) -> Ratio:
    """after / before (each: one value a trial, same unit, not negative), by ranks of the logarithms.

    `low` and `high` are None where there are too few trials for the confidence (0.95 needs 4 and 4, 3 and
    5) and where a bound has no number: a trial of zero in `before` makes ratios without end. When `before`
    is dead altogether the value is infinite, or 1 where `after` is dead as well.

    Raises ValueError when a side is empty, a value is negative or not finite, or the confidence is outside
    0..1.
    """
    _check(confidence, before, after)
    before_logs, after_logs = _logs(before), _logs(after)
    differences = np.sort(_minus(after_logs[:, None], before_logs[None, :]).ravel())
    order = _order(_rank_sum_counts(len(before), len(after)), confidence)
    return _ratio(differences, order, confidence, _rank_sum_p(before_logs, after_logs))


def adjust_p_values(ratios: Sequence[Ratio]) -> list[Ratio]:
    """The same ratios, with p values adjusted for being many: false discoveries among those called
    different stay below the level they are called at.

    Benjamini & Hochberg (1995), "Controlling the false discovery rate", Journal of the Royal Statistical
    Society B 57(1). Ratios without p are handed back as they are. Intervals are not changed.
    """
    known = [index for index, each in enumerate(ratios) if each.p_value is not None]
    adjusted = list(ratios)
    smallest = 1.0
    by_p = sorted(known, key=lambda index: ratios[index].p_value or 0.0, reverse=True)
    for position, index in enumerate(by_p):
        smallest = min(smallest, (ratios[index].p_value or 0.0) * len(known) / (len(known) - position))
        adjusted[index] = replace(ratios[index], p_value=smallest, is_adjusted=True)
    return adjusted


def _check(confidence: float, *sides: Sequence[float]) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    for side in sides:
        if len(side) == 0:
            raise ValueError("a ratio needs trials on both sides")
        if not all(math.isfinite(value) and value >= 0 for value in side):
            raise ValueError("a ratio needs values that are finite and not negative")


def _logs(values: Sequence[float]) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        logs: npt.NDArray[np.float64] = np.log(np.asarray(values, dtype=float))
    return logs


def _minus(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """left - right, where two dead trials (both minus infinity) are alike."""
    with np.errstate(invalid="ignore"):
        difference: npt.NDArray[np.float64] = left - right
    return np.where(np.isnan(difference), 0.0, difference)


def _middle(ordered: npt.NDArray[np.float64]) -> float:
    below, above = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return below if below == above else (below + above) / 2 if math.isfinite(below + above) else above


def _exp(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf


def _ratio(ordered: npt.NDArray[np.float64], order: int, confidence: float, p: float) -> Ratio:
    """The middle of the ordered logarithms of ratios, and the `order`-th from each end, as a ratio."""
    low = high = math.inf
    if order >= 1:
        low, high = _exp(float(ordered[order - 1])), _exp(float(ordered[len(ordered) - order]))
    return Ratio(
        value=_exp(_middle(ordered)),
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        confidence=confidence,
        p_value=p,
    )


def _order(chances: npt.NDArray[np.float64], confidence: float) -> int:
    """Which of the ordered ratios, from each end, bounds the interval; 0 where none is far enough out."""
    return int(np.count_nonzero(np.cumsum(chances) <= (1 - confidence) / 2 + 1e-12))


@lru_cache(maxsize=1024)
def _rank_sum_counts(before: int, after: int) -> npt.NDArray[np.float64]:
    """The chance of each value 0..before*after of Mann & Whitney's U when both sides are alike."""
    if max(before, after) > _EXACT_UP_TO:
        sd = math.sqrt(before * after * (before + after + 1) / 12)
        return _normal_steps(before * after, sd)
    # The Gaussian binomial coefficient: product over i of (1 - q^(after+i)) / (1 - q^i).
    chances = np.zeros(before * after + 1)
    chances[0] = 1.0
    for i in range(1, before + 1):
        grown = chances.copy()
        grown[after + i :] -= chances[: len(chances) - after - i]
        for start in range(i):
            grown[start::i] = np.cumsum(grown[start::i])
        chances = grown * (i / (after + i))
    return chances


def _normal_steps(most: int, sd: float) -> npt.NDArray[np.float64]:
    edges = (np.arange(most + 2) - 0.5 - most / 2) / sd
    steps: npt.NDArray[np.float64] = np.diff(stats.norm.cdf(edges))
    return steps


def _rank_sum_p(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> float:
    both = np.concatenate([before, after])
    if np.all(both == both[0]):
        return 1.0
    ranks = stats.rankdata(both)
    u = float(ranks[len(before) :].sum()) - len(after) * (len(after) + 1) / 2
    if len(np.unique(both)) == len(both):
        chances = _rank_sum_counts(len(before), len(after))
        tail = min(u, len(before) * len(after) - u)
        return min(1.0, 2 * float(chances[: int(tail) + 1].sum()))
    return float(stats.mannwhitneyu(after, before, method="asymptotic").pvalue)
