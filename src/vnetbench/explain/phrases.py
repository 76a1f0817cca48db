"""How figures of evidence are written in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO
from vnetbench.estimate.metrics import METRICS
from vnetbench.explain.model import EvidenceItem
from vnetbench.quantity import format_value

_MOST_COUNTED = 10_000
_MOST_SHOWN = 2
"""So many figures stand in a sentence; all of them are among the exhibits."""


def label_of(name: str) -> str:
    """A figure of evidence, or a metric, as it is called within a sentence."""
    if name in EVIDENCE_METRICS:
        return EVIDENCE_METRICS[name].label
    label = METRICS[name].label
    return label[:1].lower() + label[1:]


def unit_of(name: str) -> str:
    """The unit of a figure of evidence, or of a metric."""
    return EVIDENCE_METRICS[name].unit if name in EVIDENCE_METRICS else METRICS[name].unit


def figure_text(name: str, value: float) -> str:
    """Its value with its unit: `99.1 % of one CPU`; a count is whole, of a setting it is `yes` or `no`."""
    unit = unit_of(name)
    if unit == YES_OR_NO:
        return yes_or_no(value)
    return f"{value:.0f}" if is_count(unit, value) else format_value(value, unit)


def yes_or_no(value: float) -> str:
    """Of a figure that is 0 or 1 in each trial; a median between the two is of trials that differ."""
    return {0.0: "no", 1.0: "yes"}.get(value, "in some trials")


def is_count(unit: str, *values: float) -> bool:
    """Whether values without a unit are small whole numbers: `4` queues, not `4.00`."""
    return unit == "1" and all(float(each).is_integer() and abs(each) < _MOST_COUNTED for each in values)


def evidence_text(exhibits: Sequence[EvidenceItem]) -> str:
    """The first figures that speak for a cause: `sending thread's CPU 99.1 % of one CPU`."""
    speaking = [exhibit for exhibit in exhibits if exhibit.role == "supports"][:_MOST_SHOWN]
    return ", ".join(map(_figure_told, speaking))


def _figure_told(exhibit: EvidenceItem) -> str:
    label, unit = label_of(exhibit.metric), unit_of(exhibit.metric)
    if unit == YES_OR_NO and exhibit.value in (0, 1):
        return label if exhibit.value else f"{label}: no"
    if unit == "1" and not is_count(unit, exhibit.value, exhibit.low, exhibit.high):
        return f"{label} {format_value(exhibit.value, unit)}"
    return f"{label} {figure_text(exhibit.metric, exhibit.value)}"
