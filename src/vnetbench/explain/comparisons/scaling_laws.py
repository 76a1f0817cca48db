"""Laws that a scaling curve may follow, fitted to logarithms, and which of them holds for cells held out.

Candidates: the universal scalability law (`explain/models/scalability.py`), growth by a power up to a
plateau (Muggeo 2003, "Estimating regression models with unknown break-points", Statistics in Medicine 22,
with a flat second part), growth by a power throughout, and no growth. The law is chosen by Akaike's
criterion, of the errors at cells that were held out one by one: so a law that bends to each cell does not
gain by it, which is what the correction for few values is for where nothing is held out (Stone 1977, "An
asymptotic equivalence of choice of model by cross-validation and Akaike's criterion", Journal of the Royal
Statistical Society B 39(1)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vnetbench.explain.comparisons.cell_means import Numbers
from vnetbench.explain.models import scalability

Curves = Callable[[Numbers], Numbers]
"""From levels to the logarithms of the metric there: a row for each one that the law was fitted to."""

_SMALLEST_ERROR = 0.003
"""Of a logarithm: laws that come closer than that are alike."""


@dataclass(frozen=True)
class Law:
    """One candidate."""

    name: str
    parameters: int
    fit: Callable[[Numbers, Numbers], Curves]
    """From levels, ascending and above zero, and rows of logarithms of the metric."""


def _constant(at: Numbers, logs: Numbers) -> Curves:
    middles = logs.mean(axis=1, keepdims=True)
    return lambda levels: np.repeat(middles, len(levels), axis=1)


def _power(at: Numbers, logs: Numbers) -> Curves:
    log_at = np.log(at)
    away = log_at - log_at.mean()
    slopes = (logs @ away / (away @ away))[:, None]
    starts = logs.mean(axis=1, keepdims=True) - slopes * log_at.mean()
    return lambda levels: starts + slopes * np.log(levels)


def _plateau(at: Numbers, logs: Numbers) -> Curves:
    """The best of breaks at any place between the second level and the last."""
    log_at = np.log(at)
    breaks = np.linspace(log_at[1], log_at[-1], 4 * len(at))
    rising = np.minimum(log_at, breaks[:, None])
    away = rising - rising.mean(axis=1, keepdims=True)
    squares = (away**2).sum(axis=1)
    slopes = logs @ away.T / squares
    # What is left over is least where the most is accounted for.
    best = np.argmax(slopes**2 * squares, axis=1)
    slope, place = slopes[np.arange(len(logs)), best][:, None], breaks[best][:, None]
    start = logs.mean(axis=1, keepdims=True) - slope * rising.mean(axis=1)[best][:, None]
    return lambda levels: start + slope * np.minimum(np.log(levels), place)


def in_first_levels(at: Numbers, logs: Numbers) -> scalability.Fit:
    """The scalability law in units of the first level, so that it can be of bytes and rates too."""
    return scalability.fit((at / at[0]).tolist(), np.exp(logs).tolist())


def _scalability(at: Numbers, logs: Numbers) -> Curves:
    most = logs.max(axis=1, keepdims=True)  # so that no value is too large for a float
    alone, contention, crosstalk = (
        part[:, None] for part in scalability.parts(at / at[0], np.exp(logs - most))
    )

    def heights(levels: Numbers) -> Numbers:
        n = levels / at[0]
        found: Numbers = most + np.log(n / (alone + contention * (n - 1) + crosstalk * n * (n - 1)))
        return found

    return heights


def _as_measured(at: Numbers, logs: Numbers) -> Curves:
    """Straight lines from cell to cell."""
    return lambda levels: np.array([np.interp(np.log(levels), np.log(at), each) for each in logs])


SCALABILITY, PLATEAU, POWER, CONSTANT = "universal scalability law", "plateau", "power", "constant"
AS_MEASURED = Law("no law", 0, _as_measured)
"""What is held against where no law comes near all cells."""
LAWS: Mapping[str, Law] = {
    law.name: law
    for law in (
        Law(CONSTANT, 1, _constant),
        Law(POWER, 2, _power),
        Law(PLATEAU, 3, _plateau),
        Law(SCALABILITY, scalability.PARAMETERS, _scalability),
    )
}
FEWEST_LEVELS = 4
"""Each law is fitted with one level held out, and needs as many as it has parameters."""


def choose(levels: Sequence[float], logs: Numbers, nearness: float) -> list[tuple[Law, Mapping[str, float]]]:
    """For each row the law that tells held-out cells best, and the criterion of each law by name (the lower
    the better).

    AS_MEASURED where the best is `nearness` or more off at a cell, in logarithms, though it was fitted to it.
    Raises ValueError for fewer levels than FEWEST_LEVELS.
    """
    if len(levels) < FEWEST_LEVELS:
        raise ValueError(f"a law is chosen from {FEWEST_LEVELS} levels or more, not {len(levels)}")
    at = np.asarray(levels, dtype=float)
    off = {law.name: law.fit(at, logs)(at) - logs for law in LAWS.values()}
    criteria = {law.name: _criteria(law, at, logs, off[law.name]) for law in LAWS.values()}
    found: list[tuple[Law, Mapping[str, float]]] = []
    for row in range(len(logs)):
        own = {name: float(each[row]) for name, each in criteria.items()}
        best = min(LAWS.values(), key=lambda law: own[law.name])
        is_near = np.abs(off[best.name][row]).max() < nearness
        found.append((best if is_near else AS_MEASURED, own))
    return found


def _criteria(law: Law, at: Numbers, logs: Numbers, off: Numbers) -> Numbers:
    """Of each row; the first and the last cell are not held out: beyond what was measured no law is asked
    for, and its own errors count there."""
    count = len(at)
    squares = off[:, 0] ** 2 + off[:, -1] ** 2
    for held_out in range(1, count - 1):
        kept = np.arange(count) != held_out
        told = law.fit(at[kept], logs[:, kept])(at[held_out : held_out + 1])[:, 0]
        squares += (told - logs[:, held_out]) ** 2
    criteria: Numbers = count * np.log(np.maximum(squares / count, _SMALLEST_ERROR**2)) + 2 * law.parameters
    return criteria
