"""Candidate laws of a scaling curve, fitted to logarithms, and the choice between them.

Candidates are the universal scalability law (`explain/models/scalability.py`), growth by a power up to a
plateau (Muggeo 2003, "Estimating regression models with unknown break-points", Statistics in Medicine 22,
with a flat second part), growth by a power throughout, and no growth. The choice is by Akaike's criterion
with errors at held-out cells (leave-one-out cross-validation). A law that bends to each cell does not gain by
it, so no correction for few values is needed (Stone 1977, "An asymptotic equivalence of choice of model by
cross-validation and Akaike's criterion", Journal of the Royal Statistical Society B 39(1)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vnetbench.explain.comparisons.cell_means import FloatArray
from vnetbench.explain.models import scalability

FittedLogCurves = Callable[[FloatArray], FloatArray]
"""Function from levels to fitted logarithms of the metric, one row per fitted curve."""

_MIN_DISTINGUISHED_LOG_ERROR = 0.003
"""Error of a logarithm below which laws count as equally good."""


@dataclass(frozen=True)
class ScalingLaw:
    """A candidate law."""

    name: str
    parameter_count: int
    fit: Callable[[FloatArray, FloatArray], FittedLogCurves]
    """Fit rows of logarithms of the metric over levels, which are positive and in ascending order."""


def _fit_constant(fitted_levels: FloatArray, log_values: FloatArray) -> FittedLogCurves:
    middles = log_values.mean(axis=1, keepdims=True)
    return lambda levels: np.repeat(middles, len(levels), axis=1)


def _fit_power(fitted_levels: FloatArray, log_values: FloatArray) -> FittedLogCurves:
    log_at = np.log(fitted_levels)
    away = log_at - log_at.mean()
    slopes = (log_values @ away / (away @ away))[:, None]
    starts = log_values.mean(axis=1, keepdims=True) - slopes * log_at.mean()
    return lambda levels: starts + slopes * np.log(levels)


def _fit_plateau(fitted_levels: FloatArray, log_values: FloatArray) -> FittedLogCurves:
    """Fit a plateau with the best break between the second level and the last."""
    log_at = np.log(fitted_levels)
    breaks = np.linspace(log_at[1], log_at[-1], 4 * len(fitted_levels))
    rising = np.minimum(log_at, breaks[:, None])
    away = rising - rising.mean(axis=1, keepdims=True)
    squares = (away**2).sum(axis=1)
    slopes = log_values @ away.T / squares
    # The residuals are smallest where the explained squares are largest.
    best = np.argmax(slopes**2 * squares, axis=1)
    slope, break_at = slopes[np.arange(len(log_values)), best][:, None], breaks[best][:, None]
    start = log_values.mean(axis=1, keepdims=True) - slope * rising.mean(axis=1)[best][:, None]
    return lambda levels: start + slope * np.minimum(np.log(levels), break_at)


def fit_scalability(fitted_levels: FloatArray, log_values: FloatArray) -> scalability.ScalabilityFit:
    """Fit the scalability law in units of the first level, so that levels can also be bytes or rates."""
    return scalability.fit_scalability_law(
        (fitted_levels / fitted_levels[0]).tolist(), np.exp(log_values).tolist()
    )


def _fit_scalability_curves(fitted_levels: FloatArray, log_values: FloatArray) -> FittedLogCurves:
    largest = log_values.max(axis=1, keepdims=True)  # avoids overflow in exp
    alone, contention, crosstalk = (
        part[:, None]
        for part in scalability.fit_coefficients_over_gamma(
            fitted_levels / fitted_levels[0], np.exp(log_values - largest)
        )
    )

    def curves(levels: FloatArray) -> FloatArray:
        n = levels / fitted_levels[0]
        fitted: FloatArray = largest + np.log(n / (alone + contention * (n - 1) + crosstalk * n * (n - 1)))
        return fitted

    return curves


def _fit_interpolation(fitted_levels: FloatArray, log_values: FloatArray) -> FittedLogCurves:
    """Interpolate linearly between cells."""
    return lambda levels: np.array(
        [np.interp(np.log(levels), np.log(fitted_levels), each) for each in log_values]
    )


SCALABILITY, PLATEAU, POWER, CONSTANT = "universal scalability law", "plateau", "power", "constant"
NO_LAW = ScalingLaw("no law", 0, _fit_interpolation)
"""Used if no law fits all cells."""
SCALING_LAWS: Mapping[str, ScalingLaw] = {
    law.name: law
    for law in (
        ScalingLaw(CONSTANT, 1, _fit_constant),
        ScalingLaw(POWER, 2, _fit_power),
        ScalingLaw(PLATEAU, 3, _fit_plateau),
        ScalingLaw(SCALABILITY, scalability.PARAMETER_COUNT, _fit_scalability_curves),
    )
}
MIN_LEVELS_TO_CHOOSE_LAW = 4
"""Minimum number of levels: a law needs as many as it has parameters, plus one that is held out."""


class LawChoice(NamedTuple):
    """The law that describes one curve."""

    law: ScalingLaw
    """NO_LAW if the best law is too far from a fitted cell."""
    akaike_criteria: Mapping[str, float]
    """Akaike's criterion of each law, by its name; lower is better."""


def choose_best_predicting_laws(
    levels: Sequence[float], log_values: FloatArray, no_law_from_log_error: float
) -> list[LawChoice]:
    """Return for each row the law that best predicts held-out cells, and all laws' criteria.

    Args:
        levels: levels in ascending order.
        log_values: one row of logarithms of the metric per curve.
        no_law_from_log_error: error of a logarithm at a fitted cell from which NO_LAW replaces the best law.

    Raises:
        ValueError: there are fewer than MIN_LEVELS_TO_CHOOSE_LAW levels.
    """
    if len(levels) < MIN_LEVELS_TO_CHOOSE_LAW:
        raise ValueError(
            f"the choice of a law needs at least {MIN_LEVELS_TO_CHOOSE_LAW} levels, not {len(levels)}"
        )
    at = np.asarray(levels, dtype=float)
    errors = {law.name: law.fit(at, log_values)(at) - log_values for law in SCALING_LAWS.values()}
    criteria = {
        law.name: _akaike_criteria(law, at, log_values, errors[law.name]) for law in SCALING_LAWS.values()
    }
    choices: list[LawChoice] = []
    for row in range(len(log_values)):
        own = {name: float(each[row]) for name, each in criteria.items()}
        best = min(SCALING_LAWS.values(), key=lambda law: own[law.name])
        is_close = np.abs(errors[best.name][row]).max() < no_law_from_log_error
        choices.append(LawChoice(best if is_close else NO_LAW, own))
    return choices


def _akaike_criteria(
    law: ScalingLaw, fitted_levels: FloatArray, log_values: FloatArray, errors: FloatArray
) -> FloatArray:
    """Return Akaike's criterion for each row; lower is better.

    The first and the last cell are not held out, because no law is used beyond the measured range. Their
    fitted errors count instead.
    """
    count = len(fitted_levels)
    squares = errors[:, 0] ** 2 + errors[:, -1] ** 2
    for held_out in range(1, count - 1):
        kept = np.arange(count) != held_out
        predicted = law.fit(fitted_levels[kept], log_values[:, kept])(fitted_levels[held_out : held_out + 1])[
            :, 0
        ]
        squares += (predicted - log_values[:, held_out]) ** 2
    criteria: FloatArray = (
        count * np.log(np.maximum(squares / count, _MIN_DISTINGUISHED_LOG_ERROR**2)) + 2 * law.parameter_count
    )
    return criteria
