"""Level rules: combinations of levels that cannot occur in one treatment, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vnetbench.study.factors.factor import Factor
from vnetbench.study.model import Level, Study

TreatmentLevels = Mapping[str, Level]
"""Levels of a treatment with defaults. A factor of another workload or lab, which is an error of its own, can
occur without the factors that normally accompany it."""
LevelPredicate = Callable[[TreatmentLevels, Study], bool]
EXCLUDE_FIX = "exclude this combination with [[exclude]]"


@dataclass(frozen=True)
class LevelRule:
    """A contradiction. `what` and `fix` can name factors in braces, which their levels replace."""

    factor: Factor
    """Factor at whose location the problem is reported."""
    is_broken: LevelPredicate
    what: str
    fix: str = EXCLUDE_FIX


def match_levels(*settings: tuple[Factor, Level]) -> LevelPredicate:
    """Return a predicate: each of these factors has the level beside it."""
    return lambda levels, _: all(factor.is_at(levels, level) for factor, level in settings)
