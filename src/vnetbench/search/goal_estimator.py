"""What a search knows of one goal: the steps as that goal judges them, and the belief they lead to."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from vnetbench.search import posterior
from vnetbench.search.interface import SearchStep
from vnetbench.search.posterior import InitialGuess, StepOutcome

SHORTEST_S = 0.05
"""Shorter steps hold too few frames, and cost mostly settling."""

_ENOUGH_CELLS, _NARROW = 20, 0.0005
"""The likely throughputs lie in at least so many cells, or in cells this narrow, in log load."""
_REFINEMENTS = 8
"""So often at most are cells made narrower after a step: the next one brings the rest."""
_GUESS_FLOOR = 0.001
"""How far a guess from forwarding rates may be off at best, in log load."""
_GUESS_SLOPE = 0.3
"""How much further for each unit of log load that the device was overloaded beyond the goal, at worst."""


def step_lengths(step_s: float) -> tuple[float, ...]:
    """The lengths of steps that are used: hundredths and tenths where not too short, full ones last."""
    return (*(step_s / by for by in (100, 10) if step_s / by >= SHORTEST_S), step_s)


class GoalEstimator:
    """One goal's steps so far, and `belief`, worked out anew with each step.

    A throughput above `most_fps` is possible where that is all that can be offered (`open_above`). Where it
    is not, higher loads are known to tell nothing, and what they did is not looked at.
    """

    def __init__(
        self,
        goal: float,
        least_fps: float,
        most_fps: float,
        lengths: tuple[float, ...],
        open_above: bool = True,
    ) -> None:
        self.goal = goal
        self.least, self.most = math.log(least_fps), math.log(most_fps)
        self.lengths = lengths
        self._highest_fps = math.inf if open_above else most_fps
        self._seen: list[StepOutcome] = []
        self._overloaded: list[tuple[float, float]] = []
        self.belief: posterior.Posterior
        self._put_on(posterior.create_grid(self.least, self.most, open_above))

    def learn(self, steps: Iterable[SearchStep]) -> None:
        """More steps, of any length: each counts with those of the length that is nearest to its own."""
        for step in steps:
            if step.load_fps > self._highest_fps:
                continue
            ratios = [abs(math.log(step.duration_s / length)) for length in self.lengths]
            seen = StepOutcome(int(np.argmin(ratios)), math.log(step.load_fps), step.loss_ratio <= self.goal)
            self._seen.append(seen)
            self._evidences[seen.level] += posterior.step_log_likelihood(self.belief.grid, seen)
            if step.loss_ratio > 0:
                passed = math.log(max(1 - step.loss_ratio, 1e-9))
                self._overloaded.append((-passed, seen.log_load + passed))
        self.belief = self._believed(self.belief.grid)
        for _ in range(_REFINEMENTS):
            if not self._too_coarse():
                break
            self._put_on(posterior.refine_grid(self.belief))

    def interval(self, confidence: float) -> tuple[float, float]:
        """The shortest interval of log load that holds the throughput at this confidence."""
        return posterior.shortest_interval(self.belief.grid, self.belief.mass, confidence)

    def median(self) -> float:
        """The log load that the throughput is as likely to lie above as below."""
        return float(posterior.quantiles(self.belief.grid, self.belief.mass, [0.5])[0])

    def chance_above(self) -> float:
        """Probability that the throughput is more than can be offered."""
        return float(self.belief.mass[self.belief.grid.centres > self.most].sum())

    def chance_below(self) -> float:
        """Probability that nothing passes of what can be offered."""
        return float(self.belief.mass[self.belief.grid.centres < self.least].sum())

    def _put_on(self, grid: posterior.Grid) -> None:
        levels = range(len(self.lengths))
        self._evidences = [posterior.log_likelihood(grid, self._seen, level) for level in levels]
        self.belief = self._believed(grid)

    def _believed(self, grid: posterior.Grid) -> posterior.Posterior:
        return posterior.compute_posterior(grid, self._evidences, self.least, self.most, self._guess())

    def _too_coarse(self) -> bool:
        """Whether the likely throughputs of some length lie in cells that are too few, and not yet narrow."""
        grid = self.belief.grid
        for level in range(len(self.lengths)):
            low, high = posterior.quantiles(grid, self.belief.mass_at(level), [0.05, 0.95])
            widths = grid.widths[(grid.centres >= low) & (grid.centres <= high)]
            if len(widths) < _ENOUGH_CELLS and widths.max(initial=0.0) > _NARROW:
                return True
        return False

    def _guess(self) -> InitialGuess | None:
        """What the device forwarded when it lost about as much as the goal allows, from all lossy steps.

        The further their loss was from the goal the worse a guess, unless the device forwards the same
        however overloaded it is, which two steps of different overload show.
        """
        if not self._overloaded:
            return None
        wanted = -math.log1p(-self.goal)
        (overload, forwarded), *others = sorted(self._overloaded, key=lambda each: abs(each[0] - wanted))
        away = abs(overload - wanted)
        slope = next(
            (
                min(_GUESS_SLOPE, abs((rate - forwarded) / (other - overload)))
                for other, rate in others
                if abs(other - overload) > away / 2
            ),
            _GUESS_SLOPE,
        )
        return InitialGuess(forwarded + wanted, _GUESS_FLOOR + slope * away)
