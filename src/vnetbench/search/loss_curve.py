"""Loss ratio as a function of load, with its uncertainty, from the steps of any search.

A `GoalEstimator` for each ratio on a scale of frame loss ratios gives the probability that a full step at a
load keeps the ratio. Together they give the distribution of the loss ratio at that load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.goal_estimator import GoalEstimator, step_durations_s
from vnetbench.search.interface import SearchStep
from vnetbench.search.posterior import Floats, ThroughputPosterior

_CURVE_LOSS_RATIOS = np.concatenate([np.geomspace(1e-6, 0.03, 10), [0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8]])


@dataclass(frozen=True)
class LossCurve:
    """Loss ratio of full steps as a function of load: a posterior for each loss ratio, ascending from 0.

    It is defined from `min_load_fps` to `max_load_fps`, the lowest and the highest load offered.
    """

    min_load_fps: float
    max_load_fps: float
    loss_ratios: tuple[float, ...]
    posterior_by_loss_ratio: tuple[ThroughputPosterior, ...]

    def median_low_high_loss_ratios(
        self, loads_fps: Sequence[float] | Floats, share: float = 0.9
    ) -> tuple[Floats, Floats, Floats]:
        """Return the median, low and high frame loss ratio of a full step at each load.

        `share` of such steps are expected between low and high, which covers their scatter and the
        uncertainty of the estimate. The values are NaN for loads outside the offered range.
        """
        requested = np.asarray(loads_fps, dtype=float)
        loads = np.log(np.clip(requested, self.min_load_fps, self.max_load_fps))
        pass_probabilities = []
        for goal_posterior in self.posterior_by_loss_ratio:
            level = len(goal_posterior.joint_probability_with_full_steps_by_duration) - 1
            pass_probabilities.append(
                posterior.pass_probabilities_by_throughput(goal_posterior, level, loads)
                @ goal_posterior.probability_by_cell_at_full_steps
            )
        # A step that keeps a ratio also keeps every larger one.
        below = np.maximum.accumulate(np.array(pass_probabilities), axis=0)
        shares = (0.5, (1 - share) / 2, (1 + share) / 2)
        ratios = [
            [_loss_ratio_quantile(self.loss_ratios, column, each) for column in below.T] for each in shares
        ]
        known = (requested >= self.min_load_fps * (1 - 1e-9)) & (requested <= self.max_load_fps * (1 + 1e-9))
        median, low, high = np.where(known, np.array(ratios), np.nan)
        return median, low, high


def fit_loss_curve(steps: Sequence[SearchStep]) -> LossCurve:
    """Fit the loss curve to steps, of which the longest are full ones; raises ValueError without steps."""
    if not steps:
        raise ValueError("a loss curve needs at least one step")
    lengths = step_durations_s(max(step.duration_s for step in steps))
    least_fps, most_fps = min(step.load_fps for step in steps), max(step.load_fps for step in steps)
    ratios = [
        0.0,
        *(float(ratio) for ratio in _CURVE_LOSS_RATIOS if ratio * max(step.sent for step in steps) >= 1),
    ]
    estimators = [GoalEstimator(ratio, least_fps * 0.99, most_fps * 1.01, lengths) for ratio in ratios]
    for estimator in estimators:
        estimator.add_steps(steps)
    return LossCurve(
        least_fps, most_fps, tuple(ratios), tuple(estimator.throughput_posterior for estimator in estimators)
    )


def _loss_ratio_quantile(ratios: Sequence[float], probabilities: Floats, wanted_probability: float) -> float:
    """Return the loss ratio that steps keep with this probability, interpolated on a logarithmic scale."""
    position = int(np.searchsorted(probabilities, wanted_probability))
    if position == 0:
        return 0.0
    if position == len(ratios):
        return 1.0
    below, above = probabilities[position - 1], probabilities[position]
    fraction = (wanted_probability - below) / (above - below)
    low, high = max(ratios[position - 1], ratios[1] / 10), ratios[position]
    return math.exp(math.log(low) + fraction * math.log(high / low))
