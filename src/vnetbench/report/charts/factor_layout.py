"""The layout of factors in a chart: which factor is on the x axis, in the lines and in the panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.study.factors.frame_factors import FRAME_SIZE
from vnetbench.study.factors.frame_sizes import compute_mean_frame_bytes
from vnetbench.study.factors.registry import find_factor_or_label
from vnetbench.study.model import FactorLevels, Level


@dataclass(frozen=True)
class FactorLayout:
    """The role of each factor in a chart."""

    varying: tuple[FactorLevels, ...]
    """Factors with two levels or more; levels are sorted: numbers ascending, then words."""
    constant: tuple[tuple[str, Level], ...]
    """Factors with one level."""
    x_factor: FactorLevels | None
    """The numeric factor on the x axis; None for a dot plot of categorical factors."""
    colour_factor: FactorLevels | None
    """The factor with a line, or a row of dots, per level."""
    panel_factors: tuple[FactorLevels, ...]
    """The other factors: each combination of their levels is a panel, or a row of a dot plot."""
    heat_map_y_factor: FactorLevels | None
    """The factor on the y axis of a heat map; None without a heat map."""


def lay_out_factors(summary: CampaignSummary) -> FactorLayout:
    """Assign each factor its role, from the levels that the treatments have.

    The x axis is the frame size, or the numeric factor with the most levels, at least three. A second numeric
    factor with at least three levels adds a heat map. The adapter, or the factor with the fewest levels,
    makes the lines, which share a panel. All other factors make panels, or rows of a dot plot.
    """
    factors = [_keep_levels_of_treatments(summary, factor) for factor in summary.factors]
    varying = tuple(factor for factor in factors if len(factor.levels) > 1)
    constant = tuple((factor.name, factor.levels[0]) for factor in factors if len(factor.levels) == 1)
    numeric = _rank_x_candidates(varying)
    x = numeric[0] if numeric else None
    heat = numeric[1] if len(numeric) > 1 else None
    rest = [factor for factor in varying if factor is not x]
    lines = next((factor for factor in rest if _has_line_per_level(factor)), None)
    colour = heat or lines or min(reversed(rest), key=lambda factor: len(factor.levels), default=None)
    if x is None and len(rest) == 1:
        colour = None  # The rows of the dot plot already show this factor.
    others = tuple(factor for factor in rest if factor is not colour)
    return FactorLayout(varying, constant, x, colour, others, heat)


def choose_x_factor(varying: Sequence[FactorLevels]) -> FactorLevels | None:
    """Return the factor for the x axis by the rules of `lay_out_factors`; None without a candidate."""
    return next(iter(_rank_x_candidates(varying)), None)


def is_numeric_except_one_word(factor: FactorLevels) -> bool:
    """Return whether the levels are numbers, with at most one word such as `auto` or `none`."""
    words = sum(isinstance(level, str) for level in factor.levels)
    return words <= 1 and len(factor.levels) > words


def axis_position_by_level(factor: FactorLevels) -> dict[Level, float]:
    """Return the position of each level on an axis.

    Numbers that span a factor of eight or more are at their binary logarithm, other numbers at their value.
    Levels with a word among them are evenly spaced. A mix of frame sizes is at the logarithm of its mean.
    """
    if factor.name == FRAME_SIZE.name:
        return {level: math.log2(compute_mean_frame_bytes(level)) for level in factor.levels}
    numbers = [level for level in factor.levels if not isinstance(level, str)]
    if len(numbers) < len(factor.levels):
        return {level: float(index) for index, level in enumerate(factor.levels)}
    if min(numbers) > 0 and max(numbers) / min(numbers) >= 8:
        return {level: math.log2(level) for level in numbers}
    return {level: float(level) for level in numbers}


def _keep_levels_of_treatments(summary: CampaignSummary, factor: FactorLevels) -> FactorLevels:
    """Return the factor with the levels of the treatments only, sorted."""
    used = {
        treatment.factors[factor.name] for treatment in summary.treatments if factor.name in treatment.factors
    }
    levels = [level for level in factor.levels if level in used] or list(factor.levels)
    numbers = sorted(level for level in levels if not isinstance(level, str))
    words = [level for level in levels if isinstance(level, str)]
    return FactorLevels(factor.name, (*numbers, *words))


def _rank_x_candidates(varying: Sequence[FactorLevels]) -> list[FactorLevels]:
    """Return the factors that fit an axis, the best candidate for the x axis first."""
    return sorted(
        (factor for factor in varying if is_numeric_except_one_word(factor) and len(factor.levels) > 2),
        key=_x_axis_sort_key,
    )


def _x_axis_sort_key(factor: FactorLevels) -> tuple[bool, int, float]:
    # Frame rates are meaningful relative to the frame size, so it is always on the x axis.
    known = find_factor_or_label(factor.name)
    rank = known.x_axis_rank if known is not None else None
    return factor.name != FRAME_SIZE.name, -len(factor.levels), rank or math.inf


def _has_line_per_level(factor: FactorLevels) -> bool:
    known = find_factor_or_label(factor.name)
    return known is not None and known.has_line_per_level
