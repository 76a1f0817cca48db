"""How a campaign's factors are laid out: which vary, which one is on x, which is a line, which are panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.study.factors.frame_sizes import mean_frame_bytes
from vnetbench.study.model import FactorLevels, Level

_PREFERRED_X_FACTOR = "frame_size"
"""What a frame rate means is read off against this one, however many levels others have."""
_X_PRIORITY = ("streams", "pairs", "message_size", "socket_buffer", "queues", "link_rate")
"""Where two factors have as many levels, the one named first here is on x."""
_LINE_FACTORS = ("adapter",)
"""What is compared within one panel however many levels it has."""


@dataclass(frozen=True)
class FactorLayout:
    """What a chart and a table do with each factor."""

    varying: tuple[FactorLevels, ...]
    """Factors with two levels or more, their levels in reading order: numbers ascending, then words."""
    constant: tuple[tuple[str, Level], ...]
    """Factors with one level."""
    x_factor: FactorLevels | None
    """The numeric factor on x; None: categorical only, drawn as a dot plot."""
    colour_factor: FactorLevels | None
    """One line (or row of dots) a level."""
    panel_factors: tuple[FactorLevels, ...]
    """The rest: a panel of a line chart, a row of a dot plot for each combination of their levels."""
    heat_factor: FactorLevels | None
    """The second numeric factor of a heat map, on y; None: no heat map."""


def lay_out_factors(summary: CampaignSummary) -> FactorLayout:
    """Decide from the levels that the treatments have.

    x is the size of frames, or else the numeric factor with the most levels; it has three at least. A heat
    map is drawn where a second numeric factor has three levels or more. Of the rest, the adapter or else the
    factor with the fewest levels makes the lines (they are compared within one panel), every other one makes
    panels (or rows, in a dot plot).
    """
    factors = [_with_used_levels(summary, factor) for factor in summary.factors]
    varying = tuple(factor for factor in factors if len(factor.levels) > 1)
    constant = tuple((factor.name, factor.levels[0]) for factor in factors if len(factor.levels) == 1)
    numeric = _rank_x_candidates(varying)
    x = numeric[0] if numeric else None
    heat = numeric[1] if len(numeric) > 1 else None
    rest = [factor for factor in varying if factor is not x]
    lines = next((factor for factor in rest if factor.name in _LINE_FACTORS), None)
    colour = heat or lines or min(reversed(rest), key=lambda factor: len(factor.levels), default=None)
    if x is None and len(rest) == 1:
        colour = None  # the rows of the dot plot say it already
    others = tuple(factor for factor in rest if factor is not colour)
    return FactorLayout(varying, constant, x, colour, others, heat)


def choose_x_factor(varying: Sequence[FactorLevels]) -> FactorLevels | None:
    """The one of the factors that is on x, by the same rules; None where none is."""
    return next(iter(_rank_x_candidates(varying)), None)


def is_numeric(factor: FactorLevels) -> bool:
    """Whether the levels are numbers, with at most one word among them (`auto`, `none`)."""
    words = sum(isinstance(level, str) for level in factor.levels)
    return words <= 1 and len(factor.levels) > words


def level_positions(factor: FactorLevels) -> dict[Level, float]:
    """Where each level stands on an axis, and so whether the axis is linear or logarithmic.

    Numbers that span a factor of eight or more stand at their binary logarithm, other numbers at themselves.
    A factor with a word among its levels is spaced evenly; a mix of frame sizes stands at its mean.
    """
    if factor.name == _PREFERRED_X_FACTOR:
        return {level: math.log2(mean_frame_bytes(level)) for level in factor.levels}
    numbers = [level for level in factor.levels if not isinstance(level, str)]
    if len(numbers) < len(factor.levels):
        return {level: float(place) for place, level in enumerate(factor.levels)}
    if min(numbers) > 0 and max(numbers) / min(numbers) >= 8:
        return {level: math.log2(level) for level in numbers}
    return {level: float(level) for level in numbers}


def _with_used_levels(summary: CampaignSummary, factor: FactorLevels) -> FactorLevels:
    """The factor with the levels that treatments really have, in reading order."""
    seen = {
        treatment.factors[factor.name] for treatment in summary.treatments if factor.name in treatment.factors
    }
    levels = [level for level in factor.levels if level in seen] or list(factor.levels)
    numbers = sorted(level for level in levels if not isinstance(level, str))
    words = [level for level in levels if isinstance(level, str)]
    return FactorLevels(factor.name, (*numbers, *words))


def _rank_x_candidates(varying: Sequence[FactorLevels]) -> list[FactorLevels]:
    """Those that an axis can have, the one for x first."""
    return sorted(
        (factor for factor in varying if is_numeric(factor) and len(factor.levels) > 2), key=_x_priority
    )


def _x_priority(factor: FactorLevels) -> tuple[bool, int, int]:
    named = _X_PRIORITY.index(factor.name) if factor.name in _X_PRIORITY else len(_X_PRIORITY)
    return factor.name != _PREFERRED_X_FACTOR, -len(factor.levels), named
