"""Level rules: combinations of levels that cannot occur in one treatment, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vnetbench.study.model import Level, Study

TreatmentLevels = Mapping[str, Level]
"""Levels of a treatment with defaults. A factor of another workload or lab, which is an error of its own, can
occur without the factors that normally accompany it."""
LevelPredicate = Callable[[TreatmentLevels, Study], bool]
EXCLUDE_FIX = "exclude this combination with [[exclude]]"


@dataclass(frozen=True)
class LevelRule:
    """A contradiction. `what` and `fix` can name factors in braces, which their levels replace."""

    factor: str
    """Factor at whose location the problem is reported."""
    is_broken: LevelPredicate
    what: str
    fix: str = EXCLUDE_FIX


def has_other_level(levels: TreatmentLevels, factor: str, neutral: Level = "none") -> bool:
    """Return whether the treatment has the factor at another level than the neutral one."""
    return levels.get(factor, neutral) != neutral


def have_levels(**levels_by_factor: Level) -> LevelPredicate:
    """Return a predicate: all these factors have these levels."""
    return lambda levels, _: all(levels.get(name) == level for name, level in levels_by_factor.items())
