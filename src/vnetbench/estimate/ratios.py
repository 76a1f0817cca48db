"""The ratio of two sets of trials by ranks, and the adjustment of p values for multiple comparisons.

Ratios are differences of logarithms. Two sets of trials are compared by ranks (Wilcoxon; Hodges & Lehmann
1963, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34(2)). The value is the
median of all ratios of one trial to another. The bounds of the interval are order statistics of the same
ratios, chosen by the exact distribution of the rank sum (Bauer 1972, "Constructing confidence sets using rank
statistics", JASA 67(339)). The method works with six trials on each side, and one outlier has little effect.
Its one assumption is that the logarithms of both sides have the same spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.model import Ratio

stats = DeferredModule("scipy.stats")

_MAX_TRIALS_FOR_EXACT_CHANCES = 60
"""Trials on one side up to which rank distributions are exact; beyond, they are approximated as normal."""


def estimate_rank_ratio(before: Sequence[float], after: Sequence[float], confidence: float) -> Ratio:
    """Return the ratio after / before by ranks of the logarithms.

    `low` and `high` are None for too few trials (0.95 needs 4 and 4, or 3 and 5). A bound is also None if it
    is infinite because of zeros in `before`. If all of `before` is zero, the value is infinite, or 1 if all
    of `after` is zero too.

    Args:
        before: One value for each trial, not negative.
        after: Likewise, in the same unit.
        confidence: The confidence of the interval, between 0 and 1.

    Raises:
        ValueError: A side is empty, a value is negative or not finite, or the confidence is outside 0..1.
    """
    _check_confidence_and_values(confidence, before, after)
    before_logs, after_logs = _logs_or_minus_infinity(before), _logs_or_minus_infinity(after)
    log_ratios = np.sort(_subtract_logs(after_logs[:, None], before_logs[None, :]).ravel())
    chances = _rank_sum_null_chances(len(before), len(after))
    # The interval runs from the `order`-th ratio to the `order`-th from the end; 0: too few trials.
    order = int(np.count_nonzero(np.cumsum(chances) <= (1 - confidence) / 2 + 1e-12))
    low = high = math.inf
    if order >= 1:
        low, high = (
            _exp_or_infinity(float(log_ratios[order - 1])),
            _exp_or_infinity(float(log_ratios[len(log_ratios) - order])),
        )
    return Ratio(
        value=_exp_or_infinity(_median_of_sorted(log_ratios)),
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        confidence=confidence,
        p_value=_rank_sum_p_value(before_logs, after_logs),
    )


def adjust_p_values(ratios: Sequence[Ratio]) -> list[Ratio]:
    """Return the ratios with p values adjusted to control the false discovery rate.

    Benjamini & Hochberg (1995), "Controlling the false discovery rate", Journal of the Royal Statistical
    Society B 57(1). Ratios without a p value and all intervals stay as they are.
    """
    p_values = {index: each.p_value for index, each in enumerate(ratios) if each.p_value is not None}
    adjusted = list(ratios)
    for index, p_value in zip(p_values, stats.false_discovery_control(list(p_values.values())), strict=True):
        adjusted[index] = replace(ratios[index], p_value=float(p_value), is_p_value_adjusted=True)
    return adjusted


def _check_confidence_and_values(confidence: float, *sides: Sequence[float]) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    for side in sides:
        if len(side) == 0:
            raise ValueError("a ratio needs trials on both sides")
        if not all(math.isfinite(value) and value >= 0 for value in side):
            raise ValueError("a ratio needs values that are finite and not negative")


def _logs_or_minus_infinity(values: Sequence[float]) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        logs: npt.NDArray[np.float64] = np.log(np.asarray(values, dtype=float))
    return logs


def _subtract_logs(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return left - right, where the logarithms of two zeros (minus infinity) are equal."""
    with np.errstate(invalid="ignore"):
        difference: npt.NDArray[np.float64] = left - right
    return np.where(np.isnan(difference), 0.0, difference)


def _median_of_sorted(values: npt.NDArray[np.float64]) -> float:
    below, above = float(values[(len(values) - 1) // 2]), float(values[len(values) // 2])
    return below if below == above else (below + above) / 2 if math.isfinite(below + above) else above


def _exp_or_infinity(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf


@lru_cache(maxsize=1024)
def _rank_sum_null_chances(before: int, after: int) -> npt.NDArray[np.float64]:
    """Return the chance of each value 0..before*after of Mann & Whitney's U for equal distributions."""
    if max(before, after) > _MAX_TRIALS_FOR_EXACT_CHANCES:
        sd = math.sqrt(before * after * (before + after + 1) / 12)
        edges = (np.arange(before * after + 2) - 0.5 - before * after / 2) / sd
        normal_chances: npt.NDArray[np.float64] = np.diff(stats.norm.cdf(edges))
        return normal_chances
    # The Gaussian binomial coefficient: product over i of (1 - q^(after+i)) / (1 - q^i).
    chances = np.zeros(before * after + 1)
    chances[0] = 1.0
    for i in range(1, before + 1):
        product = chances.copy()
        product[after + i :] -= chances[: len(chances) - after - i]
        for start in range(i):
            product[start::i] = np.cumsum(product[start::i])
        chances = product * (i / (after + i))
    return chances


def _rank_sum_p_value(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> float:
    both = np.concatenate([before, after])
    if np.all(both == both[0]):
        return 1.0
    has_ties = len(np.unique(both)) < len(both)
    is_exact = not has_ties and max(len(before), len(after)) <= _MAX_TRIALS_FOR_EXACT_CHANCES
    method = "exact" if is_exact else "asymptotic"
    return float(stats.mannwhitneyu(after, before, method=method).pvalue)
