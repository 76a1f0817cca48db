"""Loss against load with its uncertainty, from steps of any search: the band that a report draws.

The same curves that a search keeps for its goals (`Curve`), for a ladder of frame loss ratios: how likely a
full step keeps each ratio at a load, and so the distribution of what a full step at that load loses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.goal_estimator import GoalEstimator, step_lengths
from vnetbench.search.interface import SearchStep
from vnetbench.search.posterior import Floats, Posterior

_RATIOS = np.concatenate([np.geomspace(1e-6, 0.03, 10), [0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8]])


@dataclass(frozen=True)
class LossCurve:
    """What is known of a device's loss at full steps: a belief for each frame loss ratio, ascending from 0.

    It knows of loads from `least_fps` to `most_fps`, the least and the most that was offered.
    """

    least_fps: float
    most_fps: float
    ratios: tuple[float, ...]
    beliefs: tuple[Posterior, ...]

    def loss_ratios_at(
        self, loads_fps: Sequence[float] | Floats, share: float = 0.9
    ) -> tuple[Floats, Floats, Floats]:
        """Median, low and high of the frame loss ratio of a full step at each load.

        This share of such steps is expected to lose between low and high: that is their own scatter, and
        what is not known of them. NaN for loads beyond those that were offered.
        """
        asked = np.asarray(loads_fps, dtype=float)
        loads = np.log(np.clip(asked, self.least_fps, self.most_fps))
        kept = []
        for belief in self.beliefs:
            level = len(belief.joint) - 1
            kept.append(posterior.pass_probability(belief, level, loads) @ belief.mass)
        # A step that keeps a ratio keeps every larger one too.
        below = np.maximum.accumulate(np.array(kept), axis=0)
        wanted = (0.5, (1 - share) / 2, (1 + share) / 2)
        found = [[_ratio_below(self.ratios, column, each) for column in below.T] for each in wanted]
        known = (asked >= self.least_fps * (1 - 1e-9)) & (asked <= self.most_fps * (1 + 1e-9))
        median, low, high = np.where(known, np.array(found), np.nan)
        return median, low, high


def fit_loss_curve(steps: Sequence[SearchStep]) -> LossCurve:
    """The model of these steps; the longest are the full ones. Raises ValueError where there are none."""
    if not steps:
        raise ValueError("a model of loss against load needs at least one step")
    lengths = step_lengths(max(step.duration_s for step in steps))
    least_fps, most_fps = min(step.load_fps for step in steps), max(step.load_fps for step in steps)
    ratios = [0.0, *(float(ratio) for ratio in _RATIOS if ratio * max(step.sent for step in steps) >= 1)]
    curves = [GoalEstimator(ratio, least_fps * 0.99, most_fps * 1.01, lengths) for ratio in ratios]
    for curve in curves:
        curve.learn(steps)
    return LossCurve(least_fps, most_fps, tuple(ratios), tuple(curve.belief for curve in curves))


def _ratio_below(ratios: Sequence[float], chances: Floats, wanted: float) -> float:
    """The loss ratio that steps keep with this chance; between two of the ladder, in even logarithms."""
    position = int(np.searchsorted(chances, wanted))
    if position == 0:
        return 0.0
    if position == len(ratios):
        return 1.0
    below, above = chances[position - 1], chances[position]
    way = (wanted - below) / (above - below)
    low, high = max(ratios[position - 1], ratios[1] / 10), ratios[position]
    return math.exp(math.log(low) + way * math.log(high / low))
