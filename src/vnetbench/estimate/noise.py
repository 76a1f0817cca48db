"""How noisy a metric's samples are within a trial, told from trials whose level may shift.

Everything here is made of differences between neighbours, which a shift of level spoils only where it
happens, and of their medians, which a few spoiled ones don't move. The differences of several trials count
together: few samples tell their autocorrelation badly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

_STRONGEST = 0.85
"""A stronger autocorrelation can't be told from a wandering level in the tens of samples that a trial has."""
_WINSORISED = 0.8


def long_run_variance(trials: Sequence[Samples]) -> float:
    """The variance that the mean of many samples has, times their number (unit of the samples, squared).

    `trials` are the samples of one trial or more with the same noise. For independent samples it is their
    variance; autocorrelation φ multiplies that by (1 + φ) / (1 - φ), taking them for a first-order
    autoregression. 0 for trials of fewer than three samples.
    """
    near, next_but_one = _differences(trials, 1), _differences(trials, 2)
    if len(next_but_one) == 0:
        return 0.0
    phi = _autocorrelation(near, next_but_one)
    step = 1.4826 * float(near[(len(near) - 1) // 2] + near[len(near) // 2]) / 2
    return step * step * (1 + phi) / (2 * (1 - phi) ** 2)


def _autocorrelation(near: Samples, next_but_one: Samples) -> float:
    """The autocorrelation of neighbouring samples, 0 to 0.85, from sizes of differences one and two apart.

    Chakar, Lebarbier, Lévy-Leduc & Robin (2017), "A robust approach for estimating change-points in the
    mean of an AR(1) process", Bernoulli 23(2): the squared differences two apart over those one apart are 1
    + φ. They take medians; here the largest fifth of the differences is cut back instead, which is as safe
    against a few shifts and less noisy for some forty samples. 0 for fewer than four differences.
    """
    one_apart = _winsorised_square(near)
    if len(near) < 4 or one_apart == 0:
        return 0.0
    return min(_STRONGEST, max(0.0, _winsorised_square(next_but_one) / one_apart - 1))


def _differences(trials: Sequence[Samples], apart: int) -> Samples:
    """Sizes of the differences between samples of a trial so far apart, ascending."""
    sizes: Samples = np.abs(np.concatenate([samples[apart:] - samples[:-apart] for samples in trials]))
    sizes.sort()
    return sizes


def _winsorised_square(sizes: Samples) -> float:
    kept = int(_WINSORISED * (len(sizes) - 1))
    within = sizes[:kept]
    return float(within @ within + (len(sizes) - kept) * sizes[kept] ** 2) / len(sizes)
