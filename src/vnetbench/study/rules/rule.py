"""What a rule of contradiction is: levels that cannot be together in one treatment, and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vnetbench.study.model import Level, Study

TreatmentLevels = Mapping[str, Level]
"""Levels with defaults. What is of another workload or lab, a problem of its own, may stand alone."""
EXCLUDE_FIX = "leave these out with [[exclude]]"


@dataclass(frozen=True)
class LevelRule:
    """A contradiction. `what` and `fix` may name factors in braces: their levels stand there."""

    factor: str
    """The one that the problem is told at."""
    is_broken: Callable[[TreatmentLevels, Study], bool]
    what: str
    fix: str = EXCLUDE_FIX
