"""The stopping rule: when a treatment has enough trials."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import median_interval
from vnetbench.study.model import Precision


@dataclass(frozen=True)
class StoppingDecision:
    """Whether a treatment needs no more trials, and why."""

    should_stop: bool
    reason: str = ""
    """`precision` or `trial limit`; empty while the treatment continues."""


def decide_stopping(values: Sequence[float], precision: Precision) -> StoppingDecision:
    """Decide whether these trials are enough for the requested precision.

    The decision is made only at the numbers of trials in `interim_analysis_trial_counts(precision)`. It uses
    the same interval as `estimate_median` reports with these numbers and `precision.confidence`. If all
    values are zero, the interval has no width and the first analysis stops the treatment.

    The rule is that of Maricq et al., OSDI 2018, "Taming performance variability": repeat until the
    non-parametric interval of the median is narrow enough. The error is divided between the analyses in
    advance (`interim_analyses.py`).

    Args:
        values: The deciding metric, one value for each trial.
        precision: The requested precision.
    """
    analyses = interim_analysis_trial_counts(precision)
    trials = len(values)
    if trials in analyses:
        bounds = median_interval(values, precision.confidence, analyses)
        if bounds is not None and _is_narrow_enough(values, bounds, precision.half_width):
            return StoppingDecision(True, "precision")
    if trials >= precision.max_trials:
        return StoppingDecision(True, "trial limit")
    return StoppingDecision(False)


def is_analysis_due(trial_count: int, precision: Precision) -> bool:
    """Return whether `decide_stopping` may stop a treatment at this number of trials."""
    return trial_count >= precision.max_trials or trial_count in interim_analysis_trial_counts(precision)


def _is_narrow_enough(
    values: Sequence[float], bounds: tuple[float, float], relative_half_width: float
) -> bool:
    return (bounds[1] - bounds[0]) / 2 <= relative_half_width * abs(statistics.median(values))
