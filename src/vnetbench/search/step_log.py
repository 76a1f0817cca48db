"""The steps of a search as it measures them, and whether there is time for another."""

from __future__ import annotations

from vnetbench.search.interface import Device, SearchParameters, SearchStep


class OutOfTimeError(Exception):
    """The next step would end after the time limit."""


class StepLog:
    """Measures steps and keeps them, in order."""

    def __init__(self, device: Device, asked: SearchParameters) -> None:
        self.steps: list[SearchStep] = []
        self.spent_s = 0.0
        self._device = device
        self._asked = asked

    def measure(self, load_fps: float, duration_s: float) -> SearchStep:
        """One more step. Raises OutOfTimeError, unmeasured, where it would end after the time limit.

        Time is what the steps themselves took, so that a search fed its recorded steps decides the same.
        """
        after_s = self.spent_s + duration_s + self._asked.settle_s
        if after_s > self._asked.time_limit_s and self.steps:
            raise OutOfTimeError
        counted = self._device.measure(load_fps, duration_s)
        step = SearchStep(load_fps, duration_s, counted.sent, counted.received)
        self.steps.append(step)
        self.spent_s = after_s
        return step
