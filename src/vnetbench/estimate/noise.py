"""How noisy samples are, of one trial or of several alike, told from samples whose level may shift.

Everything here is made of differences between neighbours, which a shift of level spoils only where it
happens, and of their medians, which a few spoiled ones don't move. Samples of several trials are the rows of
one array; their differences count together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

_STRONGEST = 0.85
"""A stronger autocorrelation can't be told from a wandering level in the tens of samples that a trial has."""
_WINSORISED = 0.8


def autocorrelation(samples: Samples) -> float:
    """The autocorrelation of neighbouring samples, 0 to 0.85, taking them for a first-order autoregression.

    Chakar, Lebarbier, Lévy-Leduc & Robin (2017), "A robust approach for estimating change-points in the
    mean of an AR(1) process", Bernoulli 23(2): the squared differences two apart over those one apart are 1
    + φ. They take medians; here the largest fifth of the differences is cut back instead, which is as safe
    against a few shifts and less noisy for some forty samples. 0 for fewer than five samples a trial.
    """
    if samples.shape[-1] < 5:
        return 0.0
    return _autocorrelation(_differences(samples, 1), samples)


def long_run_variance(samples: Samples) -> float:
    """The variance that the mean of many samples has, times their number (unit of the samples, squared).

    For independent samples it is their variance; autocorrelation φ multiplies that by (1 + φ) / (1 - φ).
    """
    if samples.shape[-1] < 3:
        return 0.0
    near = _differences(samples, 1)
    phi = _autocorrelation(near, samples) if samples.shape[-1] >= 5 else 0.0
    step = 1.4826 * float(near[(len(near) - 1) // 2] + near[len(near) // 2]) / 2
    return step * step * (1 + phi) / (2 * (1 - phi) ** 2)


def _autocorrelation(near: Samples, samples: Samples) -> float:
    one_apart = _winsorised_square(near)
    if one_apart == 0:
        return 0.0
    return min(_STRONGEST, max(0.0, _winsorised_square(_differences(samples, 2)) / one_apart - 1))


def _differences(samples: Samples, apart: int) -> Samples:
    """Sizes of the differences between samples so far apart, ascending."""
    sizes: Samples = np.abs(samples[..., apart:] - samples[..., :-apart]).ravel()
    sizes.sort()
    return sizes


def _winsorised_square(sizes: Samples) -> float:
    kept = int(_WINSORISED * (len(sizes) - 1))
    within = sizes[:kept]
    return float(within @ within + (len(sizes) - kept) * sizes[kept] ** 2) / len(sizes)
