"""Axes that several forms of charts have."""

from __future__ import annotations

import json

import altair as alt

from vnetbench.report.charts.factor_layout import level_positions
from vnetbench.study.model import FactorLevels
from vnetbench.wording.factor_text import factor_label, level_text

_PANELS_PER_ROW = {1: 1, 2: 2, 4: 2}
"""Panels side by side, by their number; else three."""
_PANEL_WIDTHS_PX = {1: 640, 2: 330}


def numeric_x_axis(factor: FactorLevels) -> alt.X:
    """The x axis of a numeric factor: field `x`, a tick at each level, named as a person reads it."""
    places = level_positions(factor)
    values = list(places.values())
    margin = (max(values) - min(values)) * 0.06
    titles = json.dumps([level_text(factor.name, level) for level in places])
    return alt.X(
        "x:Q",
        title=factor_label(factor.name),
        scale=alt.Scale(domain=[min(values) - margin, max(values) + margin], nice=False, zero=False),
        axis=alt.Axis(
            values=values,
            labelExpr=f"{titles}[indexof({json.dumps(values)}, datum.value)]",
            labelOverlap=True,
        ),
    )


def panels_per_row(count: int) -> int:
    """So many panels stand side by side."""
    return _PANELS_PER_ROW.get(count, 3)


def panel_width_px(count: int) -> int:
    """Pixels that each of so many panels is wide."""
    return _PANEL_WIDTHS_PX.get(panels_per_row(count), 240)
