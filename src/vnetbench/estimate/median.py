"""Where a treatment's trials lie: their median, with an interval that few and odd trials bear.

The interval is that of the median of the distribution that the trials were drawn from. It is made of ordered
values, so it asks nothing of that distribution but that trials are independent of each other: not symmetry,
not one mode, no finite variance. `looks.py` says which ordered values, corrected for having looked
repeatedly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vnetbench.estimate.interim_analyses import interval_bounds
from vnetbench.estimate.model import Estimate, Mode
from vnetbench.estimate.modes import find_modes, mark_upper_mode

_MARKED_IN_CLEAN = 0.05
"""Chance that among the trials of a normal distribution any is marked as an outlier at all."""
_SIMULATED = 20_000
_MAD_TO_SD = 1.4826


def estimate_median(values: Sequence[float], confidence: float, analyses: Sequence[int] = ()) -> Estimate:
    """The median of `values` (one number a trial, any unit), its interval, the trials' modes and outliers.

    `looks` are the numbers of trials at which stopping was or would have been decided (`looks.looks`); with
    them the interval covers the median with the asked confidence over all campaigns, wherever each of them
    stopped. Without them the number of trials has to have been fixed beforehand.

    Raises ValueError without values, for a value that is no finite number and for a confidence outside 0..1.
    """
    if len(values) == 0:
        raise ValueError("an estimate needs at least one trial")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("an estimate needs finite values")
    bounds = median_interval(values, confidence, analyses)
    found = find_modes(values)
    return Estimate(
        value=float(np.median(values)),
        low=None if bounds is None else bounds[0],
        high=None if bounds is None else bounds[1],
        confidence=confidence,
        trials=len(values),
        modality=found.modality,
        modes=tuple(_with_intervals(values, found.modes, confidence)),
        outliers=find_outliers(values, found.modes),
    )


def _with_intervals(values: Sequence[float], modes: Sequence[Mode], confidence: float) -> Iterator[Mode]:
    """The modes with their own trials' intervals, as if the number of these had been fixed beforehand."""
    if not modes:
        return
    is_upper = mark_upper_mode(values, modes)
    for mode, upper in zip(modes, (False, True), strict=True):
        own = [value for value, side in zip(values, is_upper, strict=True) if side == upper]
        low, high = median_interval(own, confidence) or (None, None)
        yield replace(mode, low=low, high=high)


def median_interval(
    values: Sequence[float], confidence: float, analyses: Sequence[int] = ()
) -> tuple[float, float] | None:
    """The interval of `estimate` alone, lower bound first; None where there are too few trials for it.

    Between two ordered values it is interpolated after Hettmansperger & Sheather (1986), "Confidence
    intervals based on interpolated order statistics", Statistics & Probability Letters 4(2), which is
    nearly free of the distribution. Raises ValueError for a confidence outside 0..1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    reach = interval_bounds(len(values), confidence, tuple(analyses))
    if reach is None:
        return None
    ordered = sorted(values)
    trials, order = len(ordered), reach.order
    low, high = ordered[order - 1], ordered[trials - order]
    if reach.fraction > 0:
        way = (trials - order) * reach.fraction / (order + (trials - 2 * order) * reach.fraction)
        low += way * (ordered[order] - low)
        high += way * (ordered[trials - order - 1] - high)
    return float(low), float(high)


def find_outliers(values: Sequence[float], modes: Sequence[Mode] = ()) -> tuple[int, ...]:
    """Positions of the values that lie too far from the others, or from the nearer of two modes, to be noise.

    Distance is measured in median absolute deviations (Hampel 1974; Davies & Gather 1993, "The
    identification of multiple outliers", JASA 88(423)), and the limit is set for the number of values: of a
    normal distribution's values, one in twenty sets has any marked. Fewer than five values have none.
    """
    if len(values) < 5:
        return ()
    data = np.asarray(values, dtype=float)
    centres = np.array([mode.value for mode in modes] if modes else [np.median(data)])
    away = np.abs(data - centres[np.argmin(np.abs(data[:, None] - centres), axis=1)])
    spread = float(np.median(away)) * _MAD_TO_SD
    if spread == 0:
        # More than half of the values are alike: whatever is not, stands out.
        return tuple(int(i) for i in np.flatnonzero(away > 1e-9 * np.abs(centres).max()))
    return tuple(int(i) for i in np.flatnonzero(away > _limit(len(data)) * spread))


@lru_cache(maxsize=256)
def _limit(trials: int) -> float:
    """How many robust standard deviations off the furthest of `trials` normal values is in 95 of 100 sets."""
    # Past 100 values the limit grows by less than a tenth; a simulation of thousands would only take long.
    trials = min(trials, 100)
    sets: npt.NDArray[np.float64] = np.random.default_rng(trials).standard_normal((_SIMULATED, trials))
    away = np.abs(sets - np.median(sets, axis=1, keepdims=True))
    spread = np.median(away, axis=1) * _MAD_TO_SD
    return float(np.quantile(away.max(axis=1) / spread, 1 - _MARKED_IN_CLEAN))
