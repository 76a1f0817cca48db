"""Check for loads below the throughput at which the device loses frames although higher loads pass.

A search measures near the throughput, which says nothing about much lower loads. This check puts short steps
into the widest gaps between measured loads, within the time of a few full steps. If a step unexpectedly
misses a goal, it is repeated. If it misses again, full steps at that load follow. If they miss the goal
repeatedly, the search continues below that load.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.search.goal_estimator import GoalEstimator, step_durations_s
from vnetbench.search.interface import SearchParameters, SearchStep
from vnetbench.search.step_log import step_overhead_s

_MIN_CHECKED_THROUGHPUT_SHARE = 0.3
"""The check covers loads from this share of the throughput."""
_MIN_NEIGHBOUR_LOAD_RATIO, MAX_NEIGHBOUR_LOAD_RATIO = 1.07, 1.12
"""Range of the ratio between neighbouring measured loads. A range of lossy loads below it can be missed."""
_MAX_FULL_STEPS_OF_TIME = 4
"""The check takes at most the time of this many full steps, unless `MAX_NEIGHBOUR_LOAD_RATIO` needs more."""
_MIN_PASS_SHARE_FOR_UNEXPECTED_MISS = 0.75
"""A miss is unexpected if at least this share of full steps is expected to keep the goal at its load."""
_NET_MISSES_TO_CONFIRM = 3
"""A load fails if this many more full steps miss the goal than keep it, and passes if one more keeps it."""
_MAX_FALSE_ALARMS = 2
"""The check ends after this many loads that lose frames in a short step but not in full steps."""


@dataclass
class UnconfirmedLoad:
    """A load below the throughputs of these goals at which a step missed them."""

    load_fps: float
    missed_goals: tuple[float, ...]
    next_step_duration_s: float
    """Duration of the next step at this load: that of the step that missed, and then that of a full step."""
    net_missed_steps: int = 0
    """Number of full steps that missed the first of these goals minus those that kept it."""


class MonotonicityCheck:
    """Checks loads below the throughputs for losses."""

    def __init__(self, parameters: SearchParameters) -> None:
        self.unconfirmed_load: UnconfirmedLoad | None = None
        self._parameters = parameters
        self._false_alarms = 0
        self._examined_loads_fps: set[float] = set()

    def next_load_fps(self, estimators: Sequence[GoalEstimator], steps: Sequence[SearchStep]) -> float | None:
        """Return the load of the next short step below the throughputs; None if the check is complete."""
        if self._false_alarms >= _MAX_FALSE_ALARMS:
            return None
        loads = self._checked_loads_fps(estimators, steps)
        ratio, low = max(((high / low, low) for low, high in itertools.pairwise(loads)), default=(1.0, 0.0))
        parts = self._count_parts_of_load_gap(ratio, steps)
        return float(low * ratio ** (parts // 2 / parts)) if parts > 1 else None

    def expected_step_count(self, estimators: Sequence[GoalEstimator], steps: Sequence[SearchStep]) -> int:
        """Return the number of short steps that the check needs if none of them loses frames."""
        if self._false_alarms >= _MAX_FALSE_ALARMS:
            return 0
        return sum(
            self._count_parts_of_load_gap(high / low, steps) - 1
            for low, high in itertools.pairwise(self._checked_loads_fps(estimators, steps))
        )

    def examine_steps(self, steps: Sequence[SearchStep], estimators: Sequence[GoalEstimator]) -> None:
        """Look for a step that misses a goal below its throughput. Full steps must confirm such a miss.

        Pass a new step before the estimators learn of it, since it can widen their intervals.
        """
        if self._false_alarms >= _MAX_FALSE_ALARMS:
            return
        for step in steps:
            if step.load_fps in self._examined_loads_fps:
                continue
            missed = tuple(
                estimator.goal
                for estimator in estimators
                if step.loss_ratio > estimator.goal and self._would_full_step_meet_goal(step, estimator)
            )
            if missed:
                self._examined_loads_fps.add(step.load_fps)
                self.unconfirmed_load = UnconfirmedLoad(step.load_fps, missed, step.duration_s)
                return

    def add_confirmation(self, step: SearchStep) -> tuple[float, ...]:
        """Record a step at the unconfirmed load, and return the goals that it is confirmed to miss."""
        load = self.unconfirmed_load
        if load is None:
            raise ValueError("there is no unconfirmed load")
        if step.duration_s < self._parameters.step_s:
            load.next_step_duration_s = self._parameters.step_s
            if step.loss_ratio <= load.missed_goals[0]:
                # A stall hits one step. It costs less to repeat this step than to run a full one.
                self.unconfirmed_load = None
            return ()
        load.net_missed_steps += 1 if step.loss_ratio > load.missed_goals[0] else -1
        if 0 <= load.net_missed_steps < _NET_MISSES_TO_CONFIRM:
            return ()
        self.unconfirmed_load = None
        if load.net_missed_steps < 0:
            self._false_alarms += 1
            return ()
        return tuple(goal for goal in load.missed_goals if step.loss_ratio > goal)

    def _count_parts_of_load_gap(self, load_ratio: float, steps: Sequence[SearchStep]) -> int:
        """Return into how many equal parts short steps must divide a gap between measured loads."""
        parameters = self._parameters
        beside_s = step_overhead_s(steps, parameters.settle_s)
        short_s, full_s = (
            duration_s + beside_s
            for duration_s in (step_durations_s(parameters.step_s)[0], parameters.step_s)
        )
        affordable_ratio = _MIN_CHECKED_THROUGHPUT_SHARE ** (-short_s / (_MAX_FULL_STEPS_OF_TIME * full_s))
        max_ratio = min(MAX_NEIGHBOUR_LOAD_RATIO, max(_MIN_NEIGHBOUR_LOAD_RATIO, affordable_ratio))
        return max(1, math.ceil(math.log(load_ratio) / math.log(max_ratio) - 1e-9))

    def _checked_loads_fps(
        self, estimators: Sequence[GoalEstimator], steps: Sequence[SearchStep]
    ) -> list[float]:
        """Return the measured loads in the checked range, and its ends, ascending."""
        top = max(
            math.exp(min(estimator.median_log_load(), estimator.max_log_load)) for estimator in estimators
        )
        bottom = max(self._parameters.min_load_fps, _MIN_CHECKED_THROUGHPUT_SHARE * top)
        if top <= bottom:
            return []
        return sorted({bottom, top, *(step.load_fps for step in steps if bottom < step.load_fps < top)})

    def _would_full_step_meet_goal(self, step: SearchStep, estimator: GoalEstimator) -> bool:
        """Return whether a full step at this load is expected to keep the goal, unlike this step."""
        low, _ = estimator.log_load_interval(self._parameters.confidence)
        log_load = math.log(step.load_fps)
        return (
            estimator.is_load_in_considered_range(step)
            and estimator.chance_below_min_load() < 0.5
            and log_load < low - self._parameters.relative_width
            and estimator.full_step_pass_probability(log_load) >= _MIN_PASS_SHARE_FOR_UNEXPECTED_MISS
        )
