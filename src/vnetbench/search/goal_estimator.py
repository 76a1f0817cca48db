"""Estimator of one goal's throughput from the steps of a search."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.forwarding_rates import OverloadedStep, guess_throughputs
from vnetbench.search.interface import SearchStep
from vnetbench.search.posterior import StepOutcome

MIN_STEP_S = 0.05
"""Minimum duration of a step. Shorter ones have too few frames and mostly consist of settling."""

_MIN_LIKELY_CELLS, _NARROW_CELL_LOG_LOAD = 20, 0.0005
"""The likely throughputs cover at least this many cells, or the cells are this narrow in log load."""
_MAX_REFINEMENTS_PER_STEP = 8
"""Maximum number of grid refinements after a step; the next step continues."""

_GRADUAL_LOSS_INTERVAL_PER_SPREAD = 4.0
"""The loss rises gradually if the curve's standard deviation exceeds the interval, divided by this."""
_GRADUAL_LOSS_CHANCES = (0.35, 0.7)
"""Probabilities of a gradual rise from which the divisor begins to apply, and from which it applies fully. A
narrow interval of a sharp limit leaves a probability near the first."""
_GRADUAL_LOSS_TAIL_DIVISOR = 1.8
"""Divisor of the probability outside the interval if the loss rises gradually. Such an interval narrows by
many steps, each of little weight. A search that ends as soon as it is narrow enough then prefers lucky
streaks, and the shape of the curve is known only roughly."""


def step_durations_s(step_s: float) -> tuple[float, ...]:
    """Return the durations of steps, ascending: a hundredth and a tenth if long enough, and full steps."""
    return (*(step_s / by for by in (100, 10) if step_s / by >= MIN_STEP_S), step_s)


class LogLoadInterval(NamedTuple):
    """Ends of an interval, as natural logarithms of loads in frames/s."""

    low: float
    high: float


class GoalEstimator:
    """Estimates one goal's throughput; `throughput_posterior` is up to date after each step.

    With `may_exceed_max_load`, the throughput may exceed `max_load_fps`, the highest load that can be
    offered. Without, steps at higher loads are ignored.
    """

    def __init__(
        self,
        goal: float,
        min_load_fps: float,
        max_load_fps: float,
        step_durations_s: tuple[float, ...],
        may_exceed_max_load: bool = True,
    ) -> None:
        self.goal = goal
        self.min_log_load, self.max_log_load = math.log(min_load_fps), math.log(max_load_fps)
        self.step_durations_s = step_durations_s
        self._max_considered_load_fps = math.inf if may_exceed_max_load else max_load_fps
        self._outcomes: list[StepOutcome] = []
        self._overloaded_steps: list[list[OverloadedStep]] = [[] for _ in step_durations_s]
        self._interval_by_confidence: dict[float, LogLoadInterval] = {}
        self.throughput_posterior: posterior.ThroughputPosterior
        self._set_grid(posterior.create_grid(self.min_log_load, self.max_log_load, may_exceed_max_load))

    def add_steps(self, steps: Iterable[SearchStep]) -> None:
        """Add steps of any duration. Each counts as a step of the nearest standard duration."""
        for step in steps:
            if not self.is_load_in_considered_range(step):
                continue
            ratios = [abs(math.log(step.duration_s / length)) for length in self.step_durations_s]
            outcome = StepOutcome(
                int(np.argmin(ratios)), math.log(step.load_fps), step.loss_ratio <= self.goal
            )
            self._outcomes.append(outcome)
            self._log_likelihoods[outcome.duration_index] += (
                posterior.step_log_likelihood_by_throughput_side_and_shape(
                    self.throughput_posterior.grid, outcome
                )
            )
            if step.loss_ratio > 0:
                passed = math.log(max(1 - step.loss_ratio, 1e-9))
                self._overloaded_steps[outcome.duration_index].append(
                    OverloadedStep(-passed, outcome.log_load + passed)
                )
        self.throughput_posterior = self._compute_posterior(self.throughput_posterior.grid)
        for _ in range(_MAX_REFINEMENTS_PER_STEP):
            if not self._is_grid_too_coarse():
                break
            self._set_grid(posterior.refine_grid(self.throughput_posterior))
        self._interval_by_confidence.clear()

    def is_load_in_considered_range(self, step: SearchStep) -> bool:
        """Return whether the step's load is not too high for this estimator."""
        return step.load_fps <= self._max_considered_load_fps

    def log_load_interval(self, confidence: float) -> LogLoadInterval:
        """Return an interval of log load that contains the throughput at this confidence.

        It is the shortest one, unless the loss rises gradually. See `_GRADUAL_LOSS_TAIL_DIVISOR`.
        """
        if confidence in self._interval_by_confidence:
            return self._interval_by_confidence[confidence]
        grid, probability = (
            self.throughput_posterior.grid,
            self.throughput_posterior.probability_by_cell_at_full_steps,
        )
        low, high = posterior.shortest_log_load_interval(grid, probability, confidence)
        spread = (high - low) / _GRADUAL_LOSS_INTERVAL_PER_SPREAD
        chance = posterior.chance_of_wider_curve(self.throughput_posterior, spread)
        at_first, surely = _GRADUAL_LOSS_CHANCES
        gradual = min(1.0, max(0.0, (chance - at_first) / (surely - at_first)))
        tails = (1 - confidence) / (1 + (_GRADUAL_LOSS_TAIL_DIVISOR - 1) * gradual)
        interval = LogLoadInterval(*posterior.shortest_log_load_interval(grid, probability, 1 - tails))
        self._interval_by_confidence[confidence] = interval
        return interval

    def median_log_load(self) -> float:
        """Return the median of the throughput's posterior, in log load."""
        return float(
            posterior.log_load_quantiles(
                self.throughput_posterior.grid,
                self.throughput_posterior.probability_by_cell_at_full_steps,
                [0.5],
            )[0]
        )

    def full_step_pass_probability(self, log_load: float) -> float:
        """Return the probability that a full step at this load keeps the goal."""
        probabilities = posterior.pass_probabilities_by_throughput(
            self.throughput_posterior, len(self.step_durations_s) - 1, np.array([log_load])
        )
        return float(probabilities[0] @ self.throughput_posterior.probability_by_cell_at_full_steps)

    def chance_above_max_load(self) -> float:
        """Return the probability that the throughput is above the highest load."""
        return float(
            self.throughput_posterior.probability_by_cell_at_full_steps[
                self.throughput_posterior.grid.centres > self.max_log_load
            ].sum()
        )

    def chance_below_min_load(self) -> float:
        """Return the probability that the throughput is below the lowest load."""
        return float(
            self.throughput_posterior.probability_by_cell_at_full_steps[
                self.throughput_posterior.grid.centres < self.min_log_load
            ].sum()
        )

    def _set_grid(self, grid: posterior.LogLoadGrid) -> None:
        levels = range(len(self.step_durations_s))
        self._log_likelihoods = [
            posterior.log_likelihood_by_throughput_side_and_shape(grid, self._outcomes, level)
            for level in levels
        ]
        self.throughput_posterior = self._compute_posterior(grid)

    def _compute_posterior(self, grid: posterior.LogLoadGrid) -> posterior.ThroughputPosterior:
        return posterior.compute_posterior(
            grid,
            self._log_likelihoods,
            self.min_log_load,
            self.max_log_load,
            guess_throughputs(self.goal, self._overloaded_steps),
        )

    def _is_grid_too_coarse(self) -> bool:
        """Return whether the likely throughputs of some step duration cover too few, too wide cells."""
        grid = self.throughput_posterior.grid
        for level in range(len(self.step_durations_s)):
            low, high = posterior.log_load_quantiles(
                grid, self.throughput_posterior.probability_by_cell_at(level), [0.05, 0.95]
            )
            widths = grid.widths[(grid.centres >= low) & (grid.centres <= high)]
            if len(widths) < _MIN_LIKELY_CELLS and widths.max(initial=0.0) > _NARROW_CELL_LOG_LOAD:
                return True
        return False
