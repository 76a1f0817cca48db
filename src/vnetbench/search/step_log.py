"""Log of a search's steps, with its time limit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from vnetbench.search.interface import Device, SearchParameters, SearchStep


class OutOfTimeError(Exception):
    """The next step would end after the time limit."""


def step_overhead_s(steps: Sequence[SearchStep], settle_s: float) -> float:
    """Return the time that a step takes besides its load: the median so far, and at least `settle_s`."""
    measured = [step.elapsed_s - step.duration_s for step in steps if step.elapsed_s is not None]
    return max(settle_s, statistics.median(measured)) if measured else settle_s


class SearchStepLog:
    """Measures steps and records them in order."""

    def __init__(self, device: Device, parameters: SearchParameters) -> None:
        self.steps: list[SearchStep] = []
        self.spent_s = 0.0
        self._device = device
        self._parameters = parameters

    def measure(self, load_fps: float, duration_s: float) -> SearchStep:
        """Measure one step.

        The time limit counts the recorded durations of the steps, not the clock, so that a replayed search
        makes the same decisions.

        Raises:
            OutOfTimeError: The step would end after the time limit; it is not measured.
        """
        settle_s = self._parameters.settle_s
        after_s = self.spent_s + duration_s + step_overhead_s(self.steps, settle_s)
        if after_s > self._parameters.time_limit_s and self.steps:
            raise OutOfTimeError
        counted = self._device.measure(load_fps, duration_s)
        step = SearchStep(load_fps, duration_s, counted.sent, counted.received, counted.elapsed_s)
        self.steps.append(step)
        self.spent_s += max(duration_s + settle_s, step.elapsed_s or 0.0)
        return step
