"""Run the steps of a trial. Finished steps are stored, and reused when the trial is resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.trial import StepSeries, TrialAbandoned, TrialLoad, TrialMeasurement
from vnetbench.estimate.frame_losses import path_counters
from vnetbench.estimate.search_steps import MAX_ATTEMPTS_IF_GENERATOR_BEHIND, StepResult
from vnetbench.results.records import EndpointRecord, StepRecord
from vnetbench.study.factors.frame_factors import FRAME_LOAD, UNPACED_LOAD

Error = TypeVar("Error", bound=Exception)


class StepRunner:
    """Runs the steps of one trial in order. Steps of an earlier session are not measured again."""

    def __init__(
        self, load: TrialLoad, step_series: StepSeries, measure: Callable[[TrialLoad], TrialMeasurement]
    ) -> None:
        self.records: list[StepRecord] = []
        self.last_endpoints: tuple[EndpointRecord, ...] = ()
        """Records of all endpoints in the last step that was measured in this session."""
        self._load = load
        self._save_step = step_series.save_step
        self._delete_steps = step_series.delete_stored_steps
        self._should_stop = step_series.should_stop
        self._measure = measure
        self._earlier_steps = step_series.read_stored_steps()

    def run(
        self, purpose: str, load_fps: float | None, duration_s: float, burst_frames: int | None = None
    ) -> StepResult:
        """Run the next step, or reuse it from an earlier session.

        Args:
            purpose: Purpose of the step (see `StepRecord`).
            load_fps: Offered load in each direction, frames/s; None for the generator's maximum.
            duration_s: Duration of the load.
            burst_frames: Number of frames of a burst in each direction; None for a load.

        Raises:
            TrialAbandoned: The user stopped the campaign. A trial's other errors are raised too.
        """
        requested = StepRecord(len(self.records), purpose, load_fps, burst_frames, duration_s, 0.0, 0.0, 0, 0)
        if _is_same_step(requested, self._earlier_steps):
            step = self._earlier_steps[requested.number]
        else:
            # From here on the steps differ from those of the earlier session, so the rest is dropped.
            self._earlier_steps = self._earlier_steps[: requested.number]
            if self._should_stop():
                raise TrialAbandoned
            step = self._measure_step(requested)
            self._save_step(step)
        self.records.append(step)
        return StepResult(step)

    def run_repeating_if_generator_behind(
        self,
        goal: float,
        purpose: str,
        load_fps: float | None,
        duration_s: float,
        burst_frames: int | None = None,
    ) -> StepResult:
        """Run a step, and repeat it while the generator falls behind and the loss ratio is within `goal`.

        If the loss ratio exceeds `goal` although the offered load was too low, a repetition cannot help.
        """
        for _ in range(MAX_ATTEMPTS_IF_GENERATOR_BEHIND):
            step = self.run(purpose, load_fps, duration_s, burst_frames)
            if not step.needs_repeat_for_slow_generator(goal):
                break
        return step

    def delete_stored_steps(self, error: Error) -> Error:
        """Delete the stored steps, so that a retry measures them again, and return `error`."""
        self._delete_steps()
        return error

    def step_load(
        self, load_fps: float | None, duration_s: float, burst_frames: int | None = None
    ) -> TrialLoad:
        """Return the load of a single step of this trial."""
        level = UNPACED_LOAD if load_fps is None else load_fps
        factors = {**self._load.factors, FRAME_LOAD.name: level}
        return replace(
            self._load, factors=factors, duration_s=duration_s, burst_frames=burst_frames, step_series=None
        )

    def _measure_step(self, requested: StepRecord) -> StepRecord:
        start = time.monotonic()
        measurement = self._measure(
            self.step_load(requested.load_fps, requested.duration_s, requested.burst_frames)
        )
        self.last_endpoints = measurement.endpoints
        counts = sum_endpoint_counts(measurement.endpoints, self._load.factors)
        return replace(
            requested,
            elapsed_s=time.monotonic() - start,
            sent=counts.total_sent,
            received=counts.total_received,
            details={
                **counts.to_json(),
                "path_counters": path_counters(measurement.endpoints, measurement.effective),
            },
        )


def _is_same_step(requested: StepRecord, earlier_steps: tuple[StepRecord, ...]) -> bool:
    if requested.number >= len(earlier_steps):
        return False
    earlier = earlier_steps[requested.number]
    return (requested.purpose, requested.load_fps, requested.burst_frames, requested.duration_s) == (
        earlier.purpose, earlier.load_fps, earlier.burst_frames, earlier.duration_s,
    )  # fmt: skip
