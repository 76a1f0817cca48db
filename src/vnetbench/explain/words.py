"""How figures of evidence are written in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence import FIGURES
from vnetbench.estimate.metrics import METRICS
from vnetbench.explain.model import Exhibit
from vnetbench.quantity import format_value

_MOST_SHOWN = 2
"""So many figures stand in a sentence; all of them are among the exhibits."""


def label_of(name: str) -> str:
    """A figure of evidence, or a metric, as it is called within a sentence."""
    if name in FIGURES:
        return FIGURES[name].label
    label = METRICS[name].label
    return label[:1].lower() + label[1:]


def figure_text(name: str, value: float) -> str:
    """Its value with its unit: `99.1 % of one CPU`."""
    unit = FIGURES[name].unit if name in FIGURES else METRICS[name].unit
    return format_value(value, unit)


def evidence_text(exhibits: Sequence[Exhibit]) -> str:
    """The first figures that speak for a cause: `sending thread's CPU 99.1 % of one CPU`."""
    speaking = [exhibit for exhibit in exhibits if exhibit.speaks == "for"][:_MOST_SHOWN]
    return ", ".join(f"{label_of(each.figure)} {figure_text(each.figure, each.value)}" for each in speaking)
