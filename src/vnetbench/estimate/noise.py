"""The noise of a metric's samples within a trial, robust against shifts of their level.

All estimates use differences between neighbouring samples and robust averages of these. A shift of level
disturbs only the differences where it happens, and a few disturbed differences do not move a robust average.
The differences of several trials count together, because few samples give a poor estimate of autocorrelation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

_MAX_AUTOCORRELATION = 0.85
"""With some tens of samples a trial, stronger autocorrelation looks the same as a drifting level."""
_SHARE_NOT_WINSORISED = 0.8


def long_run_variance(trials: Sequence[Samples]) -> float:
    """Return the variance of the mean of many samples, times their number (samples' unit, squared).

    For independent samples it equals their variance. For a first-order autoregression with autocorrelation φ
    it is (1 + φ) / (1 - φ) times as large. The result is 0 for trials of fewer than three samples.

    Args:
        trials: The samples of one or more trials with the same noise.
    """
    one_apart, two_apart = _sorted_absolute_differences(trials, 1), _sorted_absolute_differences(trials, 2)
    if len(two_apart) == 0:
        return 0.0
    phi = _autocorrelation(one_apart, two_apart)
    step = 1.4826 * float(one_apart[(len(one_apart) - 1) // 2] + one_apart[len(one_apart) // 2]) / 2
    return step * step * (1 + phi) / (2 * (1 - phi) ** 2)


def _autocorrelation(one_apart: Samples, two_apart: Samples) -> float:
    """Return the lag-1 autocorrelation, 0 to 0.85, from absolute differences at lags one and two.

    Chakar, Lebarbier, Lévy-Leduc & Robin (2017), "A robust approach for estimating change-points in
    the mean of an AR(1) process", Bernoulli 23(2): squared differences at lag two over those at lag one are
    1 + φ. They take medians. Here the largest fifth of the differences is winsorised instead, which is as
    safe against a few shifts and less noisy for some forty samples. The result is 0 for fewer than four
    differences.
    """
    square = _winsorised_mean_square(one_apart)
    if len(one_apart) < 4 or square == 0:
        return 0.0
    return min(_MAX_AUTOCORRELATION, max(0.0, _winsorised_mean_square(two_apart) / square - 1))


def _sorted_absolute_differences(trials: Sequence[Samples], lag: int) -> Samples:
    """Return the absolute differences between samples of a trial at this lag, ascending."""
    sizes: Samples = np.abs(np.concatenate([samples[lag:] - samples[:-lag] for samples in trials]))
    sizes.sort()
    return sizes


def _winsorised_mean_square(sizes: Samples) -> float:
    kept = int(_SHARE_NOT_WINSORISED * (len(sizes) - 1))
    within = sizes[:kept]
    return float(within @ within + (len(sizes) - kept) * sizes[kept] ** 2) / len(sizes)
