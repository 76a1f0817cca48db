"""When a treatment has been repeated often enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.interim_analyses import interim_analyses
from vnetbench.estimate.median import median_interval
from vnetbench.study.model import Precision


@dataclass(frozen=True)
class StoppingDecision:
    """Whether a treatment is repeated no more, and why."""

    stop: bool
    reason: str = ""
    """`precision` or `most trials`; empty while it goes on."""


def decide_stopping(values: Sequence[float], precision: Precision) -> StoppingDecision:
    """Whether these trials (one value of the metric each) are enough for the asked precision.

    It judges at the numbers of trials in `looks.looks(precision)` only, and by the very interval that
    `location.estimate(values, precision.confidence, looks(precision))` reports. A dead path (all values
    zero) has an interval of no width, and is enough at the first look.

    After Maricq et al., OSDI 2018 ("Taming performance variability": repeat until the median's
    non-parametric interval is narrow enough), with the looks' error shared out beforehand as `looks.py`
    describes.
    """
    judged_at = interim_analyses(precision)
    trials = len(values)
    if trials in judged_at:
        bounds = median_interval(values, precision.confidence, judged_at)
        if bounds is not None and _narrow(values, bounds, precision.half_width):
            return StoppingDecision(True, "precision")
    if trials >= precision.most_trials:
        return StoppingDecision(True, "most trials")
    return StoppingDecision(False)


def _narrow(values: Sequence[float], bounds: tuple[float, float], half_width: float) -> bool:
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return (bounds[1] - bounds[0]) / 2 <= half_width * abs(median)
