"""The universal scalability law: the throughput of n workers.

    X(n) = γ·n / (1 + σ·(n − 1) + κ·n·(n − 1))

γ is the throughput of one worker, σ the share of serial work (contention), and κ the cost of keeping each two
workers coherent (crosstalk). With κ > 0 the maximum is at n = √((1 − σ)/κ). With κ = 0 the law is Amdahl's
law. The cost a + b·n cycles of a call with n bytes follows the same law. Gunther (1993), "A simple capacity
model of massively parallel transaction systems", CMG conference; Gunther (2007), "Guerrilla Capacity
Planning", chapters 4 to 6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule

special = DeferredModule("scipy.special")

FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]

PARAMETER_COUNT = 3
_MIN_KAPPA_FOR_PEAK = 1e-12
"""Below this value the peak is beyond any practical n."""
_MIN_DETERMINANT = 1e-13
"""Determinant of unit columns below which they are linearly dependent in floating point."""
_FREE_PARAMETER_MASKS = np.array(
    [mask for mask in itertools.product((0.0, 1.0), repeat=PARAMETER_COUNT) if any(mask)]
)
"""Masks of free parameters, one per row: 1 is free, 0 is held at zero."""


class CoefficientsOverGamma(NamedTuple):
    """Coefficients of n / X(n), one element per fitted row of values."""

    one_over_gamma: FloatArray
    sigma_over_gamma: FloatArray
    kappa_over_gamma: FloatArray


@dataclass(frozen=True)
class ScalabilityFit:
    """The law, fitted to pairs of n and value."""

    gamma: float
    sigma: float
    kappa: float
    peak_worker_count: float
    """The n with the maximum value; infinite if values never fall."""
    interval_by_parameter: Mapping[str, Interval] = field(default_factory=dict)
    """Intervals of `gamma`, `sigma`, `kappa` and `peak`; empty without surplus values."""

    def throughput_at(self, worker_count: float) -> float:
        """Return the throughput of n workers."""
        return (
            self.gamma
            * worker_count
            / (1 + self.sigma * (worker_count - 1) + self.kappa * worker_count * (worker_count - 1))
        )


def fit_scalability_law(
    worker_counts: Sequence[float], values: Sequence[float], confidence: float = 0.95
) -> ScalabilityFit:
    """Fit the law by `fit_coefficients_over_gamma` and return it with its intervals.

    The intervals are Student's, for the linear approximation at the fit. The interval of a parameter at its
    bound of zero starts at zero.

    Raises:
        ValueError: there are fewer than three different n, an n is below 1, or a value is not positive.
    """
    n_array, value_array = _check_fit_input(worker_counts, values)
    alone, contention, crosstalk = (
        float(part) for (part,) in fit_coefficients_over_gamma(n_array, value_array[None])
    )
    sigma, kappa = contention / alone, crosstalk / alone
    law = ScalabilityFit(1 / alone, sigma, kappa, _peak_worker_count(sigma, kappa))
    if len(n_array) <= PARAMETER_COUNT:
        return law
    return replace(law, interval_by_parameter=_parameter_intervals(law, n_array, value_array, confidence))


def fit_coefficients_over_gamma(worker_counts: FloatArray, values: FloatArray) -> CoefficientsOverGamma:
    """Fit 1/γ, σ/γ and κ/γ to each row of values by least squares of relative errors, without negative ones.

    n / X(n) is linear in the three coefficients, so the best fit is unique and needs no starting point. It is
    the best of all fits that hold some coefficients at zero and have no negative one (Lawson & Hanson 1974,
    "Solving Least Squares Problems", chapter 23). Three coefficients have seven such fits.
    """
    columns = (
        np.stack([np.ones(len(worker_counts)), worker_counts - 1, worker_counts * (worker_counts - 1)])
        * (values / worker_counts)[:, None, :]
    )
    sizes = np.sqrt((columns**2).sum(axis=-1))
    sizes[sizes == 0] = 1.0  # the squares of very small values underflow
    columns /= sizes[..., None]
    products, sums = columns @ columns.swapaxes(1, 2), columns.sum(axis=-1)
    masks = _FREE_PARAMETER_MASKS[:, None, :, None] * _FREE_PARAMETER_MASKS[:, None, None, :]
    systems = products * masks + np.eye(PARAMETER_COUNT) * (1 - _FREE_PARAMETER_MASKS)[:, None, :, None]
    targets = sums * _FREE_PARAMETER_MASKS[:, None, :]
    # Cramer's rule: each row of cofactors is the cross product of the other two rows.
    cofactors = np.cross(systems[..., [1, 2, 0], :], systems[..., [2, 0, 1], :])
    determinants = (systems[..., 0, :] * cofactors[..., 0, :]).sum(axis=-1)
    is_regular = determinants > _MIN_DETERMINANT
    solved = (cofactors @ targets[..., None])[..., 0] / np.where(is_regular, determinants, 1.0)[..., None]
    is_allowed = is_regular & (solved >= 0).all(axis=-1)
    best = np.argmax(np.where(is_allowed, (solved * targets).sum(axis=-1), -np.inf), axis=0)
    alone, contention, crosstalk = (solved[best, np.arange(len(values))] / sizes).T
    # Values that grow faster than n would give one worker no throughput.
    one_over_gamma = np.maximum(alone, 1e-9 * (worker_counts / values).max(axis=1))
    return CoefficientsOverGamma(one_over_gamma, contention, crosstalk)


def _check_fit_input(n: Sequence[float], values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return both as arrays; raise ValueError if the law cannot be fitted to them."""
    n_array, value_array = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    if len(np.unique(n_array)) < PARAMETER_COUNT or np.any(n_array < 1):
        raise ValueError("the scalability law needs at least three different n, each 1 or more")
    if not np.all(np.isfinite(value_array) & (value_array > 0)):
        raise ValueError("the scalability law needs values above zero")
    return n_array, value_array


def _peak_worker_count(sigma: float, kappa: float) -> float:
    if sigma >= 1:
        return 1.0
    return math.sqrt((1 - sigma) / kappa) if kappa > _MIN_KAPPA_FOR_PEAK else math.inf


def _multiply_by_exp_of_log(value: float, log: float) -> float:
    """Return value · exp(log); infinity on overflow."""
    try:
        return value * math.exp(log)
    except OverflowError:
        return math.inf


def _parameter_intervals(
    law: ScalabilityFit, levels: FloatArray, values: FloatArray, confidence: float
) -> dict[str, Interval]:
    residuals = np.log(values) - np.log([law.throughput_at(n) for n in levels])
    denominator = 1 + law.sigma * (levels - 1) + law.kappa * levels * (levels - 1)
    slopes = np.column_stack(
        [np.ones(len(levels)), -(levels - 1) / denominator, -levels * (levels - 1) / denominator]
    )
    freedom = len(levels) - PARAMETER_COUNT
    covariance = float(residuals @ residuals) / freedom * np.linalg.pinv(slopes.T @ slopes)
    half_widths = (special.stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(np.diag(covariance))).tolist()
    sigma = (max(0.0, law.sigma - half_widths[1]), law.sigma + half_widths[1])
    kappa = (max(0.0, law.kappa - half_widths[2]), law.kappa + half_widths[2])
    return {
        "gamma": (law.gamma * math.exp(-half_widths[0]), _multiply_by_exp_of_log(law.gamma, half_widths[0])),
        "sigma": sigma,
        "kappa": kappa,
        "peak": (_peak_worker_count(law.sigma, kappa[1]), _peak_worker_count(law.sigma, kappa[0])),
    }
