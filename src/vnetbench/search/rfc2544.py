"""Search method `rfc2544`: bisection with one full step per load (RFC 2544, 26.1), as hardware testers do it.

The first step uses the maximum load. A load that keeps the goal becomes the lower bound, any other the upper
bound, and the next load is midway, until the bounds are within the width. Each goal is searched separately.
"""

from __future__ import annotations

from vnetbench.search.interface import Device, GoalResult, SearchParameters, SearchResult
from vnetbench.search.step_log import OutOfTimeError, SearchStepLog


def search(device: Device, parameters: SearchParameters, seed: int) -> SearchResult:
    """Search the throughput for each goal. The method draws no random numbers, so `seed` is not used."""
    log = SearchStepLog(device, parameters)
    answers = tuple(_bisect_load_for_goal(log, parameters, goal) for goal in parameters.goals)
    return SearchResult(answers, tuple(log.steps))


def _bisect_load_for_goal(log: SearchStepLog, parameters: SearchParameters, goal: float) -> GoalResult:
    low, high = 0.0, parameters.max_load_fps
    try:
        if log.measure(high, parameters.step_s).loss_ratio <= goal:
            return GoalResult(goal, high, high, high, None, "generator")
        while high > parameters.min_load_fps and high - low > parameters.relative_width * low:
            middle = max(parameters.min_load_fps, ((low or parameters.min_load_fps) + high) / 2)
            # The minimum load is tried only after all higher loads have failed.
            if low == 0 and middle <= parameters.min_load_fps * (1 + parameters.relative_width):
                middle = parameters.min_load_fps
            passed = log.measure(middle, parameters.step_s).loss_ratio <= goal
            low, high = (middle, high) if passed else (low, middle)
    except OutOfTimeError:
        return GoalResult(goal, low, low, high, None, "time")
    return GoalResult(goal, low, low, high, None, "device" if low else "nothing passes")
