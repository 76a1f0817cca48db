"""The median of a treatment's trials with its confidence interval, modes and outliers.

The interval covers the median of the distribution that the trials were drawn from. Its bounds are order
statistics, so the only assumption is that trials are independent: no symmetry, no single mode, no finite
variance. `interim_analyses.py` chooses the order statistics and corrects for repeated analyses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.interim_analyses import median_interval_bounds
from vnetbench.estimate.model import Estimate, Mode
from vnetbench.estimate.modes import find_modes, mark_values_of_upper_mode

_CHANCE_OF_FALSE_OUTLIER = 0.05
"""Chance that any trial of a normal distribution is marked as an outlier."""
_SIMULATED_TRIAL_SET_COUNT = 20_000
_STANDARD_DEVIATION_PER_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def estimate_median(
    values: Sequence[float], confidence: float, analyses: Sequence[int] = (), *, with_outliers: bool = True
) -> Estimate:
    """Return the median of `values`, its confidence interval, the trials' modes and outliers.

    Args:
        values: One value for each trial, in any unit.
        confidence: The confidence of the interval, between 0 and 1.
        analyses: The numbers of trials at which stopping was or would have been decided
            (`interim_analyses.py`).
            The interval then has the requested confidence whichever analysis stops a campaign. If empty, the
            number of trials must have been fixed in advance.
        with_outliers: Whether to look for outliers. Their limit is simulated, once for each number of values.

    Raises:
        ValueError: There are no values, a value is not finite, or the confidence is outside 0..1.
    """
    if len(values) == 0:
        raise ValueError("an estimate needs at least one trial")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("an estimate needs finite values")
    low, high = median_interval(values, confidence, analyses) or (None, None)
    search = find_modes(values)
    return Estimate(
        value=float(np.median(values)),
        low=low,
        high=high,
        confidence=confidence,
        trial_count=len(values),
        modality=search.modality,
        modes=tuple(_add_mode_intervals(values, search.modes, confidence)),
        outliers=find_outliers(values, search.modes) if with_outliers else (),
    )


def _add_mode_intervals(values: Sequence[float], modes: Sequence[Mode], confidence: float) -> Iterator[Mode]:
    """Yield the modes with intervals of their own trials, as if these numbers were fixed in advance."""
    if not modes:
        return
    is_upper = mark_values_of_upper_mode(values, modes)
    for mode, is_upper_mode in zip(modes, (False, True), strict=True):
        own = [value for value, upper in zip(values, is_upper, strict=True) if upper == is_upper_mode]
        low, high = median_interval(own, confidence) or (None, None)
        yield replace(mode, low=low, high=high)


def median_interval(
    values: Sequence[float], confidence: float, analyses: Sequence[int] = ()
) -> tuple[float, float] | None:
    """Return the confidence interval of the median, lower bound first; None for too few trials.

    Bounds between two ordered values are interpolated after Hettmansperger & Sheather (1986), "Confidence
    intervals based on interpolated order statistics", Statistics & Probability Letters 4(2). The
    interpolation is nearly distribution-free. The arguments are those of `estimate_median`.

    Raises:
        ValueError: The confidence is outside 0..1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    bounds = median_interval_bounds(len(values), confidence, tuple(analyses))
    if bounds is None:
        return None
    ordered = sorted(values)
    trials, order = len(ordered), bounds.order_from_each_end
    low, high = ordered[order - 1], ordered[trials - order]
    if bounds.fraction > 0:
        weight = (trials - order) * bounds.fraction / (order + (trials - 2 * order) * bounds.fraction)
        low += weight * (ordered[order] - low)
        high += weight * (ordered[trials - order - 1] - high)
    return float(low), float(high)


def find_outliers(values: Sequence[float], modes: Sequence[Mode] = ()) -> tuple[int, ...]:
    """Return the indices of values too far from the median, or from the nearer of two modes, to be noise.

    Distances are in median absolute deviations (Hampel 1974; Davies & Gather 1993, "The identification of
    multiple outliers", JASA 88(423)). The limit depends on the number of values: of twenty sets of normal
    values, one has any outlier. Fewer than five values have no outliers.
    """
    if len(values) < 5:
        return ()
    data = np.asarray(values, dtype=float)
    centres = np.array([mode.value for mode in modes] if modes else [np.median(data)])
    distances = np.abs(data - centres[np.argmin(np.abs(data[:, None] - centres), axis=1)])
    spread = float(np.median(distances)) * _STANDARD_DEVIATION_PER_MAD
    if spread == 0:
        # More than half of the values are equal: every other value is an outlier.
        return tuple(int(i) for i in np.flatnonzero(distances > 1e-9 * np.abs(centres).max()))
    # Beyond 100 values the limit grows by less than a tenth, and a simulation of thousands takes long.
    limit = _outlier_limit_in_deviations(min(len(data), 100))
    return tuple(int(i) for i in np.flatnonzero(distances > limit * spread))


@lru_cache(maxsize=256)
def _outlier_limit_in_deviations(trials: int) -> float:
    """Return the 95th percentile of the largest deviation of `trials` normal values, in robust deviations."""
    sets: npt.NDArray[np.float64] = np.random.default_rng(trials).standard_normal(
        (_SIMULATED_TRIAL_SET_COUNT, trials)
    )
    distances = np.abs(sets - np.median(sets, axis=1, keepdims=True))
    spread = np.median(distances, axis=1) * _STANDARD_DEVIATION_PER_MAD
    return float(np.quantile(distances.max(axis=1) / spread, 1 - _CHANCE_OF_FALSE_OUTLIER))
