"""Check for loads below the throughput at which the device loses frames although higher loads pass.

A search measures near the throughput, which says nothing about much lower loads. This check puts short steps
into the widest gaps between measured loads. If a short step misses a goal, full steps at that load follow. If
they miss the goal repeatedly, the search continues below that load.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.search.goal_estimator import GoalEstimator
from vnetbench.search.interface import SearchParameters, SearchStep

_MIN_CHECKED_THROUGHPUT_SHARE = 0.3
"""The check covers loads from this share of the throughput."""
MAX_NEIGHBOUR_LOAD_RATIO = 1.12
"""Maximum ratio between neighbouring measured loads."""
_NET_MISSES_TO_CONFIRM = 3
"""A load fails if this many more full steps miss the goal than keep it, and passes if one more keeps it."""
_MAX_FALSE_ALARMS = 2
"""The check ends after this many loads that lose frames in a short step but not in full steps."""


@dataclass
class UnconfirmedLoad:
    """A load below the throughputs of these goals at which a short step missed them."""

    load_fps: float
    missed_goals: tuple[float, ...]
    net_missed_steps: int = 0
    """Number of full steps that missed the first of these goals minus those that kept it."""


class MonotonicityCheck:
    """Checks loads below the throughputs for losses."""

    def __init__(self, parameters: SearchParameters) -> None:
        self.unconfirmed_load: UnconfirmedLoad | None = None
        self._parameters = parameters
        self._false_alarms = 0

    def next_load_fps(self, estimators: Sequence[GoalEstimator], steps: Sequence[SearchStep]) -> float | None:
        """Return the load of the next short step below the throughputs; None if the check is complete."""
        if self._false_alarms >= _MAX_FALSE_ALARMS:
            return None
        loads = self._checked_loads_fps(estimators, steps)
        ratio, low = max(((high / low, low) for low, high in itertools.pairwise(loads)), default=(1.0, 0.0))
        return low * math.sqrt(ratio) if ratio > MAX_NEIGHBOUR_LOAD_RATIO else None

    def expected_step_count(self, estimators: Sequence[GoalEstimator], steps: Sequence[SearchStep]) -> int:
        """Return the number of short steps that the check needs if none of them loses frames."""
        if self._false_alarms >= _MAX_FALSE_ALARMS:
            return 0
        return sum(
            2 ** math.ceil(math.log2(math.log(high / low) / math.log(MAX_NEIGHBOUR_LOAD_RATIO))) - 1
            for low, high in itertools.pairwise(self._checked_loads_fps(estimators, steps))
            if high / low > MAX_NEIGHBOUR_LOAD_RATIO
        )

    def add_short_step(self, step: SearchStep, estimators: Sequence[GoalEstimator]) -> None:
        """Record a short step. If it misses a goal below its throughput, full steps must confirm that."""
        missed = tuple(
            estimator.goal
            for estimator in estimators
            if step.loss_ratio > estimator.goal and self._lies_below_throughput(step, estimator)
        )
        if missed:
            self.unconfirmed_load = UnconfirmedLoad(step.load_fps, missed)

    def add_full_step(self, step: SearchStep) -> tuple[float, ...]:
        """Record a full step at the unconfirmed load, and return the goals that it is confirmed to miss."""
        load = self.unconfirmed_load
        if load is None:
            raise ValueError("there is no unconfirmed load")
        load.net_missed_steps += 1 if step.loss_ratio > load.missed_goals[0] else -1
        if 0 <= load.net_missed_steps < _NET_MISSES_TO_CONFIRM:
            return ()
        self.unconfirmed_load = None
        if load.net_missed_steps < 0:
            self._false_alarms += 1
            return ()
        return tuple(goal for goal in load.missed_goals if step.loss_ratio > goal)

    def _checked_loads_fps(
        self, estimators: Sequence[GoalEstimator], steps: Sequence[SearchStep]
    ) -> list[float]:
        """Return the measured loads in the checked range, and its ends, ascending."""
        top = max(
            math.exp(min(estimator.median_log_load(), estimator.max_log_load)) for estimator in estimators
        )
        bottom = max(self._parameters.min_load_fps, _MIN_CHECKED_THROUGHPUT_SHARE * top)
        return sorted({bottom, top, *(step.load_fps for step in steps if bottom < step.load_fps < top)})

    def _lies_below_throughput(self, step: SearchStep, estimator: GoalEstimator) -> bool:
        low, _ = estimator.log_load_interval(self._parameters.confidence)
        return (
            estimator.chance_below_min_load() < 0.5
            and math.log(step.load_fps) < low - self._parameters.relative_width
        )
