"""Estimator of one goal's throughput from the steps of a search."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.interface import SearchStep
from vnetbench.search.posterior import StepOutcome, ThroughputGuess

MIN_STEP_S = 0.05
"""Minimum duration of a step. Shorter ones have too few frames and mostly consist of settling."""

_MIN_LIKELY_CELLS, _NARROW_CELL_LOG_LOAD = 20, 0.0005
"""The likely throughputs cover at least this many cells, or the cells are this narrow in log load."""
_MAX_REFINEMENTS_PER_STEP = 8
"""Maximum number of grid refinements after a step; the next step continues."""
_MIN_GUESS_UNCERTAINTY = 0.001
"""Minimum uncertainty of a guess from forwarding rates, in log load."""
_MAX_GUESS_UNCERTAINTY_PER_OVERLOAD = 0.3
"""Maximum additional uncertainty per unit of log load by which the device was overloaded beyond the goal."""

_GUESS_NEIGHBOURS = 6
"""Number of steps with the most similar loss whose forwarding rates show how much these differ."""
_GUESS_DISPERSION_FACTOR = 2.0
"""Uncertainty of a guess relative to the mean distance of these forwarding rates. A mean absolute difference
of two normal values is 1.13 standard deviations; the factor covers the few values that it comes from."""


def step_durations_s(step_s: float) -> tuple[float, ...]:
    """Return the durations of steps, ascending: a hundredth and a tenth if long enough, and full steps."""
    return (*(step_s / by for by in (100, 10) if step_s / by >= MIN_STEP_S), step_s)


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
        self._overloaded_steps: list[tuple[float, float]] = []
        self.throughput_posterior: posterior.ThroughputPosterior
        self._set_grid(posterior.create_grid(self.min_log_load, self.max_log_load, may_exceed_max_load))

    def add_steps(self, steps: Iterable[SearchStep]) -> None:
        """Add steps of any duration. Each counts as a step of the nearest standard duration."""
        for step in steps:
            if not self.considers(step):
                continue
            ratios = [abs(math.log(step.duration_s / length)) for length in self.step_durations_s]
            outcome = StepOutcome(
                int(np.argmin(ratios)), math.log(step.load_fps), step.loss_ratio <= self.goal
            )
            self._outcomes.append(outcome)
            self._log_likelihoods[outcome.duration_index] += posterior.step_log_likelihood_by_side_shape(
                self.throughput_posterior.grid, outcome
            )
            if step.loss_ratio > 0:
                passed = math.log(max(1 - step.loss_ratio, 1e-9))
                self._overloaded_steps.append((-passed, outcome.log_load + passed))
        self.throughput_posterior = self._compute_posterior(self.throughput_posterior.grid)
        for _ in range(_MAX_REFINEMENTS_PER_STEP):
            if not self._is_grid_too_coarse():
                break
            self._set_grid(posterior.refine_grid(self.throughput_posterior))

    def considers(self, step: SearchStep) -> bool:
        """Return whether the step's load is not too high for this estimator."""
        return step.load_fps <= self._max_considered_load_fps

    def log_load_interval(self, confidence: float) -> tuple[float, float]:
        """Return the shortest interval of log load that contains the throughput at this confidence."""
        return posterior.shortest_log_load_interval(
            self.throughput_posterior.grid,
            self.throughput_posterior.full_step_probability_by_cell,
            confidence,
        )

    def median_log_load(self) -> float:
        """Return the median of the throughput's posterior, in log load."""
        return float(
            posterior.log_load_quantiles(
                self.throughput_posterior.grid, self.throughput_posterior.full_step_probability_by_cell, [0.5]
            )[0]
        )

    def chance_above_max_load(self) -> float:
        """Return the probability that the throughput is above the highest load."""
        return float(
            self.throughput_posterior.full_step_probability_by_cell[
                self.throughput_posterior.grid.centres > self.max_log_load
            ].sum()
        )

    def chance_below_min_load(self) -> float:
        """Return the probability that the throughput is below the lowest load."""
        return float(
            self.throughput_posterior.full_step_probability_by_cell[
                self.throughput_posterior.grid.centres < self.min_log_load
            ].sum()
        )

    def _set_grid(self, grid: posterior.LogLoadGrid) -> None:
        levels = range(len(self.step_durations_s))
        self._log_likelihoods = [
            posterior.log_likelihood_by_side_shape(grid, self._outcomes, level) for level in levels
        ]
        self.throughput_posterior = self._compute_posterior(grid)

    def _compute_posterior(self, grid: posterior.LogLoadGrid) -> posterior.ThroughputPosterior:
        return posterior.compute_posterior(
            grid,
            self._log_likelihoods,
            self.min_log_load,
            self.max_log_load,
            self._guess_from_overloaded_steps(),
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

    def _guess_from_overloaded_steps(self) -> ThroughputGuess | None:
        """Return a guess of the throughput from the forwarding rates of all steps with loss.

        The step whose loss is closest to the goal counts. The guess is less certain the more that loss
        differs from the goal, unless two steps of different overload have the same forwarding rate. It is
        also less certain the more the forwarding rates of similar steps differ. Without that term, the
        outcome of a single step of a noisy device would count twice: as a miss, and as a sharp limit.
        """
        if not self._overloaded_steps:
            return None
        wanted = -math.log1p(-self.goal)
        (overload, forwarded), *others = sorted(
            self._overloaded_steps, key=lambda each: abs(each[0] - wanted)
        )
        away = abs(overload - wanted)
        slope = next(
            (
                min(_MAX_GUESS_UNCERTAINTY_PER_OVERLOAD, abs((rate - forwarded) / (other - overload)))
                for other, rate in others
                if abs(other - overload) > away / 2
            ),
            _MAX_GUESS_UNCERTAINTY_PER_OVERLOAD,
        )
        nearest = [rate for _, rate in others[:_GUESS_NEIGHBOURS]]
        dispersion = sum(abs(rate - forwarded) for rate in nearest) / max(1, len(nearest))
        return ThroughputGuess(
            forwarded + wanted, _MIN_GUESS_UNCERTAINTY + slope * away + _GUESS_DISPERSION_FACTOR * dispersion
        )
