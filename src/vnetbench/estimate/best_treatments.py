"""Multiple comparisons with the best: which treatments may be the best, and how much worse each may be.

The treatment with the best median owes this partly to chance, because it was selected. So a test against it
alone promises too much. Hsu's method compares each treatment as if it were the best, with all others at once
(Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of
Statistics 12(3); Hsu 1996, "Multiple Comparisons: Theory and Methods", chapter 4). The truly best treatment
is in the set with at least the study's confidence.

Differences are those of logarithms in common blocks (`paired_ratios.py`), each with its own standard error.
Dunnett's critical values (`scipy.stats.dunnett`) need equal noise in all treatments, which a full CPU or a
second mode breaks. So each one-sided comparison has Šidák's share of the error (Šidák 1967, JASA 62(318)).
This is wide enough for any positive correlation of the differences, which share a treatment. Student's t is
corrected for the trimming: the ratio of both quantiles is simulated for normal noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.paired_ratios import (
    PairedRatio,
    degrees_of_freedom,
    estimate_paired_ratio,
    min_blocks_for_paired_ratio,
    untrimmed_block_count,
)

special = DeferredModule("scipy.special")

MAX_BEST_TREATMENTS_COMPARED_WITH_ALL = 24
"""Treatments with the best medians that all others are compared with. A smaller number excludes fewer."""
_SIMULATED_SAMPLES = 100_000
_SIMULATED_VALUES_AT_ONCE = 1_000_000
"""Normal values in memory at a time: 8 MB in each array."""
_MAX_SIMULATED_BLOCKS = 300
"""With more blocks, the correction is smaller than the error of its simulation, 1 %."""
_MIN_SIMULATED_TAIL = 1e-3
"""Smaller tails have too few simulated samples. The correction changes little there."""

ValuesByBlock = Mapping[int, float]


@dataclass(frozen=True)
class ComparisonsWithBest:
    """The treatments that may be the best, and the bound for how much worse than the best each one is."""

    candidates: tuple[int, ...]
    """Indices of the treatments that may be the best, best median first."""
    min_log_ratio_to_best: Mapping[int, float]
    """Index to the smallest logarithm of own value over the best other one; minus infinity if unknown.

    At most 0, and 0 for the only treatment that may be the best. For metrics where lower is better, the
    logarithm is negated.
    """


def compare_with_best_of_others(
    values: Mapping[int, ValuesByBlock],
    indices_best_first: Sequence[int],
    confidence: float,
    *,
    is_lower_better: bool,
) -> ComparisonsWithBest:
    """Compare each treatment with the best of the others.

    Args:
        values: Index of a treatment to its values by block.
        indices_best_first: All indices, best median first.
        confidence: The confidence of the whole statement, between 0 and 1.
        is_lower_better: Whether smaller values are better.
    """
    comparisons = _PairwiseComparisons(values, len(indices_best_first), confidence, is_lower_better)
    rivals = indices_best_first[:MAX_BEST_TREATMENTS_COMPARED_WITH_ALL]
    candidates = tuple(i for i in indices_best_first if comparisons.may_be_best(i, rivals))
    # Without bounds for all candidates, there is no bound for their maximum.
    known = candidates if len(candidates) <= MAX_BEST_TREATMENTS_COMPARED_WITH_ALL else None
    return ComparisonsWithBest(
        candidates,
        {
            i: -math.inf if known is None else comparisons.min_log_ratio_to_best(i, known)
            for i in indices_best_first
        },
    )


@dataclass
class _PairwiseComparisons:
    """One-sided bounds of differences between treatments; positive differences are better."""

    values: Mapping[int, ValuesByBlock]
    treatment_count: int
    confidence: float
    is_lower_better: bool

    def may_be_best(self, index: int, rivals: Collection[int]) -> bool:
        """Return whether no rival is significantly better."""
        return all(self._difference_bound(index, other, 1) >= 0 for other in rivals if other != index)

    def min_log_ratio_to_best(self, index: int, candidates: Collection[int]) -> float:
        """Return the lower bound of the difference to the best other treatment, at most 0."""
        bounds = (self._difference_bound(index, other, -1) for other in candidates if other != index)
        return min(0.0, *bounds, 0.0)

    def _difference_bound(self, index: int, other: int, sign: int) -> float:
        """Return the upper (`sign` 1) or lower (-1) bound of how much better `index` is than `other`."""
        pair = self._paired_ratio(index, other)
        if pair is None:
            return sign * math.inf
        log_ratio = -pair.log_ratio if self.is_lower_better else pair.log_ratio
        standard_error = math.sqrt(
            math.fsum(each * each for each in pair.log_error_contribution_by_block.values())
        )
        if standard_error == 0:
            return log_ratio
        critical = critical_value(
            pair.block_count, self.treatment_count - 1, self.confidence, degrees_of_freedom([pair])
        )
        return log_ratio + sign * critical * standard_error

    def _paired_ratio(self, index: int, base_index: int) -> PairedRatio | None:
        """Return the ratio of two treatments; None if they cannot be compared."""
        own, base = self.values[index], self.values[base_index]
        if any(value < 0 for value in (*own.values(), *base.values())):
            return None
        pair = estimate_paired_ratio(base, own)
        is_long_enough = pair and pair.block_count >= min_blocks_for_paired_ratio(self.confidence)
        return pair if is_long_enough else None


def critical_value(block_count: int, comparison_count: int, confidence: float, freedom: float) -> float:
    """Return the one-sided critical value of a trimmed t statistic.

    Args:
        block_count: Blocks of the comparison.
        comparison_count: Number of comparisons that hold together with the confidence.
        confidence: The confidence, between 0 and 1.
        freedom: Degrees of freedom of Student's t.
    """
    tail = -math.expm1(math.log(confidence) / comparison_count)
    correction = _trimming_correction(block_count, max(tail, _MIN_SIMULATED_TAIL))
    return -float(special.stdtrit(freedom, tail)) * correction


@lru_cache(maxsize=1024)
def _trimming_correction(block_count: int, tail: float) -> float:
    """Return the factor from Student's quantile to that of the trimmed statistic with normal noise.

    It is at least 1, and 1 above _MAX_SIMULATED_BLOCKS.
    """
    if block_count > _MAX_SIMULATED_BLOCKS:
        return 1.0
    statistics = _simulated_trimmed_t(block_count)
    student = -float(special.stdtrit(untrimmed_block_count(block_count) - 1, tail))
    return max(1.0, float(np.quantile(statistics, 1 - tail)) / student) if student > 0 else 1.0


@lru_cache(maxsize=64)
def _simulated_trimmed_t(block_count: int) -> npt.NDArray[np.float64]:
    """Return trimmed t statistics of normal values without a difference."""
    random = np.random.default_rng(0)
    samples_at_once = max(1, _SIMULATED_VALUES_AT_ONCE // block_count)
    parts = [
        _trimmed_t(random.normal(size=(min(samples_at_once, _SIMULATED_SAMPLES - start), block_count)))
        for start in range(0, _SIMULATED_SAMPLES, samples_at_once)
    ]
    statistics = np.concatenate(parts)
    # Both tails are equal, so that each sample counts twice.
    return np.concatenate([statistics, -statistics])


def _trimmed_t(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the trimmed t statistic of each row."""
    values = np.sort(samples, axis=1)
    block_count = values.shape[1]
    untrimmed = untrimmed_block_count(block_count)
    trimmed = (block_count - untrimmed) // 2
    middle = values[:, trimmed : trimmed + untrimmed]
    winsorised = np.clip(values, middle[:, :1], middle[:, -1:])
    squares = ((winsorised - winsorised.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    statistics: npt.NDArray[np.float64] = middle.mean(axis=1) / np.sqrt(
        squares / (untrimmed * (untrimmed - 1))
    )
    return statistics
