"""How much of the differences between treatments each factor accounts for.

The treatments' logarithms are split as an analysis of variance splits them: the part of a factor is what it
explains beyond all other factors, that of two factors together what they explain beyond all else of that kind
(sums of squares of type II: Yates 1934, "The analysis of multiple classifications with unequal numbers in
the different classes", JASA 29(185)). In a full matrix the parts add up; in one with gaps what cannot be told
to be of one factor or of another is in no part. What chance alone would put into a part is taken out of it:
the trace of the cells' variances under its projection.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vnetbench.explain.comparisons.cell_means import Cell, Numbers, redrawn

_DRAWS = 500
Term = tuple[str, ...]
"""The names of the factors of a part: one for a main effect, two for an interaction."""


@dataclass(frozen=True)
class Share:
    """A part of all differences between treatments, 0 to 1, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Shares:
    """All parts; what is left over is interactions of three factors and more, and chance."""

    terms: Mapping[Term, Share]
    chance: float
    """The part that trials' spread would give by itself."""


def shares_of(cells: Sequence[Cell], factors: Sequence[str], confidence: float) -> Shares | None:
    """The parts of each factor that varies and of each two; None where nothing varies or nothing differs."""
    columns = _columns(cells, factors)
    if not columns:
        return None
    parts = {term: _part(term, columns) for term in columns}
    logs = np.array([[cell.log for cell in cells]])
    drawn = redrawn(cells, _DRAWS)
    noise = np.array([cell.variance for cell in cells])
    total, totals = _total(logs), _total(drawn)
    if not total[0] > 1e-12:
        return None
    tails = [100 * (1 - confidence) / 2, 100 * (1 + confidence) / 2]
    found = {}
    for term, part in parts.items():
        value = float(_explained(part, logs, noise)[0] / total[0])
        # A redrawn log has its own error and that of the cell that it was drawn from.
        low, high = np.percentile(_explained(part, drawn, noise + np.var(drawn, axis=0)) / totals, tails)
        found[term] = Share(*(float(np.clip(each, 0.0, 1.0)) for each in (value, low, high)))
    return Shares(found, min(1.0, float(np.sum(noise) * (1 - 1 / len(cells)) / total[0])))


def _total(logs: Numbers) -> Numbers:
    squares: Numbers = ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return squares


def indicators(cells: Sequence[Cell], factor: str) -> Numbers:
    """A column for each level of the factor but the first that occurs, centred."""
    levels = [cell.treatment.factors.get(factor) for cell in cells]
    columns = [[float(level == each) for level in levels] for each in dict.fromkeys(levels)]
    table: Numbers = np.array(columns[1:]).reshape(len(columns) - 1, len(cells)).T
    return table - table.mean(axis=0) if table.size else table


def _columns(cells: Sequence[Cell], factors: Sequence[str]) -> dict[Term, Numbers]:
    mains = {factor: own for factor in factors if (own := indicators(cells, factor)).shape[1]}
    columns: dict[Term, Numbers] = {(factor,): own for factor, own in mains.items()}
    both = np.hstack([np.ones((len(cells), 1)), *mains.values()])
    for one, other in itertools.combinations(mains, 2):
        product = products(mains[one], mains[other])
        if rest(product, both).shape[1]:
            columns[one, other] = product
    return columns


def products(one: Numbers, other: Numbers) -> Numbers:
    """Each column of the one times each of the other."""
    table: Numbers = (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
    return table


def _part(term: Term, columns: Mapping[Term, Numbers]) -> Numbers:
    """Orthonormal columns of what the term adds to all others, to interactions of as many factors at most."""
    beside = [own for each, own in columns.items() if len(each) <= len(term) and each != term]
    return rest(columns[term], np.hstack([np.ones((len(columns[term]), 1)), *beside]))


def _explained(part: Numbers, logs: Numbers, noise: Numbers) -> Numbers:
    """Sums of squares of each row of `logs`, less what errors of these variances put there."""
    squares: Numbers = ((logs @ part) ** 2).sum(axis=1) - noise @ (part**2).sum(axis=1)
    return squares


def rest(columns: Numbers, beside: Numbers) -> Numbers:
    """Orthonormal columns that span what is left of the columns beside others.

    By the normal equations: there are many rows and few columns, of ones and zeroes less their means.
    """
    left = columns - beside @ (np.linalg.pinv(beside.T @ beside, hermitian=True) @ (beside.T @ columns))
    spanned, sizes, _ = np.linalg.svd(left, full_matrices=False)
    orthonormal: Numbers = spanned[:, sizes > 1e-6 * np.sqrt(len(columns))]
    return orthonormal
