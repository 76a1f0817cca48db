"""Axes and panel sizes that several charts share."""

from __future__ import annotations

import json

import altair as alt

from vnetbench.report.charts.factor_layout import axis_position_by_level
from vnetbench.study.model import FactorLevels
from vnetbench.wording.factor_text import factor_title, level_text

_PANELS_PER_ROW_BY_PANEL_COUNT = {1: 1, 2: 2, 4: 2}
"""Panels side by side by the number of panels; three for all other numbers."""
_PANEL_WIDTH_PX_BY_PANELS_PER_ROW = {1: 640, 2: 330}


def numeric_x_axis(factor: FactorLevels) -> alt.X:
    """Return the x axis of a numeric factor: field `x`, with a labelled tick at each level."""
    level_to_position = axis_position_by_level(factor)
    values = list(level_to_position.values())
    margin = (max(values) - min(values)) * 0.06
    titles = json.dumps([level_text(factor.name, level) for level in level_to_position])
    return alt.X(
        "x:Q",
        title=factor_title(factor.name),
        scale=alt.Scale(domain=[min(values) - margin, max(values) + margin], nice=False, zero=False),
        axis=alt.Axis(
            values=values,
            labelExpr=f"{titles}[indexof({json.dumps(values)}, datum.value)]",
            labelOverlap=True,
        ),
    )


def panels_per_row(count: int) -> int:
    """Return how many of `count` panels are side by side."""
    return _PANELS_PER_ROW_BY_PANEL_COUNT.get(count, 3)


def panel_width_px(count: int) -> int:
    """Return the width of each of `count` panels in pixels."""
    return _PANEL_WIDTH_PX_BY_PANELS_PER_ROW.get(panels_per_row(count), 240)
