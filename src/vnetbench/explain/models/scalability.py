"""The universal scalability law: what n workers together do, against one.

    X(n) = γ·n / (1 + σ·(n − 1) + κ·n·(n − 1))

γ is what one does alone, σ the share of the work that only one at a time can do (contention), κ what keeping
each two of them coherent costs (crosstalk). With κ > 0 the most is reached at n = √((1 − σ)/κ), and
more do less. Gunther (1993), "A simple capacity model of massively parallel transaction systems", CMG
conference; Gunther (2007), "Guerrilla Capacity Planning", chapters 4 to 6. With κ = 0 it is Amdahl's law, and
of n bytes a call at a cost of a + b·n cycles it is the law of calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]

PARAMETER_COUNT = 3
_LEAST_KAPPA = 1e-12
"""Below it nothing that anybody could run has a peak."""
_LEAST_DETERMINANT = 1e-13
"""Of columns of length 1: below it they depend on each other, as far as floats can tell."""
_FREE = np.array([way for way in itertools.product((0.0, 1.0), repeat=PARAMETER_COUNT) if any(way)])
"""Ways to hold some of the parameters at zero: 1 where they are free, a row a way."""


@dataclass(frozen=True)
class ScalabilityFit:
    """The law as fitted to (n, value)."""

    gamma: float
    sigma: float
    kappa: float
    peak: float
    """The n with the highest value; infinite where more always do more."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Of `gamma`, `sigma`, `kappa` and `peak`; empty for as few values as the law has parameters."""

    def value(self, n: float) -> float:
        """What n do together."""
        return self.gamma * n / (1 + self.sigma * (n - 1) + self.kappa * n * (n - 1))


def fit(n: Sequence[float], values: Sequence[float], confidence: float = 0.95) -> ScalabilityFit:
    """The law that fits the values best, as `parts` has it, with its intervals.

    Intervals are Student's, of the linear approximation about it; a parameter at its bound of zero has one
    that begins there. Raises ValueError for fewer than three different n, for an n below 1 and for values
    that are not above zero.
    """
    at, found = _checked(n, values)
    alone, contention, crosstalk = (float(part) for (part,) in fit_coefficients(at, found[None]))
    sigma, kappa = contention / alone, crosstalk / alone
    law = ScalabilityFit(1 / alone, sigma, kappa, _peak(sigma, kappa))
    return (
        replace(law, intervals=_intervals(law, at, found, confidence)) if len(at) > PARAMETER_COUNT else law
    )


def fit_coefficients(n: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """1/γ, σ/γ and κ/γ of the law that fits each row of values best: by least squares of relative errors,
    with σ and κ not below zero.

    n / X(n) is linear in the three, so there is one best fit and nothing to start from: of all ways to hold
    some of them at zero the best one that leaves none below (Lawson & Hanson 1974, "Solving Least Squares
    Problems", chapter 23; of three there are seven).
    """
    columns = np.stack([np.ones(len(n)), n - 1, n * (n - 1)]) * (values / n)[:, None, :]
    sizes = np.sqrt((columns**2).sum(axis=-1))
    sizes[sizes == 0] = 1.0  # of values so small that their squares are no floats
    columns /= sizes[..., None]
    products, sums = columns @ columns.swapaxes(1, 2), columns.sum(axis=-1)
    held = _FREE[:, None, :, None] * _FREE[:, None, None, :]
    ways = products * held + np.eye(PARAMETER_COUNT) * (1 - _FREE)[:, None, :, None]
    targets = sums * _FREE[:, None, :]
    # By Cramer's rule: the rows of cofactors are the cross products of the other two rows.
    cofactors = np.cross(ways[..., [1, 2, 0], :], ways[..., [2, 0, 1], :])
    determinants = (ways[..., 0, :] * cofactors[..., 0, :]).sum(axis=-1)
    is_one = determinants > _LEAST_DETERMINANT
    solved = (cofactors @ targets[..., None])[..., 0] / np.where(is_one, determinants, 1.0)[..., None]
    is_allowed = is_one & (solved >= 0).all(axis=-1)
    best = np.argmax(np.where(is_allowed, (solved * targets).sum(axis=-1), -np.inf), axis=0)
    alone, contention, crosstalk = (solved[best, np.arange(len(values))] / sizes).T
    # Values that grow faster than n leave nothing for one alone.
    return np.maximum(alone, 1e-9 * (n / values).max(axis=1)), contention, crosstalk


def _checked(n: Sequence[float], values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    at, found = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    if len(np.unique(at)) < PARAMETER_COUNT or np.any(at < 1):
        raise ValueError("the law needs three different n of 1 or more")
    if not np.all(np.isfinite(found) & (found > 0)):
        raise ValueError("the law needs values above zero")
    return at, found


def _peak(sigma: float, kappa: float) -> float:
    if sigma >= 1:
        return 1.0
    return math.sqrt((1 - sigma) / kappa) if kappa > _LEAST_KAPPA else math.inf


def _upwards(value: float, log: float) -> float:
    """So much above a value in logarithms; infinity where no float holds it."""
    try:
        return value * math.exp(log)
    except OverflowError:
        return math.inf


def _intervals(
    law: ScalabilityFit, at: FloatArray, values: FloatArray, confidence: float
) -> dict[str, Interval]:
    rest = np.log(values) - np.log([law.value(n) for n in at])
    shared = 1 + law.sigma * (at - 1) + law.kappa * at * (at - 1)
    slopes = np.column_stack([np.ones(len(at)), -(at - 1) / shared, -at * (at - 1) / shared])
    freedom = len(at) - PARAMETER_COUNT
    covariance = float(rest @ rest) / freedom * np.linalg.pinv(slopes.T @ slopes)
    reach = (special.stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(np.diag(covariance))).tolist()
    sigma = (max(0.0, law.sigma - reach[1]), law.sigma + reach[1])
    kappa = (max(0.0, law.kappa - reach[2]), law.kappa + reach[2])
    return {
        "gamma": (law.gamma * math.exp(-reach[0]), _upwards(law.gamma, reach[0])),
        "sigma": sigma,
        "kappa": kappa,
        "peak": (_peak(law.sigma, kappa[1]), _peak(law.sigma, kappa[0])),
    }
