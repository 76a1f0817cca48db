"""The ratio of two treatments from trials of the same blocks, so that block effects cancel out.

A pair of treatments gives one logarithm of a ratio in each block that both have. The 20 % trimmed mean of
these tolerates one outlier or zero trial in five at each end. Its standard error comes from the same
logarithms, winsorised (Tukey & McLaughlin 1963, "Less vulnerable confidence and significance procedures for
location based on a single sample: trimming/Winsorization 1", Sankhyā A 25(3)). Several pairs have equal
weight. They share their blocks, and a bad block may affect one level more than the other. So the errors of a
block are summed over the pairs before they are squared (Liang & Zeger 1986, "Longitudinal data analysis using
generalized linear models", Biometrika 73(1), with blocks as clusters).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.interim_analyses import min_trials_for_interval
from vnetbench.estimate.model import Ratio

special = DeferredModule("scipy.special")

_BLOCKS_TRIMMED_SHARE = 0.2


@dataclass(frozen=True)
class PairedRatio:
    """The ratio of two treatments over the blocks that both have."""

    log_ratio: float
    """Trimmed mean of the logarithms over the blocks; infinite if one treatment is zero."""
    log_error_contribution_by_block: Mapping[int, float]
    """Each block's contribution to the error of `log_ratio`. The sum of their squares is its variance."""
    block_count_after_trimming: int
    """Number of blocks that were not trimmed."""

    @property
    def ratio(self) -> float:
        """The ratio itself; 0 or infinite if one treatment is zero."""
        return _exp_or_infinity(self.log_ratio)

    @property
    def block_count(self) -> int:
        """Number of blocks that both treatments have."""
        return len(self.log_error_contribution_by_block)


def estimate_paired_ratio(base: Mapping[int, float], changed: Mapping[int, float]) -> PairedRatio | None:
    """Return the ratio changed / base from each treatment's values by block; None if there is no ratio.

    There is no ratio if both treatments are zero in every shared block. There is also none if one treatment
    is zero in more blocks than are trimmed and not zero in others.

    Raises:
        ValueError: A value is negative or not finite.
    """
    if not all(0 <= value < math.inf for value in (*base.values(), *changed.values())):
        raise ValueError("a ratio needs values that are finite and not negative")
    # Two zeros contain no information about a ratio.
    shared = base.keys() & changed.keys()
    blocks = sorted(block for block in shared if base[block] > 0 or changed[block] > 0)
    if not blocks:
        return None
    # Plain floats are faster than arrays for few values, and a matrix of treatments has thousands of pairs.
    logs = [_log_or_minus_infinity(changed[block]) - _log_or_minus_infinity(base[block]) for block in blocks]
    untrimmed = untrimmed_block_count(len(logs))
    trimmed = (len(logs) - untrimmed) // 2
    middle = sorted(logs)[trimmed : trimmed + untrimmed]
    low, high = middle[0], middle[-1]
    if low == high:
        return PairedRatio(low, dict.fromkeys(blocks, 0.0), untrimmed)
    if math.isinf(low) or math.isinf(high):
        return None
    winsorised = [min(max(log, low), high) for log in logs]
    mean, scale = math.fsum(winsorised) / len(logs), math.sqrt(untrimmed * (untrimmed - 1))
    errors = {block: (log - mean) / scale for block, log in zip(blocks, winsorised, strict=True)}
    return PairedRatio(math.fsum(middle) / untrimmed, errors, untrimmed)


def untrimmed_block_count(block_count: int) -> int:
    """Return the number of blocks whose logarithms are not trimmed."""
    return block_count - 2 * int(_BLOCKS_TRIMMED_SHARE * block_count)


def min_blocks_for_paired_ratio(confidence: float) -> int:
    """Return the fewest shared blocks for an interval, equal to the fewest trials for a median's interval."""
    return min_trials_for_interval(confidence, has_more_analyses=False)


def combine_paired_ratios(ratios: Sequence[PairedRatio], confidence: float) -> Ratio:
    """Return the geometric mean of the ratios, with its interval and p value.

    `low`, `high` and the p value are None if a pair has fewer blocks than `min_blocks_for_paired_ratio`. The
    bounds alone are None if a treatment is zero in all blocks. The interval is Student's t with the degrees
    of freedom for a sum of unequal variances (Satterthwaite 1946, Biometrics Bulletin 2(6)).

    Raises:
        ValueError: There are no ratios, one ratio is zero and another infinite, or the confidence is
            outside 0..1.
    """
    if not ratios or len({each.log_ratio for each in ratios if math.isinf(each.log_ratio)}) > 1:
        raise ValueError("a combined ratio needs at least one ratio, and not both zero and infinite ratios")
    log_ratio = sum(each.log_ratio for each in ratios) / len(ratios)
    value = _exp_or_infinity(log_ratio)
    if min(each.block_count for each in ratios) < min_blocks_for_paired_ratio(confidence):
        return Ratio(value, None, None, confidence, None)
    if math.isinf(log_ratio):
        return Ratio(value, None, None, confidence, 0.0)
    summed_errors: dict[int, float] = {}
    for each in ratios:
        for block, error in each.log_error_contribution_by_block.items():
            summed_errors[block] = summed_errors.get(block, 0.0) + error / len(ratios)
    standard_error = math.sqrt(math.fsum(error * error for error in summed_errors.values()))
    if standard_error == 0:
        return Ratio(value, value, value, confidence, 1.0 if log_ratio == 0 else 0.0)
    freedom = degrees_of_freedom(ratios)
    half_width = standard_error * float(special.stdtrit(freedom, (1 + confidence) / 2))
    p_value = 2 * float(special.stdtr(freedom, -abs(log_ratio) / standard_error))
    return Ratio(
        value,
        _exp_or_infinity(log_ratio - half_width),
        _exp_or_infinity(log_ratio + half_width),
        confidence,
        p_value,
    )


def degrees_of_freedom(ratios: Sequence[PairedRatio]) -> float:
    """Return the effective number of blocks, times the untrimmed share, minus one; at least 1."""
    variances = [
        math.fsum(error * error for error in each.log_error_contribution_by_block.values()) for each in ratios
    ]
    weights: dict[int, float] = {}
    for each, variance in zip(ratios, variances, strict=True):
        for block in each.log_error_contribution_by_block:
            weights[block] = weights.get(block, 0.0) + variance / each.block_count
    total = math.fsum(weights.values())
    blocks = total**2 / math.fsum(weight**2 for weight in weights.values())
    untrimmed_share = (
        math.fsum(
            variance * each.block_count_after_trimming / each.block_count
            for each, variance in zip(ratios, variances, strict=True)
        )
        / total
    )
    return max(1.0, blocks * untrimmed_share - 1)


def _log_or_minus_infinity(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _exp_or_infinity(log: float) -> float:
    return math.exp(log) if log < 700 else math.inf
