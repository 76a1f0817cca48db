"""Loads that lose although higher ones do not: looking for them below the throughputs that were found.

A search goes where the throughput is likely, which says nothing of loads far below it. Short steps are put
into the widest stretches where none has been. A load at which one misses a goal is tried at full length at
once, and only where such steps miss it again and again is the throughput looked for below that load.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.search.goal_estimator import GoalEstimator
from vnetbench.search.interface import SearchParameters, SearchStep

_LOWEST = 0.3
"""Looked at is what lies from this share of a throughput up to it."""
_UNSEEN = 1.12
"""Loads this factor apart are near enough to each other to tell of what lies between."""
_CONVICTED = 3
"""A load is bad once so many more full steps miss the goal than keep it, good once one more keeps it."""
_FALSE_ALARMS = 2
"""After so many loads that lose at short steps and not at full ones, short steps are no longer believed."""


@dataclass
class SuspectLoad:
    """A load below the throughputs found for these goals that seems to miss them."""

    load_fps: float
    goals: tuple[float, ...]
    missed: int = 0
    """Full steps that missed the first of these goals, less those that kept it."""


class MonotonicityCheck:
    """What is being looked at below the throughputs."""

    def __init__(self, asked: SearchParameters, lengths: tuple[float, ...]) -> None:
        self.suspect: SuspectLoad | None = None
        self._asked = asked
        self._lengths = lengths
        self._false_alarms = 0

    def next_look(self, curves: Sequence[GoalEstimator], steps: Sequence[SearchStep]) -> float | None:
        """The load of the next short step below the throughputs; None when enough has been seen."""
        if self._false_alarms >= _FALSE_ALARMS:
            return None
        top = max(math.exp(min(curve.median(), curve.most)) for curve in curves)
        bottom = max(self._asked.min_load_fps, _LOWEST * top)
        seen = sorted({bottom, top, *(step.load_fps for step in steps if bottom < step.load_fps < top)})
        ratio, low = max(((high / low, low) for low, high in itertools.pairwise(seen)), default=(1.0, 0.0))
        return low * math.sqrt(ratio) if ratio > _UNSEEN else None

    def looked(self, step: SearchStep, curves: Sequence[GoalEstimator]) -> None:
        """Takes what a look showed: a load that misses a goal although its throughput lies above."""
        missed = tuple(
            curve.goal for curve in curves if step.loss_ratio > curve.goal and self._lies_below(step, curve)
        )
        if missed:
            self.suspect = SuspectLoad(step.load_fps, missed)

    def judge(self, step: SearchStep) -> tuple[float, ...]:
        """Takes a full step at the suspect, and returns the goals that this load is now known to miss."""
        suspect = self.suspect
        if suspect is None:
            raise ValueError("no load is suspected")
        suspect.missed += 1 if step.loss_ratio > suspect.goals[0] else -1
        if 0 <= suspect.missed < _CONVICTED:
            return ()
        self.suspect = None
        if suspect.missed < 0:
            self._false_alarms += 1
            return ()
        return tuple(goal for goal in suspect.goals if step.loss_ratio > goal)

    def _lies_below(self, step: SearchStep, curve: GoalEstimator) -> bool:
        low, _ = curve.interval(self._asked.confidence)
        return curve.chance_below() < 0.5 and math.log(step.load_fps) < low - self._asked.relative_width
