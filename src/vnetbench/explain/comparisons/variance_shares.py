"""Share of the variance between treatments that each factor explains.

An analysis of variance splits the treatments' logarithms. A factor's share is what it explains beyond all
other factors. An interaction's share is what it explains beyond all main effects and other interactions of
two factors (sums of squares of type II: Yates 1934, "The analysis of multiple classifications with unequal
numbers in the different classes", JASA 29(185)). In a full matrix the shares add up. In a matrix with gaps,
no factor gets the variance that several factors could explain. Each share is reduced by its expected value
from error alone: the trace of the cells' variances under its projection.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vnetbench.explain.comparisons.cell_means import CellMean, FloatArray, bootstrap_log_means

_BOOTSTRAP_DRAW_COUNT = 500
FactorsOfTerm = tuple[str, ...]
"""Names of factors: one for a main effect, two for an interaction."""


@dataclass(frozen=True)
class VarianceShareInterval:
    """Share of the variance between treatments, 0 to 1, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class VarianceShares:
    """All shares. The remainder is interactions of three or more factors, and error."""

    terms: Mapping[FactorsOfTerm, VarianceShareInterval]
    error_share: float
    """Expected share from the spread of the trials alone."""


def estimate_variance_shares(
    cells: Sequence[CellMean], factors: Sequence[str], confidence: float
) -> VarianceShares | None:
    """Return the shares of factors and of interactions; None if no factor or no value varies."""
    columns = _design_columns(cells, factors)
    if not columns:
        return None
    bases = {term: _orthonormal_term_basis(term, columns) for term in columns}
    logs = np.array([[cell.log_mean for cell in cells]])
    samples = bootstrap_log_means(cells, _BOOTSTRAP_DRAW_COUNT)
    error = np.array([cell.variance for cell in cells])
    total, totals = _total_sums_of_squares(logs), _total_sums_of_squares(samples)
    if not total[0] > 1e-12:
        return None
    tails = [100 * (1 - confidence) / 2, 100 * (1 + confidence) / 2]
    shares = {}
    for term, basis in bases.items():
        value = float(_noise_corrected_sums_of_squares(basis, logs, error)[0] / total[0])
        # A bootstrap sample has its own error and that of its cell mean.
        low, high = np.percentile(
            _noise_corrected_sums_of_squares(basis, samples, error + np.var(samples, axis=0)) / totals, tails
        )
        shares[term] = VarianceShareInterval(*(float(np.clip(each, 0.0, 1.0)) for each in (value, low, high)))
    return VarianceShares(shares, min(1.0, float(np.sum(error) * (1 - 1 / len(cells)) / total[0])))


def _total_sums_of_squares(logs: FloatArray) -> FloatArray:
    squares: FloatArray = ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return squares


def centred_indicator_columns(cells: Sequence[CellMean], factor: str) -> FloatArray:
    """Return one centred indicator column per level of the factor, without the first level."""
    levels = [cell.treatment.factors.get(factor) for cell in cells]
    columns = [[float(level == each) for level in levels] for each in dict.fromkeys(levels)]
    table: FloatArray = np.array(columns[1:]).reshape(len(columns) - 1, len(cells)).T
    return table - table.mean(axis=0) if table.size else table


def _design_columns(cells: Sequence[CellMean], factors: Sequence[str]) -> dict[FactorsOfTerm, FloatArray]:
    mains = {factor: own for factor in factors if (own := centred_indicator_columns(cells, factor)).shape[1]}
    columns: dict[FactorsOfTerm, FloatArray] = {(factor,): own for factor, own in mains.items()}
    both = np.hstack([np.ones((len(cells), 1)), *mains.values()])
    for one, other in itertools.combinations(mains, 2):
        product = product_columns(mains[one], mains[other])
        if orthonormal_residual(product, both).shape[1]:
            columns[one, other] = product
    return columns


def product_columns(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the products of each column of one table with each column of the other."""
    table: FloatArray = (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
    return table


def _orthonormal_term_basis(term: FactorsOfTerm, columns: Mapping[FactorsOfTerm, FloatArray]) -> FloatArray:
    """Return an orthonormal basis of what the term adds to all other terms of at most the same order."""
    others = [own for each, own in columns.items() if len(each) <= len(term) and each != term]
    return orthonormal_residual(columns[term], np.hstack([np.ones((len(columns[term]), 1)), *others]))


def _noise_corrected_sums_of_squares(
    basis: FloatArray, logs: FloatArray, error_variances: FloatArray
) -> FloatArray:
    """Return each row's sum of squares in the basis, minus the expected part from these error variances."""
    squares: FloatArray = ((logs @ basis) ** 2).sum(axis=1) - error_variances @ (basis**2).sum(axis=1)
    return squares


def orthonormal_residual(columns: FloatArray, others: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the columns' residuals after projection onto the other columns.

    The normal equations are accurate enough: the tables have many rows and few columns of centred zeros and
    ones.
    """
    inverse = np.linalg.pinv(others.T @ others, hermitian=True)
    residuals = columns - others @ (inverse @ (others.T @ columns))
    spanned, sizes, _ = np.linalg.svd(residuals, full_matrices=False)
    orthonormal: FloatArray = spanned[:, sizes > 1e-6 * np.sqrt(len(columns))]
    return orthonormal
