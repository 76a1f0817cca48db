"""Interim analyses: when a treatment is analysed, and which order statistics then bound its median.

The bounds of a median's interval are order statistics. The interval misses the median exactly when too few or
too many trials lie below the median. That number is a random walk of fair coin tosses, whatever the
distribution of the trials. So the chance that an interval misses at *any* of several analyses is a sum over
that walk. The intervals are chosen so that these chances add up to 1 - confidence. Repeated analyses then
cost no confidence, whichever analysis stops the treatment.

Sources: the order-statistic interval of a median is Thompson (1936), "On confidence ranges for the median
and other expectation distributions for populations of unknown distribution form", Annals of Mathematical
Statistics 7(3). Intervals that hold at all analyses together are Jennison & Turnbull (1984), "Repeated
confidence intervals for group sequential clinical trials", Controlled Clinical Trials 5(1). Error spent by a
rule fixed in advance is Lan & DeMets (1983), Biometrika 70(3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vnetbench.study.model import Precision

_TRIALS_GROWTH_PER_ANALYSIS = 1.5
"""Approximate ratio of the numbers of trials at successive analyses (6, 9, 13, 20, 30)."""
_MAX_TRIALS_FOR_EXACT_CHANCES = 1000
"""Number of trials up to which chances are exact: 2.0**1024 overflows, and an import may have more trials."""
_MAX_ERROR_SHARE_OF_FIRST_ANALYSIS = 2 / 3
"""Largest share of the error that the first of several analyses may spend, so that enough remains."""


@dataclass(frozen=True)
class OrderStatisticBounds:
    """The order statistics that bound an interval: between the `order`-th and the next from each end.

    `fraction` is the position between these two, 0 to 1, in chance of missing the median. The position in
    distance also depends on the number of trials.
    """

    order_from_each_end: int
    fraction: float


def min_trials_for_interval(confidence: float, has_more_analyses: bool = True) -> int:
    """Return the fewest trials with an interval of this confidence: 6 for 0.95, 9 for 0.99.

    The widest interval, from the smallest to the largest of n trials, misses the median with chance 2^(1-n).
    If more analyses follow (`has_more_analyses`), the first must leave some of the error to them.

    Raises:
        ValueError: The confidence is outside 0..1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    share = _MAX_ERROR_SHARE_OF_FIRST_ANALYSIS if has_more_analyses else 1.0
    # Binary fractions need a tolerance: 1 - 0.95 is a little more than 0.05, and 1 - 0.9375 must equal 2^-4.
    return max(2, math.ceil(1 - math.log2((1 - confidence) * share) - 1e-9))


@lru_cache(maxsize=1024)
def interim_analysis_trial_counts(precision: Precision) -> tuple[int, ...]:
    """Return the numbers of trials at which a treatment is analysed, ascending by a factor of about 1.5.

    The first is `min_trials`, or the first number that has an interval. The last is `max_trials`. The
    result is empty if `max_trials` is too few for any interval.
    """
    most = precision.max_trials
    first = max(precision.min_trials, min_trials_for_interval(precision.confidence))
    if first >= most:
        fewest = min_trials_for_interval(precision.confidence, has_more_analyses=False)
        return (most,) if most >= fewest else ()
    steps = max(1, round(math.log(most / first) / math.log(_TRIALS_GROWTH_PER_ANALYSIS)))
    return tuple(sorted({round(first * (most / first) ** (step / steps)) for step in range(steps + 1)}))


@lru_cache(maxsize=4096)
def median_interval_bounds(
    trials: int, confidence: float, analyses: tuple[int, ...] = ()
) -> OrderStatisticBounds | None:
    """Return the order statistics that bound the median's interval; None for too few trials.

    Args:
        trials: The number of trials now. If it is not in `analyses` (an interrupted campaign, a table of a
            running one), it counts as the next analysis, done early.
        confidence: The confidence of the interval.
        analyses: All numbers of trials at which stopping was or would be decided. If empty, the number of
            trials was fixed in advance.
    """
    earlier = tuple(each for each in analyses if each < trials)
    if len(earlier) == len(analyses):
        earlier = earlier[:-1]  # more trials than at the last analysis: they take its place
    analysis_count = max(1, len(analyses))
    error = 1 - confidence
    if not earlier:
        first_error = _error_of_first_analysis(analyses[0] if analyses else trials, error, analysis_count)
        return _fixed_sample_bounds(trials, first_error)
    if 2.0 ** (1 - earlier[0]) > error + 1e-12:
        return median_interval_bounds(trials, confidence, analyses[1:])
    return _sequential_bounds((*earlier, trials), error, analysis_count)[-1]


def _error_of_first_analysis(trials: int, error: float, analysis_count: int) -> float:
    """Return the error that the first analysis spends: all it needs, at least an equal share."""
    return error if analysis_count == 1 else max(2.0 ** (1 - trials), error / analysis_count)


def _fixed_sample_bounds(trials: int, error: float) -> OrderStatisticBounds | None:
    if 2.0 ** (1 - trials) > error + 1e-12:
        return None
    return _narrowest_bounds_within_error(
        [_chance_of_exact_count_below(below, trials) for below in range(trials + 1)], error
    )


def _chance_of_exact_count_below(below: int, trials: int) -> float:
    """Return the chance that exactly `below` of the trials lie below the median."""
    if trials <= _MAX_TRIALS_FOR_EXACT_CHANCES:
        return math.comb(trials, below) / 2.0**trials
    log = math.lgamma(trials + 1) - math.lgamma(below + 1) - math.lgamma(trials - below + 1)
    return math.exp(log - trials * math.log(2))


def _sequential_bounds(
    trial_counts: Sequence[int], error: float, analysis_count: int
) -> list[OrderStatisticBounds]:
    """Return the bounds at each of `trial_counts` if `analysis_count` analyses spend all of the error.

    The first analysis spends `_error_of_first_analysis`, the others equal parts of the rest.
    """
    first_error = _error_of_first_analysis(trial_counts[0], error, analysis_count)
    bounds: list[OrderStatisticBounds] = []
    # covered[b]: chance that b trials lie below the median and every interval so far covers it.
    covered = [1.0]
    spent = 0.0
    for index, trials in enumerate(trial_counts):
        covered = _below_median_count_chances_after_trials(
            covered, trials - (trial_counts[index - 1] if index else 0)
        )
        rest = (error - first_error) * (index / (analysis_count - 1) if analysis_count > 1 else 0)
        current = _narrowest_bounds_within_error(covered, first_error + rest - spent)
        bounds.append(current)
        for below in range(trials + 1):
            miss = _chance_of_missing_median(below, trials, current)
            spent += covered[below] * miss
            covered[below] *= 1 - miss
    return bounds


def _below_median_count_chances_after_trials(chances: Sequence[float], further_trials: int) -> list[float]:
    """Return the chance of each number of trials below the median after so many further trials."""
    now = np.asarray(chances, dtype=float)
    for _ in range(further_trials):
        following = np.zeros(len(now) + 1)
        following[1:] = now
        following[:-1] += now
        now = following / 2
    values: list[float] = now.tolist()
    return values


def _chance_of_missing_median(below: int, trials: int, bounds: OrderStatisticBounds) -> float:
    """Return the chance that the interval misses the median if `below` of the trials lie below it."""
    from_end = min(below, trials - below)
    if from_end < bounds.order_from_each_end:
        return 1.0
    return bounds.fraction if from_end == bounds.order_from_each_end else 0.0


def _narrowest_bounds_within_error(chances: Sequence[float], error: float) -> OrderStatisticBounds:
    """Return the narrowest interval that misses the median with a chance of at most `error`.

    It is at most the whole range of the trials, which misses only if all earlier intervals missed too.

    Args:
        chances: The chance of each number of trials below the median, from 0 to all.
        error: The largest chance of missing the median.
    """
    trials = len(chances) - 1
    miss = chances[0] + chances[trials]
    for order in range(1, (trials + 1) // 2):
        next_two = chances[order] + chances[trials - order]
        if miss + next_two > error:
            fraction = (error - miss) / next_two if next_two > 0 else 0.0
            return OrderStatisticBounds(order, min(1.0, max(0.0, fraction)))
        miss += next_two
    return OrderStatisticBounds(max(1, (trials + 1) // 2), 0.0)
