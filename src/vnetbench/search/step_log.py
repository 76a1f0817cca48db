"""Log of a search's steps, with its time limit."""

from __future__ import annotations

from vnetbench.search.interface import Device, SearchParameters, SearchStep


class OutOfTimeError(Exception):
    """The next step would end after the time limit."""


class SearchStepLog:
    """Measures steps and records them in order."""

    def __init__(self, device: Device, parameters: SearchParameters) -> None:
        self.steps: list[SearchStep] = []
        self.spent_s = 0.0
        self._device = device
        self._parameters = parameters

    def measure(self, load_fps: float, duration_s: float) -> SearchStep:
        """Measure one step.

        The time limit counts the durations of the steps, not the clock, so that a replayed search makes the
        same decisions.

        Raises:
            OutOfTimeError: The step would end after the time limit; it is not measured.
        """
        after_s = self.spent_s + duration_s + self._parameters.settle_s
        if after_s > self._parameters.time_limit_s and self.steps:
            raise OutOfTimeError
        counted = self._device.measure(load_fps, duration_s)
        step = SearchStep(load_fps, duration_s, counted.sent, counted.received)
        self.steps.append(step)
        self.spent_s = after_s
        return step
